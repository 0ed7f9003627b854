"""A CancelRequest cancels the right query, through any worker, and no other query."""

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


def test_cancel_request_cancels_only_the_query_of_its_key(gateway: Gateway, direct: psycopg.Connection) -> None:
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


def test_cancel_request_with_a_forged_key_is_ignored(gateway: Gateway, direct: psycopg.Connection) -> None:
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


def test_client_receives_the_process_id_of_its_target_backend(gateway: Gateway, direct: psycopg.Connection) -> None:
    with psycopg.connect(gateway.url()) as connection, ThreadPoolExecutor(1) as pool:
        pid = connection.info.backend_pid
        assert connection.execute("select pg_backend_pid()").fetchone() == (pid,)
        pool.submit(sleep, connection, "told pid")
        wait_until(lambda: running(direct, "told pid"))
        connection.cancel()
        wait_until(lambda: not running(direct, "told pid"))


@pytest.mark.parametrize("protocol", [wire.PROTOCOL_3_0, wire.PROTOCOL_3_2])
def test_cancel_key_of_a_client_is_rejected_by_the_target_itself(
    gateway: Gateway, direct: psycopg.Connection, target: PostgresServer, protocol: int
) -> None:
    issued = gateway.credential("target")
    with wire.connect(gateway.settings.postgres_port) as stream:
        key = wire.log_in(stream, issued.credential.username, issued.password.reveal(), protocol=protocol)
        pid, secret = int.from_bytes(key[:4], "big"), key[4:]
        mark = f"secret {protocol}"
        stream.sendall(wire.message(b"Q", f"select '{mark}', pg_sleep(120)\0".encode()))
        wait_until(lambda: running(direct, mark))
        if protocol == wire.PROTOCOL_3_0:  # an older server takes no longer ones
            wire.cancel(target.port, pid, secret)
        wire.cancel(gateway.settings.postgres_port, pid + 1, secret)
        time.sleep(0.3)
        assert running(direct, mark) == 1
        wire.cancel(gateway.settings.postgres_port, pid, secret)
        assert b"canceling statement" in wire.until_ready(stream)


def test_pg_terminate_backend_works_with_the_process_id_of_the_client(gateway: Gateway) -> None:
    with psycopg.connect(gateway.url()) as mine, psycopg.connect(gateway.url(), autocommit=True) as other:
        assert other.execute("select pg_terminate_backend(%s)", [mine.info.backend_pid]).fetchone() == (True,)
        with pytest.raises(psycopg.errors.AdminShutdown):
            mine.execute("select 1")


def test_notification_has_the_process_id_of_the_client_that_sent_it(gateway: Gateway) -> None:
    with psycopg.connect(gateway.url(), autocommit=True) as client:
        client.execute("listen own_news")
        client.execute("notify own_news, 'from me'")
        heard = next(client.notifies(timeout=60))
        assert heard.pid == client.info.backend_pid


def test_cancel_request_without_a_running_query_is_ignored(gateway: Gateway) -> None:
    with psycopg.connect(gateway.url()) as connection:
        connection.cancel()
        time.sleep(0.2)
        assert connection.execute("select 'fine'").fetchone() == ("fine",)


async def test_cancel_request_to_another_worker_cancels_the_query(
    target: PostgresServer, direct: psycopg.Connection
) -> None:
    """Each worker has its own port here, to control which one gets the request."""
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
