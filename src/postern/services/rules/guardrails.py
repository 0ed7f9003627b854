"""Guardrails: rules of administrators, checked when they are saved so that each can be enforced."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from postern.domain.rules.guardrail import Guardrail, check_rules, unenforceable
from postern.domain.targets.connection import TEXTUAL, Connection
from postern.services.targets.connection_rules import ConnectionRules
from postern.store.ports.common_ports import Clock, Signals
from postern.store.ports.named_resource_ports import NamedResourceStore
from postern.store.ports.target_ports import ConnectionStore

MAX_DESCRIPTION = 10_000
_NAMED = 5  # connections that an error names

ADVISORY = (
    "input rules are advisory on {connections}: Postern cannot know what a shell or program makes of a line, and a "
    "terminal's target receives the keys before the line is complete"
)
ADVISORY_OUTPUT = (
    "output rules on {connections} check the text that a terminal shows: they do not find text that a program encodes "
    "(base64, compression)"
)


class Guardrails(ConnectionRules[Guardrail]):
    """`compiles(pattern)` returns None, or why the rules' engine rejects it; `parsed` names the protocols that have a
    parser."""

    noun = "guardrail"

    def __init__(
        self,
        store: NamedResourceStore[Guardrail],
        connections: ConnectionStore,
        signals: Signals,
        now: Clock,
        *,
        compiles: Callable[[str], str | None],
        enforceable: frozenset[str],
        parsed: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(store, connections, signals, now, enforceable)
        self._compiles = compiles
        self._parsed = parsed

    def blank(self, key: UUID, org_id: UUID) -> Guardrail:
        return Guardrail(key, org_id, "")

    async def check(self, resource: Guardrail) -> None:
        check_rules(resource.input, "input", self._compiles)
        check_rules(resource.output, "output", self._compiles)
        await super().check(resource)

    async def check_connection(self, rule: Guardrail, connection: Connection) -> str | None:
        return unenforceable(rule, connection.protocol, self._parsed)

    async def advice(self, guardrail: Guardrail) -> list[str]:
        """Return hints for the author about where the rules are only advisory."""
        shells = [
            connection.name for connection in await self.connections_of(guardrail) if connection.protocol in TEXTUAL
        ]
        hints = ((guardrail.input, ADVISORY), (guardrail.output, ADVISORY_OUTPUT))
        return [text.format(connections=", ".join(shells)) for rules, text in hints if shells and rules]
