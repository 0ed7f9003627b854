"""The estimate of the documents that a held command would change, counted on the target before the review.

They are counted by the command's own filters, on a separate connection that the session never sees, and only by the
command `count`, which changes nothing. Nothing of the session waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from postern.domain.rules.row_count import CountPlans, PartCount
from postern.errors import Unavailable
from postern.gateway.rules.row_count_estimates import CountLimits, CountMethod, RowCountEstimates
from postern.gateway.rules.row_counts import HeldStatement
from postern.gateway.target_question import query_rows
from postern.protocols.gateway_queries import Query
from postern.protocols.mongodb.dialect.mongodb_count_plans import DocumentCountPlan, count_plans
from postern.protocols.mongodb.dialect.mongodb_json import UnreadableCommand, as_document, number_of, read_json
from postern.protocols.mongodb.queries.mongodb_query import MongodbQuery
from postern.protocols.wire_base import TransactionState
from postern.relay.relay_target import Dialer, Start, Target

APPLICATION: Final = "postern row count"
_SLOW: Final = "counting takes too long"
_WHY: Final = {
    "13": "the connection's account is not allowed to read the collection",
    "50": _SLOW,
    "262": _SLOW,
}

MakeQuery = Callable[[str], Query]
"""Makes the query that sends one command, given as text. The reply to `count` is one row: a document as text."""


def document_counts(
    dialer: Dialer, limits: CountLimits | None = None, make_query: MakeQuery = MongodbQuery
) -> RowCountEstimates[DocumentCountPlan]:
    """Return the counter of a worker."""
    limits = limits or CountLimits()
    return RowCountEstimates(dialer, DocumentCounting(limits, make_query), limits)


class DocumentCounting(CountMethod[DocumentCountPlan]):
    """Implements the interface of a protocol to row counts."""

    slow = _SLOW
    what = "documents"

    def __init__(self, limits: CountLimits, make_query: MakeQuery) -> None:
        self._limits = limits
        self._make_query = make_query

    def plans(self, statement: HeldStatement) -> CountPlans[DocumentCountPlan]:
        return CountPlans(() if statement.truncated else tuple(_merge(count_plans(statement.text))))

    def start(self, start: Start, standing: TransactionState) -> Start:
        return Start(None, {"application": APPLICATION})

    def counter(self, target: Target, start: Start, standing: TransactionState) -> DocumentCounter:
        return DocumentCounter(target, self._limits, self._make_query)


class DocumentCounter:
    """Counts on one target connection that was opened for it."""

    def __init__(self, target: Target, limits: CountLimits, make_query: MakeQuery) -> None:
        self._target = target
        self._limits = limits
        self._make_query = make_query

    async def count(self, plan: DocumentCountPlan, statement: HeldStatement) -> PartCount:
        """Count one part. Raises the errors of reading from the target."""
        query = self._make_query(plan.query_text(int(self._limits.statement * 1000)))
        replies = [row[0] async for row in query_rows(self._target.stream, query) if row]
        if query.error is not None:
            code = query.error.code
            return plan.make_failure(_WHY.get(code, f"the target rejected the query (error {code})"))
        return plan.make_result(_read_number(replies))


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


def _merge(plans: Sequence[DocumentCountPlan]) -> list[DocumentCountPlan]:
    """Return the plans with all inserts into one collection as one."""
    merged: list[DocumentCountPlan] = []
    inserts: dict[str, int] = {}
    for plan in plans:
        if plan.known is None:
            merged.append(plan)
        elif plan.table in inserts:
            place = inserts[plan.table]
            total = (merged[place].known or 0) + plan.known
            merged[place] = DocumentCountPlan("insert", plan.target, known=total)
        else:
            inserts[plan.table] = len(merged)
            merged.append(plan)
    return merged
