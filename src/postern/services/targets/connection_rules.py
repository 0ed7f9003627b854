"""Rules that are attached to single connections, from either side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar
from uuid import UUID

from postern.domain.identity.principal import Principal
from postern.domain.named_resource import NamedResource
from postern.domain.resource_names import as_identifier
from postern.domain.targets.connection import Connection
from postern.errors import Conflict, Invalid
from postern.services.named_resources import ResourceService
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.named_resource_ports import NamedResourceStore
from postern.store.ports.target_ports import ConnectionStore

_NAMED = 5  # connections that an error names


class ConnectionRule(NamedResource, Protocol):
    @property
    def connection_ids(self) -> tuple[UUID, ...]: ...


R = TypeVar("R", bound=ConnectionRule)


class ConnectionRules(ResourceService[R]):
    """`enforceable` names the protocols on which rules take effect."""

    preserved_fields = frozenset({"connection_ids"})

    def __init__(
        self,
        store: NamedResourceStore[R],
        connections: ConnectionStore,
        signals: Signals,
        now: Clock,
        enforceable: frozenset[str],
    ) -> None:
        super().__init__(store, signals, now)
        self._connections = connections
        self._enforceable = enforceable

    async def check_connection(self, rule: R, connection: Connection) -> str | None:
        """Return why the rule could not be enforced on this connection, None where it can."""
        raise NotImplementedError

    async def resolve(self, current: R, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        if "connection_ids" not in fields:
            return fields
        return {**fields, "connection_ids": await self._resolve_connections(current.org_id, fields["connection_ids"])}

    async def check(self, resource: R) -> None:
        for connection in await self.connections_of(resource):
            reason = await self.check_connection(resource, connection)
            if connection.protocol not in self._enforceable:
                reason = f"rules cannot be enforced yet on subtype {connection.subtype!r}"
            if reason is not None:
                raise Invalid(f"connection_ids: connection {connection.name!r}: {reason}", field="connection_ids")

    async def announce(self, before: R | None, after: R | None) -> None:
        """Signal changes of the connections to which the rule applied or applies."""
        rules = [rule for rule in (before, after) if rule is not None]
        for key, org_id in {(key, rule.org_id) for rule in rules for key in rule.connection_ids}:
            await self._signals.publish(Topic.POLICY_CHANGED, connection_id=str(key), org_id=str(org_id))

    async def remove(
        self, principal: Principal, name_or_id: str, version: int | None = None, *, unused: bool = False
    ) -> None:
        """Remove the rule; with `unused` only if it applies to no connection. Raises Denied, NotFound, Conflict."""
        if unused:
            self.require_admin(principal)
            rule = await self.existing(principal, name_or_id)
            _require_unused(f"{self.noun} {rule.name!r}", await self.connections_of(rule))
        await super().remove(principal, name_or_id, version)

    async def connections_of(self, rule: R) -> list[Connection]:
        if not rule.connection_ids:
            return []
        connections = await self._connections.by_ids(rule.org_id, rule.connection_ids)
        return sorted(connections, key=lambda connection: connection.name)

    async def _resolve_connections(self, org_id: UUID, texts: Sequence[str]) -> tuple[UUID, ...]:
        keys = [as_identifier(text) for text in texts]
        ids = sorted({key for key in keys if key is not None})
        there = {connection.id for connection in await self._connections.by_ids(org_id, ids)} if ids else set()
        for text, key in zip(texts, keys, strict=True):
            if key not in there:
                raise Invalid(f"connection_ids: there is no connection with id {text!r}", field="connection_ids")
        return tuple(ids)


def _require_unused(what: str, connections: Sequence[Connection]) -> None:
    if connections:
        names = ", ".join(connection.name for connection in connections[:_NAMED])
        more = f" and {len(connections) - _NAMED} more" if len(connections) > _NAMED else ""
        raise Conflict(
            f"{what} applies to {names}{more}: detach it there first, or delete it with force=true; what it "
            "blocked is then allowed"
        )
