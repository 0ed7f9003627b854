"""Many clients, much data, and clients that do not read fast enough."""

from __future__ import annotations

import asyncio
import hashlib
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asyncpg
import psycopg
import pytest
from tests.support import wire
from tests.support.clients import run
from tests.support.gateway import Gateway, WorkerProcess
from tests.support.postgres import PostgresServer, free_port
from tests.support.promises import within

pytestmark = pytest.mark.slow

MIB = 1024 * 1024


@pytest.fixture
def fresh(gateway: Gateway) -> Iterator[WorkerProcess]:
    """A worker that has done nothing yet, so that its memory can be watched."""
    worker = gateway.add_worker("fresh", postgres_port=free_port(), tunnel_port=free_port())
    with psycopg.connect(gateway.url(port=worker.port)) as connection:
        connection.execute("select 1")
    yield worker
    worker.kill()
    del gateway.workers["fresh"]


class Peak:
    """The most memory that a worker held, over what it held at the start. In bytes."""

    def __init__(self, worker: WorkerProcess) -> None:
        self._worker = worker
        self._before = worker.resident()
        self._most = self._before
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.02):
            self._most = max(self._most, self._worker.resident())

    @property
    def grown(self) -> int:
        return self._most - self._before


@pytest.fixture(scope="module")
def bench(gateway: Gateway, target: PostgresServer, direct: psycopg.Connection) -> None:
    direct.execute("drop database if exists bench with (force)")
    direct.execute("create database bench")
    done = run("pgbench", "-i", "-s", "1", "-q", gateway.url(database="bench"))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("mode", ["simple", "extended", "prepared"])
def test_pgbench_with_32_clients_has_no_failed_transactions(gateway: Gateway, bench: None, mode: str) -> None:
    done = run(
        "pgbench", "-n", "-M", mode, "-c", "32", "-j", "2", "-t", "20", gateway.url(database="bench"), timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "number of transactions actually processed: 640/640" in done.stdout
    assert "number of failed transactions: 0" in done.stdout


async def test_two_hundred_concurrent_clients_get_their_own_answers(gateway: Gateway) -> None:
    url = gateway.url()

    async def work(number: int) -> int:
        connection = await asyncpg.connect(url, timeout=300)
        try:
            return int(await connection.fetchval("select $1::int from pg_sleep(0.5)", number))
        finally:
            await connection.close()

    assert await asyncio.gather(*map(work, range(200))) == list(range(200))


def checksums(server: PostgresServer, database: str) -> list[tuple[object, ...]]:
    with psycopg.connect(server.dsn(database)) as connection:
        return connection.execute(
            "select 'a', count(*), sum(hashtext(a::text)) from pgbench_accounts a union all"
            " select 'n', count(*), sum(hashtext(n::text)) from notes n"
        ).fetchall()


def dump_and_restore(gateway: Gateway, server: PostgresServer, folder: Path, timeout: float) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("drop database if exists restored with (force)")
        connection.execute("create database restored")
    file = folder / "dump"
    done = run("pg_dump", "-Fc", "-Z0", "-f", str(file), gateway.url(database="bench"), timeout=timeout)
    assert done.returncode == 0, done.stderr
    done = run("pg_restore", "-d", gateway.url(database="restored"), str(file), timeout=timeout)
    assert done.returncode == 0, done.stderr
    assert checksums(server, "restored") == checksums(server, "bench")


def test_dump_through_the_gateway_restores_the_same_database(
    gateway: Gateway, target: PostgresServer, bench: None, tmp_path: Path
) -> None:
    """It has a view, a function, a sequence, a large object and a table with long rows."""
    with psycopg.connect(target.dsn("bench"), autocommit=True) as connection:
        connection.execute(
            "create table if not exists notes (id serial primary key, t text, b bytea);"
            "truncate notes; insert into notes (t, b) select repeat(n::text || 'ü', 500), sha256(n::text::bytea)"
            " from generate_series(1, 2000) n;"
            "create or replace view tellers as select * from pgbench_tellers;"
            "create or replace function one() returns int language sql as 'select 1';"
            "select lo_from_bytea(0, repeat('lo', 10000)::bytea)"
        )
    dump_and_restore(gateway, target, tmp_path, 300)


@pytest.mark.huge
def test_dump_of_500_mb_restores_with_little_memory(
    gateway: Gateway, target: PostgresServer, fresh: WorkerProcess, bench: None, tmp_path: Path
) -> None:
    with psycopg.connect(target.dsn("bench"), autocommit=True) as connection:
        connection.execute("create table if not exists notes (id serial primary key, t text, b bytea)")
        connection.execute("truncate notes")
        connection.execute(
            "insert into notes (t, b) select repeat(md5(n::text), 150), sha256(n::text::bytea)"
            " from generate_series(1, 105000) n"
        )
    with Peak(gateway.worker) as peak:
        dump_and_restore(gateway, target, tmp_path, 600)
    assert peak.grown < 64 * MIB


def stall(gateway: Gateway, worker: WorkerProcess, megabytes: int, tls: bool) -> None:
    """One client asks for much and reads nothing; the others do not notice, and memory stays bounded."""
    mode = "require" if tls else "disable"
    url = gateway.url(port=worker.port, sslmode=mode)
    with psycopg.connect(url) as stalled, psycopg.connect(url) as other, Peak(worker) as peak:
        stalled.pgconn.send_query(f"select repeat('x', 1048000) from generate_series(1, {megabytes})".encode())
        stalled.pgconn.flush()
        slowest = 0.0
        ends = time.monotonic() + 1
        while time.monotonic() < ends:
            began = time.monotonic()
            other.execute("select 1")
            slowest = max(slowest, time.monotonic() - began)
        assert slowest < within(1)
        received = 0
        with socket.socket(fileno=socket.dup(stalled.pgconn.socket)) as stream:
            stream.settimeout(120)
            while received < megabytes * 1_048_000:  # reads again, and gets all of it
                received += len(stream.recv(1 << 20))
        stalled.close()
    assert peak.grown < 24 * MIB


@pytest.mark.parametrize("tls", [False, True])
def test_client_that_stops_reading_uses_little_memory(gateway: Gateway, fresh: WorkerProcess, tls: bool) -> None:
    stall(gateway, fresh, 100, tls)


@pytest.mark.huge
def test_client_that_stops_reading_a_gigabyte_uses_little_memory(gateway: Gateway, fresh: WorkerProcess) -> None:
    stall(gateway, fresh, 1000, False)


def test_slow_client_receives_every_row(gateway: Gateway) -> None:
    issued = gateway.credential("target")
    with wire.connect(gateway.settings.postgres_port) as stream:
        wire.log_in(stream, issued.credential.username, issued.password.reveal())
        stream.sendall(wire.message(b"Q", b"select n, repeat('y', 2000) from generate_series(1, 2000) n\0"))
        received = b""
        while not received.endswith(b"Z\0\0\0\5I"):
            received += stream.recv(40_000)
            time.sleep(0.005)
    assert wire.tags(received) == "T" + "D" * 2000 + "CZ"


def large_value(gateway: Gateway, worker: WorkerProcess, megabytes: int) -> None:
    """One value, there and back, that is never whole in the gateway's memory."""
    issued = gateway.credential("target")
    with Peak(worker) as peak, wire.connect(worker.port, timeout=120) as stream:
        wire.log_in(stream, issued.credential.username, issued.password.reveal())
        stream.sendall(wire.message(b"Q", f"select repeat('z', {megabytes} * 1048576)".encode() + b"\0"))
        received = 0
        tail = b""
        while not tail.endswith(b"Z\0\0\0\5I"):
            data = stream.recv(1 << 20)
            received += len(data)
            tail = (tail + data)[-16:]
    assert received > megabytes * MIB
    assert peak.grown < 32 * MIB


def test_value_of_100_mb_passes(gateway: Gateway, fresh: WorkerProcess) -> None:
    large_value(gateway, fresh, 100)


@pytest.mark.huge
def test_value_of_almost_a_gigabyte_passes(gateway: Gateway, fresh: WorkerProcess) -> None:
    large_value(gateway, fresh, 1000)


def test_large_parameter_is_streamed_with_little_memory(gateway: Gateway, fresh: WorkerProcess) -> None:
    """It exceeds every message that is judged; without a rule it need not be judged."""
    content = b"p" * (60 * MIB)
    with psycopg.connect(gateway.url(port=fresh.port), autocommit=True) as connection, Peak(fresh) as peak:
        row = connection.execute("select md5(%b::bytea)", [content]).fetchone()
        assert row == (hashlib.md5(content).hexdigest(),)
    assert peak.grown < 32 * MIB


def copy_through(gateway: Gateway, worker: WorkerProcess, megabytes: int) -> None:
    """In and out again, byte for byte."""
    block = b"".join(b"%d\t%s\n" % (n, b"c" * 1000) for n in range(1000))
    rounds = megabytes * MIB // len(block)
    with psycopg.connect(gateway.url(port=worker.port), autocommit=True) as connection, Peak(worker) as peak:
        connection.execute("create unlogged table if not exists copied_through (n int, t text)")
        connection.execute("truncate copied_through")
        with connection.cursor() as cursor:
            with cursor.copy("copy copied_through from stdin") as copy:
                for _ in range(rounds):
                    copy.write(block)
            given, taken = hashlib.sha256(), hashlib.sha256()
            for _ in range(rounds):
                given.update(block)
            with cursor.copy("copy copied_through to stdout") as copy:
                for data in copy:
                    taken.update(data)
        connection.execute("drop table copied_through")
    assert given.hexdigest() == taken.hexdigest()
    assert peak.grown < 32 * MIB


def test_copy_of_50_mb_passes_in_both_directions(gateway: Gateway, fresh: WorkerProcess) -> None:
    copy_through(gateway, fresh, 50)


@pytest.mark.huge
def test_copy_of_a_gigabyte_passes_in_both_directions(gateway: Gateway, fresh: WorkerProcess) -> None:
    copy_through(gateway, fresh, 1024)


def test_large_pipeline_that_is_not_read_yet_loses_no_answer(gateway: Gateway) -> None:
    """Requests and answers fill both directions up to the client's own buffers."""
    issued = gateway.credential("target")
    count = 20_000
    with wire.connect(gateway.settings.postgres_port, timeout=120) as stream, ThreadPoolExecutor(1) as pool:
        wire.log_in(stream, issued.credential.username, issued.password.reveal())
        sending = pool.submit(stream.sendall, wire.message(b"Q", b"select repeat('q', 500)\0") * count)
        time.sleep(1)
        answered = 0
        while answered < count:
            tag, _ = wire.read_message(stream)
            answered += tag == b"Z"
        sending.result(60)
