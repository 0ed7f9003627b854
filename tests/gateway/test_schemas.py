"""Catalogues of targets, read from a real PostgreSQL by the built-in agent."""

from __future__ import annotations

import asyncio
import base64
import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from uuid import UUID, uuid4

import psycopg
import pytest
from tests.support.postgres import PostgresServer
from tests.support.promises import within

from postern.domain.identity.principal import Principal
from postern.domain.rules.guardrail import Guardrail, Rule, RuleType
from postern.domain.rules.masking import MaskingRule, TypeGroup
from postern.domain.rules.permit import Permit, seal
from postern.domain.rules.policy import Policy, needs_schema
from postern.domain.secret import Secret
from postern.domain.sessions.session import Verb
from postern.domain.targets.connection import Connection, ConnectionType
from postern.domain.targets.target_schema import Function, Relation
from postern.errors import Unavailable
from postern.gateway.rules.target_schemas import AGE, TargetSchemas, next_reading
from postern.relay.relay_target import Dialer, Start, Target
from postern.settings import load
from postern.wiring.processes.worker_process import embedded_agent

DATABASE = "schemas"
ORG = UUID(int=7)
COLUMNS = Policy(masking=(MaskingRule(uuid4(), ORG, "mail", columns=("*.email",)),))
START = Start(database=DATABASE)

DEFINITIONS = """
create schema hr;
create table users (id int, gone int, email text);
alter table users drop column gone;
comment on table users is 'Who may log in. #staff';
comment on column users.email is 'Where to write to #pii #contact:mail';
comment on column users.id is 'no. 1';
create view hr.mails as select email as mail from users;
create table parts (id int, twice int generated always as (id * 2) stored) partition by list (id);
create table parts_1 partition of parts default;
create function twice(int) returns int immutable language sql as 'select $1 * 2';
create function twice(text) returns text volatile language sql as 'select $1 || $1';
create function owners() returns int stable security definer language sql as 'select 1';
create operator @+@ (leftarg = int, rightarg = int, function = int4pl);
create operator @!@ (rightarg = int, function = twice);
create type mood as enum ('glad');
create domain any_mood as mood;
create domain checked as text check (value <> 'x');
create type pair as (mood mood, text checked);
create role reader login;
grant usage on schema hr to reader;
alter role reader set search_path to closed, hr, public;
create schema closed;
"""


@pytest.fixture(scope="module")
def server(postgres_server: PostgresServer) -> Iterator[PostgresServer]:
    with psycopg.connect(postgres_server.dsn(), autocommit=True) as admin:
        admin.execute(f"create database {DATABASE}")
        with psycopg.connect(postgres_server.dsn(DATABASE), autocommit=True) as inside:
            inside.execute(DEFINITIONS)
        yield postgres_server
        admin.execute(f"drop database {DATABASE} with (force)")
        admin.execute("drop role reader")


class Counting:
    """The built-in agent, which counts how often it is sent. `delay` in seconds; `refusal` in its place."""

    def __init__(self, dialer: Dialer) -> None:
        self._dialer = dialer
        self.dialled = 0
        self.cancelled = asyncio.Event()
        self.delay = 0.0
        self.refusal: Exception | None = None

    async def dial(self, permit: Permit, start: Start, session_id: UUID) -> Target:
        self.dialled += 1
        await asyncio.sleep(self.delay)
        if self.refusal is not None:
            raise self.refusal
        return await self._dialer.dial(permit, start, session_id)

    async def cancel(self, permit: Permit, target: Target) -> None:
        await self._dialer.cancel(permit, target)
        self.cancelled.set()


@pytest.fixture
async def dialer() -> Counting:
    return Counting(embedded_agent(load({}, dial_timeout=60), {}, ORG))


def permit(server: PostgresServer, policy: Policy = COLUMNS, user: str = "reader") -> Permit:
    texts = {"HOST": "127.0.0.1", "PORT": str(server.port), "USER": user, "SSLMODE": "disable"}
    secret = {f"envvar:{name}": Secret(base64.b64encode(text.encode()).decode()) for name, text in texts.items()}
    number = UUID(int=server.port)
    connection = Connection(number, ORG, "shop", ConnectionType.DATABASE, "postgres", uuid4(), secret=secret)
    ann = Principal(uuid4(), ORG, "ann", "ann@example.com", "Ann")
    return Permit(ann, connection, policy, Verb.CONNECT, "192.0.2.1", None, None, seal())


async def test_schema_snapshot_has_relations_functions_and_types(server: PostgresServer, dialer: Counting) -> None:
    schema = await TargetSchemas(dialer, seconds=60).of(permit(server), START)
    assert schema is not None
    assert schema.search_path == ("pg_catalog", "hr", "public")
    users = schema.relations["public", "users"]
    assert users.columns == ("id", "", "email")
    assert users.number >= 16_384
    assert users.tags == {"staff"}
    assert users.column_tags == {"email": frozenset({"pii", "contact:mail"})}
    mails = schema.relations["hr", "mails"]
    assert "public.users" in mails.definition
    part = schema.relations["public", "parts_1"]
    assert part.parents == (("public", "parts"),)
    assert part.generated == {"twice": "(id * 2)"}
    assert schema.functions["public", "twice"] == Function("public", "twice", harmless=False, pure=False)
    assert not schema.functions["public", "owners"].harmless
    assert schema.functions["public", "@+@"].pure
    assert schema.operators == {("public", "@+@"): True, ("public", "@!@"): True}
    assert not schema.functions["public", "@!@"].pure
    harmless = {name for (place, name), is_harmless in schema.types.items() if place == "public" and is_harmless}
    assert {"mood", "any_mood", "_mood", "users"} <= harmless
    assert harmless.isdisjoint({"checked", "pair", "_checked"})
    assert schema.relations["pg_catalog", "pg_class"].columns[1] == "relname"


async def test_policy_without_schema_rules_reads_no_catalogue(server: PostgresServer, dialer: Counting) -> None:
    assert await TargetSchemas(dialer, seconds=60).of(permit(server, Policy()), START) is None
    assert dialer.dialled == 0


async def test_concurrent_sessions_share_one_catalogue_read(server: PostgresServer, dialer: Counting) -> None:
    schemas = TargetSchemas(dialer, seconds=60)
    found = await asyncio.gather(*(schemas.of(permit(server), START) for _ in range(20)))
    assert dialer.dialled == 1
    assert found[0] is not None
    assert all(one is found[0] for one in found)
    assert await schemas.of(permit(server), START) is found[0]
    assert await schemas.of(permit(server), Start(database="postgres")) is not found[0]
    assert dialer.dialled == 2


async def test_cancelled_session_does_not_cancel_the_shared_catalogue_read(
    server: PostgresServer, dialer: Counting
) -> None:
    schemas = TargetSchemas(dialer, seconds=60)
    dialer.delay = 0.2
    first = asyncio.ensure_future(schemas.of(permit(server), START))
    second = asyncio.ensure_future(schemas.of(permit(server), START))
    await asyncio.sleep(0.05)
    first.cancel()
    assert await second is not None
    assert dialer.dialled == 1


async def test_old_schema_snapshot_is_read_again(server: PostgresServer, dialer: Counting) -> None:
    schemas = TargetSchemas(dialer, age=0, seconds=60)
    first = await schemas.of(permit(server), START)
    assert await schemas.of(permit(server), START) is not first
    assert dialer.dialled == 2


async def test_client_with_its_own_search_path_gets_a_schema_without_one(
    server: PostgresServer, dialer: Counting
) -> None:
    schemas = TargetSchemas(dialer, seconds=60)
    for parameters in ({"options": "-c search_path=hr"}, {"Search_Path": "hr"}):
        schema = await schemas.of(permit(server), replace(START, parameters=parameters))
        assert schema is not None
        assert schema.search_path == ()
        assert ("public", "users") in schema.relations
    assert dialer.dialled == 1


async def test_failed_catalogue_read_is_logged_and_not_repeated_by_each_session(
    server: PostgresServer, dialer: Counting, caplog: pytest.LogCaptureFixture
) -> None:
    schemas = TargetSchemas(dialer, seconds=60)
    dialer.refusal = Unavailable("the agent is offline")
    with caplog.at_level(logging.WARNING):
        assert await schemas.of(permit(server), START) is None
        assert await schemas.of(permit(server), START) is None
    assert dialer.dialled == 1
    assert "'shop' could not be read" in caplog.text
    assert "the agent is offline" in caplog.text


async def test_slow_catalogue_read_does_not_delay_a_login(server: PostgresServer, dialer: Counting) -> None:
    dialer.delay = 300
    async with asyncio.timeout(within(2)):
        assert await TargetSchemas(dialer, seconds=0.1).of(permit(server), START) is None


@pytest.mark.ci
async def test_slow_catalogue_read_is_available_to_later_sessions(server: PostgresServer, dialer: Counting) -> None:
    """Otherwise the statements of each slow target would stay unknown forever."""
    schemas = TargetSchemas(dialer, seconds=0.1)
    dialer.delay = 1
    found = [await schemas.of(permit(server), START) for _ in range(2)]
    assert found == [None, None]
    for _ in range(600):
        if (schema := await schemas.of(permit(server), START)) is not None:
            break
    assert schema is not None
    assert dialer.dialled == 1


def test_missing_schema_snapshot_is_read_again_soon(server: PostgresServer) -> None:
    now = time.monotonic()
    assert next_reading(permit(server), None) < now + AGE / 2
    assert next_reading(permit(server, Policy()), None) >= now + AGE


@pytest.mark.ci
async def test_slow_catalogue_query_is_cancelled_on_the_target(
    server: PostgresServer, dialer: Counting, caplog: pytest.LogCaptureFixture
) -> None:
    with psycopg.connect(server.dsn(DATABASE)) as blocking:
        blocking.execute("lock table users in access exclusive mode")  # which the text of a view waits for
        with caplog.at_level(logging.WARNING):
            assert await TargetSchemas(dialer, seconds=60, reading=3.0).of(permit(server), START) is None
        assert "did not answer within 3 seconds" in caplog.text
        await asyncio.wait_for(dialer.cancelled.wait(), 60)


async def test_rejected_login_of_a_catalogue_read_is_logged(
    server: PostgresServer, dialer: Counting, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert await TargetSchemas(dialer, seconds=60).of(permit(server, user="nobody"), START) is None
    assert 'role "nobody" does not exist' in caplog.text


def test_only_rules_about_columns_and_effects_need_a_schema() -> None:
    def rails(kind: RuleType) -> Policy:
        return Policy(guardrails=(Guardrail(uuid4(), ORG, "rail", input=(Rule(kind),)),))

    assert needs_schema(COLUMNS)
    assert needs_schema(rails(RuleType.READ_ONLY))
    assert needs_schema(rails(RuleType.DENY_STATEMENTS))
    assert not needs_schema(rails(RuleType.PATTERN_MATCH))
    assert not needs_schema(
        Policy(masking=(MaskingRule(uuid4(), ORG, "types", groups=(TypeGroup("ALL", ("EMAIL_ADDRESS",)),)),))
    )


def test_relation_without_columns_is_valid() -> None:
    assert Relation("public", "empty", ()).columns == ()
