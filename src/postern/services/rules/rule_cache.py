"""A cache of an organisation's rules of one kind, until a signal reports a change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, Protocol, TypeVar
from uuid import UUID

from postern.store.ports.common_ports import Clock, Signals, Topic

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

# Fallback for lost `policy.changed` signals.
_RULES_STAY = timedelta(seconds=30)
_ORGANISATIONS_KEPT = 1_000


class RuleSource(Protocol[R_co]):
    async def all(self, org_id: UUID) -> Sequence[R_co]:
        """Return all rules with one statement, so that they are consistent."""


@dataclass(frozen=True, slots=True)
class _Kept(Generic[R]):
    rules: Sequence[R]
    until: datetime


class RuleCache(Generic[R]):
    """Costs no statement while the rules are cached."""

    def __init__(self, source: RuleSource[R], signals: Signals, now: Clock) -> None:
        self._source = source
        self._now = now
        self._kept: dict[UUID, _Kept[R]] = {}
        self._generation = 0
        signals.subscribe(Topic.POLICY_CHANGED, self._forget)
        signals.subscribe(Topic.RESUMED, self._forget)

    async def get(self, org_id: UUID) -> Sequence[R]:
        """Return the rules. Raises Unavailable when they cannot be read."""
        cached = self._kept.get(org_id)
        if cached is not None and self._now() < cached.until:
            return cached.rules
        generation = self._generation
        rules = await self._source.all(org_id)
        if generation == self._generation:  # changed during the load: use it, do not cache it
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
