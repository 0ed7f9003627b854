"""Catalogue queries of clients and tools: no preset denies them, with or without marked columns."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator

import asyncpg
import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql.base import PGInspector
from tests.support.clients import clean_environment, need
from tests.support.gateway import Gateway
from tests.support.postgres import PostgresServer

from postern.domain.rules.guardrail_presets import preset
from postern.domain.rules.masking import Strictness
from postern.domain.targets.connection import Connection

pytestmark = pytest.mark.slow

DATABASE = "toolbox"
WORLD = """
create schema shop;
create type shop.mood as enum ('glad', 'sad');
create domain shop.mail as text check (value like '%@%');
create table shop.customers (id serial primary key, name text not null, email shop.mail unique, mood shop.mood,
  born date, tags text[], data jsonb default '{}');
create table shop.orders (id bigint generated always as identity primary key,
  customer int references shop.customers on delete cascade, total numeric(10, 2) check (total >= 0),
  twice numeric generated always as (total * 2) stored) ;
create index on shop.orders (customer) where total > 0;
create view shop.mails as select id, email from shop.customers;
create materialized view shop.totals as select customer, sum(total) as sum from shop.orders group by 1;
create table shop.parts (id int, at date) partition by range (at);
create table shop.parts_1 partition of shop.parts for values from ('2020-01-01') to ('2021-01-01');
create function shop.twice(int) returns int language sql immutable as 'select $1 * 2';
create function shop.touched() returns trigger language plpgsql as 'begin return new; end';
create trigger touched before update on shop.customers for each row execute function shop.touched();
alter table shop.customers enable row level security;
create policy all_of_them on shop.customers using (true);
create sequence shop.counter;
comment on column shop.customers.email is 'where to write to #pii';
insert into shop.customers (name, email, mood) select 'n' || n, 'n' || n || '@example.com', 'glad' from generate_series(1, 20) n;
insert into shop.orders (customer, total) select n, n from generate_series(1, 20) n;
refresh materialized view shop.totals;
"""  # noqa: E501
PRESETS = ("unsafe-writes", "destructive-ddl", "privilege-changes", "server-administration", "read-only")
# Where columns are marked and nothing may be looked for: a setting that the statement does not name may hold anything.
OF_SETTINGS = {"marked": ["dconfig"]}

PSQL = r"""
    \d \d+ \d+_shop.* \dt+_*.* \dv+_shop.* \dm+_shop.* \di+_shop.* \ds+_shop.* \df \df+_shop.* \df+_pg_catalog.abs
    \sf_shop.twice \sv_shop.mails \l \l+ \dn \dn+ \du \du+ \dg \dx \dx+ \dy \dp_shop.* \z_shop.* \ddp \dD+_shop.*
    \dT+_shop.* \dC \db+ \dc \dd \de \des \deu \dew \det \dF \dFd \dFp \dFt \dA \dAc \dAf \dAo \dAp \dE \dL
    \do_shop.* \dO \dP+_shop.* \drds \dRp \dRs \da_pg_catalog.sum \dS+_pg_class \dconfig \dl \dX \conninfo
    \encoding \drg \dfa_shop.* \dtS \d_shop.customers_id_seq \ef_shop.twice
"""


@pytest.fixture(scope="module")
def world(target: PostgresServer, direct: psycopg.Connection) -> Iterator[PostgresServer]:
    direct.execute(f"create database {DATABASE}")
    with psycopg.connect(target.dsn(DATABASE), autocommit=True) as inside:
        inside.execute(WORLD)
    yield target
    direct.execute(f"drop database {DATABASE} with (force)")


@pytest.fixture(scope="module", params=[*PRESETS, "marked"])
def ruled(request: pytest.FixtureRequest, gateway: Gateway, world: PostgresServer) -> Iterator[tuple[str, str]]:
    """A preset, or marked columns, and the URL of a connection with it."""
    name = f"tools-{request.param}"
    connection: Connection = gateway.connection(name, world)
    ids = (str(connection.id),)
    if request.param == "marked":
        gateway.masking_rule(
            {"name": name, "columns": ("shop.customers.email",), "strictness": Strictness.STRICT, "connection_ids": ids}
        )
        yield request.param, gateway.url(name, database=DATABASE)
        return
    found = preset(request.param)
    assert found is not None
    fields = {"name": name, "input": found.input, "output": found.output, "connection_ids": ids}
    gateway.call(gateway.services.guardrails.create(gateway.admin, fields))
    yield request.param, gateway.url(name, database=DATABASE)


def test_presets_deny_no_catalogue_query_of_psql_commands(ruled: tuple[str, str]) -> None:
    script = "".join(f"\\warn {command[1:]}\n{command.replace('_', ' ', 1)}\n" for command in PSQL.split())
    environment = {**clean_environment(), "PSQL_EDITOR": "true", "EDITOR": "true"}
    program = need("psql")
    done = subprocess.run(
        [program, "-X", ruled[1]], input=script, capture_output=True, text=True, env=environment, timeout=120
    )
    lines = done.stderr.splitlines()
    refused = [lines[n - 1] for n, line in enumerate(lines) if line.startswith(("ERROR", "WARNING"))]
    assert refused == OF_SETTINGS.get(ruled[0], [])


def test_presets_do_not_deny_a_schema_dump(ruled: tuple[str, str]) -> None:
    done = subprocess.run(
        [need("pg_dump"), "--schema-only", ruled[1]],
        capture_output=True,
        text=True,
        env=clean_environment(),
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "CREATE VIEW shop.mails" in done.stdout


def test_presets_do_not_deny_reflection_by_sqlalchemy(ruled: tuple[str, str]) -> None:
    engine = sa.create_engine(ruled[1].replace("postgresql:", "postgresql+psycopg:"), poolclass=sa.NullPool)
    found = sa.MetaData()
    with engine.connect() as connection:
        if ruled[0] == "marked":
            # A setting that a bind value names may hold anything; types or best_effort are the way.
            with pytest.raises(sa.exc.ProgrammingError, match="access_method_name"):
                found.reflect(connection, schema="shop", views=True)
            return
        found.reflect(connection, schema="shop", views=True)
        inspector = sa.inspect(connection)
        assert inspector.get_schema_names()
        for table in inspector.get_table_names("shop"):
            inspector.get_columns(table, "shop")
            inspector.get_check_constraints(table, "shop")
            inspector.get_indexes(table, "shop")
            inspector.get_table_comment(table, "shop")
        assert isinstance(inspector, PGInspector)
        assert inspector.get_enums("shop")
        assert inspector.get_domains("shop")
        assert inspector.get_sequence_names("shop")
        assert inspector.get_materialized_view_names("shop")
        assert inspector.get_view_definition("mails", "shop")
    assert "shop.customers" in found.tables


def test_presets_do_not_deny_type_queries_of_asyncpg(ruled: tuple[str, str]) -> None:
    async def main() -> list[object]:
        connection = await asyncpg.connect(ruled[1])
        try:
            rows = await connection.fetch("select name, mood, tags, data from shop.customers where id = $1", 1)
            async with connection.transaction(readonly=True):
                async for _ in connection.cursor("select id from shop.orders"):
                    pass
            await connection.execute("select 1; select 2")
            await connection.reset()
            return list(rows)
        finally:
            await connection.close()

    assert len(asyncio.run(asyncio.wait_for(main(), 60))) == 1
