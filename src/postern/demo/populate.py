"""Fills the demo server: the role and database of the shop, then its tables, all or nothing."""

from __future__ import annotations

import asyncpg

from postern.demo import shop
from postern.demo.demo_target import SUPERUSER, DemoTarget
from postern.domain.secret import Secret


async def populate(target: DemoTarget) -> bool:
    """Makes what is missing. True when rows were loaded, False when they were there already."""
    await _make_database(target)
    connection = await _connect(target, target.user, target.password, target.database)
    try:
        if await connection.fetchval("select to_regclass('customers') is not null"):
            return False
        async with connection.transaction():
            await connection.execute(shop.SCHEMA)
            for table in shop.tables():
                await connection.copy_records_to_table(table.name, records=table.rows, columns=table.columns)
        await connection.execute("analyze")
        return True
    finally:
        await connection.close()


async def _make_database(target: DemoTarget) -> None:
    connection = await _connect(target, SUPERUSER, target.superuser_password, "postgres")
    try:
        if not await connection.fetchval("select true from pg_roles where rolname = $1", target.user):
            # Utility statements take no parameters; both texts are our own and hold no quote.
            await connection.execute(f"create role {target.user} login password '{target.password.reveal()}'")
        if not await connection.fetchval("select true from pg_database where datname = $1", target.database):
            await connection.execute(f"create database {target.database} owner {target.user}")
    finally:
        await connection.close()


async def _connect(target: DemoTarget, user: str, password: Secret, database: str) -> asyncpg.Connection:
    return await asyncpg.connect(
        host=target.host,
        port=target.port,
        user=user,
        password=password.reveal(),
        database=database,
        ssl=False,
        timeout=10,
    )
