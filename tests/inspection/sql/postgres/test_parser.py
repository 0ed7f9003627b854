from __future__ import annotations

import pytest

from postern.domain.rules.statement import Effect, ObjectKind, ObjectName
from postern.domain.targets.target_schema import Function, Relation, TargetSchema
from postern.inspection.sql import sql_cache
from postern.inspection.sql.sql_parser import Parser
from postern.protocols.postgres.dialect.postgres_parser import PostgresParser


@pytest.fixture(scope="module")
def parser() -> PostgresParser:
    return PostgresParser()


def effects(parser: PostgresParser, text: str, schema: TargetSchema | None = None) -> list[set[str]]:
    return [{effect.value for effect in statement.effects} for statement in parser.parse(text, schema)]


def test_postgres_parser_implements_the_parser_interface(parser: PostgresParser) -> None:
    port: Parser = parser
    assert port.dialect == "postgres"


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("select 1", "SELECT"),
        ("select 1 into a", "SELECT INTO"),
        ("delete from a", "DELETE"),
        ("create table a ()", "CREATE TABLE"),
        ("create table a as select 1", "CREATE TABLE AS"),
        ("drop materialized view a", "DROP MATERIALIZED VIEW"),
        ("alter table a rename to b", "ALTER TABLE"),
        ("create unique index on a (b)", "CREATE INDEX"),
        ("begin", "BEGIN"),
        ("rollback to savepoint a", "ROLLBACK"),
        ("reset all", "RESET"),
        ("set a.b = 1", "SET"),
        ("analyze a", "ANALYZE"),
        ("grant a to b", "GRANT ROLE"),
        ("revoke select on a from b", "REVOKE"),
        ("create policy a on b", "CREATE POLICY"),
        ("import foreign schema a from server b into c", "IMPORT FOREIGN SCHEMA"),
    ],
)
def test_statement_has_the_command_tag_of_the_server(parser: PostgresParser, text: str, tag: str) -> None:
    assert [statement.tag for statement in parser.parse(text)] == [tag]


def test_each_statement_of_a_text_has_its_own_effects(parser: PostgresParser) -> None:
    assert effects(parser, "select 1; delete from a; -- no more") == [{"read"}, {"write"}]


@pytest.mark.parametrize("text", ["", " \n", "-- nothing", "/* */;;"])
def test_text_without_statements_has_no_result(parser: PostgresParser, text: str) -> None:
    assert parser.parse(text) == ()


def test_object_names_are_folded_as_by_the_server(parser: PostgresParser) -> None:
    (statement,) = parser.parse('select App.F(1), g(2) from "App".Users join Orders on true')
    assert statement.objects == {
        ObjectName(ObjectKind.FUNCTION, "f", "app"),
        ObjectName(ObjectKind.FUNCTION, "g"),
        ObjectName(ObjectKind.TABLE, "users", "App"),
        ObjectName(ObjectKind.TABLE, "orders"),
    }


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("with a as (select 1) select * from a", set()),
        ("with a as (select * from a) select * from a", {"a"}),  # the one inside is the table
        ("with recursive a as (select * from a) select * from a", set()),
        ("with a as (select 1), b as (select * from a) select * from b", set()),
        ("select * from (with a as (select 1) select * from a) x, a", {"a"}),
        ("with a as (select 1) select * from public.a", {"a"}),
        ("with a as (select 1) select (select 1 from a)", set()),
        ("with a as (select 1) select 1 union select * from a", set()),
        ("with a as (select 1) delete from b using a", {"b"}),
        ("with a as (select 1) insert into b select * from a", {"b"}),
        ("drop table a, b.c", {"a", "c"}),
        ("truncate a", {"a"}),
        ("alter table a add b int references c", {"a", "c"}),
        ("drop trigger x on a.b", {"b"}),
        ("comment on column a.b.c is 'x'", {"b"}),
        ("copy a to stdout", {"a"}),
        ("lock a", {"a"}),
    ],
)
def test_cte_name_in_scope_is_not_a_table(parser: PostgresParser, text: str, tables: set[str]) -> None:
    (statement,) = parser.parse(text)
    assert {one.name for one in statement.objects if one.kind is ObjectKind.TABLE} == tables


def test_dropped_schema_is_an_object_of_the_statement(parser: PostgresParser) -> None:
    (statement,) = parser.parse("drop schema a cascade")
    assert statement.objects == {ObjectName(ObjectKind.SCHEMA, "a")}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("select '\0'; drop table a", "NUL"),
        ("select '\udc80'", "not valid in the agreed encoding"),
        ("selct 1", "cannot be parsed"),
        ("select '" + "x" * (1 << 20) + "'", "larger than 1 MiB"),
        ("select " + "+1" * 100_000, "nested too deeply"),  # libpg_query would overflow its stack
        ("select " + "(" * 9_000 + "1" + ")" * 9_000, "nested too deeply"),
        ("select 1" + " union select 1" * 20_000, "nested too deeply"),
        ("select '\\', '" + "+1" * 100_000 + "'", "too large to be read in both ways"),  # deep by the other reading
        ("do $$ begin null; end $$", "block of code"),
        ("select f()", "function f() is unknown"),
    ],
)
def test_statement_that_cannot_be_judged_is_unknown_with_a_reason(parser: PostgresParser, text: str, says: str) -> None:
    (statement,) = parser.parse(text)
    assert Effect.UNKNOWN in statement.effects
    assert says in statement.reason


@pytest.mark.parametrize(
    "text",
    ["update users set password = 'hunter2", 'select 1 "hunter2', "hunter2", "create role a with hunter2 'x'"],
)
def test_attack_parse_error_reason_contains_no_text_of_the_statement(parser: PostgresParser, text: str) -> None:
    """The reason is sent to all receivers of violations, even if they must not see statements."""
    (statement,) = parser.parse(text)
    assert "cannot be parsed: " in statement.reason
    assert "hunter2" not in statement.reason


def test_large_statement_without_nesting_is_judged(parser: PostgresParser) -> None:
    rows = ", ".join(f"({number}, 'C:\\temp', now(), 1 + 2)" for number in range(2_000))
    assert effects(parser, f"insert into a values {rows}") == [{"write"}]
    conditions = " or ".join(f"(id = {number} and name = 'x{number}')" for number in range(1_500))
    assert effects(parser, f"select * from a where {conditions}") == [{"read"}]


@pytest.mark.parametrize("text", ["create sequence s owned by none", "alter sequence s owned by nobody"])
def test_sequence_statement_with_owned_by_has_the_ddl_effect(parser: PostgresParser, text: str) -> None:
    (statement,) = parser.parse(text)
    assert statement.effects == {Effect.DDL}


def test_backslash_text_with_equal_effects_in_both_readings_is_known(parser: PostgresParser) -> None:
    assert effects(parser, "select 'C:\\temp', 'a\\'") == [{"read"}]
    assert effects(parser, "delete from a where b = 'x\\y'") == [{"write"}]


class TestTargetSchema:
    SCHEMA = TargetSchema(
        relations={
            ("public", "users"): Relation("public", "users", ("id",)),
            ("app", "seen"): Relation("app", "seen", ("id",), definition="select id from users"),
            ("app", "bad"): Relation("app", "bad", ("id",), definition="select nextval('s')"),
            ("other", "seen"): Relation("other", "seen", ("id",), definition="select other.f()"),
            ("app", "loop"): Relation("app", "loop", ("id",), definition="select * from app.loop"),
        },
        functions={
            ("app", "calm"): Function("app", "calm", harmless=True),
            ("app", "loud"): Function("app", "loud", harmless=False),
            ("app", "lower"): Function("app", "lower", harmless=False),
            ("", "loud_but_allowed"): Function("", "loud_but_allowed", harmless=True),
            ("app", "loud_but_allowed"): Function("app", "loud_but_allowed", harmless=False),
        },
        search_path=("public", "app"),
        types={("app", "mood"): True, ("app", "watched"): False},
        operators={("app", "<=>"): True, ("app", "+"): False},
    )

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("call calm()", {"read"}),
            ("call loud()", {"read", "unknown"}),
            ("select * from users", {"read"}),
            ("select * from created_since", {"read", "unknown"}),
            ("select * from pg_class, information_schema.tables", {"read"}),
            ("select * from app.seen", {"read"}),
            ("select * from app.bad", {"read", "write"}),
            ("select * from seen", {"read", "unknown"}),  # a search_path may lead to either of them
            ("select * from app.loop", {"read", "unknown"}),
            ("insert into app.bad values (1)", {"write", "read"}),
            ("select calm()", {"read"}),
            ("select app.calm()", {"read"}),
            ("select other.calm()", {"read", "unknown"}),
            ("select loud()", {"read", "unknown"}),
            ("select lower('x')", {"read", "unknown"}),  # it may be app.lower
            ("select pg_catalog.lower('x')", {"read"}),
            ("select loud_but_allowed()", {"read"}),
            ("select users.loud from users", {"read", "unknown"}),
            ("select users.id from users", {"read"}),
            ("select (id).watched from users", {"read", "unknown"}),
            ("select (id).pg_terminate_backend from users", {"read", "admin"}),
            ("select users.pg_read_file from (values ('/etc/passwd')) users", {"read", "admin"}),
            ("select (name).set_config from users", {"read", "session", "unknown"}),
            ("select 1::app.mood, 'x'::mood", {"read"}),
            ("select 1::watched", {"read", "unknown"}),
            ("select null::users", {"read", "unknown"}),  # a column of it may be of a domain
            ("select null::_watched", {"read", "unknown"}),
            ("select 1::nobody_knows", {"read", "unknown"}),
            ("select 1 <=> 2", {"read"}),
            ("select 1 + 2", {"read", "unknown"}),
            ("select 1 between 2 and 3", {"read"}),
            ("select 1 operator(pg_catalog.+) 2", {"read"}),
            ("create table new (a int)", {"ddl"}),
        ],
    )
    def test_effects_follow_the_objects_that_names_resolve_to(
        self, parser: PostgresParser, text: str, expected: set[str]
    ) -> None:
        assert effects(parser, text, self.SCHEMA) == [expected]

    def test_builtin_function_is_unknown_if_pg_catalog_is_last_in_the_search_path(self, parser: PostgresParser) -> None:
        schema = TargetSchema(search_path=("public", "pg_catalog"))
        assert effects(parser, "select upper('x')", schema) == [{"read", "unknown"}]
        assert effects(parser, "select pg_catalog.upper('x')", schema) == [{"read"}]

    def test_tables_behind_a_view_are_objects_of_the_statement(self, parser: PostgresParser) -> None:
        (statement,) = parser.parse("select * from app.seen", self.SCHEMA)
        assert ObjectName(ObjectKind.TABLE, "users") in statement.objects

    def test_cached_result_is_not_reused_for_a_different_schema(self, parser: PostgresParser) -> None:
        assert effects(parser, "select calm()") == [{"read", "unknown"}]
        assert effects(parser, "select calm()", self.SCHEMA) == [{"read"}]
        assert effects(parser, "select calm()", TargetSchema()) == [{"read", "unknown"}]


class TestCache:
    def test_statement_cache_is_bounded_in_entries(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sql_cache, "CACHED_TEXTS", 3)
        parser = PostgresParser()
        for number in range(10):
            parser.parse(f"select {number}")
        assert len(parser._cache) == 3

    def test_statement_cache_is_bounded_in_length(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sql_cache, "CACHED_LENGTH", 1_000)
        parser = PostgresParser()
        for number in range(10):
            parser.parse(f"select {number}, '{'x' * 300}'")
        assert len(parser._cache) == 3

    def test_long_texts_are_not_cached(self) -> None:
        parser = PostgresParser()
        parser.parse(f"select '{'x' * sql_cache.CACHED_TEXT_LENGTH}'")
        assert len(parser._cache) == 0

    def test_cached_judgement_is_returned_again(self) -> None:
        parser = PostgresParser()
        assert parser.parse("delete from a") is not None
        assert parser.judge("delete from a") is parser.judge("delete from a")
