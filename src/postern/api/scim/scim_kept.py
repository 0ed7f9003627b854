"""Users and groups as SCIM reads and changes them: the same steps for both, on what is different about each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, Any, Generic

from fastapi import Depends, Response
from scim2_models import Context, PatchOp

from postern.api.authentication_of_requests import Caller, Use
from postern.api.info import Info, ServerAddresses
from postern.api.schemas.common import storable
from postern.api.scim.queries import Model, ScimQuery, identifier, of_model, shown
from postern.api.scim.scim_resources import POLICY, Group, User, completed, group_of, member_ids, provisioned, user_of
from postern.domain.identity.principal import Account, Principal
from postern.errors import Malformed, NotFound
from postern.services.identity.provisioning import ProvisionedGroup, Provisioning


class ScimStore(ABC, Generic[Model]):
    """Resources of one type, for one caller. `payload` is always the body as it was sent."""

    def __init__(self, provisioning: Provisioning, principal: Principal, told: ServerAddresses) -> None:
        self.provisioning = provisioning
        self.principal = principal
        self._base = told.api_url

    async def show(self, key: str, given: ScimQuery) -> Response:
        return shown(await self._get(key), Context.RESOURCE_QUERY_RESPONSE, given)

    async def matching(self, key: str) -> list[Model]:
        """One or none."""
        try:
            return [await self._get(key)]
        except NotFound:
            return []

    async def create(self, payload: dict[str, Any]) -> Response:
        wanted = self._read(_readable(payload), Context.RESOURCE_CREATION_REQUEST)
        return shown(await self._add(wanted, payload), Context.RESOURCE_CREATION_RESPONSE, status=201)

    async def replace(self, key: str, payload: dict[str, Any]) -> Response:
        """RFC 7644 section 3.5.1."""
        before = await self._get(key)
        wanted = self._read(_readable(payload), Context.RESOURCE_REPLACEMENT_REQUEST)
        wanted.replace(before)
        return shown(await self._save(key, before, wanted, payload), Context.RESOURCE_REPLACEMENT_RESPONSE)

    async def patch(self, key: str, payload: dict[str, Any]) -> Response:
        """RFC 7644 section 3.5.2."""
        before = await self._get(key)
        wanted = before.model_copy(deep=True)
        operations = of_model(PatchOp, type(before)).model_validate(
            _readable(payload), scim_ctx=Context.RESOURCE_PATCH_REQUEST, scim_policy=POLICY
        )
        operations.patch(wanted, scim_policy=POLICY)
        return shown(await self._save(key, before, wanted, {}), Context.RESOURCE_PATCH_RESPONSE)

    @abstractmethod
    async def _get(self, key: str) -> Model:
        """Raises Denied, NotFound."""

    @abstractmethod
    def _read(self, payload: dict[str, Any], context: Context) -> Model: ...

    @abstractmethod
    async def _add(self, wanted: Model, payload: dict[str, Any]) -> Model: ...

    @abstractmethod
    async def _save(self, key: str, before: Model, wanted: Model, payload: dict[str, Any]) -> Model: ...


class KeptUsers(ScimStore[User]):
    def shape(self, account: Account) -> User:
        return user_of(account, self._base)

    async def _get(self, key: str) -> User:
        return self.shape(await self.provisioning.get_user(self.principal, identifier(key)))

    def _read(self, payload: dict[str, Any], context: Context) -> User:
        return User.model_validate(completed(payload), scim_ctx=context, scim_policy=POLICY)

    async def _add(self, wanted: User, payload: dict[str, Any]) -> User:
        return self.shape(await self.provisioning.create_user(self.principal, provisioned(wanted, payload)))

    async def _save(self, key: str, before: User, wanted: User, payload: dict[str, Any]) -> User:
        given = provisioned(wanted, payload)
        return self.shape(await self.provisioning.replace_user(self.principal, identifier(key), given))


class KeptGroups(ScimStore[Group]):
    def shape(self, found: ProvisionedGroup) -> Group:
        return group_of(found, self._base)

    async def _get(self, key: str) -> Group:
        return self.shape(await self.provisioning.get_group(self.principal, identifier(key)))

    def _read(self, payload: dict[str, Any], context: Context) -> Group:
        return Group.model_validate(payload, scim_ctx=context, scim_policy=POLICY)

    async def _add(self, wanted: Group, payload: dict[str, Any]) -> Group:
        name, external_id = wanted.display_name or "", wanted.external_id or None
        return self.shape(await self.provisioning.create_group(self.principal, name, external_id, member_ids(wanted)))

    async def _save(self, key: str, before: Group, wanted: Group, payload: dict[str, Any]) -> Group:
        old, new = member_ids(before), member_ids(wanted)
        changed = await self.provisioning.change_group(
            self.principal,
            identifier(key),
            wanted.display_name or "",
            wanted.external_id or None,
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
