"""Row counts of held statements, by the target. A protocol only plans the parts of a text, and counts one of them.

Shared by all protocols: which statements are planned, when the meaning of one is unclear, turns and deadlines, what is
said of results, and the notes for all of them. A count has a connection of its own, which the session never sees.
Nothing of the session waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, Generic, Protocol, TypeVar

from postern.domain.rules.permit import Permit
from postern.domain.rules.row_count import CountPlan, CountPlans, PartCount, PlanT, RowCount
from postern.gateway.rules.counting_turns import CountingTurns, TurnLimits
from postern.gateway.rules.row_counts import HeldStatement
from postern.protocols.wire_base import TransactionState
from postern.relay.relay_target import Dialer, Start, Target

log = logging.getLogger(__name__)

MOST_PARTS: Final = 20
_STIRRED: Final = "earlier statements can change its meaning"
_UNSETTLED: Final = "earlier statements of its session are still running and can change its meaning"

CountedPlan = TypeVar("CountedPlan", bound=CountPlan, contravariant=True)


@dataclass(frozen=True, slots=True)
class CountLimits:
    """Limits in seconds: for one query, for a lock, for all queries of one request, and for the turn. At most
    `most_waiting` requests wait."""

    statement: float = 5.0
    lock: float = 1.0
    whole: float = 20.0
    turn: float = 30.0
    most_waiting: int = 16


class PartCounter(Protocol[CountedPlan]):
    """Counts on one target connection that was opened for it."""

    async def count(self, plan: CountedPlan, statement: HeldStatement) -> PartCount:
        """Count one part. Raises the errors of reading from the target."""


class CountMethod(ABC, Generic[PlanT]):
    """The interface of a protocol to row counts.

    `slow` is the reason for a count that takes too long, `what` the name of what is counted.
    """

    slow: str
    what = "rows"

    @abstractmethod
    def plans(self, statement: HeldStatement) -> CountPlans[PlanT]:
        """Plan the parts of a statement that change rows. Called in a thread."""

    @abstractmethod
    def start(self, start: Start, standing: TransactionState) -> Start:
        """Return the parameters of the count's connection. `start` are those of the session."""

    @abstractmethod
    def counter(self, target: Target, start: Start, standing: TransactionState) -> PartCounter[PlanT]:
        """Return what counts on a connection. `start` are the parameters of the session, `standing` is its state."""


class RowCountEstimates(Generic[PlanT]):
    """Row counts of one worker. They run one at a time, so that counting never loads a target more than one client
    could. Implements the port `RowCounter`."""

    def __init__(self, dialer: Dialer, method: CountMethod[PlanT], limits: CountLimits) -> None:
        self._method = method
        turn_limits = TurnLimits(limits.whole, limits.turn, limits.most_waiting)
        self._turns = CountingTurns(dialer, turn_limits, name="row count", slow=method.slow)

    @property
    def waiting(self) -> int:
        """Return the number of requests that wait for their turn."""
        return self._turns.waiting

    async def of(
        self,
        permit: Permit,
        start: Start,
        statements: Sequence[HeldStatement],
        standing: TransactionState | None = None,
    ) -> RowCount | None:
        """Return the row count; None if no statement changes rows.

        `statements` is everything that runs, in order. `standing` is the session's transaction state when it was held.
        Raises only when cancelled.
        """
        what = self._method.what
        try:
            standing = standing or TransactionState()
            plans, more = await asyncio.to_thread(self._plan_counts, statements, unsettled=standing.unsettled)
            if not plans:
                return None
            parts = await self._count_parts(permit, start, plans, standing)
        except Exception:
            log.exception("counting the %s of a held statement failed", what)
            return None
        notes = []
        if standing.in_transaction:
            notes.append(f"uncommitted changes of its session are not counted, and can change which {what} match")
        if len(parts) > 1 or more:
            notes.append("each part is counted as if the others had not run")
        if more:
            notes.append("other effects of the request are not counted")
        if len(set(statements)) < len(statements):
            notes.append("statements that run several times are counted once")
        return RowCount(tuple(parts), datetime.now(UTC), tuple(notes))

    def _plan_counts(
        self, statements: Sequence[HeldStatement], *, unsettled: bool
    ) -> tuple[list[tuple[PlanT, HeldStatement]], bool]:
        """Return the plans, and True if any effect is not counted."""
        parts: list[tuple[PlanT, HeldStatement]] = []
        more = stirs = False
        for statement in dict.fromkeys(statements):
            plans = self._method.plans(statement)
            why = _UNSETTLED if unsettled else _STIRRED if stirs else ""
            parts += [(replace(plan, why_not=plan.why_not or why), statement) for plan in plans.parts]
            more |= plans.more
            stirs |= plans.stirs
        return parts, more

    async def _count_parts(
        self, permit: Permit, start: Start, plans: Sequence[tuple[PlanT, HeldStatement]], standing: TransactionState
    ) -> list[PartCount]:
        counted: dict[int, PartCount] = {}
        left = []
        for number, (plan, _) in enumerate(plans[:MOST_PARTS]):
            if plan.known is not None:
                counted[number] = plan.make_result(plan.known)
            elif plan.why_not:
                counted[number] = plan.make_failure(plan.why_not)
            else:
                left.append(number)

        async def count(target: Target) -> None:
            counter = self._method.counter(target, start, standing)
            for number in left:
                counted[number] = await counter.count(*plans[number])

        why = await self._turns.run(permit, self._method.start(start, standing), count) if left else ""
        parts = [counted.get(number) or plan.make_failure(why) for number, (plan, _) in enumerate(plans[:MOST_PARTS])]
        if len(plans) > MOST_PARTS:  # otherwise the parts that are left out would count as zero
            too_many = f"there are more than {MOST_PARTS} parts that change {self._method.what}"
            parts.append(PartCount("the rest", "", why_not=too_many))
        return parts
