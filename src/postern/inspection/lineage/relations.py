"""Relational form of statements, into which the front end of each dialect translates them for the resolver.

It contains only what lineage needs. Of an expression, these are its columns, rows, queries and variables, and whether
something in it is not understood. Names are in the form in which the dialect compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from postern.inspection.lineage.scope import NOTHING, Sources


@dataclass(frozen=True, slots=True)
class KnownValue:
    """Value whose sources are known without names; None if they cannot be known."""

    sources: Sources


CONSTANT: Final = KnownValue(NOTHING)
UNKNOWABLE: Final = KnownValue(None)


@dataclass(frozen=True, slots=True)
class ColumnName:
    """Column name. `is_call`: if no such column exists, it calls a function that reads nothing."""

    name: str
    table: str = ""
    schema: str = ""
    is_call: bool = False


@dataclass(frozen=True, slots=True)
class WholeRow:
    """All columns of an element of FROM by its name; of all elements, if it has no name."""

    table: str = ""
    schema: str = ""


@dataclass(frozen=True, slots=True)
class Word:
    """Unit, character set or alias, unless a column has this name."""

    name: str


@dataclass(frozen=True, slots=True)
class Made:
    """Value computed from all its parts: calls, operators, casts."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Counted:
    """Argument of COUNT. Counting a column reveals no more than counting the rows of a query."""

    column: ColumnName


@dataclass(frozen=True, slots=True)
class RowField:
    """Column `name` of a row, if `row` means a whole row of an element of FROM; else `otherwise`."""

    row: ColumnName | WholeRow
    name: str
    otherwise: Expression


@dataclass(frozen=True, slots=True)
class InnerQuery:
    """Query inside of an expression. `exists`: only whether it has rows is used."""

    query: Query
    exists: bool = False


@dataclass(frozen=True, slots=True)
class VariableValue:
    name: str


@dataclass(frozen=True, slots=True)
class Assigned:
    """Value that is also assigned to variables."""

    names: tuple[str, ...]
    value: Expression


Expression = (
    KnownValue | ColumnName | WholeRow | Word | Made | Counted | RowField | InnerQuery | VariableValue | Assigned
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """Column of a list after SELECT or RETURNING.

    `name` is None if unknown. `column` is the column that it passes through, if `value` contains more than that.
    """

    name: str | None
    value: Expression
    column: ColumnName | None = None


@dataclass(frozen=True, slots=True)
class Star:
    """`*` or `table.*`."""

    table: str = ""
    schema: str = ""


@dataclass(frozen=True, slots=True)
class RowStar:
    """`(row).*`: the columns of `row`, if it means a row of an element of FROM; else any number of columns from
    `otherwise`.
    """

    row: ColumnName | WholeRow | None
    otherwise: Expression


Targets = Sequence[OutputColumn | Star | RowStar]

Conditions = Callable[[bool], Sequence[Expression]]
"""Conditions that decide the rows and order of a query. They are translated on demand only, because they are mostly not
in the answer. With False, only those are returned that assign variables."""


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
    """Join. `swapped`: merged columns are in the order of the right side. With an alias, only the alias can be used."""

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
    """Elements of FROM that are separated by commas."""

    parts: tuple[FromItem, ...] = ()


@dataclass(frozen=True, slots=True)
class RowsOf:
    """Rows of a value, with these columns; None if unknown. Unless `certain`, an unknown value can have different
    columns.
    """

    value: Expression
    names: tuple[str, ...] | None
    certain: bool = False


@dataclass(frozen=True, slots=True)
class FunctionRows:
    """Functions in FROM, side by side. `columns` are those of a column definition list after them."""

    name: str
    values: tuple[RowsOf, ...]
    columns: tuple[str, ...] = ()
    ordinality: bool = False
    alias: AliasList | None = None


@dataclass(frozen=True, slots=True)
class ReshapedRows:
    """Rows of an element of FROM with other columns, as PIVOT and UNPIVOT make them: without those that it has `used`,
    and with those that it has `added`, which are made of columns of the element."""

    source: FromItem
    used: frozenset[str]
    added: Targets
    alias: AliasList | None = None


@dataclass(frozen=True, slots=True)
class UnknownRows:
    """Element of FROM that is not understood."""


FromItem = TableName | DerivedTable | JoinedTables | FromList | FunctionRows | ReshapedRows | UnknownRows


@dataclass(frozen=True, slots=True)
class CommonTable:
    """CTE. `added` are additional columns: their name, and whether they contain the values of the others."""

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
    """VALUES. Column names start with `prefix`, followed by their number; without a prefix they are unknown."""

    rows: tuple[Targets, ...]
    prefix: str = ""
    ctes: With | None = None


@dataclass(frozen=True, slots=True)
class NestedQuery:
    """Query in parentheses, with clauses after them."""

    query: Query
    conditions: Conditions | None = None
    ctes: With | None = None


@dataclass(frozen=True, slots=True)
class ChangeStatement:
    """INSERT, UPDATE, DELETE or MERGE, as far as RETURNING can show.

    - `columns`: target columns of `query`, in order; all columns of the table if empty.
    - `values`: lists of columns and values, as MERGE inserts them.
    - `assigned`: columns and the values written into them; "" means any column.
    - `beside`: elements of FROM next to the table; they can use its columns if `beside_sees`.
    - `upsert`: the rejected row can be used as EXCLUDED.
    - `before_after`: names for the row before and after the change.
    - `is_loose`: all written values, also of the query, can be in any column.
    - `effects`: expressions that only matter for the variables they assign.
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
"""None if it is not understood."""
