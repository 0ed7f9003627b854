"""Who must agree before somebody is let in: what the connection itself asks for, and what review rules ask for.

Costs no statement while the organisation's rules are kept here: they are read again when something changed.
"""

from __future__ import annotations

from postern.domain.connection import Connection
from postern.domain.principal import Principal
from postern.domain.review import Demand, demands_of, longest_access
from postern.domain.session import Verb
from postern.services.kept_rules import KeptRules
from postern.store.ports import Clock, ReviewRuleStore, Signals


class ReviewNeeded:
    """Needs `signals` to hear which rules changed. What it is asked raises Unavailable when the rules cannot be read:
    then nobody is let in."""

    def __init__(self, store: ReviewRuleStore, signals: Signals, now: Clock) -> None:
        self._rules = KeptRules(store, signals, now)

    async def demands(self, principal: Principal, connection: Connection, verb: Verb) -> tuple[Demand, ...]:
        """Each must be met; none when nobody has to agree."""
        return demands_of(principal, connection, await self._rules.of(connection.org_id), verb)

    async def longest(self, principal: Principal, connection: Connection, verb: Verb) -> int:
        """Seconds that may be given at most."""
        return longest_access(principal, connection, await self._rules.of(connection.org_id), verb)
