"""Ways around statement rules, by a client that can send any message: denied statements did not run, and warned and
matched statements are judged whatever name they were run by."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from tests.e2e.test_masking_attacks import SYNC, bind, close, execute, parse, query, said
from tests.support.gateway import Gateway
from tests.support.postgres import PostgresServer

from postern.domain.rules.guardrail import Action, Rule, RuleType, Unknown
from postern.domain.rules.statement import Effect
from postern.domain.targets.connection import Connection

WORLD = """
drop schema if exists traps cascade;
create schema traps;
create table traps.log (n int);
create table traps.kept (n int);
insert into traps.kept values (1), (2);
create function traps.step(int, int) returns int language plpgsql as 'begin insert into traps.log values (1); return 1; end';
create aggregate traps.total(int) (sfunc = traps.step, stype = int, initcond = 0);
create type traps.pair as (a int);
create function traps.shown(traps.pair) returns text language plpgsql as
  'begin insert into traps.log values (1); return ''x''; end';
create cast (traps.pair as text) with function traps.shown(traps.pair);
"""  # noqa: E501
READ_ONLY = Rule(RuleType.READ_ONLY, name="read only")
WARN = Rule(
    RuleType.DENY_STATEMENTS, effects=frozenset({Effect.WRITE}), action=Action.WARN, unknown=Unknown.ALLOW, name="warns"
)
WORDS = Rule(RuleType.DENY_WORDS_LIST, words=("zebra",), name="words", action=Action.WARN)
DELETE = "delete from traps.kept returning n"
LONG = "n" * 63


@pytest.fixture(scope="module")
def world(direct: psycopg.Connection) -> Iterator[None]:
    direct.execute(WORLD)
    yield
    direct.execute("drop schema traps cascade")


@contextmanager
def ruled(gateway: Gateway, target: PostgresServer, name: str, rule: Rule) -> Iterator[Connection]:
    connection = gateway.connection(name, target)
    fields = {"name": name, "input": (rule,), "output": (), "connection_ids": (str(connection.id),)}
    made = gateway.call(gateway.services.guardrails.create(gateway.admin, fields))
    try:
        yield connection
    finally:
        gateway.call(gateway.services.guardrails.remove(gateway.admin, str(made.id)))


@pytest.mark.usefixtures("world")
def test_attack_code_called_by_an_aggregate_or_a_cast_is_denied(
    gateway: Gateway, target: PostgresServer, direct: psycopg.Connection
) -> None:
    with ruled(gateway, target, "calls", READ_ONLY), psycopg.connect(gateway.url("calls"), autocommit=True) as client:
        for text in ("select traps.total(n) from traps.kept", "select row(1)::traps.pair::text"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                client.execute(text)
    assert direct.execute("select count(*) from traps.log").fetchone() == (0,)


CONVERSATIONS: dict[str, list[bytes]] = {
    "fetch a portal": [query("begin"), parse("s", DELETE) + bind("c", "s") + SYNC, query("fetch all from c")],
    "move a portal": [query("begin"), parse("s", DELETE) + bind("c", "s") + SYNC, query("move all in c")],
    "fetch a portal by a prepared fetch": [
        query("begin"), parse("s", DELETE) + bind("c", "s") + SYNC,
        parse("", 'FETCH ALL FROM "c"') + bind("", "") + execute("") + SYNC,
    ],
    "a portal whose name needs quotes": [
        query("begin"), parse("s", DELETE) + bind('a "b', "s") + SYNC, query('''select '"'; fetch all from "a ""b"'''),
    ],
    "execute what was parsed": [query("begin"), parse("s", DELETE) + SYNC, query("execute s")],
    "explain what was parsed": [query("begin"), parse("s", DELETE) + SYNC, query("explain analyze execute s")],
    "names that are cut": [
        query("begin"), parse(LONG + "a", "select 1") + SYNC, close(LONG + "b") + SYNC,
        parse(LONG + "b", DELETE) + SYNC, bind("", LONG + "a") + execute("") + SYNC,
    ],
}  # fmt: skip


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("steps", CONVERSATIONS.values(), ids=CONVERSATIONS.keys())
def test_attack_statement_run_by_its_name_is_judged(
    gateway: Gateway, target: PostgresServer, steps: list[bytes]
) -> None:
    name = f"warned-{list(CONVERSATIONS.values()).index(steps)}"
    with ruled(gateway, target, name, WARN):
        found = said(gateway.url(name), steps)
    assert b"warning of guardrail" in found


@pytest.mark.usefixtures("world")
def test_attack_bind_values_of_a_fetched_portal_are_judged(gateway: Gateway, target: PostgresServer) -> None:
    given = struct.pack("!HHi", 0, 1, 5) + b"zebra" + struct.pack("!H", 0)
    body = b"c\0s\0" + given
    bound = b"B" + struct.pack("!I", 4 + len(body)) + body
    with ruled(gateway, target, "worded", WORDS):
        steps = [query("begin"), parse("s", "select $1::text") + bound + SYNC, query("fetch all from c")]
        assert b"warning of guardrail" in said(gateway.url("worded"), steps)
