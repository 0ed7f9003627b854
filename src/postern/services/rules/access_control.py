"""Access control: which connections a principal can see and use.

All look-ups of connections for a principal go through it, so a hidden connection is indistinguishable from a missing
one. Costs no statement while the organisation's rules are cached; they are read again when something has changed.
"""

from __future__ import annotations

from uuid import UUID

from postern.domain.features import Feature
from postern.domain.identity.principal import Principal
from postern.domain.rules.access import Decision, Reach, decide, reach
from postern.domain.rules.access_rule import AccessRule
from postern.domain.targets.connection import Connection
from postern.services.rules.rule_cache import RuleCache
from postern.services.server.server_features import Features
from postern.store.ports.common_ports import Clock, Signals
from postern.store.ports.named_resource_ports import NamedResourceStore
from postern.store.ports.target_ports import ConnectionStore, SecretUse


class AccessControl:
    """Decides by access rules. `signals` report changed rules."""

    def __init__(
        self,
        store: NamedResourceStore[AccessRule],
        connections: ConnectionStore,
        features: Features,
        signals: Signals,
        now: Clock,
    ) -> None:
        self._connections = connections
        self._features = features
        self._rules = RuleCache(store, signals, now)

    async def is_enforced(self, org_id: UUID) -> bool:
        return await self._features.is_enabled(org_id, Feature.ACCESS_CONTROL)

    async def decide(self, principal: Principal, connection: Connection) -> Decision:
        """Return the decision. Raises Unavailable when the rules cannot be read: then no principal is admitted."""
        enforced = await self.is_enforced(connection.org_id)
        rules = await self._rules.get(connection.org_id) if enforced else ()
        return decide(principal, connection, rules, enforced=enforced)

    async def decide_once_enforced(self, principal: Principal, connection: Connection) -> Decision:
        """Return the decision that would apply with access control on. Raises Unavailable."""
        return decide(principal, connection, await self._rules.get(connection.org_id), enforced=True)

    async def reach(self, principal: Principal) -> Reach | None:
        """Return the scope of what lists show them; None for everything. Raises Unavailable."""
        enforced = await self.is_enforced(principal.org_id)
        rules = await self._rules.get(principal.org_id) if enforced else ()
        return reach(principal, rules, enforced=enforced)

    async def find(
        self, principal: Principal, name_or_id: str, secrets: SecretUse = SecretUse.NONE
    ) -> Connection | None:
        """Return the connection; None when there is none, or it is hidden from them. At most one statement."""
        connection = await self._connections.get(principal.org_id, name_or_id, secrets)
        if connection is None or not (await self.decide(principal, connection)).visible:
            return None
        return connection
