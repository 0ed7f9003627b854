"""The estimate of the documents that a held command would change, counted on the target before the review.

They are counted by the command's own filters, on a separate connection that the session never sees, and only by the
command `count`, which changes nothing. Nothing of the session waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from postern.domain.rules.permit import Permit
from postern.domain.rules.row_count import MOST_ROWS, PartCount, RowCount
from postern.errors import Unavailable
from postern.gateway.rules.counting_turns import CountingTurns, TurnLimits
from postern.gateway.rules.row_counts import HeldStatement
from postern.gateway.target_question import query_rows
from postern.protocols.gateway_queries import Query
from postern.protocols.mongodb.dialect.mongodb_count_plans import DocumentCountPlan, count_plans
from postern.protocols.mongodb.dialect.mongodb_json import UnreadableCommand, as_document, number_of, read_json
from postern.protocols.mongodb.queries.mongodb_query import MongodbQuery
from postern.protocols.wire_base import TransactionState
from postern.relay.relay_target import Dialer, Start, Target

log = logging.getLogger(__name__)

MAX_PARTS: Final = 20
APPLICATION: Final = "postern row count"
_SLOW: Final = "counting takes too long"
_WHY: Final = {
    "13": "the connection's account is not allowed to read the collection",
    "50": _SLOW,
    "262": _SLOW,
}

MakeQuery = Callable[[str], Query]
"""Makes the query that sends one command, given as text. The reply to `count` is one row: a document as text."""


def _query(statement: str) -> Query:
    return MongodbQuery(statement)


@dataclass(frozen=True, slots=True)
class DocumentCountLimits:
    """Limits in seconds: for one count, for all counts of one request, and for the turn. At most `most_waiting`
    requests wait."""

    count: float = 5.0
    whole: float = 20.0
    turn: float = 30.0
    most_waiting: int = 16


class DocumentCounts:
    """Counts of one worker. They run one at a time, so that counting never loads a target more than one client could.

    Implements the port `RowCounter`.
    """

    def __init__(
        self, dialer: Dialer, limits: DocumentCountLimits | None = None, make_query: MakeQuery = _query
    ) -> None:
        limits = limits or DocumentCountLimits()
        self._limits = limits
        self._make_query = make_query
        turn_limits = TurnLimits(limits.whole, limits.turn, limits.most_waiting)
        self._turns = CountingTurns(dialer, turn_limits, name="document count", slow=_SLOW)

    async def of(
        self,
        permit: Permit,
        start: Start,
        statements: Sequence[HeldStatement],
        standing: TransactionState | None = None,
    ) -> RowCount | None:
        """Return the count, None if no statement changes documents. Never raises, except when cancelled."""
        try:
            plans = await asyncio.to_thread(_plan, statements)
            if not plans:
                return None
            counted: dict[int, PartCount] = {}
            open_numbers = [number for number, plan in enumerate(plans) if plan.documents is None and not plan.why_not]
            why = await self._count_open(permit, plans, open_numbers, counted) if open_numbers else ""
        except Exception:
            log.exception("counting the documents of a held command failed")
            return None
        parts = [counted.get(number) or _part(plan, plan.why_not or why) for number, plan in enumerate(plans)]
        notes = []
        if standing is not None and standing.in_transaction:
            notes.append("uncommitted changes of its session are not counted, and can change which documents match")
        if len(parts) > 1:
            notes.append("each part is counted as if the others had not run")
        return RowCount(tuple(parts), datetime.now(UTC), tuple(notes))

    async def _count_open(
        self, permit: Permit, plans: Sequence[DocumentCountPlan], numbers: Sequence[int], counted: dict[int, PartCount]
    ) -> str:
        """Add results to `counted`. Return the reason why others are missing."""

        async def count(target: Target) -> None:
            for number in numbers:
                counted[number] = await self._count(target, plans[number])

        return await self._turns.run(permit, Start(None, {"application": APPLICATION}), count)

    async def _count(self, target: Target, plan: DocumentCountPlan) -> PartCount:
        query = self._make_query(plan.query_text(int(self._limits.count * 1000)))
        replies = [row[0] async for row in query_rows(target.stream, query) if row]
        if query.error is not None:
            code = query.error.code
            return _part(plan, _WHY.get(code, f"the target rejected the query (error {code})"))
        found = _read_number(replies)
        return PartCount(plan.action, plan.table, min(found, MOST_ROWS), found > MOST_ROWS, notes=plan.notes)


def _read_number(replies: Sequence[str | None]) -> int:
    """Return the number in the reply to `count`. Raises Unavailable."""
    try:
        (reply,) = replies
        number = number_of(as_document(read_json(reply or ""), "the reply").get("n"))
    except (ValueError, UnreadableCommand):
        number = None
    if number is None or number < 0:
        raise Unavailable("the target did not answer a count with a number")
    return int(number)


def _plan(statements: Sequence[HeldStatement]) -> list[DocumentCountPlan]:
    plans = [
        plan
        for statement in dict.fromkeys(statements)
        if not statement.truncated
        for plan in _merge(count_plans(statement.text))
    ]
    if len(plans) > MAX_PARTS:
        why = f"there are more than {MAX_PARTS} parts that change documents"
        plans[MAX_PARTS:] = [DocumentCountPlan("the rest", "", "", {}, why_not=why)]
    return plans


def _merge(plans: Sequence[DocumentCountPlan]) -> list[DocumentCountPlan]:
    """Return the plans with all inserts into one collection as one."""
    merged: list[DocumentCountPlan] = []
    inserts: dict[str, int] = {}
    for plan in plans:
        if plan.documents is None:
            merged.append(plan)
        elif plan.table in inserts:
            place = inserts[plan.table]
            total = (merged[place].documents or 0) + plan.documents
            merged[place] = DocumentCountPlan("insert", plan.database, plan.collection, {}, documents=total)
        else:
            inserts[plan.table] = len(merged)
            merged.append(plan)
    return merged


def _part(plan: DocumentCountPlan, why_not: str) -> PartCount:
    table = plan.table.strip(".")
    if plan.documents is not None:
        return PartCount(plan.action, table, plan.documents)
    return PartCount(plan.action, table, why_not=why_not, notes=plan.notes)
