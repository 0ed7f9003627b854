"""Who must agree before somebody is let in: what the connection itself asks for, and what review rules ask for.

Costs no statement while the organisation's rules are kept here: they are read again when something changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from postern.domain.connection import Connection
from postern.domain.features import Feature
from postern.domain.principal import Principal
from postern.domain.review import Demand
from postern.domain.review_demands import demands_of, longest_access
from postern.domain.session import Verb
from postern.services.kept_rules import KeptRules
from postern.services.server.features import Features
from postern.store.ports import Clock, ReviewRuleStore, Signals


@dataclass(frozen=True, slots=True)
class Needed:
    """What somebody needs before they may do this; nobody's word where there are no demands. `longest` is how many
    seconds of access may be given at most: none for scripts, each of which runs once."""

    verb: Verb
    demands: tuple[Demand, ...]
    longest: int | None
    reason: str


class ReviewNeeded:
    """Needs `signals` to hear which rules changed. What it is asked raises Unavailable when the rules cannot be read:
    then nobody is let in."""

    def __init__(self, store: ReviewRuleStore, features: Features, signals: Signals, now: Clock) -> None:
        self._features = features
        self._rules = KeptRules(store, signals, now)

    async def demands(self, principal: Principal, connection: Connection, verb: Verb) -> tuple[Demand, ...]:
        """Each must be met; none when nobody has to agree."""
        return demands_of(principal, connection, await self._rules.of(connection.org_id), verb)

    async def longest(self, principal: Principal, connection: Connection, verb: Verb) -> int:
        """Seconds that may be given at most."""
        return longest_access(principal, connection, await self._rules.of(connection.org_id), verb)

    async def explained(self, principal: Principal, connection: Connection, verb: Verb) -> Needed:
        """In words, too."""
        demands = await self.demands(principal, connection, verb)
        if not demands:
            return Needed(verb, (), None, "nobody has to agree")
        reason = f"needs a review: {in_words(demands)}"
        longest = None
        if verb is Verb.CONNECT:
            longest = await self.longest(principal, connection, verb)
            reason += f"; access is for {longest} seconds at most"
        if not await self._features.enabled(connection.org_id, Feature.REVIEWS):
            reason += "; reviews are switched off in this organisation, so it is refused"
        return Needed(verb, demands, longest, reason)


def in_words(demands: Sequence[Demand]) -> str:
    """Who must agree."""
    return ", and ".join(map(_in_words, demands))


def _in_words(demand: Demand) -> str:
    groups = [repr(name) for name in demand.groups]
    people = "1 person" if demand.min_approvals == 1 else f"{demand.min_approvals} people"
    if not groups:
        who = "nobody is left who may agree"
    elif demand.all_groups and len(groups) > 1:
        who = f"a person of each of the groups {' and '.join(groups)} must agree"
        who += f", {people} in all" if demand.min_approvals > len(groups) else ""
    else:
        who = f"{people} of the group{'s' if len(groups) > 1 else ''} {' or '.join(groups)} must agree"
    if demand.force_groups:
        who += f", or force it as a member of {' or '.join(map(repr, demand.force_groups))}"
    return who + (f" (review rule {demand.rule!r})" if demand.rule else " (the connection's reviewers)")
