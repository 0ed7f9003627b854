"""One statement of T-SQL as a statement of SQLite. Functions become those of `engine_functions`, names those of the
attached databases."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from typing import Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType
from tests.support.mssql.engine_functions import PLAIN
from tests.support.mssql.sqlserver_errors import syntax_error
from tests.support.mssql.sqlserver_types import SqlType

_STRINGS: Final = (TokenType.STRING, TokenType.NATIONAL_STRING)
_PARTS: Final = frozenset({"DATEADD", "DATEDIFF", "DATEPART", "DATENAME"})
_BARE: Final = {"CURRENT_TIMESTAMP": "getdate", "CURRENT_USER": "user", "SESSION_USER": "user"} | {
    "SYSTEM_USER": "suser_sname"
}
_SESSION_FUNCTIONS: Final = frozenset(
    {
        *("object_id", "object_name", "type_name", "db_name", "db_id", "scope_identity", "ident_current", "xact_state"),
        *("serverproperty", "suser_sname", "suser_name", "original_login", "user_name", "error_number"),
        *("error_message", "error_severity", "error_state", "error_line", "error_procedure"),
    }
)
FUNCTION_NAMES: Final = (frozenset(PLAIN) | _SESSION_FUNCTIONS) - {"cast", "try_cast", "add", "divide", "like"}
# SQLite's own do the same.
_RENAMED: Final = {"string_agg": "group_concat", "count_big": "count", "checksum_agg": "sum", "stdev": "avg"}


def rewrite(text: str) -> str:
    """Name functions `f_…`, and write what stands in the place of values as texts: types, parts of dates, `@@name`."""
    try:
        tokens = sqlglot.tokenize(text, read="tsql")
    except TokenError:
        raise syntax_error(text[-20:]) from None
    edits: list[tuple[int, int, str]] = []
    for place, token in enumerate(tokens):
        edit = _rewrite_token(text, tokens, place)
        if edit is not None:
            edits.append(edit)
        if token.text.upper() in ("CAST", "TRY_CAST") and _at(tokens, place + 1) == "(":
            edits += _rewrite_cast(text, tokens, place)
        if token.token_type is TokenType.PARAMETER and _at(tokens, place + 1) == "@":
            name = tokens[place + 2]
            edits.append((token.start, name.end + 1, f"f_global('{name.text.lower()}')"))
    # What lies in a larger edit, as `char(3)` in a type, is none.
    outer = [edit for edit in edits if not any(_contains(other, edit) for other in edits)]
    for start, end, new in sorted(outer, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _contains(outer: tuple[int, int, str], inner: tuple[int, int, str]) -> bool:
    return outer is not inner and outer[0] <= inner[0] and inner[1] <= outer[1]


def _at(tokens: list[Token], place: int) -> str:
    if not 0 <= place < len(tokens) or tokens[place].token_type in _STRINGS:
        return ""
    return tokens[place].text


def _rewrite_token(text: str, tokens: list[Token], place: int) -> tuple[int, int, str] | None:
    token, name = tokens[place], tokens[place].text.lower()
    if text[token.start] in "['\"" or token.token_type in _STRINGS or _at(tokens, place - 1) in (".", "@"):
        return None
    if _at(tokens, place + 1) != "(":
        bare = _BARE.get(name.upper())
        return (token.start, token.end + 1, f"f_{bare}()") if bare else None
    if name in _RENAMED:
        return token.start, token.end + 1, _RENAMED[name]
    if name not in FUNCTION_NAMES:
        return None
    if name.upper() in _PARTS and place + 2 < len(tokens):
        part = tokens[place + 2]
        return token.start, part.end + 1, f"f_{name}('{part.text}'"
    if name in ("convert", "try_convert"):
        end = place + 2
        depth = 0
        while end < len(tokens) and not (depth == 0 and _at(tokens, end) == ","):
            depth += (_at(tokens, end) == "(") - (_at(tokens, end) == ")")
            end += 1
        kind = text[tokens[place + 2].start : tokens[end - 1].end + 1]
        return token.start, tokens[end - 1].end + 1, f"f_{name}('{kind}'"
    return token.start, token.end + 1, f"f_{name}"


def _rewrite_cast(text: str, tokens: list[Token], place: int) -> list[tuple[int, int, str]]:
    """`CAST(x AS type)` becomes `f_cast(x, 'type')`: the parser knows fewer types."""
    depth, end, as_ = 0, place + 1, 0
    while end < len(tokens):
        depth += (_at(tokens, end) == "(") - (_at(tokens, end) == ")")
        if depth == 1 and _at(tokens, end).upper() == "AS":
            as_ = end
        if depth == 0:
            break
        end += 1
    if not as_ or end >= len(tokens):
        raise syntax_error("CAST")
    kind = text[tokens[as_ + 1].start : tokens[end].start].strip()
    name = tokens[place].text.lower()
    return [
        (tokens[place].start, tokens[place].end + 1, f"f_{name}"),
        (tokens[as_].start, tokens[end].start, f", '{kind}'"),
    ]


def parse(text: str) -> exp.Expr:
    """Return the tree of one statement. Raises SqlError."""
    try:
        tree = sqlglot.parse_one(rewrite(text), read="tsql", error_level=ErrorLevel.RAISE)
    except (ParseError, TokenError) as error:
        near = error.errors[0].get("highlight") if isinstance(error, ParseError) and error.errors else ""
        raise syntax_error(str(near or text[:20])) from None
    if tree is None or isinstance(tree, exp.Command):
        raise syntax_error(text.split()[0] if text.split() else "")
    return tree


@dataclass
class Translation:
    """How names become those of SQLite. `resolve` returns the database and table of a name."""

    resolve: Callable[[exp.Table], tuple[str, str]]
    types: Mapping[str, SqlType]  # of variables
    table_variables: Container[str] = ()
    variables: set[str] = field(default_factory=set)  # that occur

    def sqlite(self, tree: exp.Expr) -> str:
        """Return a statement for SQLite. The tree is changed."""
        ctes = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
        for table in list(tree.find_all(exp.Table)):
            self._table(table, ctes)
        for node in reversed(list(tree.walk(bfs=True))):
            changed = self._node(node)
            if changed is not node:
                node.replace(changed)
        return tree.sql("sqlite", unsupported_level=ErrorLevel.IGNORE)

    def _table(self, table: exp.Table, ctes: set[str]) -> None:
        table.set("hints", None)
        inner = table.this
        if isinstance(inner, exp.Anonymous | exp.Func):
            return
        if isinstance(inner, exp.Parameter):
            table.set("this", exp.to_identifier("@" + inner.name, quoted=True))
            table.set("db", exp.to_identifier("temp"))
            return
        if not table.db and table.name.lower() in ctes | {"inserted", "deleted"}:
            return
        database, name = self.resolve(table)
        alias = table.alias or table.name
        if (
            not isinstance(table.parent, exp.Insert | exp.Delete | exp.Schema | exp.Update | exp.Into)
            and not table.alias
        ):
            table.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
        table.set("this", exp.to_identifier(name, quoted=True))
        table.set("db", exp.to_identifier(database, quoted=True))
        table.set("catalog", None)

    def _node(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Parameter):
            name = node.name.lower()
            self.variables.add(name)
            return exp.Placeholder(this="v_" + name)
        if isinstance(node, exp.Anonymous) and node.name in ("f_cast", "f_try_cast") and len(node.expressions) == 2:
            node.append("expressions", exp.Literal.string(_source_type(node.expressions[0], self.types)))
            return node
        if isinstance(node, exp.Add) and not _both_numbers(node):
            return exp.Anonymous(this="f_add", expressions=[node.this, node.expression])
        if isinstance(node, exp.Div):
            return exp.Anonymous(this="f_divide", expressions=[node.this, node.expression])
        if isinstance(node, exp.Escape) and isinstance(node.this, exp.Anonymous):
            node.this.append("expressions", node.expression)
            return node.this
        if isinstance(node, exp.Like):
            return exp.Anonymous(this="f_like", expressions=[node.this, node.expression])
        if isinstance(node, exp.National):
            return exp.Literal.string(node.name)
        if isinstance(node, exp.Collate):
            inner: exp.Expr = node.this
            return inner
        if isinstance(node, exp.Fetch):
            return exp.Limit(expression=node.args.get("count"))
        if isinstance(node, exp.Column) and node.args.get("db"):
            node.set("db", None)
            node.set("catalog", None)
        return node


def _both_numbers(node: exp.Binary) -> bool:
    return all(isinstance(side, exp.Literal) and not side.is_string for side in (node.this, node.expression))


def _source_type(node: exp.Expr, types: Mapping[str, SqlType]) -> str:
    """Return the type that a CAST begins from, if it is told: a sql_variant has to know it."""
    if isinstance(node, exp.Anonymous) and node.name in ("f_cast", "f_try_cast"):
        return str(node.expressions[1].name)
    if isinstance(node, exp.Placeholder):
        node = exp.Parameter(this=exp.Var(this=node.name.removeprefix("v_")))
    return str(types[node.name.lower()]) if isinstance(node, exp.Parameter) and node.name.lower() in types else ""
