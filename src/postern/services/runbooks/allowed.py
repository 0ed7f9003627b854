"""The runbook rules of an organisation: which users can run which runbook on which connection."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from uuid import UUID

from postern.domain.identity.principal import Principal
from postern.domain.runbook import RunbookRule, is_allowed
from postern.services.rules.rule_cache import RuleCache
from postern.store.ports.common_ports import Clock, Signals
from postern.store.ports.named_resource_ports import NamedResourceStore

_NOWHERE: frozenset[UUID] = frozenset()


@dataclass(frozen=True, slots=True)
class Allowed:
    """What one principal can run, under the rules at one time: with `everything`, all runbooks on all connections."""

    everything: bool = False
    # Repository → what the path of a file begins with → where; None for every connection.
    _patterns: dict[str, dict[str, frozenset[UUID] | None]] = field(default_factory=dict)
    _lengths: dict[str, tuple[int, ...]] = field(default_factory=dict)  # of those beginnings

    @classmethod
    def by(cls, rules: Iterable[RunbookRule], groups: frozenset[str]) -> Allowed:
        patterns: dict[str, dict[str, frozenset[UUID] | None]] = {}
        for rule in rules:
            if rule.nowhere or (rule.groups and not rule.groups & groups):
                continue
            for runbook in rule.runbooks:
                where = patterns.setdefault(runbook.repository, {})
                where[runbook.name] = _both(where.get(runbook.name, _NOWHERE), rule.connection_ids or None)
        lengths = {repository: tuple(sorted({len(name) for name in where})) for repository, where in patterns.items()}
        return cls(False, patterns, lengths)

    def where(self, repository: str, file: str) -> frozenset[UUID] | None:
        """Return the connections on which the rules allow this runbook; None for every connection.

        Costs the same however many rules there are.
        """
        if self.everything:
            return None
        patterns = self._patterns.get(repository, {})
        connections: frozenset[UUID] | None = _NOWHERE
        for length in self._lengths.get(repository, ()):
            if length > len(file) or connections is None:
                break
            connections = _both(connections, patterns.get(file[:length], _NOWHERE))
        return connections

    def spans(self, repository: str, files: Sequence[str]) -> Iterator[tuple[int, int, frozenset[UUID] | None]]:
        """Yield ranges of the sorted paths (first, last, `where`), with the same connections in each.

        Paths with the same prefix are adjacent, so few need a look-up.
        """
        names = self._patterns.get(repository, {})
        edges: Iterable[int] = range(len(files) + 1)
        if len(names) < len(files):
            edges = sorted({0, len(files)}.union(*(_run(files, name) for name in names)))
        for first, last in pairwise(edges):
            yield first, last, self.where(repository, files[first])

    def usable(self, connection_ids: Collection[UUID]) -> Collection[UUID]:
        """Return those connections on which the rules allow any runbook."""
        allowed = None if self.everything else _NOWHERE
        for patterns in self._patterns.values():
            for where in patterns.values():
                allowed = _both(allowed, where)
        return connection_ids if allowed is None else allowed.intersection(connection_ids)


class RunbookRights:
    """Evaluates runbook rules. `signals` report changed rules.

    All methods raise Unavailable when the rules cannot be read: then nothing runs.
    """

    def __init__(self, store: NamedResourceStore[RunbookRule], signals: Signals, now: Clock) -> None:
        self._rules = RuleCache(store, signals, now)

    async def of(self, principal: Principal) -> Allowed:
        """Return the rights for a list of runbooks. Without any rule, and for administrators, everything is allowed."""
        rules = () if principal.is_admin else await self._rules.get(principal.org_id)
        return Allowed.by(rules, principal.groups) if rules else Allowed(everything=True)

    async def is_allowed(self, principal: Principal, repository: str, file: str, connection_id: UUID) -> bool:
        rules = await self._rules.get(principal.org_id)
        return is_allowed(rules, repository, file, connection_id, principal.groups, is_admin=principal.is_admin)

    async def any_on(self, principal: Principal, connection_id: UUID) -> bool:
        return connection_id in await self.usable(principal, [connection_id])

    async def usable(self, principal: Principal, connection_ids: Collection[UUID]) -> Collection[UUID]:
        """Return those connections on which the principal can run any runbook."""
        return (await self.of(principal)).usable(connection_ids)


def _both(first: frozenset[UUID] | None, second: frozenset[UUID] | None) -> frozenset[UUID] | None:
    """Return the union, as the very same set where one contains all: hashing a new set for each runbook would dominate
    a list."""
    if first is None or second is None:
        return None
    return first | second if first and second else first or second


def _run(files: Sequence[str], name: str) -> tuple[int, int]:
    """Return the range of paths that begin with `name`."""
    first = bisect_left(files, name)
    return first, bisect_left(files, True, first, key=lambda file: not file.startswith(name))
