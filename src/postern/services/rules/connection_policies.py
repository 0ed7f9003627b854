"""The policies of connections: their guardrails, masking rules and limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from postern.domain.rules.guardrail import unenforceable
from postern.domain.rules.masking import DEFAULT_TYPES, InfoType, Strategy, info_type
from postern.domain.rules.policy import Policy
from postern.domain.secret import Secret
from postern.domain.targets.connection import OPAQUE, OPAQUE_REASON, Connection
from postern.errors import Unavailable
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.target_ports import AccessStore, ConnectionRuleSet

# Fallback for lost `policy.changed` signals.
_RULES_STAY = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class _Cached:
    rules: ConnectionRuleSet
    key: Secret
    until: datetime


class ConnectionPolicies:
    """Policies by connection. Guardrails and masking rules are cached until `signals` report a change. `parsed` names
    the protocols that have a parser; some rules cannot be enforced without one."""

    def __init__(self, store: AccessStore, signals: Signals, now: Clock, *, parsed: frozenset[str]) -> None:
        self._store = store
        self._now = now
        self._parsed = parsed
        self._rules: dict[UUID, _Cached] = {}
        self._generation = 0
        signals.subscribe(Topic.POLICY_CHANGED, self._forget)
        signals.subscribe(Topic.RESUMED, self._forget)

    async def of(self, connection: Connection) -> Policy:
        """Return the policy that applies from now on. At most one statement; none when the rules are cached.

        Raises Unavailable when a rule cannot be loaded or enforced: the absence of a policy never means allow.
        """
        cached = await self._rules_of(connection)
        for rail in cached.rules.guardrails:
            reason = unenforceable(rail, connection.protocol, self._parsed)
            if reason is not None:
                raise Unavailable(f"connection {connection.name!r} cannot be used: {reason}; ask an administrator")
        types = masked_types(connection)
        if connection.protocol in OPAQUE and (types or cached.rules.masking):
            raise Unavailable(
                f"connection {connection.name!r} cannot be used: its output cannot be masked, because {OPAQUE_REASON}; "
                "ask an administrator"
            )
        return Policy(
            guardrails=cached.rules.guardrails,
            masked_types=types,
            masking=cached.rules.masking,
            masking_key=cached.key,
            max_duration=connection.access_max_duration,
            access_help=cached.rules.access_help,
        )

    async def _rules_of(self, connection: Connection) -> _Cached:
        cached = self._rules.get(connection.id)
        if cached is not None and self._now() < cached.until:
            return cached
        generation = self._generation
        try:
            rules = await self._store.rules_of(connection.id)
        except (ValueError, KeyError, TypeError) as error:
            raise Unavailable(
                f"a guardrail or masking rule of connection {connection.name!r} cannot be read, so the connection is "
                "denied; ask an administrator to save them again"
            ) from error
        if rules is None:
            raise Unavailable(f"connection {connection.name!r} was deleted")
        key = Secret("")
        if any(rule.strategy is Strategy.HASH for rule in rules.masking):
            key = await self._store.masking_key(connection.org_id)
        entry = _Cached(rules, key, self._now() + _RULES_STAY)
        if generation == self._generation:  # changed during the load: use it, do not cache it
            self._rules[connection.id] = entry
        return entry

    def _forget(self, payload: Mapping[str, str]) -> None:
        self._generation += 1
        connection_id = payload.get("connection_id")
        if connection_id:
            self._rules.pop(UUID(connection_id), None)
        else:
            self._rules.clear()


def masked_types(connection: Connection) -> frozenset[InfoType]:
    """Return the types that `redact_enabled` and `redact_types` ask for; an empty list means the default types.

    Raises Unavailable for an unknown type, since leaving it out would show what must be hidden.
    """
    if not connection.redact_enabled:
        return frozenset()
    if not connection.redact_types:
        return DEFAULT_TYPES
    info_types = {name: info_type(name) for name in connection.redact_types}
    unknown = [name for name, kind in info_types.items() if kind is None]
    if unknown:
        raise Unavailable(
            f"connection {connection.name!r} masks {', '.join(unknown)}, which this version does not support, "
            "so the connection is denied; ask an administrator to correct its redact_types"
        )
    return frozenset(kind for kind in info_types.values() if kind is not None)
