"""The estimate of the rows that a held statement would affect, counted on the target before the review (decision 0183).

It is counted on a separate connection, which the session never sees, in a transaction that is rolled back. The
session's own transaction is not touched, and nothing waits for the count.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from postern.domain.rules.row_count import CountPlans, Named, PartCount, Uncountable
from postern.errors import Unavailable
from postern.gateway.rules.row_count_estimates import CountLimits, CountMethod, RowCountEstimates
from postern.gateway.rules.row_counts import HeldStatement
from postern.gateway.target_question import query_rows
from postern.protocols.gateway_queries import Row
from postern.protocols.mssql.dialect.tsql_count_plans import TsqlCountPlan, tsql_count_plans
from postern.protocols.mssql.dialect.tsql_settings import UNKNOWN, read_settings
from postern.protocols.mssql.dialect.tsql_side_effect_free import FoundTable
from postern.protocols.mssql.login.mssql_login7 import own_options
from postern.protocols.mssql.queries import mssql_row_counting as counting
from postern.protocols.mssql.queries.mssql_query import MssqlExchange
from postern.protocols.wire_base import TransactionState
from postern.relay.relay_target import Dialer, Start, Target

# Options of the client's login on which a text's meaning depends.
_KEPT: Final = frozenset({"flags", "language", "locale", "time_zone"})
_ROWS: Final = 10_000  # of an answer about the catalogue
_STOPPING: Final = 2.0  # seconds for the acknowledgement of an attention

FoundTables = dict[Named, tuple[str, FoundTable, Row]]


def mssql_row_counts(dialer: Dialer, limits: CountLimits | None = None) -> RowCountEstimates[TsqlCountPlan]:
    """Return the counter of a worker."""
    limits = limits or CountLimits()
    return RowCountEstimates(dialer, MssqlCounting(limits), limits)


class MssqlCounting(CountMethod[TsqlCountPlan]):
    """Implements the interface of a protocol to row counts."""

    slow = counting.SLOW

    def __init__(self, limits: CountLimits) -> None:
        self._limits = limits

    def plans(self, statement: HeldStatement) -> CountPlans[TsqlCountPlan]:
        return tsql_count_plans(statement.text)

    def start(self, start: Start, standing: TransactionState) -> Start:
        options = {name: value for name, value in start.parameters.items() if name in _KEPT}
        database = (standing.reported or {}).get("database") or start.database
        return Start(database, {**own_options("postern row count"), **options})

    def counter(self, target: Target, start: Start, standing: TransactionState) -> MssqlPartCounter:
        return MssqlPartCounter(target, self._limits, standing)


class MssqlPartCounter:
    """Counts on one target connection that was opened for it."""

    def __init__(self, target: Target, limits: CountLimits, standing: TransactionState) -> None:
        self._target = target
        self._limits = limits
        self._standing = standing
        self._has_settings = False

    async def count(self, plan: TsqlCountPlan, statement: HeldStatement) -> PartCount:
        """Count one part. Raises the errors of reading from the target."""
        try:
            return await self._count(plan, counting.bind_values(plan, statement.bound))
        except Uncountable as error:
            return plan.make_failure(error.message)

    async def _count(self, plan: TsqlCountPlan, values: dict[str, tuple[str, bytes]]) -> PartCount:
        await self._set_up()
        schema = counting.check_session(await self._catalogue(counting.session()), plan)
        for query in counting.shadows(plan):
            if await self._catalogue(query):
                raise Uncountable("a user has created a function with the name of one of the server's")
        found = await self._find_tables(plan, schema)
        tables = {name: table for name, (_, table, _) in found.items()}
        number, target, _ = found[plan.target]
        full_name = f"{target.schema}.{target.name}"
        notes = counting.read_notes(plan, full_name, await self._catalogue(counting.notes(number)))
        (((rows,),)) = await self._rows(counting.count(plan, tables, values))
        if await self._find_tables(plan, schema) != found:
            raise Uncountable("its tables were changed meanwhile")
        return plan.make_result(int(rows or 0), full_name, notes)

    async def _set_up(self) -> None:
        """Give the connection the settings of the session. Raises Uncountable if they are not known."""
        standing = self._standing
        if (standing.reported or {}).get("switched"):
            raise Uncountable("the session may have switched to another user, so other tables can be meant")
        if standing.texts is None:
            raise Uncountable(UNKNOWN)
        settings = read_settings(standing.texts)
        if not self._has_settings:
            await self._rows(counting.settings(self._limits.lock, settings))
            self._has_settings = True

    async def _find_tables(self, plan: TsqlCountPlan, default_schema: str) -> FoundTables:
        """Return the tables of a plan, if all of them can be counted. Raises Uncountable."""
        found: FoundTables = {}
        for name in plan.tables:
            rows = await self._catalogue(counting.tables(name[1]))
            number, table, row = counting.found_table(name, rows, default_schema)
            columns = counting.used_columns(plan, await self._catalogue(counting.columns(number)))
            counting.check_facts(table.name, await self._catalogue(counting.facts(number)))
            found[name] = (number, replace(table, columns=columns), row)
        return found

    async def _catalogue(self, query: MssqlExchange) -> list[Row]:
        return await self._rows(query, is_catalogue=True)

    async def _rows(self, query: MssqlExchange, *, is_catalogue: bool = False) -> list[Row]:
        """Return the rows. Raises Uncountable when the target rejects the query, or takes too long."""
        rows: list[Row] = []
        try:
            async with asyncio.timeout(self._limits.statement):
                await self._collect(query, rows)
        except TimeoutError:
            await self._stop(query)
            raise Uncountable(counting.SLOW) from None
        except asyncio.CancelledError:
            self._target.stream.write(query.cancel())  # otherwise the target would continue until its next output
            raise
        if query.error is not None:
            raise Uncountable(counting.why(query.error.code, is_catalogue=is_catalogue))
        return rows

    async def _collect(self, query: MssqlExchange, rows: list[Row]) -> None:
        async for row in query_rows(self._target.stream, query):
            if len(rows) >= _ROWS:
                raise Unavailable("the target returned more rows than expected")
            rows.append(row)

    async def _stop(self, query: MssqlExchange) -> None:
        """Stop a query. Raises Unavailable if the target does not acknowledge that."""
        stream = self._target.stream
        stream.write(query.cancel())
        try:
            async with asyncio.timeout(_STOPPING):
                while not query.finished:
                    query.feed(await stream.read(query.needs))
                await self._collect(counting.roll_back(query.transaction), [])
        except TimeoutError:
            raise Unavailable("the target did not stop a query") from None
