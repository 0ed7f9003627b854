"""Names on real servers: every name that leads to a protected table matches the rule about it."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from tests.support.mariadb import MariaDbServer, program
from tests.support.postgres import PostgresServer, running_server

from postern.domain.rules.guarded_objects import parse_guarded
from postern.inspection.sql.sql_parser import Parser
from postern.protocols.mysql.dialect.mysql_parser import MySqlParser
from postern.protocols.postgres.dialect.postgres_parser import PostgresParser

pytestmark = pytest.mark.slow

_LONG = "x" * 63


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with running_server() as server:
        with psycopg.connect(server.dsn(), autocommit=True) as admin:
            admin.execute("create schema hr; create table hr.salary as select 4711 as a; create role clerk login")
            admin.execute("grant usage on schema hr to clerk; grant select on hr.salary to clerk")
            admin.execute(f"create table hr.{_LONG} as select 4711 as a")
            admin.execute("create function hr.pay() returns int language sql stable as 'select 4711'")
        yield server


def matches_rule(parser: Parser, rule: str, text: str) -> bool:
    found = parser.parse(text)
    return any(parse_guarded(rule, "objects").hit_by(touched) is not False for one in found for touched in one.objects)


@pytest.mark.parametrize(
    ("way", "options"),
    [
        ("set search_path = hr", ""),
        ("set search_path to public, hr", ""),
        ("set schema 'hr'", ""),
        ("set local search_path = hr", ""),
        ("select set_config('search_path', 'hr', false)", ""),
        ("select set_config('sea' || 'rch_path', 'h' || 'r', false)", ""),
        ("update pg_settings set setting = 'hr' where name = 'search_path'", ""),
        ("do $$ begin execute 'set search' || '_path = hr'; end $$", ""),
        ("select 1", "-c search_path=hr"),
        ("select 1", "--search_path=public,hr"),
    ],
)
def test_table_rule_matches_after_the_session_changed_its_search_path(
    postgres: PostgresServer, way: str, options: str
) -> None:
    with psycopg.connect(postgres.dsn(user="clerk"), options=options) as session:
        session.execute(way)
        for text in ("select * from salary", 'SELECT * FROM "salary"', "table U&\"s!0061lary\" uescape '!'"):
            assert session.execute(text).fetchall() == [(4711,)]
            assert matches_rule(PostgresParser(), "hr.salary", text)
            assert matches_rule(PostgresParser(), "hr.*", text)
        assert session.execute("select pay()").fetchall() == [(4711,)]
        assert matches_rule(PostgresParser(), "hr.pay()", "select pay()")


@pytest.mark.parametrize(
    "setting",
    ["alter role clerk set search_path = hr", "alter role all set search_path = hr",
     "alter role clerk in database postgres set search_path = hr",
     "alter database postgres set search_path = public, hr"],
)  # fmt: skip
def test_table_rule_matches_under_a_search_path_of_a_role_or_database(postgres: PostgresServer, setting: str) -> None:
    with psycopg.connect(postgres.dsn(), autocommit=True) as admin:
        admin.execute(setting)
        try:
            with psycopg.connect(postgres.dsn(user="clerk")) as session:
                assert session.execute("select * from salary").fetchall() == [(4711,)]
        finally:
            admin.execute(setting.partition(" set ")[0] + " reset search_path")
    assert matches_rule(PostgresParser(), "hr.salary", "select * from salary")


def test_table_rule_matches_a_name_that_the_server_truncates(postgres: PostgresServer) -> None:
    text = f"select * from hr.{_LONG}yz"
    with psycopg.connect(postgres.dsn()) as session:
        assert session.execute(text).fetchall() == [(4711,)]
    assert matches_rule(PostgresParser(), f"hr.{_LONG}", text)


def test_table_rule_matches_a_name_with_its_database(postgres: PostgresServer) -> None:
    with psycopg.connect(postgres.dsn()) as session:
        assert session.execute("select * from Postgres.HR.Salary").fetchall() == [(4711,)]
    assert matches_rule(PostgresParser(), "hr.salary", "select * from Postgres.HR.Salary")


@pytest.mark.parametrize("folding", [0, 1])
def test_mariadb_rule_matches_names_under_each_letter_case_setting(folding: int) -> None:
    if program("mariadbd") is None:
        pytest.skip("no MariaDB server: install Debian's mariadb-server-core")
    server = MariaDbServer((f"--lower-case-table-names={folding}",))
    server.start()
    try:
        with server.connect() as session, session.cursor() as cursor:
            cursor.execute("create database hr")
            cursor.execute("create table hr.salary select 4711 as a")
            cursor.execute("create function hr.pay() returns int return 4711")
            texts = ["select * from hr.salary", "select * from `hr`.`salary`", "select * from hr . salary"]
            texts += ["select * from HR.Salary"] if folding else []
            for text in texts:
                cursor.execute(text)
                assert cursor.fetchall() == ((4711,),)
                assert matches_rule(MySqlParser(), "hr.salary", text)
            for text in ("select hr.PAY()", "select hr.p\u00e4y()"):  # routines: neither case nor accents
                cursor.execute(text)
                assert cursor.fetchall() == ((4711,),)
                assert matches_rule(MySqlParser(), "hr.pay()", text)
    finally:
        server.stop()
