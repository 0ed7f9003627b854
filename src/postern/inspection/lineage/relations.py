"""Statements in relational terms, as the front end of each dialect writes them down for the one resolver.

Only what lineage asks is kept: of an expression, the columns, rows, queries and variables in it, and whether something
in it cannot be understood. Names have the form that the dialect compares them in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from postern.inspection.lineage.scope import NOTHING, Sources


@dataclass(frozen=True, slots=True)
class KnownValue:
    """A value whose sources are known without looking at names; None where they cannot be known."""

    sources: Sources


CONSTANT: Final = KnownValue(NOTHING)
UNKNOWABLE: Final = KnownValue(None)


@dataclass(frozen=True, slots=True)
class ColumnName:
    """`is_call`: where no column has this name it calls a function that reads nothing."""

    name: str
    table: str = ""
    schema: str = ""
    is_call: bool = False


@dataclass(frozen=True, slots=True)
class WholeRow:
    """All columns of what stands in FROM under that name; without one, of all that stands there."""

    table: str = ""
    schema: str = ""


@dataclass(frozen=True, slots=True)
class Word:
    """A unit, a character set, an alias: unless a column is called so."""

    name: str


@dataclass(frozen=True, slots=True)
class Made:
    """Made of all its parts: calls, operators, casts."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Counted:
    """An argument of COUNT: counting a table's column shows no more than counting the rows of a query does."""

    column: ColumnName


@dataclass(frozen=True, slots=True)
class RowField:
    """The column of that name, where `row` means a whole row of what stands in FROM; else `otherwise`."""

    row: ColumnName | WholeRow
    name: str
    otherwise: Expression


@dataclass(frozen=True, slots=True)
class InnerQuery:
    """A query inside of an expression. `exists`: only that it gives rows is told."""

    query: Query
    exists: bool = False


@dataclass(frozen=True, slots=True)
class VariableValue:
    name: str


@dataclass(frozen=True, slots=True)
class Assigned:
    """A value that is also put into variables."""

    names: tuple[str, ...]
    value: Expression


Expression = (
    KnownValue | ColumnName | WholeRow | Word | Made | Counted | RowField | InnerQuery | VariableValue | Assigned
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """One column of a list behind SELECT or RETURNING. Its `name` is None where it may be any; `column` is the column
    that it passes through, where `value` says more than that."""

    name: str | None
    value: Expression
    column: ColumnName | None = None


@dataclass(frozen=True, slots=True)
class Star:
    """`*`, or `table.*`."""

    table: str = ""
    schema: str = ""


@dataclass(frozen=True, slots=True)
class RowStar:
    """`(row).*`: its columns, where `row` means a row of what stands in FROM; else any number made of `otherwise`."""

    row: ColumnName | WholeRow | None
    otherwise: Expression


Targets = Sequence[OutputColumn | Star | RowStar]

Conditions = Callable[[bool], Sequence[Expression]]
"""What decides which rows a query gives, in which order: written down only when asked for, as it mostly is in no
answer. Given False, only those that put values into variables."""


@dataclass(frozen=True, slots=True)
class AliasList:
    name: str
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TableName:
    name: str
    schema: str = ""
    alias: AliasList | None = None


@dataclass(frozen=True, slots=True)
class DerivedTable:
    query: Query
    alias: AliasList | None = None
    lateral: bool = False


@dataclass(frozen=True, slots=True)
class JoinedTables:
    """`swapped`: what is merged comes in the order of the right side. With an alias only that can be spoken of."""

    left: FromItem
    right: FromItem
    using: tuple[str, ...] = ()
    natural: bool = False
    swapped: bool = False
    on: Callable[[], Expression] | None = None
    alias: AliasList | None = None
    using_alias: str = ""


@dataclass(frozen=True, slots=True)
class FromList:
    """What stands beside each other, as a comma does it."""

    parts: tuple[FromItem, ...] = ()


@dataclass(frozen=True, slots=True)
class RowsOf:
    """The rows that a value gives, with these columns; None where they may be any. Unless `certain`, they may be others
    where the value cannot be known."""

    value: Expression
    names: tuple[str, ...] | None
    certain: bool = False


@dataclass(frozen=True, slots=True)
class FunctionRows:
    """Functions in FROM, side by side. `columns` are those of a list of definitions behind them."""

    name: str
    values: tuple[RowsOf, ...]
    columns: tuple[str, ...] = ()
    ordinality: bool = False
    alias: AliasList | None = None


@dataclass(frozen=True, slots=True)
class UnknownRows:
    """What is not understood stands there."""


FromItem = TableName | DerivedTable | JoinedTables | FromList | FunctionRows | UnknownRows


@dataclass(frozen=True, slots=True)
class CommonTable:
    """`added` are columns behind its own: their name, and whether they hold what the others hold."""

    name: str
    query: Query
    columns: tuple[str, ...] = ()
    added: tuple[tuple[str, bool], ...] = ()


@dataclass(frozen=True, slots=True)
class With:
    tables: tuple[CommonTable, ...]
    recursive: bool = False


@dataclass(frozen=True, slots=True)
class Select:
    targets: Targets
    sources: tuple[FromItem, ...] = ()
    conditions: Conditions | None = None
    ctes: With | None = None


@dataclass(frozen=True, slots=True)
class SetOperation:
    left: Query
    right: Query
    conditions: Conditions | None = None
    ctes: With | None = None


@dataclass(frozen=True, slots=True)
class ValueRows:
    """VALUES. `prefix` is what the names of its columns begin with, before their numbers; without one they may be
    any."""

    rows: tuple[Targets, ...]
    prefix: str = ""
    ctes: With | None = None


@dataclass(frozen=True, slots=True)
class NestedQuery:
    """A query in brackets, with clauses behind them."""

    query: Query
    conditions: Conditions | None = None
    ctes: With | None = None


@dataclass(frozen=True, slots=True)
class ChangeStatement:
    """INSERT, UPDATE, DELETE and MERGE, as far as RETURNING shows.

    `columns` are written from `query` in that order, or all of the table's where there are none. `values` are lists of
    columns and values as MERGE inserts them. `assigned` are columns and what is written into them; "" stands for any.
    `beside` is what stands beside the table, and may speak of it if `beside_sees`. `upsert`: what was to be inserted
    can be spoken of as EXCLUDED. `before_after` are names for the row before and after the change. `is_loose`: what is
    written, also by the query, may be in any column. `effects` are only read for what they put into variables.
    """

    table: TableName | None
    query: Query = None
    has_query: bool = False
    is_loose: bool = False
    columns: tuple[str, ...] = ()
    values: tuple[tuple[tuple[str, ...], tuple[Expression, ...]], ...] = ()
    assigned: tuple[tuple[str, Expression], ...] = ()
    effects: tuple[Expression, ...] = ()
    upsert: bool = False
    beside: tuple[FromItem, ...] = ()
    beside_sees: bool = True
    table_last: bool = False
    returning: Targets = ()
    before_after: tuple[str, ...] = ()
    ctes: With | None = None


Query = Select | SetOperation | ValueRows | NestedQuery | ChangeStatement | None
"""None where it is not understood."""
