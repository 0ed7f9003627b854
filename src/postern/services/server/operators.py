"""Operators: the administrators of the default organisation."""

from __future__ import annotations

from uuid import UUID

from postern.domain.identity.organisation import DEFAULT
from postern.domain.identity.principal import Principal
from postern.errors import Denied
from postern.store.ports.server_ports import OrganisationStore


class Operators:
    def __init__(self, store: OrganisationStore) -> None:
        self._store = store
        self._default: UUID | None = None

    async def include(self, principal: Principal) -> bool:
        return principal.is_admin and await self.is_their_organisation(principal.org_id)

    async def organisation(self) -> UUID:
        """Return the identifier of the default organisation."""
        if self._default is None:
            self._default = (await self._store.default()).id
        return self._default

    async def is_their_organisation(self, org_id: UUID) -> bool:
        return org_id == await self.organisation()

    async def include_reader(self, principal: Principal) -> bool:
        """Return whether the principal is an operator, or an auditor of the default organisation."""
        if self._default is None:
            self._default = (await self._store.default()).id
        return principal.sees_all and principal.org_id == self._default

    async def require(self, principal: Principal, what: str) -> None:
        """Raise Denied where the principal is not an operator. `what` describes the action."""
        if not await self.include(principal):
            raise Denied(f"only administrators of the organisation {DEFAULT!r}, who run this server, can {what}")
