"""The routes of SCIM 2.0 (RFC 7644 section 3.2)."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Response
from scim2_models import Context, ResourceType, Schema

from postern.api.authentication_of_requests import Caller
from postern.api.info import Info
from postern.api.scim import scim_resources
from postern.api.scim.queries import ScimQuery, asked, equal_to, identifier, listed, shown
from postern.api.scim.scim_kept import Groups, Users
from postern.api.scim.scim_resources import Group, User
from postern.api.scim.shaped import ScimResponse, ScimRoute, scim_errors
from postern.domain.identity.principal import PrincipalFilter
from postern.errors import NotFound

router = APIRouter(prefix="/scim/v2", tags=["SCIM"], route_class=ScimRoute, default_response_class=ScimResponse)

Wanted = Annotated[ScimQuery, Depends(asked)]
Payload = Annotated[dict[str, Any], Body(media_type="application/scim+json")]
_USER = {"username": "user_name", "externalid": "external_id", "displayname": "name", "id": "id"} | {
    "emails": "email",
    "emails.value": "email",
}
_GROUP = {"displayname": "name", "externalid": "external_id", "id": "id"}


@router.get("/ServiceProviderConfig", responses=scim_errors())
async def scim_service_provider_config(_caller: Caller, info: Info) -> Response:
    """What of SCIM there is here."""
    return shown(scim_resources.service_provider_config(info.api_url), Context.RESOURCE_QUERY_RESPONSE)


@router.get("/ResourceTypes", responses=scim_errors())
async def scim_resource_types(_caller: Caller, info: Info, given: Wanted) -> Response:
    found = scim_resources.resource_types(info.api_url)
    return listed(ResourceType, found, len(found), given)


@router.get("/ResourceTypes/{id}", responses=scim_errors(404))
async def scim_resource_type(id: str, _caller: Caller, info: Info) -> Response:  # noqa: A002
    return _named(scim_resources.resource_types(info.api_url), id)


@router.get("/Schemas", responses=scim_errors())
async def scim_schemas(_caller: Caller, info: Info, given: Wanted) -> Response:
    found = scim_resources.schemas(info.api_url)
    return listed(Schema, found, len(found), given)


@router.get("/Schemas/{id}", responses=scim_errors(404))
async def scim_schema(id: str, _caller: Caller, info: Info) -> Response:  # noqa: A002
    return _named(scim_resources.schemas(info.api_url), id)


@router.get("/Users", responses=scim_errors(403))
async def scim_users(users: Users, given: Wanted) -> Response:
    """A filter compares userName, externalId, displayName, emails.value or id by `eq`."""
    wanted: dict[str, Any] = equal_to(User, given.filter, _USER)
    if "id" in wanted:
        one = await users.matching(wanted["id"])
        return listed(User, one, len(one), given)
    found = await users.provisioning.find_users(users.principal, replace(PrincipalFilter(), **wanted), given.page)
    return listed(User, [users.shape(account) for account in found.items], found.total, given)


@router.post("/Users", status_code=201, responses=scim_errors(403, 409, 413, 429))
async def scim_create_user(payload: Payload, users: Users) -> Response:
    """Invited until the first login by the identity provider."""
    return await users.create(payload)


@router.get("/Users/{id}", responses=scim_errors(403, 404))
async def scim_user(id: str, users: Users, given: Wanted) -> Response:  # noqa: A002
    return await users.show(id, given)


@router.put("/Users/{id}", responses=scim_errors(403, 404, 409, 413, 429))
async def scim_replace_user(id: str, payload: Payload, users: Users) -> Response:  # noqa: A002
    """`active` false deactivates at once, and ends live sessions."""
    return await users.replace(id, payload)


@router.patch("/Users/{id}", responses=scim_errors(403, 404, 409, 413, 429))
async def scim_patch_user(id: str, payload: Payload, users: Users) -> Response:  # noqa: A002
    """As PUT, by operations (RFC 7644 section 3.5.2)."""
    return await users.patch(id, payload)


@router.delete("/Users/{id}", status_code=204, responses=scim_errors(403, 404, 409, 429))
async def scim_delete_user(id: str, users: Users) -> None:  # noqa: A002
    """Ends all that is theirs."""
    await users.provisioning.remove_user(users.principal, identifier(id))


@router.get("/Groups", responses=scim_errors(403))
async def scim_groups(groups: Groups, given: Wanted) -> Response:
    """A filter compares displayName, externalId or id by `eq`, exactly."""
    wanted: dict[str, Any] = equal_to(Group, given.filter, _GROUP)
    if "id" in wanted:
        one = await groups.matching(wanted["id"])
        return listed(Group, one, len(one), given)
    left_out = (given.excluded or "").lower().replace(" ", "").split(",")
    found = await groups.provisioning.find_groups(
        groups.principal, given.page, **wanted, with_members="members" not in left_out
    )
    return listed(Group, [groups.shape(group) for group in found.items], found.total, given)


@router.post("/Groups", status_code=201, responses=scim_errors(403, 409, 413, 429))
async def scim_create_group(payload: Payload, groups: Groups) -> Response:
    return await groups.create(payload)


@router.get("/Groups/{id}", responses=scim_errors(403, 404))
async def scim_group(id: str, groups: Groups, given: Wanted) -> Response:  # noqa: A002
    return await groups.show(id, given)


@router.put("/Groups/{id}", responses=scim_errors(403, 404, 409, 413, 429))
async def scim_replace_group(id: str, payload: Payload, groups: Groups) -> Response:  # noqa: A002
    return await groups.replace(id, payload)


@router.patch("/Groups/{id}", responses=scim_errors(403, 404, 409, 413, 429))
async def scim_patch_group(id: str, payload: Payload, groups: Groups) -> Response:  # noqa: A002
    """Members are added, removed and replaced by operations (RFC 7644 section 3.5.2)."""
    return await groups.patch(id, payload)


@router.delete("/Groups/{id}", status_code=204, responses=scim_errors(403, 404, 409, 429))
async def scim_delete_group(id: str, groups: Groups) -> None:  # noqa: A002
    await groups.provisioning.remove_group(groups.principal, identifier(id))


def _named(found: list[Any], key: str) -> Response:
    for one in found:
        if one.id == key:
            return shown(one, Context.RESOURCE_QUERY_RESPONSE)
    raise NotFound(f"there is no resource {key!r}")
