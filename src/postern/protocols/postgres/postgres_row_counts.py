"""The estimate of the rows that a held statement would affect, counted on the target before the review (decision 0046).

It is counted on a separate connection, which the session never sees, in a read-only transaction that is rolled back.
The session's own transaction is not touched, and nothing waits for the count.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from postern.domain.rules.permit import Permit
from postern.domain.rules.row_count import MOST_ROWS, CountPlan, CountPlans, PartCount, RowCount, Uncountable
from postern.errors import Unavailable
from postern.gateway.rules.counting_turns import CountingTurns, TurnLimits
from postern.gateway.rules.row_counts import HeldStatement
from postern.gateway.target_question import query_rows
from postern.protocols.gateway_queries import Row
from postern.protocols.postgres.queries import postgres_row_counting as counting
from postern.protocols.postgres.queries.postgres_query import PostgresQuery
from postern.protocols.refusal_texts import SQL_ASCII
from postern.protocols.wire_base import TransactionState
from postern.relay.relay_target import Dialer, Start, Target

log = logging.getLogger(__name__)

MOST_PARTS: Final = 20
# Settings on which a text's meaning depends. The client's other start parameters do not apply to the count.
_KEPT: Final = frozenset({"datestyle", "intervalstyle", "options", "role", "timezone"})
_ROWS: Final = 10_000  # of an answer about the catalogue
_STIRRED: Final = "earlier statements can change its meaning"
_UNSETTLED: Final = "earlier statements of its session are still running and can change its meaning"

Plans = Callable[[str], CountPlans]


@dataclass(frozen=True, slots=True)
class CountLimits:
    """Limits in seconds: for one query, for a lock, for all queries of one request, and for the turn. At most
    `most_waiting` requests wait."""

    statement: float = 5.0
    lock: float = 1.0
    whole: float = 20.0
    turn: float = 30.0
    most_waiting: int = 16


class RowCountEstimates:
    """Row counts of one worker. They run one at a time, so that counting never loads a target more than one client
    could."""

    def __init__(self, dialer: Dialer, plans: Plans, limits: CountLimits | None = None) -> None:
        limits = limits or CountLimits()
        self._plans = plans
        self._limits = limits
        turn_limits = TurnLimits(limits.whole, limits.turn, limits.most_waiting)
        self._turns = CountingTurns(dialer, turn_limits, name="row count", slow=counting.why("57014"))

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
        try:
            standing = standing or TransactionState()
            plans, more = await asyncio.to_thread(self._plan_counts, statements, unsettled=standing.unsettled)
            if not plans:
                return None
            parts = await self._count_parts(permit, start, plans, standing)
        except Exception:
            log.exception("counting the rows of a held statement failed")
            return None
        notes = []
        if standing.in_transaction:
            notes.append("uncommitted changes of its session are not counted, and can change which rows match")
        if len(parts) > 1 or more:
            notes.append("each part is counted as if the others had not run")
        if more:
            notes.append("other effects of the request are not counted")
        if len(set(statements)) < len(statements):
            notes.append("statements that run several times are counted once")
        return RowCount(tuple(parts), datetime.now(UTC), tuple(notes))

    def _plan_counts(
        self, statements: Sequence[HeldStatement], *, unsettled: bool
    ) -> tuple[list[tuple[CountPlan, HeldStatement]], bool]:
        """Return the plans, and True if any effect is not counted."""
        parts: list[tuple[CountPlan, HeldStatement]] = []
        more, stirred = False, None
        for statement in dict.fromkeys(statements):
            plans = self._plans(statement.text)
            why = _UNSETTLED if unsettled else _STIRRED if stirred is not None and stirred < statement.exchange else ""
            parts += [(replace(plan, why_not=plan.why_not or why), statement) for plan in plans.parts]
            more |= plans.more
            if plans.stirs and stirred is None:
                stirred = statement.exchange
        if len(parts) > MOST_PARTS:  # otherwise the parts that are left out would count as zero
            rest = CountPlan("the rest", ("", ""), f"there are more than {MOST_PARTS} parts that change rows")
            parts[MOST_PARTS:] = [(rest, HeldStatement(""))]
        return parts, more

    async def _count_parts(
        self, permit: Permit, start: Start, plans: Sequence[tuple[CountPlan, HeldStatement]], standing: TransactionState
    ) -> list[PartCount]:
        counted: dict[int, PartCount] = {}
        left = [number for number, (plan, _) in enumerate(plans) if not plan.why_not]
        if left:
            why = await self._count_open(permit, start, plans, left, counted, standing)
        return [
            counted.get(number) or _make_uncounted_part(plan, plan.why_not or why)
            for number, (plan, _) in enumerate(plans)
        ]

    async def _count_open(
        self,
        permit: Permit,
        start: Start,
        plans: Sequence[tuple[CountPlan, HeldStatement]],
        left: Sequence[int],
        counted: dict[int, PartCount],
        standing: TransactionState,
    ) -> str:
        """Add results to `counted`. Return the reason why others are missing."""
        settings = {name: value for name, value in start.parameters.items() if name.lower() in _KEPT}
        parameters = {**settings, "application_name": "postern row count", "client_encoding": "UTF8"}

        async def count(target: Target) -> None:
            counter = Counter(target, self._limits, standing)
            for number in left:
                plan, statement = plans[number]
                counted[number] = await counter.count(plan, statement)

        return await self._turns.run(permit, Start(start.database, parameters), count)


class Counter:
    """Counts on one target connection that was opened for it; one transaction per part."""

    def __init__(self, target: Target, limits: CountLimits, standing: TransactionState) -> None:
        self._target = target
        self._in_transaction = standing.in_transaction
        self._told = standing.reported or {}
        self._limits = limits

    async def count(self, plan: CountPlan, statement: HeldStatement) -> PartCount:
        """Count one part. Raises the errors of reading from the target."""
        try:
            values = _values(plan, statement)
            counting.same_user(self._told, self._target.parameters)
            await self._rows(PostgresQuery(counting.BEGIN))
            part = await self._within(plan, values, _types(plan, statement))
        except Uncountable as error:
            part = _make_uncounted_part(plan, error.message)
        # Only for Uncountable: after another error the connection closes, which rolls back.
        with contextlib.suppress(Uncountable):
            await self._rows(PostgresQuery(counting.ROLLBACK))
        return part

    async def _within(self, plan: CountPlan, values: Sequence[str | None], types: Sequence[int]) -> PartCount:
        await self._rows(counting.settings(self._limits.statement, self._limits.lock, self._told))
        first = await self._rows(counting.tables(plan))
        tables = counting.found_tables(plan, first)
        lock = counting.lock(tables, first)
        if lock is not None:
            await self._rows(lock)
        if counting.found_tables(plan, await self._rows(counting.tables(plan))) != tables:
            raise Uncountable("its tables were replaced meanwhile")
        counting.calm(await self._rows(counting.facts(plan, tables, types, in_transaction=self._in_transaction)))
        schemas = {name: schema for name, (_, schema) in tables.items()}
        notes = counting.read_notes(await self._rows(counting.notes(plan, tables[plan.target][0])))
        (((count,),)) = await self._rows(PostgresQuery(plan.query(schemas), values, types))
        rows = int(count or 0)
        table = f"{schemas[plan.target]}.{plan.target[1]}"
        return PartCount(plan.action, table, min(rows, MOST_ROWS), rows > MOST_ROWS, notes=notes)

    async def _rows(self, query: PostgresQuery) -> list[Row]:
        """Return the rows. Raises Uncountable when the target refuses the query."""
        rows: list[Row] = []
        async for row in query_rows(self._target.stream, query):
            if len(rows) >= _ROWS:
                raise Unavailable("the target returned more rows than expected")
            rows.append(row)
        if query.error is not None:
            raise Uncountable(counting.why(query.error.code))
        return rows


def _values(plan: CountPlan, statement: HeldStatement) -> list[str | None]:
    """Return the bind values in the order of the query. Raises Uncountable if one is missing."""
    if plan.values and statement.truncated:
        raise Uncountable("a bind value is too large")
    values: list[str | None] = []
    for number in plan.values:
        if not 0 < number <= len(statement.values):
            raise Uncountable(f"the bind value ${number} is missing")
        if number in statement.unsure:
            raise Uncountable(f"the type of the bind value ${number} is unknown")
        value = statement.values[number - 1]
        try:
            text = None if value is None else value.decode(_codec(statement, value))
        except UnicodeDecodeError:
            raise Uncountable(f"the bind value ${number} is not text") from None
        plan.check(text or "")
        values.append(text)
    return values


def _codec(statement: HeldStatement, value: bytes) -> str:
    """Return the codec of a value. ASCII bytes are the same in every encoding that rules accept."""
    return "ascii" if value.isascii() else statement.encoding if statement.encoding != SQL_ASCII else "ascii"


def _types(plan: CountPlan, statement: HeldStatement) -> list[int]:
    return [statement.types[number - 1] if number <= len(statement.types) else 0 for number in plan.values]


def _make_uncounted_part(plan: CountPlan, why: str) -> PartCount:
    return PartCount(plan.action, ".".join(filter(None, plan.target)), why_not=why)
