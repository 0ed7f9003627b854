"""A worker near its limit of open files: running sessions continue, and new clients receive the reason."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from tests.support.gateway import Gateway, WorkerProcess
from tests.support.postgres import PostgresServer, free_port
from tests.support.promises import wait_until
from tests.support.rejections import REJECTIONS, rejected_by_postgres

from postern.metrics.exporter import gather

PORTS = ("postgres_port", "mysql_port", "ssh_port", "tunnel_port")
LIMIT = 256  # of which a quarter is the reserve
SETTLED = 2.0  # seconds for which a full worker refuses, and opens or closes nothing else
FULL = "at its limit of open files"


@pytest.fixture(scope="module")
def gateway(target: PostgresServer) -> Iterator[Gateway]:
    running = Gateway()
    try:
        running.start(workers=0)
        running.connection("target", target)
        yield running
    finally:
        running.stop()


@pytest.fixture
def worker(gateway: Gateway) -> Iterator[WorkerProcess]:
    made = gateway.add_worker("few", descriptors=(64, LIMIT), **{name: free_port() for name in PORTS})
    try:
        yield made
    finally:
        made.kill()


@pytest.fixture
def full(gateway: Gateway, worker: WorkerProcess) -> Iterator[list[psycopg.Connection]]:
    """As many sessions as the worker takes."""
    url = gateway.url(port=worker.port)
    with ExitStack() as stack:
        opened: list[psycopg.Connection] = []
        refusals: list[str] = []
        full_since = 0.0
        # Refusals of a moment can be due to a login that was about to end, or to the worker's own start.
        while not refusals or time.monotonic() - full_since < SETTLED:
            assert len(opened) < LIMIT
            try:
                opened.append(stack.enter_context(psycopg.connect(url, autocommit=True)))
                refusals.clear()
            except psycopg.OperationalError as error:
                if not refusals:
                    full_since = time.monotonic()
                refusals.append(str(error))
                time.sleep(0.2)
        assert all(FULL in refusal for refusal in refusals)
        assert len(opened) > 20
        yield opened


def files(worker: WorkerProcess) -> int:
    return len(os.listdir(f"/proc/{worker.pid}/fd"))


def cpu_seconds(pid: int) -> float:
    used = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return sum(map(int, used)) / os.sysconf("SC_CLK_TCK")


def test_worker_raises_its_soft_limit_to_the_hard_one(worker: WorkerProcess) -> None:
    assert resource.prlimit(worker.pid, resource.RLIMIT_NOFILE) == (LIMIT, LIMIT)


def test_client_near_the_file_limit_is_rejected_in_its_protocol_and_sessions_continue(
    gateway: Gateway, worker: WorkerProcess, full: list[psycopg.Connection]
) -> None:
    for rejected, expected in REJECTIONS.values():
        said = rejected(worker.settings)
        assert expected in said
        assert FULL in said
    assert files(worker) <= LIMIT - LIMIT // 4 + len(REJECTIONS)
    for number, connection in enumerate(full):
        assert connection.execute("select %s::int", [number]).fetchone() == (number,)
    found = asyncio.run(gather(gateway.home / "run"))["few"]
    assert found is not None
    numbers = {name: values[0][1] for name, values in found.items() if name.startswith(("process_", "postern_desc"))}
    assert numbers["process_max_fds"] == LIMIT
    assert numbers["process_open_fds"] > LIMIT // 2
    assert numbers["postern_descriptor_rejections"] > len(REJECTIONS)
    assert "the limit of open files is reached" in worker.log()


def test_new_clients_are_served_once_others_have_disconnected(
    gateway: Gateway, worker: WorkerProcess, full: list[psycopg.Connection]
) -> None:
    for connection in full[:5]:
        connection.close()

    def served() -> bool:
        try:
            with psycopg.connect(gateway.url(port=worker.port)) as connection:
                return connection.execute("select 1").fetchone() == (1,)
        except psycopg.OperationalError:
            return False

    wait_until(served)


def test_flood_of_connections_over_the_file_limit_ends_no_session(
    gateway: Gateway, worker: WorkerProcess, full: list[psycopg.Connection]
) -> None:
    flood = []
    try:
        for _ in range(2 * LIMIT):
            stream = socket.socket()
            stream.setblocking(False)
            stream.connect_ex(("127.0.0.1", worker.port))
            flood.append(stream)
        for _ in range(5):
            for number, connection in enumerate(full):
                assert connection.execute("select %s::int", [number]).fetchone() == (number,)
        before = cpu_seconds(worker.pid)
        time.sleep(2)
        assert cpu_seconds(worker.pid) - before < 1.0
    finally:
        for stream in flood:
            stream.close()
    for connection in full:
        session = connection.execute("select 1").fetchone()
        assert session == (1,)
    ended = {str(session.metadata.get("end_reason")) for session in gateway.sessions()}
    assert not ended & {"recording_failed", "failed"}
    wait_until(lambda: "53300" in rejected_by_postgres(worker.settings))
