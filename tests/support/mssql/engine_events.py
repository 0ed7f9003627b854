"""What running T-SQL brings: results, counts, messages and changes of the session, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.support.mssql.sqlserver_errors import SqlError
from tests.support.mssql.sqlserver_types import SqlColumn
from tests.support.mssql.sqlserver_values import SqlValue

SELECT, INSERT, DELETE, UPDATE = 0xC1, 0xC3, 0xC4, 0xC5


@dataclass(frozen=True, slots=True)
class SqlResult:
    """The columns of a result; its rows follow."""

    columns: Sequence[SqlColumn]


@dataclass(frozen=True, slots=True)
class SqlRow:
    values: Sequence[SqlValue]


@dataclass(frozen=True, slots=True)
class StatementRan:
    """The end of a statement. `count` of rows, None where it counts none. `silent`: no token. `command` is a number."""

    count: int | None = None
    failed: bool = False
    silent: bool = False
    command: int = SELECT


@dataclass(frozen=True, slots=True)
class SqlMessage:
    """An error, or an information of a severity up to 10."""

    error: SqlError


@dataclass(frozen=True, slots=True)
class DatabaseChanged:
    new: str
    old: str


@dataclass(frozen=True, slots=True)
class TransactionStarted:
    pass


@dataclass(frozen=True, slots=True)
class TransactionFinished:
    committed: bool


@dataclass(frozen=True, slots=True)
class ProcedureReturned:
    status: int


SqlEvent = (
    SqlResult
    | SqlRow
    | StatementRan
    | SqlMessage
    | DatabaseChanged
    | TransactionStarted
    | TransactionFinished
    | ProcedureReturned
)
