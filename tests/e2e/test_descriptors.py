"""A worker near its limit of open files: what runs goes on, and new clients hear why they cannot come in."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pymysql
import pytest
from tests.support import wire
from tests.support.gateway import Gateway, WorkerProcess
from tests.support.postgres import PostgresServer, free_port
from tests.support.promises import wait_until

from postern.metrics.told import gather

PORTS = ("postgres_port", "mysql_port", "ssh_port", "tunnel_port")
LIMIT = 256  # of which a quarter is the reserve
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
        refusal = ""
        while not refusal and len(opened) < LIMIT:
            try:
                opened.append(stack.enter_context(psycopg.connect(url, autocommit=True)))
            except psycopg.OperationalError as error:
                refusal = str(error)
        assert FULL in refusal
        assert len(opened) > 20
        yield opened


def files(worker: WorkerProcess) -> int:
    return len(os.listdir(f"/proc/{worker.pid}/fd"))


def cpu_seconds(pid: int) -> float:
    used = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return sum(map(int, used)) / os.sysconf("SC_CLK_TCK")


def refused_by_postgres(worker: WorkerProcess) -> str:
    """The error that a PostgreSQL client gets, field by field."""
    with wire.connect(worker.settings.postgres_port) as stream:
        stream.sendall(wire.startup(user="anybody"))
        return wire.closed_by_peer(stream).decode(errors="replace")


def refused_by_mysql(worker: WorkerProcess) -> str:
    with pytest.raises(pymysql.OperationalError) as raised:
        pymysql.connect(host="127.0.0.1", port=worker.settings.mysql_port, user="anybody", password="x")
    return f"{raised.value.args[0]} {raised.value.args[1]}"


def refused_by_ssh(worker: WorkerProcess) -> str:
    asked = ("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "BatchMode=yes")
    port = str(worker.settings.ssh_port)
    done = subprocess.run(["ssh", *asked, "-p", port, "anybody@127.0.0.1", "true"], capture_output=True, timeout=60)
    assert done.returncode == 255
    return done.stderr.decode()


def refused_by_tunnel(worker: WorkerProcess) -> str:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", worker.settings.tunnel_port)) as plain,
        context.wrap_socket(plain) as stream,
    ):
        stream.sendall(
            b"GET /tunnel HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Authorization: Bearer x\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )
        return stream.recv(4096).decode()


REFUSED = {
    "postgres": (refused_by_postgres, "C53300"),
    "mysql": (refused_by_mysql, "1040 the gateway"),
    "ssh": (refused_by_ssh, "Received disconnect from 127.0.0.1 port"),
    "tunnel": (refused_by_tunnel, "HTTP/1.1 503"),
}


def test_worker_raises_its_soft_limit_to_the_hard_one(worker: WorkerProcess) -> None:
    assert resource.prlimit(worker.pid, resource.RLIMIT_NOFILE) == (LIMIT, LIMIT)


def test_near_the_limit_new_clients_hear_why_in_their_protocol_and_sessions_go_on(
    gateway: Gateway, worker: WorkerProcess, full: list[psycopg.Connection]
) -> None:
    for refused, expected in REFUSED.values():
        said = refused(worker)
        assert expected in said
        assert FULL in said
    assert files(worker) <= LIMIT - LIMIT // 4 + len(REFUSED)
    for number, connection in enumerate(full):
        assert connection.execute("select %s::int", [number]).fetchone() == (number,)
    found = asyncio.run(gather(gateway.home / "run"))["few"]
    assert found is not None
    numbers = {name: values[0][1] for name, values in found.items() if name.startswith(("process_", "postern_desc"))}
    assert numbers["process_max_fds"] == LIMIT
    assert numbers["process_open_fds"] > LIMIT // 2
    assert numbers["postern_descriptor_rejections"] > len(REFUSED)
    assert "the limit of open files is reached" in worker.log()


def test_clients_are_served_again_once_others_have_left(
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


def test_flood_of_connections_beyond_the_limit_ends_no_session_and_does_not_spin(
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
    wait_until(lambda: "53300" in refused_by_postgres(worker))
