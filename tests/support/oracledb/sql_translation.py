"""Translates a small part of Oracle's SQL into SQLite's, and finds the types of a query's columns.

sqlglot parses and writes the statements. What SQLite lacks is a function in Python (`sql_functions.py`) or is rewritten
here: DUAL, ROWNUM, sequences, SYSDATE, empty texts that are NULL, RETURNING … INTO.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify import qualify
from tests.support.oracledb import type_codings as types
from tests.support.oracledb.type_codings import DATE_TYPE, NUMBER_TYPE, OracleType, text_type

TOKENS = re.compile(
    r"""'(?:[^']|'')*' | "[^"]*" | --[^\n]* | /\*.*?\*/ | :"?(?P<name>[A-Za-z0-9_$\#]+)"? | [^'":/-]+ | .""",
    re.VERBOSE | re.DOTALL,
)
RETURNING = re.compile(r"\breturn(?:ing)?\b(?P<columns>.*?)\binto\b", re.IGNORECASE | re.DOTALL)
COMMENTS = re.compile(r"\A(?:\s+|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*", re.DOTALL)
FIRST_WORD = re.compile(r"[A-Za-z]+")
Schema = Mapping[str, Mapping[str, OracleType]]


class SqlError(Exception):
    """An error with Oracle's number and text."""

    def __init__(self, code: int, text: str, position: int = 0) -> None:
        super().__init__(f"ORA-{code:05d}: {text}")
        self.code, self.position = code, position
        self.rows = 0  # that the statement had changed before


@dataclass(frozen=True)
class ResultColumn:
    """A column of a query. Without a type it has that of its values."""

    name: str
    type: OracleType | None


@dataclass(frozen=True)
class Statement:
    """One statement, as SQLite runs it. Its bind variables are named B1, B2, … in the order of Oracle's."""

    kind: str  # query, dml, block, ddl or session
    sql: str
    tree: exp.Expr | None = None
    binds: int = 0
    returned: frozenset[int] = frozenset()  # positions of the bind variables behind INTO
    columns: tuple[ResultColumn, ...] = ()
    names: tuple[str, ...] = field(default=())


def first_word(sql: str) -> str:
    match = FIRST_WORD.match(sql, COMMENTS.match(sql).end() if COMMENTS.match(sql) else 0)  # type: ignore[union-attr]
    return match.group().upper() if match else ""


def statement_kind(sql: str) -> str:
    word = first_word(sql)
    if word in ("SELECT", "WITH") or sql.lstrip().startswith("("):
        return "query"
    if word in ("INSERT", "UPDATE", "DELETE", "MERGE"):
        return "dml"
    if word in ("BEGIN", "DECLARE", "CALL"):
        return "block"
    return "session" if word in ("ALTER", "SET", "COMMIT", "ROLLBACK", "SAVEPOINT", "LOCK", "COMMENT") else "ddl"


def number_binds(sql: str, once_each: bool) -> tuple[str, list[str]]:
    """Return the text with its bind variables renamed to B1, B2, …, and their names. In blocks a name counts once."""
    names: list[str] = []

    def renamed(match: re.Match[str]) -> str:
        name = match.group("name")
        if name is None:
            return match.group()
        name = name.upper()
        if not once_each or name not in names:
            names.append(name)
            return f":B{len(names)}"
        return f":B{names.index(name) + 1}"

    return TOKENS.sub(renamed, sql), names


def returned_positions(sql: str) -> tuple[str, frozenset[int], str]:
    """Return a text without INTO, the positions of the variables behind it, and the columns that are returned."""
    match = RETURNING.search(sql)
    if match is None:
        return sql, frozenset(), ""
    behind = [int(number) - 1 for number in re.findall(r":B(\d+)", sql[match.end() :])]
    return sql[: match.start()], frozenset(behind), match.group("columns").strip()


def translate(sql: str, schema: Schema, schema_name: str) -> Statement:
    """Return the statement for SQLite. Raises SqlError."""
    kind = statement_kind(sql)
    numbered, names = number_binds(sql, kind == "block")
    if kind in ("block", "session"):
        return Statement(kind, numbered, binds=len(names), names=tuple(names))
    returned: frozenset[int] = frozenset()
    returning = ""
    if kind == "dml":
        numbered, returned, returning = returned_positions(numbered)
    tree = parse(numbered)
    columns: tuple[ResultColumn, ...] = ()
    if kind == "query":
        columns = result_columns(tree, schema)
    if kind == "ddl":
        return Statement(kind, numbered, tree, names=tuple(names))
    tree = tree.transform(lambda node: for_sqlite(node, schema_name))
    limit_rows(tree)
    text = tree.sql("sqlite", normalize_functions=False)
    if returning:
        text += f" RETURNING {returning}"
    return Statement(kind, text, tree, len(names), returned, columns, tuple(names))


def parse(sql: str) -> exp.Expr:
    """Parse one statement of Oracle's SQL. Raises SqlError 900 with the position."""
    try:
        tree = sqlglot.parse_one(sql.rstrip().rstrip(";"), dialect="oracle")
    except SqlglotError as error:
        raise SqlError(900, "invalid SQL statement", 0) from error
    if isinstance(tree, (exp.Command, exp.Column, exp.Alias, exp.Identifier)):
        raise SqlError(900, "invalid SQL statement")
    return tree


def for_sqlite(node: exp.Expr, user: str) -> exp.Expr:
    """Rewrite one node of a tree."""
    match node:
        case exp.Table() if node.name.upper() == "DUAL":
            return exp.select(exp.alias_(exp.Literal.string("X"), "DUMMY")).subquery(node.alias or "DUAL")
        case exp.Table() if node.db:
            node.set("db", None)  # there is one schema
        case exp.Literal() if node.is_string and not node.this:
            return exp.Null()
        case exp.Column() if not isinstance(node.this, exp.Star):
            return pseudo_column(node, user)
        case exp.CurrentTimestamp():
            return exp.Anonymous(this="SYSDATE" if node.args.get("sysdate") else "SYSTIMESTAMP")
        case exp.ToChar() | exp.StrToTime() | exp.StrToDate() | exp.ToNumber() | exp.DPipe() | exp.Concat():
            return python_function(node)
        case exp.Cast() if node.to.is_type("date", "timestamp"):
            return exp.Anonymous(this="AS_MOMENT", expressions=[node.this])
        case exp.Ordered() if node.args.get("nulls_first") is None:
            node.set("nulls_first", bool(node.args.get("desc")))
    return node


def pseudo_column(node: exp.Column, user: str) -> exp.Expr:
    name = node.name.upper()
    if node.table and name in ("NEXTVAL", "CURRVAL"):
        return exp.Anonymous(this=name, expressions=[exp.Literal.string(node.table.upper())])
    if not node.table and name in ("UID", "SYSDATE", "SYSTIMESTAMP"):
        return exp.Anonymous(this=name)
    if not node.table and name in ("USER", "DBTIMEZONE", "SESSIONTIMEZONE"):
        return exp.Literal.string(user if name == "USER" else "+00:00")
    if name == "ROWID":
        return exp.Anonymous(this="ROWID_TEXT", expressions=[exp.column("rowid", table=node.table or None)])
    if name == "ROWNUM" and not node.table and not node.find_ancestor(exp.Where):
        return sqlglot.parse_one("row_number() over ()", dialect="sqlite")
    return node


def python_function(node: exp.Expr) -> exp.Expr:
    """Return a function that SQLite finds in Python, with the arguments that Oracle's has."""
    match node:
        case exp.DPipe():
            return exp.Anonymous(this="JOINED", expressions=[node.this, node.expression])
        case exp.Concat():
            return exp.Anonymous(this="JOINED", expressions=node.expressions)
    name = "TO_CHAR" if isinstance(node, exp.ToChar) else "TO_NUMBER" if isinstance(node, exp.ToNumber) else "TO_DATE"
    arguments = [node.this] + [node.args[key] for key in ("format",) if node.args.get(key) is not None]
    return exp.Anonymous(this=name, expressions=arguments)


def limit_rows(tree: exp.Expr) -> None:
    """Turn the condition `ROWNUM <= n` into a limit."""
    for select in tree.find_all(exp.Select):
        where = select.args.get("where")
        if where is None:
            continue
        kept = []
        for condition in where.this.flatten() if isinstance(where.this, exp.And) else [where.this]:
            left = condition.this if isinstance(condition, exp.Binary) else None
            if isinstance(left, exp.Column) and left.name.upper() == "ROWNUM":
                bound = condition.expression.copy()
                if isinstance(condition, exp.LT):
                    bound = exp.Sub(this=exp.paren(bound), expression=exp.Literal.number(1))
                select.set("limit", exp.Limit(expression=bound))
            else:
                kept.append(condition.copy())
        select.set("where", exp.Where(this=exp.and_(*kept)) if kept else None)


def result_columns(tree: exp.Expr, schema: Schema) -> tuple[ResultColumn, ...]:
    """Return the columns of a query. What cannot be resolved has no type."""
    names: dict[str, object] = {"DUAL": {"DUMMY": "VARCHAR2"}}
    for table, columns in schema.items():
        names[table] = {column: sqlglot_type(kind) for column, kind in columns.items()}
    written = [] if tree.is_star else [written_name(projection) for projection in tree.selects]  # type: ignore[attr-defined]
    try:
        resolved = qualify(
            tree.copy(), dialect="oracle", schema=names, validate_qualify_columns=False, quote_identifiers=False
        )
        resolved = annotate_types(resolved, schema=names, dialect="oracle")
    except SqlglotError:
        return tuple(ResultColumn(name, None) for name in written)
    projections: Sequence[exp.Expr] = resolved.selects  # type: ignore[attr-defined]
    columns_found = []
    for position, projection in enumerate(projections):
        name = written[position] if len(written) == len(projections) else projection.alias_or_name
        columns_found.append(ResultColumn(name, expression_type(projection, resolved, schema)))
    return tuple(columns_found)


def written_name(projection: exp.Expr) -> str:
    """Return the name that Oracle gives a column: its alias, or its expression without blanks."""
    if isinstance(projection, exp.Alias):
        identifier = projection.args["alias"]
        return str(identifier.name if identifier.args.get("quoted") else identifier.name.upper())
    if isinstance(projection, exp.Column):
        return projection.name if projection.this.args.get("quoted") else projection.name.upper()
    return projection.sql("oracle").replace(" ", "").upper()[:128]


def expression_type(projection: exp.Expr, query: exp.Expr, schema: Schema) -> OracleType | None:
    inner = projection.unalias()
    if isinstance(inner, exp.Column):
        found = source_type(inner, query, schema)
        if found is not None:
            return found
        if inner.name in ("ROWNUM", "NEXTVAL", "CURRVAL", "LEVEL", "UID"):
            return NUMBER_TYPE
        if inner.name == "ROWID":
            return text_type(18)
    if isinstance(inner, (exp.Max, exp.Min, exp.Coalesce)) and isinstance(inner.this, exp.Column):
        found = source_type(inner.this, query, schema)
        if found is not None:
            return found
    if isinstance(inner, (exp.StrToTime, exp.StrToDate)) or (
        isinstance(inner, exp.CurrentTimestamp) and inner.args.get("sysdate")
    ):
        return DATE_TYPE
    if isinstance(inner, (exp.CurrentTimestamp, exp.Systimestamp)):
        return OracleType(types.TIMESTAMP_TZ, 13, 0, 6)
    return named_type(inner.type)


def source_type(column: exp.Column, query: exp.Expr, schema: Schema) -> OracleType | None:
    """Follow a column through subqueries to the table that it comes from."""
    for source in query.find_all(exp.Table, exp.Subquery, exp.CTE):
        if source.alias_or_name != column.table:
            continue
        if isinstance(source, exp.Table):
            return schema.get(source.name, {}).get(column.name)
        inner = source.this
        for projection in inner.selects:
            if projection.alias_or_name == column.name:
                return expression_type(projection, inner, schema)
    return None


def sqlglot_type(kind: OracleType) -> str:
    if kind.number in types.NUMBERS:
        return "NUMBER"
    if kind.number in types.MOMENTS:
        return "DATE" if kind.number == types.DATE else "TIMESTAMP"
    return {types.BLOB: "BLOB", types.CLOB: "CLOB", types.RAW: "BLOB", types.BINARY_DOUBLE: "BINARY_DOUBLE"}.get(
        kind.number, "VARCHAR2(4000)"
    )


def named_type(kind: exp.DataType | None) -> OracleType | None:
    """Return the type of an expression, as far as sqlglot knows it."""
    if kind is None:
        return None
    if kind.is_type(*exp.DataType.NUMERIC_TYPES):
        return NUMBER_TYPE
    if kind.is_type("date"):
        return DATE_TYPE
    if kind.is_type("timestamp", "timestamptz"):
        return OracleType(types.TIMESTAMP, 11, 0, 6)
    return None  # texts have the size of their values
