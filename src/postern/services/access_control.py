"""Access control: which connections a principal may see and use. Everybody who looks for a connection on behalf of
somebody asks here, so that one that is hidden from them is one that does not exist.

Costs no statement while the organisation's rules are kept here: they are read again when something changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from postern.domain.access import Decision, Reach, decide, reach
from postern.domain.access_rule import AccessRule
from postern.domain.connection import Connection
from postern.domain.features import Feature
from postern.domain.principal import Principal
from postern.services.server.features import Features
from postern.store.ports import AccessRuleStore, Clock, ConnectionStore, Signals, Topic

# A safety net under the `policy.changed` signal, should one ever be lost.
_RULES_STAY = timedelta(seconds=30)
_ORGANISATIONS_KEPT = 1_000


@dataclass(frozen=True, slots=True)
class _Kept:
    rules: Sequence[AccessRule]
    until: datetime


class AccessControl:
    """Needs `signals` to hear which rules changed."""

    def __init__(
        self, store: AccessRuleStore, connections: ConnectionStore, features: Features, signals: Signals, now: Clock
    ) -> None:
        self._store = store
        self._connections = connections
        self._features = features
        self._now = now
        self._kept: dict[UUID, _Kept] = {}
        self._generation = 0
        signals.subscribe(Topic.POLICY_CHANGED, self._forget)
        signals.subscribe(Topic.RESUMED, self._forget)

    async def enforced(self, org_id: UUID) -> bool:
        return await self._features.enabled(org_id, Feature.ACCESS_CONTROL)

    async def decide(self, principal: Principal, connection: Connection) -> Decision:
        """Raises Unavailable when the rules cannot be read: then nobody is let in."""
        enforced = await self.enforced(connection.org_id)
        rules = await self._rules(connection.org_id) if enforced else ()
        return decide(principal, connection, rules, enforced=enforced)

    async def reach(self, principal: Principal) -> Reach | None:
        """What lists show them; None for everything. Raises Unavailable."""
        enforced = await self.enforced(principal.org_id)
        rules = await self._rules(principal.org_id) if enforced else ()
        return reach(principal, rules, enforced=enforced)

    async def find(self, principal: Principal, name_or_id: str) -> Connection | None:
        """As they see it: None when there is none, or it is hidden from them. At most one statement."""
        found = await self._connections.get(principal.org_id, name_or_id)
        if found is None or not (await self.decide(principal, found)).visible:
            return None
        return found

    async def _rules(self, org_id: UUID) -> Sequence[AccessRule]:
        kept = self._kept.get(org_id)
        if kept is not None and self._now() < kept.until:
            return kept.rules
        generation = self._generation
        rules = await self._store.all(org_id)
        if generation == self._generation:  # else something changed while we asked: good for now, not to keep
            if len(self._kept) >= _ORGANISATIONS_KEPT:
                self._kept.clear()
            self._kept[org_id] = _Kept(rules, self._now() + _RULES_STAY)
        return rules

    def _forget(self, payload: Mapping[str, str]) -> None:
        if payload.get("connection_id"):  # of a connection's own settings; no rule is another
            return
        self._generation += 1
        org_id = payload.get("org_id")
        if org_id:
            self._kept.pop(UUID(org_id), None)
        else:
            self._kept.clear()
