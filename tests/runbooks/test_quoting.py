"""Quoted inputs are read back unchanged by the real engines, whatever their settings."""

from __future__ import annotations

import ast
import json
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.mariadb import MariaDbServer, program
from tests.support.postgres import PostgresServer

from postern.protocols.spec import ScriptSyntax
from postern.runbooks.quoting import quote_value
from postern.runbooks.template import RenderError, parse
from postern.runbooks.template_errors import Fault

HOSTILE = [
    "",
    "plain",
    "it's",
    "''",
    "'",
    "\\",
    "\\'",
    "\\\\'",
    "'; DROP TABLE orders; --",
    "\\'; DROP TABLE orders; --",
    '"',
    '\\"',
    '"; id; "',
    "$(id)",
    "`id`",
    "$HOME ${HOME} $$ $'x'",
    "!! !$ wait!",
    "a\nb\r\nc\td",
    "trailing \\",
    "trailing \n",
    "-rf",
    "#c -- c /* c */",
    "\u02bc OR 1=1",  # an apostrophe of another block
    "\xbf\\' OR 1=1",  # in GBK its last byte would take the backslash along
    "縗\\' OR 1=1",
    "Müller 名前 😀",
    "$$ $a$ %s %% {0} {{ .x }} :v @v &v",
    "\\n \\x41 \\u0041 \\101",
    "]] [x] }",
]
NAMES = [one for one in HOSTILE if one.strip() and one == one.rstrip() and max(one) < "\U00010000"]  # MySQL's own rules
SHELLS = [name for name in ("bash", "dash", "sh", "zsh", "ksh") if shutil.which(name)]
TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc")) | st.sampled_from("'\"\\`$!\n\t;"), max_size=40)


def shell_reads(shell: str, literals: list[str]) -> list[str]:
    script = "".join(f"printf '%s\\0' {literal}\n" for literal in literals)
    made = subprocess.run([shell], input=script.encode(), capture_output=True, check=True, timeout=60)
    assert made.stderr == b""
    return made.stdout.decode().split("\0")[:-1]


@pytest.mark.parametrize(
    "shell", [name for name in ("bash", "dash", "sh", "zsh", "ksh", "busybox") if shutil.which(name)]
)
@pytest.mark.parametrize("quote", ["'", '"'])
def test_shell_reads_back_a_quoted_hostile_value(shell: str, quote: str) -> None:
    assert shell_reads(shell, [quote_value(ScriptSyntax.SHELL, quote, one) for one in HOSTILE]) == HOSTILE


@settings(deadline=None, max_examples=25)
@given(st.lists(TEXTS, min_size=1, max_size=20), st.sampled_from("'\""))
def test_shell_reads_back_any_quoted_text(values: list[str], quote: str) -> None:
    assert shell_reads("sh", [quote_value(ScriptSyntax.SHELL, quote, one) for one in values]) == values


@pytest.mark.parametrize("quote", ["'", '"'])
def test_interactive_shell_does_not_expand_history_in_a_quoted_value(quote: str) -> None:
    literal = quote_value(ScriptSyntax.SHELL, quote, "a!b !! !x")
    script = f"set -o history -H\necho before\nprintf '%s' {literal}\n"
    made = subprocess.run(["bash"], input=script.encode(), capture_output=True, check=True, timeout=60)
    assert made.stdout == b"before\na!b !! !x"


@settings(deadline=None)
@given(TEXTS)
def test_sqlite_reads_back_any_quoted_text(value: str) -> None:
    literals = [quote_value(ScriptSyntax.SQLITE, "'", value)]
    if "\\" not in value:
        literals.append(quote_value(ScriptSyntax.SQL, "'", value))
    with sqlite3.connect(":memory:") as base:
        assert base.execute(f"select {', '.join(literals)}").fetchone() == (value,) * len(literals)
        if value:
            for quote in ('"', "`"):
                name = quote_value(ScriptSyntax.SQLITE, quote, value)
                base.execute(f"create table {name} (x)")
                tables = base.execute("select name from sqlite_master where type = 'table'").fetchall()
                assert tables == [(value,)]
                base.execute(f"drop table {name}")


@pytest.mark.parametrize("conforming", ["on", "off"])
@pytest.mark.parametrize("backslash_quote", ["on", "off", "safe_encoding"])
def test_postgres_reads_back_a_quoted_value_under_every_setting(
    postgres_server: PostgresServer, conforming: str, backslash_quote: str
) -> None:
    with psycopg.connect(postgres_server.dsn(), autocommit=True) as base:
        base.execute(f"set standard_conforming_strings = {conforming}".encode())
        base.execute(f"set backslash_quote = {backslash_quote}".encode())
        for value in HOSTILE:
            assert base.execute(
                f"select {quote_value(ScriptSyntax.DOLLAR_QUOTES, chr(39), value)}::text".encode()
            ).fetchone() == (value,)
            behind_e = quote_value(ScriptSyntax.DOLLAR_QUOTES, "'", value, "E")
            assert base.execute(f"select E{behind_e}".encode()).fetchone() == (value,)
            if value:
                cursor = base.execute(f"select 1 as {quote_value(ScriptSyntax.DOLLAR_QUOTES, chr(34), value)}".encode())
                assert cursor.description is not None
                assert cursor.description[0].name == value


@pytest.fixture(scope="module")
def mariadb() -> Iterator[MariaDbServer]:
    if program("mariadbd") is None:
        pytest.skip("no MariaDB server: install Debian's mariadb-server-core")
    server = MariaDbServer()
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def asking(server: MariaDbServer, mode: str) -> Iterator[Callable[[str], Any]]:
    """The one value of an answer, and what its column is called."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"set sql_mode = '{mode}'")

        def ask(query: str) -> Any:
            cursor.execute(query)
            assert not cursor.nextset()
            return cursor.fetchone()[0], cursor.description[0][0]

        yield ask


def test_mysql_reads_back_a_quoted_value(mariadb: MariaDbServer) -> None:
    with asking(mariadb, "") as ask:
        for value in HOSTILE:
            assert ask(f"select {quote_value(ScriptSyntax.BACKSLASH_ESCAPES, chr(39), value)}")[0] == value
            assert ask(f"select {quote_value(ScriptSyntax.BACKSLASH_ESCAPES, chr(34), value)}")[0] == value
        for value in NAMES:
            name = quote_value(ScriptSyntax.BACKSLASH_ESCAPES, "`", value)
            assert ask(f"select a.{name} from (select 7 as {name}) a") == (7, value)


def test_mysql_without_escapes_reads_doubled_backslashes_of_a_quoted_value(mariadb: MariaDbServer) -> None:
    with asking(mariadb, "NO_BACKSLASH_ESCAPES") as ask:
        for value in HOSTILE:
            assert ask(f"select {quote_value(ScriptSyntax.BACKSLASH_ESCAPES, chr(39), value)}")[0] == value.replace(
                "\\", "\\\\"
            )


def test_mysql_with_ansi_quotes_reads_a_double_quoted_value_as_a_name(mariadb: MariaDbServer) -> None:
    with asking(mariadb, "ANSI_QUOTES") as ask:
        for value in NAMES:
            name = quote_value(ScriptSyntax.BACKSLASH_ESCAPES, '"', value)
            assert ask(f"select a.{name} from (select 7 as {name}) a")[0] == 7


def test_attack_executable_mysql_comment_is_quoted_as_code_and_not_as_a_comment(mariadb: MariaDbServer) -> None:
    for text in (
        "/*!50000 select '{{ .a | squote }}' */",
        "/*M! select '{{ .a | squote }}' */",
        "/*! select 1, '{{ .a | squote }}' */",
        "select 5 --{{ .a | squote }}'{{ .a | squote }}'",
    ):
        with pytest.raises(RenderError, match="within quotes of the text"):
            parse(text).render({"a": " union select 2 -- "}, ScriptSyntax.BACKSLASH_ESCAPES)
    for hostile in ("*/ select 2 -- ", "/* x"):  # to an older server all of it is a comment
        with pytest.raises(RenderError, match="comment that some servers run"):
            parse("/*!50000 select {{ .a | squote }} */").render({"a": hostile}, ScriptSyntax.BACKSLASH_ESCAPES)
    value = "it's `x` -- \\"
    with asking(mariadb, "") as ask:
        script = parse("/*!50000 select {{ .a | squote }} */").render({"a": value}, ScriptSyntax.BACKSLASH_ESCAPES).text
        assert ask(script)[0] == value


@settings(deadline=None)
@given(TEXTS, st.sampled_from("'\""))
def test_python_and_javascript_read_back_any_quoted_text(value: str, quote: str) -> None:
    assert ast.literal_eval(quote_value(ScriptSyntax.PYTHON, quote, value)) == value
    assert json.loads(quote_value(ScriptSyntax.JAVASCRIPT, '"', value)) == value
    assert quote_value(ScriptSyntax.JAVASCRIPT, "'", value).count("\n") == 0


def literal_of(node: Any) -> str:
    """What a literal, or some that are put together, comes to."""
    if isinstance(node, sqlglot.exp.Paren):
        return literal_of(node.this)
    if isinstance(node, sqlglot.exp.Add | sqlglot.exp.DPipe):
        return literal_of(node.left) + literal_of(node.right)
    if isinstance(node, sqlglot.exp.Chr) or node.name == "NCHAR":
        return chr(int(node.expressions[0].name))
    assert isinstance(node, sqlglot.exp.Literal | sqlglot.exp.National), node
    return str(node.name)


@pytest.mark.parametrize(("syntax", "dialect"), [(ScriptSyntax.TSQL, "tsql"), (ScriptSyntax.PL_SQL, "oracle")])
@pytest.mark.parametrize("value", [*HOSTILE, "$(password)", "a\nGO\nb", "R&D", "a;\n/\nb"])
def test_sql_server_and_oracle_parse_back_a_quoted_value(syntax: ScriptSyntax, dialect: str, value: str) -> None:
    literal = quote_value(syntax, "'", value)
    (statement,) = sqlglot.parse(f"select {literal} as x", read=dialect)
    assert isinstance(statement, sqlglot.exp.Select)
    assert literal_of(statement.expressions[0].this) == value
    assert "\n" not in literal
    assert "$(" not in literal if syntax is ScriptSyntax.TSQL else "&" not in literal


@pytest.mark.parametrize("syntax", list(ScriptSyntax))
@pytest.mark.parametrize("value", ["a\0b", "\x1b[2J", "\x03", "\x7f"])
def test_attack_control_characters_are_rejected_for_every_target(syntax: ScriptSyntax, value: str) -> None:
    with pytest.raises(Fault, match="control characters"):
        quote_value(syntax, "'", value)


@pytest.mark.parametrize(
    ("syntax", "quote", "value"),
    [
        (ScriptSyntax.SHELL, "`", "id"),
        (ScriptSyntax.SHELL, "|", "a b"),
        (ScriptSyntax.SQL, "'", "a\\"),
        (ScriptSyntax.PL_SQL, '"', 'a"b'),
        (ScriptSyntax.SQLITE, "[", "a]b"),
        (ScriptSyntax.DOLLAR_QUOTES, "$", "a;b"),
        (ScriptSyntax.OTHER, "'", "a b"),
    ],
)
def test_attack_value_without_a_literal_in_the_syntax_is_rejected(syntax: ScriptSyntax, quote: str, value: str) -> None:
    with pytest.raises(Fault):
        quote_value(syntax, quote, value)


def test_attack_doubled_bracket_does_not_end_a_quoted_name() -> None:
    for text in (
        "select [a]]{{ .a | squote }}]",
        "select [a]]]]{{ .a | squote }}]",
        'select {{ "a" | quotechar "[" }}]{{ .a | squote }}]',
    ):
        with pytest.raises(RenderError, match="within quotes of the text"):
            parse(text).render({"a": "x"}, ScriptSyntax.TSQL)
    for text in ("select [a]]] + {{ .a | squote }}", "select [a].[b] + {{ .a | squote }}"):
        assert parse(text).render({"a": "it's"}, ScriptSyntax.TSQL).text.endswith("'it''s'")
