"""EXEC, and the system procedures that drivers and people call by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sqlglot import exp
from tests.support.mssql import sqlserver_types as t
from tests.support.mssql.engine_events import ProcedureReturned, SqlEvent, SqlResult, SqlRow, StatementRan
from tests.support.mssql.engine_session import SqlVariable
from tests.support.mssql.engine_translation import parse
from tests.support.mssql.sqlserver_errors import SqlError, syntax_error
from tests.support.mssql.sqlserver_types import SqlColumn
from tests.support.mssql.sqlserver_values import SqlValue, as_text

if TYPE_CHECKING:
    from tests.support.mssql.engine_runner import BatchRunner


@dataclass
class Arguments:
    """Arguments by position or name. `outputs` are the names that the caller wants back."""

    positional: list[SqlVariable] = field(default_factory=list)
    named: dict[str, SqlVariable] = field(default_factory=dict)
    outputs: set[str] = field(default_factory=set)
    output_places: set[int] = field(default_factory=set)

    def add(self, name: str, variable: SqlVariable, output: bool) -> None:
        if name:
            self.named[name.lower()] = variable
            if output:
                self.outputs.add(name.lower())
            return
        if output:
            self.output_places.add(len(self.positional))
        self.positional.append(variable)

    def by_name(self, names: Sequence[str]) -> dict[str, SqlVariable]:
        """Return all of them by the names of a procedure's parameters. Raises SqlError for one too many."""
        if len(self.positional) > len(names):
            raise SqlError(8144, "Procedure or function has too many arguments specified.", state=2)
        found = dict(zip(names, self.positional, strict=False))
        self.outputs |= {names[place] for place in self.output_places}
        for name, variable in self.named.items():
            if name not in names:
                raise SqlError(8145, f"@{name} is not a parameter for procedure.")
            found[name] = variable
        return found

    def texts(self, *names: str) -> list[str]:
        """Return the values of these parameters as texts, empty where there is none."""
        found = self.by_name(names)
        return [as_text(found[name].value) if name in found else "" for name in names]


@dataclass(frozen=True)
class ProcedureStatement:
    """EXEC as it is written. `dynamic` is the expression of EXEC (…)."""

    name: str = ""
    arguments: Sequence[tuple[str, str, bool]] = ()
    result: str = ""
    dynamic: str | None = None


SystemProcedure = Callable[["BatchRunner", Arguments], Iterator[SqlEvent]]
_CALL: Final = re.compile(r"EXEC(?:UTE)?\s+(?:@(\w+)\s*=\s*)?((?:\[[^\]]+\]|[\w.])+)\s*(.*)", re.IGNORECASE | re.DOTALL)
_DYNAMIC: Final = re.compile(r"EXEC(?:UTE)?\s*\((.*)\)\s*(?:AS\s+\w+.*)?", re.IGNORECASE | re.DOTALL)
_ARGUMENT: Final = re.compile(r"\s*(?:@(\w+)\s*=)?\s*(.+?)(\s+OUT(?:PUT)?)?\s*", re.IGNORECASE | re.DOTALL)


def read_call(text: str) -> ProcedureStatement:
    """Read EXEC. Raises SqlError."""
    from tests.support.mssql.engine_runner import split_commas

    text = text.strip().rstrip(";")
    if matched := _DYNAMIC.fullmatch(text):
        return ProcedureStatement(dynamic=matched.group(1))
    found = _CALL.fullmatch(text)
    if found is None:
        raise syntax_error("EXEC")
    result, name, rest = found.groups()
    arguments = []
    for part in split_commas(rest) if rest.strip() else ():
        argument = _ARGUMENT.fullmatch(part)
        if argument is None:
            raise syntax_error(part)
        parameter, value, output = argument.groups()
        if re.fullmatch(r"[A-Za-z_]\w*", value) and value.upper() != "NULL":
            value = f"'{value}'"  # a bare word is a text here
        arguments.append((parameter or "", value, output is not None))
    return ProcedureStatement(name.replace("[", "").replace("]", ""), arguments, result or "")


def system_procedure(name: str) -> SystemProcedure | None:
    return _SYSTEM.get(name.lower().split(".")[-1])


def _result(columns: Sequence[SqlColumn], rows: Sequence[Sequence[SqlValue]]) -> Iterator[SqlEvent]:
    yield SqlResult(columns)
    for row in rows:
        yield SqlRow(row)
    yield StatementRan(len(rows))


def _names(*names: str) -> list[SqlColumn]:
    return [SqlColumn(name, t.SYSNAME) for name in names]


def execute_sql(runner: BatchRunner, arguments: Arguments) -> Iterator[SqlEvent]:
    """sp_executesql inside T-SQL, and by RPC."""
    from tests.support.mssql.engine_runner import BatchRunner as Runner
    from tests.support.mssql.engine_runner import declared_parameters, variables_of

    given = list(arguments.positional)
    named = dict(arguments.named)
    statement = as_text((named.pop("stmt", None) or named.pop("statement", None) or given.pop(0)).value)
    text = named.pop("params", None) or (given.pop(0) if given else None)
    declared = declared_parameters(as_text(text.value)) if text is not None else []
    sources: list[SqlVariable] = []
    for place, (name, _) in enumerate(declared):
        source = named.get(name) or (given[place] if place < len(given) else None)
        if source is None:
            raise SqlError(8178, f"The parameterized query expects the parameter '@{name}', which was not supplied.")
        sources.append(source)
    variables = variables_of(declared, [source.value for source in sources])
    yield from Runner(runner.session, runner.level % 1000 + 1).run(statement, variables)
    for (name, _), source in zip(declared, sources, strict=True):
        source.value = variables[name].value
    yield ProcedureReturned(0)


def _databases(runner: BatchRunner, arguments: Arguments) -> Iterator[SqlEvent]:
    columns = [*_names("DATABASE_NAME"), SqlColumn("DATABASE_SIZE", t.INT), *_names("REMARKS")]
    yield from _result(columns, [[name, 8192, None] for name in runner.session.catalogue.databases()])


def _tables(runner: BatchRunner, arguments: Arguments) -> Iterator[SqlEvent]:
    session = runner.session
    rows = [
        [session.database, found.schema, found.name, "VIEW" if found.is_view else "TABLE", None]
        for found in session.catalogue.objects(session.database)
    ]
    yield from _result(_names("TABLE_QUALIFIER", "TABLE_OWNER", "TABLE_NAME", "TABLE_TYPE", "REMARKS"), rows)


_COLUMN_NAMES: Final = (
    *("TABLE_QUALIFIER", "TABLE_OWNER", "TABLE_NAME", "COLUMN_NAME", "DATA_TYPE", "TYPE_NAME", "PRECISION", "LENGTH"),
    *("SCALE", "RADIX", "NULLABLE", "REMARKS", "COLUMN_DEF", "SQL_DATA_TYPE", "SQL_DATETIME_SUB", "CHAR_OCTET_LENGTH"),
    *("ORDINAL_POSITION", "IS_NULLABLE"),
)
_MORE_COLUMN_NAMES: Final = (
    *("SS_IS_SPARSE", "SS_IS_COLUMN_SET", "SS_IS_COMPUTED", "SS_IS_IDENTITY", "SS_UDT_CATALOG_NAME"),
    *("SS_UDT_SCHEMA_NAME", "SS_UDT_ASSEMBLY_TYPE_NAME", "SS_XML_SCHEMACOLLECTION_CATALOG_NAME"),
    *("SS_XML_SCHEMACOLLECTION_SCHEMA_NAME", "SS_XML_SCHEMACOLLECTION_NAME"),
)
_INTEGERS: Final = frozenset(
    {
        *("DATA_TYPE", "PRECISION", "LENGTH", "SCALE", "RADIX", "NULLABLE", "SQL_DATA_TYPE", "SQL_DATETIME_SUB"),
        *("CHAR_OCTET_LENGTH", "ORDINAL_POSITION", "SS_IS_SPARSE", "SS_IS_COLUMN_SET", "SS_IS_COMPUTED"),
        *("SS_IS_IDENTITY", "SS_DATA_TYPE"),
    }
)
_ODBC_TYPES: Final = {
    "int": 4,
    "bigint": -5,
    "smallint": 5,
    "tinyint": -6,
    "bit": -7,
    "float": 6,
    "real": 7,
    "decimal": 3,
    "numeric": 2,
    "money": 3,
    "char": 1,
    "varchar": 12,
    "nchar": -8,
    "nvarchar": -9,
    "binary": -2,
    "varbinary": -3,
    "date": -9,
    "datetime": 11,
    "datetime2": 93,
    "uniqueidentifier": -11,
    "xml": -152,
}


def _columns_of(more: Sequence[str]) -> SystemProcedure:
    """sp_columns, and sp_columns_100 with more columns."""
    names = [*_COLUMN_NAMES, *more, "SS_DATA_TYPE"]
    described = [SqlColumn(name, t.INT if name in _INTEGERS else t.SYSNAME) for name in names]

    def work(runner: BatchRunner, arguments: Arguments) -> Iterator[SqlEvent]:
        asked = ("table_name", "table_owner", "table_qualifier", "column_name", "odbcver", "fusepattern", "namescope")
        (table, *_) = arguments.texts(*asked)
        session = runner.session
        rows: list[Sequence[SqlValue]] = []
        for found in session.catalogue.objects(session.database):
            if found.name.lower() != table.lower().replace("\\", ""):
                continue
            for place, column in enumerate(session.catalogue.columns(session.database, found.stored), 1):
                kind = column.type
                number = _ODBC_TYPES.get(kind.name, -9)
                nullable = "YES" if column.nullable else "NO"
                start: list[SqlValue] = [
                    session.database,
                    found.schema,
                    found.name,
                    column.name,
                    number,
                    kind.name,
                    kind.precision,
                ]
                middle: list[SqlValue] = [
                    kind.size,
                    kind.scale,
                    10,
                    int(column.nullable),
                    None,
                    None,
                    number,
                    None,
                    kind.size,
                ]
                extra: list[SqlValue] = [0, 0, 0, int(column.identity), *([None] * 6)] if more else []
                rows.append([*start, *middle, place, nullable, *extra, 0])
        yield from _result(described, rows)

    return work


def _table_collations(runner: BatchRunner, arguments: Arguments) -> Iterator[SqlEvent]:
    (table,) = arguments.texts("object")
    session = runner.session
    database, stored = session.resolve(exp.to_table(table, dialect="tsql"))
    rows: list[Sequence[SqlValue]] = [
        [
            place,
            column.name,
            *((column.type.collation.wire, column.type.collation.name) if column.type.is_text else (None, None)),
        ]
        for place, column in enumerate(session.catalogue.columns(database, stored), 1)
    ]
    collation = t.SqlType("binary", 5)
    columns = [SqlColumn("colid", t.INT), *_names("name"), SqlColumn("tds_collation", collation), *_names("collation")]
    yield from _result(columns, rows)


def _describe_first(runner: BatchRunner, arguments: Arguments) -> Iterator[SqlEvent]:
    text, *_ = arguments.texts("tsql", "params", "browse_information_mode")
    rows: list[Sequence[SqlValue]] = [
        [0, place, column.name, int(column.nullable), str(column.type)]
        for place, column in enumerate(runner.session.columns_of(parse(text)), 1)
    ]
    columns = [
        SqlColumn("is_hidden", t.BIT),
        SqlColumn("column_ordinal", t.INT),
        SqlColumn("name", t.SYSNAME),
        SqlColumn("is_nullable", t.BIT),
        SqlColumn("system_type_name", t.SYSNAME),
    ]
    yield from _result(columns, rows)


def _help_text(runner: BatchRunner, arguments: Arguments) -> Iterator[SqlEvent]:
    (name,) = arguments.texts("objname")
    for stored, body in runner.session.procedures():
        if stored.lower() == name.split(".")[-1].lower():
            lines: list[Sequence[SqlValue]] = [[line] for line in body.splitlines(keepends=True)]
            yield from _result([SqlColumn("Text", t.SqlType("nvarchar", 255))], lines)
            return
    raise SqlError(15009, f"The object '{name}' does not exist in database '{runner.session.database}'.")


def _add_property(runner: BatchRunner, arguments: Arguments) -> Iterator[SqlEvent]:
    names = ("name", "value", "level0type", "level0name", "level1type", "level1name", "level2type", "level2name")
    name, value, *_, table, _, column = arguments.texts(*names)
    session = runner.session
    row = (1, "OBJECT_OR_COLUMN", table.lower(), column.lower(), name, value)
    session.run_sqlite(f'INSERT INTO "{session.database}"."procedures/properties" VALUES (?, ?, ?, ?, ?, ?)', row)
    yield ProcedureReturned(0)


def _nothing(runner: BatchRunner, arguments: Arguments) -> Iterator[SqlEvent]:
    yield ProcedureReturned(0)


def _no_rows(*names: str) -> SystemProcedure:
    def work(runner: BatchRunner, arguments: Arguments) -> Iterator[SqlEvent]:
        yield from _result(_names(*names), [])

    return work


_SYSTEM: Final[dict[str, SystemProcedure]] = {
    "sp_executesql": execute_sql,
    "sp_databases": _databases,
    "sp_tables": _tables,
    "sp_columns": _columns_of(()),
    "sp_columns_100": _columns_of(_MORE_COLUMN_NAMES),
    "sp_tablecollations_100": _table_collations,
    "sp_describe_first_result_set": _describe_first,
    "sp_helptext": _help_text,
    "sp_addextendedproperty": _add_property,
    "sp_pkeys": _no_rows("TABLE_QUALIFIER", "TABLE_OWNER", "TABLE_NAME", "COLUMN_NAME"),
    "sp_who": _no_rows("spid", "status", "loginame"),
    "sp_configure": _no_rows("name", "minimum", "maximum", "config_value", "run_value"),
    "xp_cmdshell": _no_rows("output"),
    **dict.fromkeys(
        ("sp_set_session_context", "sp_getapplock", "sp_releaseapplock", "sp_recompile", "sp_addrolemember"), _nothing
    ),
}
