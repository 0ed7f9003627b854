"""The catalogue of a real target, read by a worker in a process of its own when rules of a session ask for it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from uuid import uuid4

import psycopg
import pytest
from tests.support.gateway import Gateway
from tests.support.postgres import PostgresServer
from tests.support.promises import wait_until

from postern.domain.rules.guardrail import Guardrail, Rule, RuleType
from postern.domain.targets.connection import Connection

pytestmark = pytest.mark.slow

APPLICATION = "postern schema"


@pytest.fixture(scope="module")
def talkative(target: PostgresServer, direct: psycopg.Connection) -> Iterator[PostgresServer]:
    """The target, with a line in its log for each login."""
    direct.execute("alter system set log_connections = on")
    direct.execute("select pg_reload_conf()")
    direct.execute("create view viewed as select datname as name from pg_database")
    wait_until(lambda: psycopg.connect(target.dsn()).execute("show log_connections").fetchone() == ("on",))
    yield target
    direct.execute("drop view viewed")
    direct.execute("alter system reset log_connections")
    direct.execute("select pg_reload_conf()")


@pytest.fixture(scope="module")
def judged(gateway: Gateway, talkative: PostgresServer) -> Connection:
    """A connection with a rule about what statements do, which hits none."""
    connection = gateway.connection("judged", talkative)
    rule = Rule(RuleType.DENY_STATEMENTS, pattern_regex=r"[^\s\S]", objects=("nothing_has_this_name",))
    now = datetime.now(UTC)
    rail = Guardrail(uuid4(), connection.org_id, "nothing", "", True, (rule,), (), (connection.id,), now, now)
    gateway.call(gateway.stores.guardrails.add(rail))
    return connection


def logins(server: PostgresServer) -> int:
    """How often somebody came to read the catalogue."""
    lines = server.log().splitlines()
    return sum("connection authorized" in line and f"application_name={APPLICATION}" in line for line in lines)


def test_session_without_schema_rules_reads_no_catalogue(gateway: Gateway, talkative: PostgresServer) -> None:
    before = logins(talkative)
    with psycopg.connect(gateway.url("target")) as client:
        assert client.execute("select 1").fetchone() == (1,)
    assert logins(talkative) == before


def test_first_session_reads_the_catalogue_and_later_ones_share_it(
    gateway: Gateway, talkative: PostgresServer, judged: Connection
) -> None:
    before = logins(talkative)
    for _ in range(4):
        with psycopg.connect(gateway.url("judged")) as client:
            assert client.execute("select count(*) > 0 from viewed").fetchone() == (True,)
    assert logins(talkative) == before + 1
    gateway.all_closed(connection="judged")


def test_slow_catalogue_does_not_delay_a_session_and_is_known_later(
    gateway: Gateway, talkative: PostgresServer, direct: psycopg.Connection, judged: Connection
) -> None:
    direct.execute("create database blocked")
    with psycopg.connect(talkative.dsn("blocked")) as blocking:
        blocking.execute("create view viewed as select 1 as one")
        blocking.execute("create function harmless() returns int immutable language sql as 'select 1'")
        blocking.commit()
        blocking.execute("lock table viewed in access exclusive mode")  # which reading its definition waits for
        with psycopg.connect(gateway.url("judged", database="blocked"), autocommit=True) as client:
            assert client.execute("select 1").fetchone() == (1,)
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="is unknown"):
                client.execute("select harmless()")
            blocking.rollback()

            def known() -> bool:
                try:
                    return client.execute("select harmless()").fetchone() == (1,)
                except psycopg.errors.InsufficientPrivilege:
                    return False

            wait_until(known, every=0.5)
    gateway.all_closed(connection="judged")
    direct.execute("drop database blocked with (force)")
