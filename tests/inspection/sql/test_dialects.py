"""Properties shared by the parsers of MySQL, T-SQL and Oracle."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.bypass import cases_mysql, cases_oracle, cases_tsql
from tests.bypass.cases import effects_of

from postern.domain.rules.statement import Effect, ObjectKind, ObjectName
from postern.domain.targets.target_schema import Function, TargetSchema
from postern.inspection.sql.sql_cache import CACHED_TEXTS, TextCache
from postern.protocols.mssql.dialect.tsql_parser import TSqlParser
from postern.protocols.mysql.dialect.mysql_parser import MySqlParser
from postern.protocols.oracledb.dialect.oracle_parser import OracleParser

_DIALECTS = {"mysql": cases_mysql, "tsql": cases_tsql, "oracle": cases_oracle}
_PARSERS = {name: module.parser() for name, module in _DIALECTS.items()}
_TEXTS = {
    name: [case.text for case in module.CASES if len(case.text) < 1000] + [one.text for one in module.ORDINARY]
    for name, module in _DIALECTS.items()
}
_PIECES = [
    "'",
    '"',
    "`",
    "[",
    "]",
    "/*",
    "*/",
    "/*!50000 ",
    "--",
    "#",
    "\n",
    ";",
    "(",
    ")",
    "\\",
    "q'[",
    "@",
    "GO",
    "SELECT",
]
_PIECES += [
    "DELETE FROM t",
    "WHERE",
    "1=1",
    "WITH",
    "a",
    ",",
    "CASE",
    "END",
    "BEGIN",
    "NOT",
    ".",
    "1.e",
    "\ufffd",
    "\u00a0",
]

_CASES: dict[str, Callable[[str], str]] = {"as it is": str, "upper": str.upper, "swapped": str.swapcase}

dialects = pytest.mark.parametrize("dialect", list(_DIALECTS))


def _has_code(text: str) -> bool:
    """Whether the text can contain its own semicolons, so that text after it would belong to it."""
    return any(word in text.upper() for word in ("BEGIN", "DECLARE", "CREATE", "FUNCTION", "GO", "--", "#", "/"))


@pytest.fixture(scope="module", params=list(_DIALECTS))
def module(request: pytest.FixtureRequest) -> ModuleType:
    return _DIALECTS[str(request.param)]


@dialects
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_parsing_of_any_text_does_not_raise_and_yields_effects(dialect: str, data: st.DataObject) -> None:
    pieces = st.lists(st.one_of(st.sampled_from(_PIECES), st.text(max_size=5)), max_size=25).map(" ".join)
    cut = st.sampled_from(_TEXTS[dialect]).flatmap(lambda text: st.integers(0, len(text)).map(lambda end: text[:end]))
    text = data.draw(st.one_of(pieces, pieces.map(lambda each: each.replace(" ", "")), cut))
    for statement in _PARSERS[dialect].parse(text):
        assert statement.effects
        assert bool(statement.reason) or Effect.UNKNOWN not in statement.effects


@dialects
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_comments_spaces_and_case_do_not_change_the_judgement(dialect: str, data: st.DataObject) -> None:
    plain = [
        text for text in _TEXTS[dialect] if not set(text) & set("'\"`[/#@:") and "--" not in text and text.isascii()
    ]
    plain = [text for text in plain if "\n" not in text and "\r" not in text]
    text = data.draw(st.sampled_from(plain))
    blanks = st.sampled_from([" ", "\n", "\t", "/**/", " /* ; drop table x */ ", " -- '\n", "\n\n"])
    other = "".join(data.draw(blanks) if sign == " " else sign for sign in text)
    other = _CASES[data.draw(st.sampled_from(list(_CASES)))](other)
    if dialect == "tsql" and "go" in other.lower().split():
        return
    parser = _PARSERS[dialect]
    before, after = parser.parse(text), parser.parse(other)
    assert effects_of(after) == effects_of(before)
    assert [each.without_where for each in after] == [each.without_where for each in before]


@dialects
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_effects_of_a_batch_are_those_of_its_statements(dialect: str, data: st.DataObject) -> None:
    whole = [text for text in _TEXTS[dialect] if not _has_code(text) and "{" not in text]
    parser = _PARSERS[dialect]
    whole = [text for text in whole if Effect.UNKNOWN not in effects_of(parser.parse(text))]
    first, second = data.draw(st.sampled_from(whole)), data.draw(st.sampled_from(whole))
    together = parser.parse(f"{first};\n{second}")
    assert effects_of(together) == effects_of(parser.parse(first)) | effects_of(parser.parse(second))


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_tsql_statement_without_a_separating_semicolon_is_found(data: st.DataObject) -> None:
    parser = _PARSERS["tsql"]
    whole = [text for text in _TEXTS["tsql"] if not _has_code(text) and text[:1].isalpha()]
    whole = [text for text in whole if all(each.tag for each in parser.parse(text))]  # with no open quotes
    first, second = data.draw(st.sampled_from(whole)), data.draw(st.sampled_from(whole))
    if second.upper().startswith(("WITH", "SP_", "XP_", "MY_", "DISABLE")):  # SQL Server wants a semicolon before these
        return
    found = effects_of(parser.parse(f"{first.rstrip(';')} {second}"))
    assert Effect.UNKNOWN in found or found >= effects_of(parser.parse(second)) - {Effect.SESSION, Effect.READ}


@dialects
def test_deeply_nested_statement_is_unknown(dialect: str) -> None:
    parser = _PARSERS[dialect]
    deep = ["(" * 5000, "SELECT " + "NOT " * 5000 + "1", "SELECT " + "- " * 5000 + "1", "SELECT " + "CASE WHEN " * 5000]
    deep += [
        "SELECT " + "f(" * 5000,
        "SELECT 1 FROM t " + "JOIN t " * 500,
        "SELECT 1 WHERE " + "EXISTS (SELECT 1 " * 999,
    ]
    for text in deep:
        assert Effect.UNKNOWN in effects_of(parser.parse(text))


@dialects
def test_statement_with_a_long_list_is_judged(dialect: str) -> None:
    parser = _PARSERS[dialect]
    assert effects_of(parser.parse("SELECT a FROM t WHERE b IN (" + ", ".join(map(str, range(5000))) + ")")) == {
        Effect.READ
    }
    rows = ", ".join(f"({number}, 'a')" for number in range(1000))
    if dialect != "oracle":
        assert effects_of(parser.parse(f"INSERT INTO t (a, b) VALUES {rows}")) == {Effect.WRITE}


@dialects
@pytest.mark.parametrize("text", ["", "  \n\t ", "-- nothing", "/* nothing */", ";;;", " ; -- x\n ;"])
def test_blanks_and_comments_contain_no_statement(dialect: str, text: str) -> None:
    assert _PARSERS[dialect].parse(text + "\n") == ()


@dialects
def test_text_of_a_statement_is_neither_logged_nor_in_the_reason(
    dialect: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        found = _PARSERS[dialect].parse(
            "SELECT 'secret-1' secret_2 secret_3 FROM; CALL secret_4 INTO; REPLACE secret_5 x y"
        )
    assert "secret" not in caplog.text
    assert not any("secret-1" in one.reason or "secret_3" in one.reason for one in found)


@dialects
def test_function_that_the_target_declares_harmless_is_a_read(dialect: str) -> None:
    functions = {("app", name): Function("app", name, harmless) for name, harmless in (("calm", True), ("wild", False))}
    schema = TargetSchema(functions=functions, search_path=("app",))
    parser = _PARSERS[dialect]
    assert effects_of(parser.parse("SELECT app.calm(1) FROM t", schema)) == {Effect.READ}
    assert Effect.UNKNOWN in effects_of(parser.parse("SELECT app.wild(1) FROM t", schema))
    assert Effect.UNKNOWN in effects_of(parser.parse("SELECT other.calm(1) FROM t", schema))
    assert Effect.UNKNOWN in effects_of(parser.parse("SELECT app.calm(1) FROM t"))


@pytest.mark.parametrize(
    ("parser", "text", "tables"),
    [
        (
            MySqlParser(),
            "SELECT * FROM Users JOIN `Shop`.`Orders` ON a = b",
            {("", "users"), ("shop", "orders")},
        ),
        (MySqlParser(), "WITH users AS (SELECT * FROM users) SELECT * FROM users", {("", "users")}),
        (MySqlParser(), "WITH x AS (SELECT 1) SELECT * FROM x", set()),
        (MySqlParser(), "SELECT * FROM (WITH s AS (SELECT 1) SELECT * FROM s) x, s", {("", "s")}),
        (MySqlParser(), "DROP TABLE a, b.c", {("", "a"), ("b", "c")}),
        (MySqlParser(), "UPDATE a JOIN b ON a.x = b.x SET a.y = 1 WHERE a.z = 1", {("", "a"), ("", "b")}),
        (TSqlParser(), "SELECT * FROM db.dbo.[Users]; DELETE FROM x..t", {("dbo", "users"), ("", "t")}),
        (TSqlParser(), "UPDATE t SET a = 1 FROM t JOIN s ON b = c WHERE d = 1", {("", "t"), ("", "s")}),
        (OracleParser(), 'SELECT * FROM hr.users, "Mixed"', {("HR", "USERS"), ("", "Mixed")}),
        (
            OracleParser(),
            "INSERT ALL INTO a VALUES (1) INTO b VALUES (1) SELECT 1 FROM c",
            {("", "A"), ("", "B"), ("", "C")},
        ),
    ],
)
def test_tables_of_a_statement_are_its_objects(
    parser: MySqlParser | TSqlParser | OracleParser, text: str, tables: set[tuple[str, str]]
) -> None:
    found = {one for statement in parser.parse(text) for one in statement.objects}
    assert {(one.schema, one.name) for one in found if one.kind is ObjectKind.TABLE} == tables


def test_functions_and_schemas_of_a_statement_are_its_objects() -> None:
    mysql, tsql, oracle = MySqlParser(), TSqlParser(), OracleParser()
    function = ObjectKind.FUNCTION
    assert ObjectName(function, "load_file") in mysql.parse("SELECT Load_File('x')")[0].objects
    assert ObjectName(ObjectKind.SCHEMA, "shop") in mysql.parse("DROP DATABASE Shop")[0].objects
    assert ObjectName(function, "xp_cmdshell", "dbo") in tsql.parse("EXEC master.dbo.xp_cmdshell 'x'")[0].objects
    assert ObjectName(function, "request", "utl_http") in oracle.parse("SELECT UTL_HTTP.REQUEST('x') FROM t")[0].objects


def test_text_cache_is_bounded_and_returns_the_cached_result() -> None:
    cache: TextCache[str] = TextCache()
    for number in range(CACHED_TEXTS + 10):
        cache.put(f"select {number}", None, "x")
    cache.put("a" * 100_000, None, "x")
    assert len(cache) == CACHED_TEXTS
    assert cache.get("select 0", None) is None
    assert cache.get(f"select {CACHED_TEXTS}", None) == "x"
    parser = MySqlParser()
    assert parser.parse("DELETE FROM t") is parser.parse("DELETE FROM t")


@pytest.mark.parametrize("dialect", sorted(_PARSERS))
@pytest.mark.parametrize(
    "condition",
    [
        "1 is not null",
        "not (1 is null)",
        "not (id = 1 and 1 is null)",
        "not (id <> id)",
        "not (id > id)",
        "not (not (id = 1) and id = 1)",
        "id between id and id",
        "coalesce(1, 2) is not null",
        "not exists (select 1 from t where 1 = 0)",
        "utc_date > 0",
        "SYSDATE is not null",
    ],
)
def test_condition_that_can_hold_for_every_row_counts_as_no_where(dialect: str, condition: str) -> None:
    [found] = _PARSERS[dialect].parse(f"delete from t where {condition}")
    assert found.without_where


@pytest.mark.parametrize("dialect", sorted(_PARSERS))
@pytest.mark.parametrize(
    "condition",
    ["id is not null", "not (id = 1)", "id between 1 and id", "t.sysdate > 1", "id = 5 and 1 is not null", "1 = 2"],
)
def test_condition_that_filters_rows_counts_as_where(dialect: str, condition: str) -> None:
    [found] = _PARSERS[dialect].parse(f"delete from t where {condition}")
    assert not found.without_where
