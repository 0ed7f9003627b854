"""CancelRequest: it reaches the right query, from any worker, and nobody else's."""

from __future__ import annotations

import asyncio
import os
import time
from concurrent.futures import ThreadPoolExecutor

import asyncpg
import psycopg
import pytest
from tests.support import wire
from tests.support.gateway import Gateway, running
from tests.support.postgres import PostgresServer, free_port
from tests.support.promises import wait_until


def sleep(connection: psycopg.Connection, mark: str) -> None:
    connection.execute(f"select '{mark}', pg_sleep(120)")


def test_only_the_right_query_is_cancelled(gateway: Gateway, direct: psycopg.Connection) -> None:
    with psycopg.connect(gateway.url()) as mine, psycopg.connect(gateway.url()) as other, ThreadPoolExecutor(2) as pool:
        cancelled = pool.submit(sleep, mine, "mine")
        pool.submit(sleep, other, "other")
        wait_until(lambda: running(direct, "mine") and running(direct, "other"))
        mine.cancel_safe(timeout=60)
        with pytest.raises(psycopg.errors.QueryCanceled):
            cancelled.result(60)
        assert running(direct, "other") == 1
        mine.rollback()
        assert mine.execute("select 1").fetchone() == (1,)
        other.cancel()  # PQcancel, the older way
        wait_until(lambda: not running(direct, "other"))


def test_forged_keys_do_nothing(gateway: Gateway, direct: psycopg.Connection) -> None:
    with psycopg.connect(gateway.url()) as connection, ThreadPoolExecutor(1) as pool:
        pool.submit(sleep, connection, "unforged")
        wait_until(lambda: running(direct, "unforged"))
        pid = connection.pgconn.backend_pid
        for key in (b"\0\0\0\0", b"\xff\xff\xff\xff", os.urandom(4), os.urandom(32), os.urandom(256)):
            wire.cancel(gateway.settings.postgres_port, pid, key)
        time.sleep(0.3)
        assert running(direct, "unforged") == 1
        connection.cancel()
        wait_until(lambda: not running(direct, "unforged"))


def test_the_targets_own_key_is_not_the_clients(gateway: Gateway, direct: psycopg.Connection) -> None:
    with psycopg.connect(gateway.url()) as connection:
        row = connection.execute("select pg_backend_pid()").fetchone()
        assert row is not None
        assert row[0] != connection.pgconn.backend_pid


def test_a_cancel_without_a_query_changes_nothing(gateway: Gateway) -> None:
    with psycopg.connect(gateway.url()) as connection:
        connection.cancel()
        time.sleep(0.2)
        assert connection.execute("select 'fine'").fetchone() == ("fine",)


async def test_a_cancel_that_lands_at_another_worker(target: PostgresServer, direct: psycopg.Connection) -> None:
    """Each worker has a port of its own here, so that it is certain who gets the request."""
    gateway = Gateway()
    try:
        gateway.start()
        gateway.connection("target", target)
        second = gateway.add_worker("w2", postgres_port=free_port(), tunnel_port=free_port())
        connection = await asyncpg.connect(gateway.url())
        waiting = asyncio.create_task(connection.execute("select 'elsewhere', pg_sleep(120)"))
        await asyncio.to_thread(wait_until, lambda: running(direct, "elsewhere"))
        key = connection._protocol.backend_secret.to_bytes(4, "big", signed=True)
        await asyncio.to_thread(wire.cancel, second.port, connection._protocol.backend_pid, key)
        with pytest.raises(asyncpg.QueryCanceledError):
            await asyncio.wait_for(waiting, 60)
        await connection.close()
    finally:
        gateway.stop()
