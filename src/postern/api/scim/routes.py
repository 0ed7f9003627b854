"""The routes of SCIM 2.0 (RFC 7644 section 3.2): users and groups, with the same steps for both."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Annotated, Any, Generic

from fastapi import APIRouter, Body, Depends, Response
from scim2_models import Context, PatchOp, ResourceType, Schema

from postern.api.authentication_of_requests import Caller, Use
from postern.api.info import Info, ServerAddresses
from postern.api.schemas.common import storable
from postern.api.scim import scim_resources
from postern.api.scim.queries import (
    Model,
    ScimQuery,
    equal_to,
    identifier,
    make_list_response,
    of_model,
    read_query,
    render_resource,
)
from postern.api.scim.scim_errors import ScimResponse, ScimRoute, scim_errors
from postern.api.scim.scim_resources import (
    POLICY,
    Group,
    User,
    fill_defaults,
    group_of,
    make_provisioned_user,
    member_ids,
    user_of,
)
from postern.domain.identity.principal import Account, Principal, PrincipalFilter
from postern.errors import Malformed, NotFound
from postern.services.identity.provisioning import ProvisionedGroup, Provisioning


class ScimStore(ABC, Generic[Model]):
    """Resources of one type, for one caller. `payload` is always the body as it was sent."""

    def __init__(self, provisioning: Provisioning, principal: Principal, addresses: ServerAddresses) -> None:
        self.provisioning = provisioning
        self.principal = principal
        self._base = addresses.api_url

    async def show(self, key: str, query: ScimQuery) -> Response:
        return render_resource(await self._get(key), Context.RESOURCE_QUERY_RESPONSE, query)

    async def matching(self, key: str) -> list[Model]:
        """Return one resource or none."""
        try:
            return [await self._get(key)]
        except NotFound:
            return []

    async def create(self, payload: dict[str, Any]) -> Response:
        resource = self._read(_readable(payload), Context.RESOURCE_CREATION_REQUEST)
        return render_resource(await self._add(resource, payload), Context.RESOURCE_CREATION_RESPONSE, status=201)

    async def replace(self, key: str, payload: dict[str, Any]) -> Response:
        """Replace a resource, RFC 7644 section 3.5.1."""
        before = await self._get(key)
        new_resource = self._read(_readable(payload), Context.RESOURCE_REPLACEMENT_REQUEST)
        new_resource.replace(before)
        return render_resource(
            await self._save(key, before, new_resource, payload), Context.RESOURCE_REPLACEMENT_RESPONSE
        )

    async def patch(self, key: str, payload: dict[str, Any]) -> Response:
        """Change a resource, RFC 7644 section 3.5.2."""
        before = await self._get(key)
        new_resource = before.model_copy(deep=True)
        operations = of_model(PatchOp, type(before)).model_validate(
            _readable(payload), scim_ctx=Context.RESOURCE_PATCH_REQUEST, scim_policy=POLICY
        )
        operations.patch(new_resource, scim_policy=POLICY)
        return render_resource(await self._save(key, before, new_resource, {}), Context.RESOURCE_PATCH_RESPONSE)

    @abstractmethod
    async def _get(self, key: str) -> Model:
        """Raises Denied, NotFound."""

    @abstractmethod
    def _read(self, payload: dict[str, Any], context: Context) -> Model: ...

    @abstractmethod
    async def _add(self, resource: Model, payload: dict[str, Any]) -> Model: ...

    @abstractmethod
    async def _save(self, key: str, before: Model, resource: Model, payload: dict[str, Any]) -> Model: ...


class KeptUsers(ScimStore[User]):
    def shape(self, account: Account) -> User:
        return user_of(account, self._base)

    async def _get(self, key: str) -> User:
        return self.shape(await self.provisioning.get_user(self.principal, identifier(key)))

    def _read(self, payload: dict[str, Any], context: Context) -> User:
        return User.model_validate(fill_defaults(payload), scim_ctx=context, scim_policy=POLICY)

    async def _add(self, resource: User, payload: dict[str, Any]) -> User:
        return self.shape(await self.provisioning.create_user(self.principal, make_provisioned_user(resource, payload)))

    async def _save(self, key: str, before: User, resource: User, payload: dict[str, Any]) -> User:
        user = make_provisioned_user(resource, payload)
        return self.shape(await self.provisioning.replace_user(self.principal, identifier(key), user))


class KeptGroups(ScimStore[Group]):
    def shape(self, provisioned: ProvisionedGroup) -> Group:
        return group_of(provisioned, self._base)

    async def _get(self, key: str) -> Group:
        return self.shape(await self.provisioning.get_group(self.principal, identifier(key)))

    def _read(self, payload: dict[str, Any], context: Context) -> Group:
        return Group.model_validate(payload, scim_ctx=context, scim_policy=POLICY)

    async def _add(self, resource: Group, payload: dict[str, Any]) -> Group:
        name, external_id = resource.display_name or "", resource.external_id or None
        return self.shape(await self.provisioning.create_group(self.principal, name, external_id, member_ids(resource)))

    async def _save(self, key: str, before: Group, resource: Group, payload: dict[str, Any]) -> Group:
        old, new = member_ids(before), member_ids(resource)
        changed = await self.provisioning.change_group(
            self.principal,
            identifier(key),
            resource.display_name or "",
            resource.external_id or None,
            added=new - old,
            removed=old - new,
        )
        return self.shape(changed)


async def _users(caller: Caller, services: Use, info: Info) -> KeptUsers:
    return KeptUsers(services.provisioning, caller, info)


async def _groups(caller: Caller, services: Use, info: Info) -> KeptGroups:
    return KeptGroups(services.provisioning, caller, info)


Users = Annotated[KeptUsers, Depends(_users)]
Groups = Annotated[KeptGroups, Depends(_groups)]


def _readable(payload: dict[str, Any]) -> dict[str, Any]:
    if not storable(payload):
        raise Malformed("the body contains a NUL character or half of a surrogate pair")
    return payload


router = APIRouter(prefix="/scim/v2", tags=["SCIM"], route_class=ScimRoute, default_response_class=ScimResponse)

Query = Annotated[ScimQuery, Depends(read_query)]
Payload = Annotated[dict[str, Any], Body(media_type="application/scim+json")]
_USER = {"username": "user_name", "externalid": "external_id", "displayname": "name", "id": "id"} | {
    "emails": "email",
    "emails.value": "email",
}
_GROUP = {"displayname": "name", "externalid": "external_id", "id": "id"}


@router.get("/ServiceProviderConfig", responses=scim_errors())
async def scim_service_provider_config(_caller: Caller, info: Info) -> Response:
    """Return the supported parts of SCIM."""
    return render_resource(scim_resources.service_provider_config(info.api_url), Context.RESOURCE_QUERY_RESPONSE)


@router.get("/ResourceTypes", responses=scim_errors())
async def scim_resource_types(_caller: Caller, info: Info, query: Query) -> Response:
    resource_types = scim_resources.resource_types(info.api_url)
    return make_list_response(ResourceType, resource_types, len(resource_types), query)


@router.get("/ResourceTypes/{id}", responses=scim_errors(404))
async def scim_resource_type(id: str, _caller: Caller, info: Info) -> Response:  # noqa: A002
    return _find_resource(scim_resources.resource_types(info.api_url), id)


@router.get("/Schemas", responses=scim_errors())
async def scim_schemas(_caller: Caller, info: Info, query: Query) -> Response:
    schemas = scim_resources.schemas(info.api_url)
    return make_list_response(Schema, schemas, len(schemas), query)


@router.get("/Schemas/{id}", responses=scim_errors(404))
async def scim_schema(id: str, _caller: Caller, info: Info) -> Response:  # noqa: A002
    return _find_resource(scim_resources.schemas(info.api_url), id)


@router.get("/Users", responses=scim_errors(403))
async def scim_users(users: Users, query: Query) -> Response:
    """List users. A filter compares userName, externalId, displayName, emails.value or id by `eq`."""
    conditions: dict[str, Any] = equal_to(User, query.filter, _USER)
    if "id" in conditions:
        matches = await users.matching(conditions["id"])
        return make_list_response(User, matches, len(matches), query)
    listed = await users.provisioning.find_users(users.principal, replace(PrincipalFilter(), **conditions), query.page)
    return make_list_response(User, [users.shape(account) for account in listed.items], listed.total, query)


@router.post("/Users", status_code=201, responses=scim_errors(403, 409, 413, 429))
async def scim_create_user(payload: Payload, users: Users) -> Response:
    """Create a user. The status is invited until the first login at the identity provider."""
    return await users.create(payload)


@router.get("/Users/{id}", responses=scim_errors(403, 404))
async def scim_user(id: str, users: Users, query: Query) -> Response:  # noqa: A002
    return await users.show(id, query)


@router.put("/Users/{id}", responses=scim_errors(403, 404, 409, 413, 429))
async def scim_replace_user(id: str, payload: Payload, users: Users) -> Response:  # noqa: A002
    """Replace a user. `active` false deactivates at once, and ends running sessions."""
    return await users.replace(id, payload)


@router.patch("/Users/{id}", responses=scim_errors(403, 404, 409, 413, 429))
async def scim_patch_user(id: str, payload: Payload, users: Users) -> Response:  # noqa: A002
    """Change a user by operations (RFC 7644 section 3.5.2)."""
    return await users.patch(id, payload)


@router.delete("/Users/{id}", status_code=204, responses=scim_errors(403, 404, 409, 429))
async def scim_delete_user(id: str, users: Users) -> None:  # noqa: A002
    """Delete a user, and end their logins and sessions."""
    await users.provisioning.remove_user(users.principal, identifier(id))


@router.get("/Groups", responses=scim_errors(403))
async def scim_groups(groups: Groups, query: Query) -> Response:
    """List groups. A filter compares displayName, externalId or id by `eq`, exactly."""
    conditions: dict[str, Any] = equal_to(Group, query.filter, _GROUP)
    if "id" in conditions:
        matches = await groups.matching(conditions["id"])
        return make_list_response(Group, matches, len(matches), query)
    left_out = (query.excluded or "").lower().replace(" ", "").split(",")
    listed = await groups.provisioning.find_groups(
        groups.principal, query.page, **conditions, with_members="members" not in left_out
    )
    return make_list_response(Group, [groups.shape(group) for group in listed.items], listed.total, query)


@router.post("/Groups", status_code=201, responses=scim_errors(403, 409, 413, 429))
async def scim_create_group(payload: Payload, groups: Groups) -> Response:
    return await groups.create(payload)


@router.get("/Groups/{id}", responses=scim_errors(403, 404))
async def scim_group(id: str, groups: Groups, query: Query) -> Response:  # noqa: A002
    return await groups.show(id, query)


@router.put("/Groups/{id}", responses=scim_errors(403, 404, 409, 413, 429))
async def scim_replace_group(id: str, payload: Payload, groups: Groups) -> Response:  # noqa: A002
    return await groups.replace(id, payload)


@router.patch("/Groups/{id}", responses=scim_errors(403, 404, 409, 413, 429))
async def scim_patch_group(id: str, payload: Payload, groups: Groups) -> Response:  # noqa: A002
    """Change a group: members are added, removed and replaced by operations (RFC 7644 section 3.5.2)."""
    return await groups.patch(id, payload)


@router.delete("/Groups/{id}", status_code=204, responses=scim_errors(403, 404, 409, 429))
async def scim_delete_group(id: str, groups: Groups) -> None:  # noqa: A002
    await groups.provisioning.remove_group(groups.principal, identifier(id))


def _find_resource(resources: list[Any], key: str) -> Response:
    for resource in resources:
        if resource.id == key:
            return render_resource(resource, Context.RESOURCE_QUERY_RESPONSE)
    raise NotFound(f"there is no resource {key!r}")
