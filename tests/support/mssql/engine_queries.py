"""SELECT, INSERT, UPDATE and DELETE: what SQLite runs, with FOR XML, FOR JSON, INTO and OUTPUT."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from sqlglot import exp
from tests.support.mssql import engine_definitions
from tests.support.mssql import sqlserver_types as t
from tests.support.mssql.engine_columns import UNKNOWN
from tests.support.mssql.engine_conversions import convert, unwrap
from tests.support.mssql.engine_events import DELETE, INSERT, UPDATE, SqlEvent, SqlResult, SqlRow, StatementRan
from tests.support.mssql.engine_session import EngineSession, SqlVariable
from tests.support.mssql.engine_translation import parse
from tests.support.mssql.sqlserver_errors import not_supported
from tests.support.mssql.sqlserver_types import SqlColumn, SqlType
from tests.support.mssql.sqlserver_values import SqlValue, as_text

_FOR: Final = re.compile(r"\sFOR\s+(XML|JSON)\s+(RAW|AUTO|PATH)\b(.*)$", re.IGNORECASE | re.DOTALL)
_OPTION: Final = re.compile(r"\sOPTION\s*\([^()]*(?:\([^()]*\))?[^()]*\)\s*$", re.IGNORECASE)
_BROWSE: Final = re.compile(r"\sFOR\s+BROWSE\s*$", re.IGNORECASE)
_TOP: Final = re.compile(r"^(\s*(?:DELETE|UPDATE))\s+TOP\s*\(?\s*(\d+)\s*\)?", re.IGNORECASE)
_PIECE: Final = 2033
_DOCUMENT_SUFFIX: Final = "_F52E2B61-18A1-11d1-B105-00805F49916B"


def run(session: EngineSession, text: str) -> Iterator[SqlEvent]:
    """Run one statement."""
    text = _BROWSE.sub("", _OPTION.sub("", text))
    document = _FOR.search(text)
    if document is not None:
        text = text[: document.start()]
    limit = _TOP.match(text)
    if limit is not None:
        text = limit.group(1) + text[limit.end() :]
    tree = parse(text)
    if isinstance(tree, exp.Insert):
        yield from _change(session, tree)
    elif isinstance(tree, exp.Update | exp.Delete):
        if limit is not None:
            _limit(tree, int(limit.group(2)))
        yield from _change(session, tree)
    elif document is not None:
        yield from _document(session, tree, document)
    elif (into := tree.args.get("into")) is not None:
        tree.set("into", None)
        yield from _select_into(session, tree, into.this)
    elif assigned := _assigned(tree):
        yield from _assign(session, tree, assigned)
    elif isinstance(tree, exp.Select | exp.SetOperation | exp.Subquery):
        columns = session.columns_of(tree)
        yield from session.result(session.execute(tree), columns)
    else:
        raise not_supported(text[:40])


def _assigned(tree: exp.Expr) -> list[str]:
    if not isinstance(tree, exp.Select) or not tree.expressions:
        return []
    found = [item for item in tree.expressions if isinstance(item, exp.EQ) and isinstance(item.this, exp.Parameter)]
    return [item.this.name for item in found] if len(found) == len(tree.expressions) else []


def _assign(session: EngineSession, tree: exp.Expr, names: list[str]) -> Iterator[SqlEvent]:
    tree.set("expressions", [item.expression for item in tree.expressions])
    read = {item.name.lower() for value in tree.expressions for item in value.find_all(exp.Parameter)}
    rows = (
        _accumulated(session, tree) if read & {name.lower() for name in names} else session.rows(session.execute(tree))
    )
    count = 0
    for row in rows:
        count += 1
        for name, value in zip(names, row, strict=True):
            session.assign(name, value)
    session.globals["rowcount"] = count
    yield StatementRan(silent=True)


def _accumulated(session: EngineSession, tree: exp.Expr) -> Iterator[Sequence[SqlValue]]:
    """Run `SELECT @x = @x + column`: each row reads what the one before has assigned."""
    columns = [column for value in tree.expressions for column in value.find_all(exp.Column)]
    values = [value.copy() for value in tree.expressions]
    inner = tree.copy()
    inner.set("expressions", [column.copy() for column in columns] or [exp.Literal.number(1)])
    variables = session.scope.variables
    for row in list(session.rows(session.execute(inner))):
        places = {column.sql(): f"row_value_{place}" for place, column in enumerate(columns)}
        for name, value in zip(places.values(), row, strict=False):
            variables[name] = SqlVariable(t.NVARCHAR_MAX, value)
        computed = exp.Select(expressions=[value.copy() for value in values]).transform(
            lambda node, places=places: (
                exp.Parameter(this=exp.Var(this=places[node.sql()])) if isinstance(node, exp.Column) else node
            )
        )
        yield session.fetch_one(session.execute(computed)) or ()
    for name in [name for name in variables if name.startswith("row_value_")]:
        del variables[name]


def _select_into(session: EngineSession, tree: exp.Expr, target: exp.Table) -> Iterator[SqlEvent]:
    columns, rows = session.described(session.execute(tree.copy()), session.columns_of(tree.copy()))
    database, name = session.place_of(target)
    defined = ", ".join(f"[{column.name}] {column.type}" for column in columns)
    engine_definitions.create_table(session, database, name, defined)
    yield from _store(session, f'"{database}"."{name}"', None, [list(row) for row in rows])


def insert_rows(session: EngineSession, head: str, events: Iterator[SqlEvent]) -> Iterator[SqlEvent]:
    """Run INSERT … EXEC."""
    rows: list[Sequence[SqlValue]] = []
    for event in events:
        if isinstance(event, SqlRow):
            rows.append(event.values)
        elif not isinstance(event, SqlResult | StatementRan):
            yield event
    tree = parse(head + " SELECT 1")
    assert isinstance(tree, exp.Insert)
    table, names = _insert_target(tree)
    yield from _store(session, _quoted(session, table), names, rows)


def _insert_target(tree: exp.Insert) -> tuple[exp.Table, list[str] | None]:
    target = tree.this
    if isinstance(target, exp.Schema):
        return target.this, [column.name for column in target.expressions]
    return target, None


def _quoted(session: EngineSession, table: exp.Table) -> str:
    database, name = session.place_of(table)
    return f'"{database}"."{name}"'


def _store(
    session: EngineSession, table: str, names: list[str] | None, rows: Sequence[Sequence[SqlValue]]
) -> Iterator[SqlEvent]:
    columns = " (" + ", ".join(f'"{name}"' for name in names) + ")" if names else ""
    for row in rows:
        places = ", ".join("?" for _ in row)
        session.run_sqlite(f"INSERT INTO {table}{columns} VALUES ({places})", [unwrap(value) for value in row])
    session.globals["rowcount"] = len(rows)
    yield StatementRan(len(rows), command=INSERT)


def store_bulk(session: EngineSession, table: str, names: list[str], rows: list[list[SqlValue]]) -> Iterator[SqlEvent]:
    """Store the rows of a bulk load."""
    yield from _store(session, _quoted(session, exp.to_table(table, dialect="tsql")), names, rows)


def _limit(tree: exp.Expr, count: int) -> None:
    table = tree.this.copy()
    where = tree.args.get("where")
    chosen = exp.select("rowid").from_(table).limit(count)
    if where is not None:
        chosen.set("where", where.copy())
    tree.set("where", exp.Where(this=exp.In(this=exp.column("rowid"), query=exp.Subquery(this=chosen))))


def _change(session: EngineSession, tree: exp.Expr) -> Iterator[SqlEvent]:
    returning = tree.args.get("returning")
    target = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    outputs: list[SqlColumn] = []
    into = None
    if returning is not None:
        into = returning.args.get("into")
        returning.set("into", None)
        outputs = _outputs(session, tree, returning, target)
    connection = session.connection
    before = connection.total_changes
    cursor = session.execute(tree)
    rows = list(session.rows(cursor)) if cursor.description else []
    # A trigger's changes do not count; SQLite counts those of the statement by itself.
    count = len(rows) if returning is not None else max(cursor.rowcount, 0)
    if isinstance(tree, exp.Insert) and connection.total_changes > before:
        session.globals["identity"] = _identity(session)
    if into:
        yield from _store(session, _quoted(session, into if isinstance(into, exp.Table) else into.this), None, rows)
        return
    session.globals["rowcount"] = count
    command = INSERT if isinstance(tree, exp.Insert) else UPDATE if isinstance(tree, exp.Update) else DELETE
    if returning is None:
        yield StatementRan(count, command=command)
        return
    yield SqlResult([replace(column, type=t.NVARCHAR) if column.type == UNKNOWN else column for column in outputs])
    for row in rows:
        yield SqlRow(row)
    yield StatementRan(count, command=command)


def _identity(session: EngineSession) -> SqlValue:
    row = session.connection.execute("SELECT last_insert_rowid()").fetchone()
    return int(row[0])


def _outputs(session: EngineSession, tree: exp.Expr, returning: exp.Expr, target: exp.Table) -> list[SqlColumn]:
    """Return the columns of OUTPUT. RETURNING has only the new values of an update."""
    if isinstance(tree, exp.Update) and any(
        column.table.lower() == "deleted" for column in returning.find_all(exp.Column)
    ):
        raise not_supported("OUTPUT deleted of an UPDATE")
    for column in list(returning.find_all(exp.Column)):
        if isinstance(column.this, exp.Star):
            column.replace(exp.Star())
        else:
            column.set("table", None)
    return session.columns_of(
        exp.Select(expressions=[item.copy() for item in returning.expressions]).from_(target.copy())
    )


# -- Documents -------------------------------------------------------------------------------------------------------


def _document(session: EngineSession, tree: exp.Expr, asked: re.Match[str]) -> Iterator[SqlEvent]:
    """Answer FOR XML and FOR JSON: one text, in pieces of 2,033 characters."""
    columns, rows = session.described(session.execute(tree.copy()), session.columns_of(tree.copy()))
    language, mode, options = asked.group(1).upper(), asked.group(2).upper(), asked.group(3)
    names = [column.name for column in columns]
    if language == "JSON":
        text = _json([column.type for column in columns], names, list(rows), options)
    else:
        text = _xml(names, list(rows), mode, options)
    kind = SqlType("ntext") if language == "XML" else t.NVARCHAR_MAX
    pieces = [text[pos : pos + _PIECE] for pos in range(0, len(text), _PIECE)]
    yield SqlResult([SqlColumn(language + _DOCUMENT_SUFFIX, kind)])
    for piece in pieces:
        yield SqlRow([piece])
    yield StatementRan(len(pieces))


def _json(kinds: list[SqlType], names: list[str], rows: Sequence[Sequence[SqlValue]], options: str) -> str:
    documents = []
    for row in rows:
        document: dict[str, object] = {}
        for name, kind, value in zip(names, kinds, row, strict=True):
            if value is None and "INCLUDE_NULL_VALUES" not in options.upper():
                continue
            *path, last = name.split(".")
            place = document
            for part in path:
                place = place.setdefault(part, {})  # type: ignore[assignment]
            place[last] = bool(value) if kind.name == "bit" and value is not None else value
        documents.append(document)
    if not documents:
        return ""
    whole = documents[0] if "WITHOUT_ARRAY_WRAPPER" in options.upper() and len(documents) == 1 else documents
    return json.dumps(whole, ensure_ascii=False, separators=(",", ":"), default=str)


def _xml(names: list[str], rows: Sequence[Sequence[SqlValue]], mode: str, options: str) -> str:
    matched = re.match(r"\s*\(\s*'([^']*)'\s*\)", options)
    element = matched.group(1) if matched else "row"
    parts = []
    for row in rows:
        cells = [(name, as_text(value)) for name, value in zip(names, row, strict=True) if value is not None]
        if mode == "PATH":
            inner = "".join(f"<{name}>{escape(value)}</{name}>" if name else escape(value) for name, value in cells)
            parts.append(f"<{element}>{inner}</{element}>" if element else inner)
        else:
            parts.append(f"<{element} " + " ".join(f"{name}={quoteattr(value)}" for name, value in cells) + "/>")
    return "".join(parts)


def converted(value: SqlValue, kind: SqlType) -> SqlValue:
    """Return a parameter's value as the type that it was declared with."""
    return convert(value, kind)
