"""The estimate of the rows that a held statement would affect, counted on the target before the review (decision 0046).

It is counted on a separate connection, which the session never sees, in a read-only transaction that is rolled back.
The session's own transaction is not touched, and nothing waits for the count.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final

from postern.domain.rules.row_count import CountPlans, PartCount, Uncountable
from postern.errors import Unavailable
from postern.gateway.rules.row_count_estimates import CountLimits, CountMethod, RowCountEstimates
from postern.gateway.rules.row_counts import HeldStatement
from postern.gateway.target_question import query_rows
from postern.protocols.gateway_queries import Row
from postern.protocols.postgres.dialect.postgres_count_plans import PostgresCounter
from postern.protocols.postgres.queries import postgres_row_counting as counting
from postern.protocols.postgres.queries.postgres_query import PostgresQuery
from postern.protocols.postgres.queries.postgres_row_counting import PostgresCountPlan
from postern.protocols.refusal_texts import SQL_ASCII
from postern.protocols.wire_base import TransactionState
from postern.relay.relay_target import Dialer, Start, Target

# Settings on which a text's meaning depends. The client's other start parameters do not apply to the count.
_KEPT: Final = frozenset({"datestyle", "intervalstyle", "options", "role", "timezone"})
_ROWS: Final = 10_000  # of an answer about the catalogue


def postgres_row_counts(dialer: Dialer, limits: CountLimits | None = None) -> RowCountEstimates[PostgresCountPlan]:
    """Return the counter of a worker."""
    limits = limits or CountLimits()
    return RowCountEstimates(dialer, PostgresCounting(limits), limits)


class PostgresCounting(CountMethod[PostgresCountPlan]):
    """Implements the interface of a protocol to row counts."""

    slow = counting.why("57014")

    def __init__(self, limits: CountLimits) -> None:
        self._limits = limits
        self._counter = PostgresCounter()

    def plans(self, statement: HeldStatement) -> CountPlans[PostgresCountPlan]:
        return self._counter.plans(statement.text)

    def start(self, start: Start, standing: TransactionState) -> Start:
        settings = {name: value for name, value in start.parameters.items() if name.lower() in _KEPT}
        parameters = {**settings, "application_name": "postern row count", "client_encoding": "UTF8"}
        return Start(start.database, parameters)

    def counter(self, target: Target, start: Start, standing: TransactionState) -> PostgresPartCounter:
        return PostgresPartCounter(target, self._limits, standing)


class PostgresPartCounter:
    """Counts on one target connection that was opened for it; one transaction per part."""

    def __init__(self, target: Target, limits: CountLimits, standing: TransactionState) -> None:
        self._target = target
        self._in_transaction = standing.in_transaction
        self._told = standing.reported or {}
        self._limits = limits

    async def count(self, plan: PostgresCountPlan, statement: HeldStatement) -> PartCount:
        """Count one part. Raises the errors of reading from the target."""
        try:
            values = _values(plan, statement)
            counting.same_user(self._told, self._target.parameters)
            await self._rows(PostgresQuery(counting.BEGIN))
            part = await self._within(plan, values, _types(plan, statement))
        except Uncountable as error:
            part = plan.make_failure(error.message)
        # Only for Uncountable: after another error the connection closes, which rolls back.
        with contextlib.suppress(Uncountable):
            await self._rows(PostgresQuery(counting.ROLLBACK))
        return part

    async def _within(self, plan: PostgresCountPlan, values: Sequence[str | None], types: Sequence[int]) -> PartCount:
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
        return plan.make_result(int(count or 0), f"{schemas[plan.target]}.{plan.target[1]}", notes)

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


def _values(plan: PostgresCountPlan, statement: HeldStatement) -> list[str | None]:
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


def _types(plan: PostgresCountPlan, statement: HeldStatement) -> list[int]:
    return [statement.types[number - 1] if number <= len(statement.types) else 0 for number in plan.values]
