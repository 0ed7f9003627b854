"""Tests of connections and their schemas, asked of a real PostgreSQL by a worker in a process of its own."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import psycopg
import pytest
from tests.support.gateway import Gateway, running
from tests.support.postgres import PostgresServer, free_port
from tests.support.promises import wait_until

from postern.domain.targets.target_task import MAX_ANSWER, TargetTaskKind
from postern.errors import Malformed, NotFound

pytestmark = pytest.mark.slow


def ask(gateway: Gateway, kind: TargetTaskKind, connection: str = "target", **given: str | None) -> Mapping[str, Any]:
    answer = gateway.call(gateway.services.target_tasks.ask(gateway.admin, connection, kind, given, source="127.0.0.1"))
    assert not answer.truncated
    return answer.result


def failure(gateway: Gateway, kind: TargetTaskKind, connection: str, **given: str | None) -> str:
    with pytest.raises(Malformed) as raised:
        ask(gateway, kind, connection, **given)
    return raised.value.message


@pytest.fixture(scope="module")
def shop(target: PostgresServer, direct: psycopg.Connection) -> str:
    """A database with names that a careless statement would stumble over."""
    direct.execute('drop database if exists "shop\'s"')
    direct.execute('create database "shop\'s"')
    with psycopg.connect(target.dsn("shop's"), autocommit=True) as inside:
        inside.execute('create schema "Größe"; create schema empty')
        inside.execute(
            """create table "Größe"."a'b\\c""d" (id int primary key, "na me" varchar(40), t text[] not null)"""
        )
        inside.execute('create view "Größe".v as select 1 as one; create table public.plain (n numeric(10,2))')
        inside.execute("create table gone (kept int, dropped int); alter table gone drop column dropped")
    return "shop's"


def test_connection_test_logs_in(gateway: Gateway) -> None:
    assert ask(gateway, TargetTaskKind.TEST) == {"success": True}


def test_databases_are_listed_without_templates(gateway: Gateway, shop: str) -> None:
    found = ask(gateway, TargetTaskKind.DATABASES)["databases"]
    assert {"postgres", shop} <= set(found)
    assert "template0" not in found
    assert found == sorted(found)


def test_tables_of_another_database_are_listed_by_schema(gateway: Gateway, shop: str) -> None:
    every = ask(gateway, TargetTaskKind.TABLES, database=shop)
    assert every == {
        "schemas": [
            {"name": "Größe", "tables": ["a'b\\c\"d", "v"]},
            {"name": "public", "tables": ["gone", "plain"]},
        ]
    }
    assert ask(gateway, TargetTaskKind.TABLES, database=shop, schema="Größe") == {"schemas": every["schemas"][:1]}
    catalogue = ask(gateway, TargetTaskKind.TABLES, schema="pg_catalog")["schemas"][0]["tables"]
    assert "pg_class" in catalogue


def test_whole_schema_has_every_relation_with_its_columns(gateway: Gateway, shop: str) -> None:
    whole = ask(gateway, TargetTaskKind.SCHEMA, database=shop)
    assert whole["database"] == shop
    assert {"postgres", shop} <= set(whole["databases"])
    kinds = {
        (schema["name"], table["name"]): (table["kind"], [column["name"] for column in table["columns"]])
        for schema in whole["schemas"]
        for table in schema["tables"]
    }
    assert kinds == {
        ("Größe", "a'b\\c\"d"): ("table", ["id", "na me", "t"]),
        ("Größe", "v"): ("view", ["one"]),
        ("public", "gone"): ("table", ["kept"]),
        ("public", "plain"): ("table", ["n"]),
    }
    column = whole["schemas"][1]["tables"][1]["columns"][0]
    assert column == {"name": "n", "type": "numeric(10,2)", "nullable": True}


def test_columns_have_the_types_that_the_database_prints(gateway: Gateway, shop: str) -> None:
    assert ask(gateway, TargetTaskKind.COLUMNS, database=shop, schema="Größe", table="a'b\\c\"d") == {
        "columns": [
            {"name": "id", "type": "integer", "nullable": False},
            {"name": "na me", "type": "character varying(40)", "nullable": True},
            {"name": "t", "type": "text[]", "nullable": False},
        ]
    }
    assert ask(gateway, TargetTaskKind.COLUMNS, database=shop, table="plain") == {
        "columns": [{"name": "n", "type": "numeric(10,2)", "nullable": True}]
    }
    assert [one["name"] for one in ask(gateway, TargetTaskKind.COLUMNS, database=shop, table="gone")["columns"]] == [
        "kept"
    ]


@pytest.mark.parametrize("table", ["missing", "plain'; drop table plain; --", "' or ''='", "$1", "%"])
def test_table_name_is_a_value_and_never_part_of_a_statement(gateway: Gateway, shop: str, table: str) -> None:
    with pytest.raises(NotFound, match="the table does not exist"):
        ask(gateway, TargetTaskKind.COLUMNS, database=shop, table=table)
    assert ask(gateway, TargetTaskKind.COLUMNS, database=shop, table="plain")


def test_unqualified_table_outside_the_search_path_is_not_found(gateway: Gateway, shop: str) -> None:
    with pytest.raises(NotFound):
        ask(gateway, TargetTaskKind.COLUMNS, database=shop, table="v")


def test_unreachable_target_fails_the_test(gateway: Gateway) -> None:
    gateway.connection("task-unreachable", secret={"PORT": str(free_port())})
    assert "cannot be reached" in failure(gateway, TargetTaskKind.TEST, "task-unreachable")


def test_rejected_login_fails_the_test_with_the_targets_reason(gateway: Gateway, target: PostgresServer) -> None:
    gateway.connection("task-nobody", target, secret={"USER": "nobody-there"})
    reason = failure(gateway, TargetTaskKind.TEST, "task-nobody")
    assert "refused" in reason
    assert 'role "nobody-there" does not exist' in reason


def test_missing_database_fails_the_task(gateway: Gateway) -> None:
    assert 'database "no\'where" does not exist' in failure(
        gateway, TargetTaskKind.TABLES, "target", database="no'where"
    )


def test_missing_secret_fails_the_test(gateway: Gateway) -> None:
    gateway.connection("task-secretless", secret=dict.fromkeys(("HOST", "USER", "PASS", "DB"), ""))
    assert "envvar:HOST" in failure(gateway, TargetTaskKind.TEST, "task-secretless")


def test_offline_agent_fails_the_test(gateway: Gateway, target: PostgresServer) -> None:
    made = gateway.call(gateway.services.agent_keys.create(gateway.admin, {"name": "asleep"}))
    gateway.connection("task-asleep", target)
    gateway.call(gateway.services.connections.update(gateway.admin, "task-asleep", {"agent_id": made.id}))
    assert "offline" in failure(gateway, TargetTaskKind.TEST, "task-asleep")


def test_silent_target_times_out(gateway: Gateway) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        gateway.connection("task-silent", secret={"PORT": str(silent.getsockname()[1])})
        assert "did not answer within" in failure(gateway, TargetTaskKind.TEST, "task-silent")


def test_query_of_a_locked_catalogue_times_out_and_is_cancelled(
    gateway: Gateway, target: PostgresServer, direct: psycopg.Connection
) -> None:
    with psycopg.connect(target.dsn()) as locking:
        locking.execute("lock table pg_catalog.pg_attribute in access exclusive mode")
        reason = failure(gateway, TargetTaskKind.COLUMNS, "target", table="pg_class", schema="pg_catalog")
    assert "did not answer within" in reason
    wait_until(lambda: not running(direct, "attnotnull"))


def test_schema_over_the_limit_is_cut_and_marked(
    gateway: Gateway, target: PostgresServer, direct: psycopg.Connection
) -> None:
    direct.execute("drop database if exists wide")
    direct.execute("create database wide")
    with psycopg.connect(target.dsn("wide"), autocommit=True) as inside:
        for letter in "abcdefghij":
            inside.execute(
                f"do $$ begin for n in 1..1600 loop execute 'create view {letter}' || repeat('x', 55) || n "
                "|| ' as select 1 as one'; end loop; end $$"
            )
    asked = gateway.services.target_tasks.ask(
        gateway.admin, "target", TargetTaskKind.TABLES, {"database": "wide"}, source="127.0.0.1"
    )
    answer = gateway.call(asked)
    direct.execute("drop database wide")
    assert answer.truncated
    names = answer.result["schemas"][0]["tables"]
    assert 8_000 < len(names) < 16_000
    assert sum(len(name) + 3 for name in names) < MAX_ANSWER


def test_concurrent_connection_tests_leave_no_connections_and_sessions(
    gateway: Gateway, direct: psycopg.Connection
) -> None:
    async def many() -> list[Mapping[str, Any]]:
        target_tasks = gateway.services.target_tasks
        asked = (target_tasks.ask(gateway.admin, "target", TargetTaskKind.TEST, source="127.0.0.1") for _ in range(12))
        return [answer.result for answer in await asyncio.gather(*asked)]

    assert gateway.call(many()) == [{"success": True}] * 12
    mine = "select count(*) from pg_stat_activity where application_name like 'postern test%'"
    wait_until(lambda: direct.execute(mine).fetchone() == (0,))
    assert not [one for one in gateway.sessions() if one.verb == "exec" and not one.script_size]
