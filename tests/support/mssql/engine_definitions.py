"""CREATE, ALTER, DROP and TRUNCATE."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sqlglot import exp
from tests.support.mssql.engine_events import SqlEvent, StatementRan
from tests.support.mssql.engine_session import EngineSession
from tests.support.mssql.engine_tables import checks_of, read_definition
from tests.support.mssql.engine_translation import Translation, parse
from tests.support.mssql.sqlserver_errors import SqlError, not_supported, syntax_error
from tests.support.mssql.sqlserver_types import SqlType, parse_type

_NAME: Final = r"((?:(?:\[[^\]]+\]|\"[^\"]+\"|[\w#$]+)\s*\.\s*){0,2}(?:\[[^\]]+\]|\"[^\"]+\"|[\w#$]+))"
_FLAGS: Final = re.IGNORECASE | re.DOTALL
_CREATE_TABLE: Final = re.compile(rf"CREATE\s+TABLE\s+{_NAME}\s*\((.*)\)[^()]*", _FLAGS)
_CREATE_VIEW: Final = re.compile(
    rf"(?:CREATE(?:\s+OR\s+ALTER)?|ALTER)\s+VIEW\s+{_NAME}\s*(?:\(([^)]*)\))?\s*(?:WITH\s+SCHEMABINDING\s+)?AS\s+(.+)",
    _FLAGS,
)
_CREATE_PROCEDURE: Final = re.compile(rf"(?:CREATE(?:\s+OR\s+ALTER)?|ALTER)\s+PROC(?:EDURE)?\s+{_NAME}\s*(.*)", _FLAGS)
_CREATE_INDEX: Final = re.compile(
    rf"CREATE\s+(UNIQUE\s+)?(?:(?:NON)?CLUSTERED\s+)?INDEX\s+{_NAME}\s+ON\s+{_NAME}\s*\(([^)]*)\).*", _FLAGS
)
_DROP: Final = re.compile(r"DROP\s+(TABLE|VIEW|PROC|PROCEDURE|INDEX|DATABASE)\s+(IF\s+EXISTS\s+)?(.+)", _FLAGS)
_ADD_COLUMN: Final = re.compile(rf"ALTER\s+TABLE\s+{_NAME}\s+ADD\s+(?!CONSTRAINT)(.+)", _FLAGS)
_DROP_COLUMN: Final = re.compile(rf"ALTER\s+TABLE\s+{_NAME}\s+DROP\s+COLUMN\s+(\S+)", _FLAGS)
_CREATE_DATABASE: Final = re.compile(r"CREATE\s+DATABASE\s+\[?(\w+)\]?.*", _FLAGS)
_CREATE_SYNONYM: Final = re.compile(rf"CREATE\s+SYNONYM\s+{_NAME}\s+FOR\s+{_NAME}\s*", _FLAGS)
# What only the catalogue shows: none of it runs here.
_CREATE_TRIGGER: Final = re.compile(
    rf"CREATE\s+TRIGGER\s+{_NAME}\s+ON\s+{_NAME}\s+(AFTER|FOR|INSTEAD\s+OF)\s+([\w\s,]+?)\s+AS\b.*", _FLAGS
)
_CREATE_POLICY: Final = re.compile(rf"CREATE\s+SECURITY\s+POLICY\s+{_NAME}\s.*\sON\s+{_NAME}(?:\s+WITH.*)?", _FLAGS)
_CREATE_FUNCTION: Final = re.compile(rf"CREATE\s+FUNCTION\s+{_NAME}\s*\(.*", _FLAGS)
_CREATE_EXTERNAL: Final = re.compile(rf"CREATE\s+EXTERNAL\s+TABLE\s+{_NAME}\s*\((.*)\)\s*WITH\s*\(.*\)", _FLAGS)
_TRUNCATE: Final = re.compile(rf"TRUNCATE\s+TABLE\s+{_NAME}\s*", _FLAGS)
_IDLE: Final = re.compile(
    r"(?:CREATE|ALTER|DROP)\s+(SCHEMA|LOGIN|USER|ROLE|DATABASE|TYPE|STATISTICS|SEQUENCE|SYNONYM|INDEX|TABLE)\b.*",
    _FLAGS,
)


def table_of(name: str) -> exp.Table:
    return exp.to_table(name, dialect="tsql")


def run(session: EngineSession, text: str) -> Iterator[SqlEvent]:
    """Run one statement. What has no meaning here, as CREATE LOGIN, does nothing."""
    for pattern, work in _WORKS:
        if matched := pattern.fullmatch(text.strip()):
            work(session, *matched.groups())
            yield StatementRan()
            return
    if _IDLE.fullmatch(text.strip()) is None:
        raise not_supported(text[:40])
    yield StatementRan()


def create_table(session: EngineSession, database: str, name: str, body: str) -> None:
    """Create a table by what stands between its parentheses."""
    definition = read_definition(body)
    if not definition.columns and not definition.parts:
        raise syntax_error(")")
    parts = ", ".join(part for part in definition.parts if part)
    if session.connection.execute(f'PRAGMA "{database}".table_info("{name}")').fetchall():
        raise SqlError(2714, f"There is already an object named '{name}' in the database.", state=6)
    # A constraint of the table comes last in SQLite.
    session.run_sqlite(f'CREATE TABLE "{database}"."{name}" ({parts})')
    for trigger in checks_of(database, name, definition):
        session.run_sqlite(trigger)
    for place, text in enumerate(definition.checks if database != "temp" else ()):
        session.store_text("check", f"{name}/{place}", text)
    for column, text in definition.computed if database != "temp" else ():
        session.store_text("computed", f"{name}/{column}", text)


def _table(session: EngineSession, name: str, body: str) -> None:
    create_table(session, *session.place_of(table_of(name)), body)


def _view(session: EngineSession, name: str, columns: str | None, query: str) -> None:
    database, stored = session.place_of(table_of(name))

    body = Translation(session.resolve, {}).sqlite(parse(query.strip().rstrip(";"))).replace(f'"{database}".', "")
    names = "(" + columns.replace("[", '"').replace("]", '"') + ")" if columns else ""
    session.run_sqlite(f'DROP VIEW IF EXISTS "{database}"."{stored}"')
    session.run_sqlite(f'CREATE VIEW "{database}"."{stored}" {names} AS {body}')
    listed = f" ({columns})" if columns else ""
    session.store_text("view", stored, f"CREATE VIEW {name}{listed} AS {query}")


def _synonym(session: EngineSession, name: str, base: str) -> None:
    """A synonym is a view of all columns, which the catalogue does not list as one."""
    _view(session, name, None, f"SELECT * FROM {base}")
    session.store_text("synonym", session.place_of(table_of(name))[1], base.strip())


def _procedure(session: EngineSession, name: str, rest: str) -> None:
    plain = table_of(name).name
    read_procedure(rest)
    session.run_sqlite(f'INSERT OR REPLACE INTO "{session.database}"."procedures/" VALUES (?, ?)', (plain, rest))


def _index(session: EngineSession, unique: str | None, name: str, table: str, columns: str) -> None:
    database, stored = session.resolve(table_of(table))
    quoted = ", ".join(f'"{column.split()[0].strip("[]")}"' for column in columns.split(","))
    name = f"{stored}/{table_of(name).name}"
    session.run_sqlite(f'CREATE {"UNIQUE " if unique else ""}INDEX "{database}"."{name}" ON "{stored}" ({quoted})')


def _trigger(session: EngineSession, name: str, table: str, when: str, events: str) -> None:
    words = [when.split()[0].upper(), *events.upper().replace(",", " ").split()]
    session.store_text("trigger", f"{session.resolve(table_of(table))[1]}/{table_of(name).name}", " ".join(words))


def _policy(session: EngineSession, name: str, table: str) -> None:
    session.store_text("policy", f"{session.resolve(table_of(table))[1]}/{table_of(name).name}", "")


def _function(session: EngineSession, name: str) -> None:
    session.store_text("function", session.place_of(table_of(name))[1], "")


def _external(session: EngineSession, name: str, body: str) -> None:
    _table(session, name, body)
    session.store_text("external", session.place_of(table_of(name))[1], "")


def _drop(session: EngineSession, kind: str, optional: str | None, names: str) -> None:
    kind = kind.upper()
    for name in names.strip().rstrip(";").split(","):
        if kind.startswith("PROC"):
            plain = table_of(name.strip()).name
            deleted = session.run_sqlite(f'DELETE FROM "{session.database}"."procedures/" WHERE name = ?', (plain,))
            if not deleted.rowcount and not optional:
                raise _missing(name, "procedure")
        elif kind in ("TABLE", "VIEW"):
            try:
                database, stored = session.resolve(table_of(name.strip()))
            except SqlError:
                if optional:
                    continue
                raise _missing(name, kind.lower()) from None
            session.run_sqlite(f'DROP {kind} "{database}"."{stored}"')


def _missing(name: str, kind: str) -> SqlError:
    text = f"Cannot drop the {kind} '{name.strip()}', because it does not exist or you do not have permission."
    return SqlError(3701, text, 11, 5)


def _add_column(session: EngineSession, name: str, defined: str) -> None:
    database, stored = session.resolve(table_of(name))
    for part in read_definition(defined).parts:
        session.run_sqlite(f'ALTER TABLE "{database}"."{stored}" ADD COLUMN {part}')


def _drop_column(session: EngineSession, name: str, column: str) -> None:
    database, stored = session.resolve(table_of(name))
    column = column.strip("[];")
    session.run_sqlite(f'ALTER TABLE "{database}"."{stored}" DROP COLUMN "{column}"')


def _database(session: EngineSession, name: str) -> None:
    session.attach(name)


def _truncate(session: EngineSession, name: str) -> None:
    database, stored = session.resolve(table_of(name))
    session.run_sqlite(f'DELETE FROM "{database}"."{stored}"')


_WORKS: Final = (
    (_CREATE_TABLE, _table),
    (_CREATE_VIEW, _view),
    (_CREATE_PROCEDURE, _procedure),
    (_CREATE_INDEX, _index),
    (_CREATE_SYNONYM, _synonym),
    (_CREATE_TRIGGER, _trigger),
    (_CREATE_POLICY, _policy),
    (_CREATE_FUNCTION, _function),
    (_CREATE_EXTERNAL, _external),
    (_DROP, _drop),
    (_ADD_COLUMN, _add_column),
    (_DROP_COLUMN, _drop_column),
    (_CREATE_DATABASE, _database),
    (_TRUNCATE, _truncate),
)


@dataclass(frozen=True)
class ProcedureParameter:
    name: str
    type: SqlType
    default: str | None
    output: bool


_PARAMETER: Final = re.compile(
    r"\s*@(\w+)\s+(?:AS\s+)?([\w.\[\]]+\s*(?:\([^)]*\))?)\s*(?:=\s*('(?:[^']|'')*'|N'(?:[^']|'')*'|[^\s,)]+))?\s*(OUT(?:PUT)?\b)?\s*(?:READONLY)?\s*(,)?",
    _FLAGS,
)


def read_procedure(text: str) -> tuple[list[ProcedureParameter], str]:
    """Return the parameters and the body of a procedure, from what follows its name."""
    text, closed = text.strip(), False
    if text.startswith("("):
        text, closed = text[1:], True
    declared = []
    while matched := _PARAMETER.match(text):
        name, kind, default, output, comma = matched.groups()
        declared.append(ProcedureParameter(name.lower(), parse_type(kind), default, output is not None))
        text = text[matched.end() :]
        if comma is None:
            break
    if closed:
        text = text.lstrip().removeprefix(")")
    begins = re.match(r"\s*(?:WITH\s+[\w, ]+?\s+)?AS\b", text, _FLAGS)
    if begins is None:
        raise syntax_error("AS")
    return declared, text[begins.end() :]
