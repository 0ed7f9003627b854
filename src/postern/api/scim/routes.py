"""The routes of SCIM 2.0 (RFC 7644 section 3.2)."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Response
from scim2_models import Context, PatchOp, ResourceType, Schema

from postern.api.auth import Caller, Use
from postern.api.info import Info
from postern.api.schemas.common import storable
from postern.api.scim import resources
from postern.api.scim.queries import Asked, asked, equal_to, identifier, listed, of_model, shown
from postern.api.scim.resources import POLICY, Group, User, completed, group_of, member_ids, provisioned, user_of
from postern.api.scim.shaped import ScimResponse, ScimRoute, scim_errors
from postern.errors import Malformed, NotFound
from postern.services.identity.provisioning import PrincipalFilter

router = APIRouter(prefix="/scim/v2", tags=["SCIM"], route_class=ScimRoute, default_response_class=ScimResponse)

Wanted = Annotated[Asked, Depends(asked)]
Payload = Annotated[dict[str, Any], Body(media_type="application/scim+json")]
_USER = {"username": "user_name", "externalid": "external_id", "displayname": "name", "id": "id"} | {
    "emails": "email",
    "emails.value": "email",
}
_GROUP = {"displayname": "name", "externalid": "external_id", "id": "id"}


@router.get("/ServiceProviderConfig", responses=scim_errors())
async def scim_service_provider_config(_caller: Caller, info: Info) -> Response:
    """What of SCIM there is here."""
    return shown(resources.service_provider_config(info.api_url), Context.RESOURCE_QUERY_RESPONSE)


@router.get("/ResourceTypes", responses=scim_errors())
async def scim_resource_types(_caller: Caller, info: Info, given: Wanted) -> Response:
    found = resources.resource_types(info.api_url)
    return listed(ResourceType, found, len(found), given)


@router.get("/ResourceTypes/{id}", responses=scim_errors(404))
async def scim_resource_type(id: str, _caller: Caller, info: Info) -> Response:  # noqa: A002
    return _named(resources.resource_types(info.api_url), id)


@router.get("/Schemas", responses=scim_errors())
async def scim_schemas(_caller: Caller, info: Info, given: Wanted) -> Response:
    found = resources.schemas(info.api_url)
    return listed(Schema, found, len(found), given)


@router.get("/Schemas/{id}", responses=scim_errors(404))
async def scim_schema(id: str, _caller: Caller, info: Info) -> Response:  # noqa: A002
    return _named(resources.schemas(info.api_url), id)


@router.get("/Users", responses=scim_errors(403))
async def scim_users(caller: Caller, services: Use, info: Info, given: Wanted) -> Response:
    """A filter compares userName, externalId, displayName, emails.value or id by `eq`."""
    wanted: dict[str, Any] = equal_to(User, given.filter, _USER)
    if "id" in wanted:
        account = await _found(services.provisioning.get_user, caller, wanted["id"])
        return listed(User, [user_of(one, info.api_url) for one in account], len(account), given)
    found = await services.provisioning.find_users(caller, replace(PrincipalFilter(), **wanted), given.page)
    return listed(User, [user_of(account, info.api_url) for account in found.items], found.total, given)


@router.post("/Users", status_code=201, responses=scim_errors(403, 409, 413, 429))
async def scim_create_user(payload: Payload, caller: Caller, services: Use, info: Info) -> Response:
    """Invited until the first login by the identity provider."""
    user = User.model_validate(
        completed(_readable(payload)), scim_ctx=Context.RESOURCE_CREATION_REQUEST, scim_policy=POLICY
    )
    made = await services.provisioning.create_user(caller, provisioned(user, payload))
    return shown(user_of(made, info.api_url), Context.RESOURCE_CREATION_RESPONSE, status=201)


@router.get("/Users/{id}", responses=scim_errors(403, 404))
async def scim_user(id: str, caller: Caller, services: Use, info: Info, given: Wanted) -> Response:  # noqa: A002
    account = await services.provisioning.get_user(caller, identifier(id))
    return shown(user_of(account, info.api_url), Context.RESOURCE_QUERY_RESPONSE, given)


@router.put("/Users/{id}", responses=scim_errors(403, 404, 409, 413, 429))
async def scim_replace_user(
    id: str,  # noqa: A002
    payload: Payload,
    caller: Caller,
    services: Use,
    info: Info,
) -> Response:
    """`active` false deactivates at once, and ends live sessions."""
    before = user_of(await services.provisioning.get_user(caller, identifier(id)), info.api_url)
    user = User.model_validate(
        completed(_readable(payload)), scim_ctx=Context.RESOURCE_REPLACEMENT_REQUEST, scim_policy=POLICY
    )
    user.replace(before)
    changed = await services.provisioning.replace_user(caller, identifier(id), provisioned(user, payload))
    return shown(user_of(changed, info.api_url), Context.RESOURCE_REPLACEMENT_RESPONSE)


@router.patch("/Users/{id}", responses=scim_errors(403, 404, 409, 413, 429))
async def scim_patch_user(
    id: str,  # noqa: A002
    payload: Payload,
    caller: Caller,
    services: Use,
    info: Info,
) -> Response:
    """As PUT, by operations (RFC 7644 section 3.5.2)."""
    user = user_of(await services.provisioning.get_user(caller, identifier(id)), info.api_url)
    _patch(User, _readable(payload)).patch(user, scim_policy=POLICY)
    changed = await services.provisioning.replace_user(caller, identifier(id), provisioned(user, {}))
    return shown(user_of(changed, info.api_url), Context.RESOURCE_PATCH_RESPONSE)


@router.delete("/Users/{id}", status_code=204, responses=scim_errors(403, 404, 409, 429))
async def scim_delete_user(id: str, caller: Caller, services: Use) -> None:  # noqa: A002
    """Ends all that is theirs."""
    await services.provisioning.remove_user(caller, identifier(id))


@router.get("/Groups", responses=scim_errors(403))
async def scim_groups(caller: Caller, services: Use, info: Info, given: Wanted) -> Response:
    """A filter compares displayName, externalId or id by `eq`, exactly."""
    wanted: dict[str, Any] = equal_to(Group, given.filter, _GROUP)
    if "id" in wanted:
        group = await _found(services.provisioning.get_group, caller, wanted["id"])
        return listed(Group, [group_of(one, info.api_url) for one in group], len(group), given)
    left_out = (given.excluded or "").lower().replace(" ", "").split(",")
    found = await services.provisioning.find_groups(
        caller, given.page, **wanted, with_members="members" not in left_out
    )
    return listed(Group, [group_of(one, info.api_url) for one in found.items], found.total, given)


@router.post("/Groups", status_code=201, responses=scim_errors(403, 409, 413, 429))
async def scim_create_group(payload: Payload, caller: Caller, services: Use, info: Info) -> Response:
    group = Group.model_validate(_readable(payload), scim_ctx=Context.RESOURCE_CREATION_REQUEST, scim_policy=POLICY)
    name, external_id = group.display_name or "", group.external_id or None
    made = await services.provisioning.create_group(caller, name, external_id, member_ids(group))
    return shown(group_of(made, info.api_url), Context.RESOURCE_CREATION_RESPONSE, status=201)


@router.get("/Groups/{id}", responses=scim_errors(403, 404))
async def scim_group(id: str, caller: Caller, services: Use, info: Info, given: Wanted) -> Response:  # noqa: A002
    found = await services.provisioning.get_group(caller, identifier(id))
    return shown(group_of(found, info.api_url), Context.RESOURCE_QUERY_RESPONSE, given)


@router.put("/Groups/{id}", responses=scim_errors(403, 404, 409, 413, 429))
async def scim_replace_group(
    id: str,  # noqa: A002
    payload: Payload,
    caller: Caller,
    services: Use,
    info: Info,
) -> Response:
    before = group_of(await services.provisioning.get_group(caller, identifier(id)), info.api_url)
    group = Group.model_validate(_readable(payload), scim_ctx=Context.RESOURCE_REPLACEMENT_REQUEST, scim_policy=POLICY)
    return await _save_group(before, group, caller, services, info, Context.RESOURCE_REPLACEMENT_RESPONSE)


@router.patch("/Groups/{id}", responses=scim_errors(403, 404, 409, 413, 429))
async def scim_patch_group(
    id: str,  # noqa: A002
    payload: Payload,
    caller: Caller,
    services: Use,
    info: Info,
) -> Response:
    """Members are added, removed and replaced by operations (RFC 7644 section 3.5.2)."""
    before = group_of(await services.provisioning.get_group(caller, identifier(id)), info.api_url)
    group = before.model_copy(deep=True)
    _patch(Group, _readable(payload)).patch(group, scim_policy=POLICY)
    return await _save_group(before, group, caller, services, info, Context.RESOURCE_PATCH_RESPONSE)


@router.delete("/Groups/{id}", status_code=204, responses=scim_errors(403, 404, 409, 429))
async def scim_delete_group(id: str, caller: Caller, services: Use) -> None:  # noqa: A002
    await services.provisioning.remove_group(caller, identifier(id))


async def _save_group(
    before: Group, group: Group, caller: Caller, services: Use, info: Info, context: Context
) -> Response:
    old, new = member_ids(before), member_ids(group)
    changed = await services.provisioning.change_group(
        caller,
        identifier(before.id or ""),
        group.display_name or "",
        group.external_id or None,
        added=new - old,
        removed=old - new,
    )
    return shown(group_of(changed, info.api_url), context)


async def _found(get: Any, caller: Caller, text: str) -> list[Any]:
    try:
        return [await get(caller, identifier(text))]
    except NotFound:
        return []


def _named(found: list[Any], key: str) -> Response:
    for one in found:
        if one.id == key:
            return shown(one, Context.RESOURCE_QUERY_RESPONSE)
    raise NotFound(f"there is no resource {key!r}")


def _user(payload: dict[str, Any], context: Context) -> User:
    return User.model_validate(completed(_readable(payload)), scim_ctx=context, scim_policy=POLICY)


def _patch(model: Any, payload: dict[str, Any]) -> Any:
    return of_model(PatchOp, model).model_validate(payload, scim_ctx=Context.RESOURCE_PATCH_REQUEST, scim_policy=POLICY)


def _readable(payload: dict[str, Any]) -> dict[str, Any]:
    if not storable(payload):
        raise Malformed("the body contains a NUL character or half of a surrogate pair")
    return payload
