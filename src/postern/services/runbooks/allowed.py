"""Who may run which runbook where, as an organisation's runbook rules say."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
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
    """What one principal may run, as the rules were at one moment: with `everything`, all of it everywhere."""

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
            for one in rule.runbooks:
                where = patterns.setdefault(one.repository, {})
                where[one.name] = _both(where.get(one.name, _NOWHERE), rule.connection_ids or None)
        lengths = {repository: tuple(sorted({len(name) for name in where})) for repository, where in patterns.items()}
        return cls(False, patterns, lengths)

    def where(self, repository: str, file: str) -> frozenset[UUID] | None:
        """The connections on which this runbook may run, as far as rules are asked; None for every connection. Costs
        the same however many rules there are."""
        if self.everything:
            return None
        patterns = self._patterns.get(repository, {})
        found: frozenset[UUID] | None = _NOWHERE
        for length in self._lengths.get(repository, ()):
            if length > len(file) or found is None:
                break
            found = _both(found, patterns.get(file[:length], _NOWHERE))
        return found

    def spans(self, repository: str, files: Sequence[str]) -> Iterator[tuple[int, int, frozenset[UUID] | None]]:
        """Of paths in order: from where to where, and `where` of each of these. The paths that begin alike stand side
        by side, so that few have to be asked about."""
        names = self._patterns.get(repository, {})
        edges: Iterable[int] = range(len(files) + 1)
        if len(names) < len(files):
            edges = sorted({0, len(files)}.union(*(_run(files, name) for name in names)))
        for first, last in pairwise(edges):
            yield first, last, self.where(repository, files[first])

    def any_on(self, connection_id: UUID) -> bool:
        places = (where for patterns in self._patterns.values() for where in patterns.values())
        return self.everything or any(where is None or connection_id in where for where in places)


class RunbookRights:
    """Needs `signals` to hear which rules changed. What it is asked raises Unavailable when the rules cannot be read:
    then nothing runs."""

    def __init__(self, store: NamedResourceStore[RunbookRule], signals: Signals, now: Clock) -> None:
        self._rules = RuleCache(store, signals, now)

    async def of(self, principal: Principal) -> Allowed:
        """For a list of runbooks. While there is no rule everybody may run everything; administrators always may."""
        rules = () if principal.is_admin else await self._rules.get(principal.org_id)
        return Allowed.by(rules, principal.groups) if rules else Allowed(everything=True)

    async def is_allowed(self, principal: Principal, repository: str, file: str, connection_id: UUID) -> bool:
        rules = await self._rules.get(principal.org_id)
        return is_allowed(rules, repository, file, connection_id, principal.groups, is_admin=principal.is_admin)

    async def any_on(self, principal: Principal, connection_id: UUID) -> bool:
        return (await self.of(principal)).any_on(connection_id)


def _both(one: frozenset[UUID] | None, other: frozenset[UUID] | None) -> frozenset[UUID] | None:
    """The very same set where that is all of it: one that is hashed again for each runbook takes most of a list."""
    if one is None or other is None:
        return None
    return one | other if one and other else one or other


def _run(files: Sequence[str], name: str) -> tuple[int, int]:
    """From where to where they begin with it."""
    first = bisect_left(files, name)
    return first, bisect_left(files, True, first, key=lambda file: not file.startswith(name))
