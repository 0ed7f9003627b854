"""The catalogue: what users can do with the connections that they see, and when these were used.

Costs no statement for access while rules are cached, and one round trip for the activity of all connections of a page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from postern.domain.identity.principal import Principal
from postern.domain.targets.connection import Connection
from postern.domain.targets.connection_use import ConnectionAccess, ConnectionActivity, SessionActivity
from postern.services.admission import Access
from postern.store.ports.target_ports import SessionStore


class ConnectionCatalogue:
    def __init__(self, access: Access, sessions: SessionStore) -> None:
        self._access = access
        self._sessions = sessions

    async def access(self, principal: Principal, connections: Sequence[Connection]) -> Mapping[UUID, ConnectionAccess]:
        """Return what the principal can do with connections that it sees. Raises Unavailable."""
        return await self._access.explain_uses(principal, connections)

    async def activity(
        self, principal: Principal, connections: Sequence[Connection]
    ) -> Mapping[UUID, ConnectionActivity]:
        """Return when the principal used the connections; for administrators and auditors also when anyone did."""
        ids = [connection.id for connection in connections]
        known = await self._sessions.activity(principal.org_id, ids, principal.subject, with_all=principal.sees_all)
        unused = ConnectionActivity(SessionActivity(), SessionActivity() if principal.sees_all else None)
        return {key: known.get(key, unused) for key in ids}
