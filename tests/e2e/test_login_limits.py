"""More clients than can log in at once: each gets the reason in its protocol, and running sessions continue."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import psycopg
import pytest
from tests.support import wire
from tests.support.gateway import Gateway, WorkerProcess
from tests.support.postgres import PostgresServer, free_port
from tests.support.promises import wait_until
from tests.support.rejections import REJECTIONS

MOST = 3
SSL_REQUEST = bytes.fromhex("0000000804d2162f")
REASON = "the maximum number of logins is in progress"


@pytest.fixture(scope="module")
def gateway(target: PostgresServer) -> Iterator[Gateway]:
    running = Gateway()
    try:
        running.start(workers=0)
        running.connection("target", target)
        yield running
    finally:
        running.stop()


def worker_with(gateway: Gateway, name: str, **limits: int) -> WorkerProcess:
    ports = {port: free_port() for port in ("postgres_port", "mysql_port", "ssh_port", "tunnel_port")}
    return gateway.add_worker(name, **ports, **limits)


@pytest.fixture
def crowded(gateway: Gateway) -> Iterator[tuple[WorkerProcess, list[socket.socket], psycopg.Connection]]:
    """A worker with one session, and as many silent clients at login as it allows."""
    worker = worker_with(gateway, "crowded", max_handshakes=MOST)
    with ExitStack() as stack:
        stack.callback(worker.kill)
        session = stack.enter_context(psycopg.connect(gateway.url(port=worker.port), autocommit=True))
        session.execute("select 1")  # its login is over, and counts no more
        yield worker, [stack.enter_context(silent_client(worker)) for _ in range(MOST)], session


def silent_client(worker: WorkerProcess) -> socket.socket:
    """Return a client that the worker counts as logging in, and that says nothing more."""
    stream = wire.connect(worker.settings.postgres_port)
    stream.sendall(SSL_REQUEST)
    assert stream.recv(1) in (b"S", b"N")  # the worker has accepted it, and does not only find it in its backlog
    return stream


@pytest.mark.parametrize("protocol", REJECTIONS)
def test_client_over_the_login_limit_is_rejected_in_its_protocol_and_admitted_later(
    gateway: Gateway, crowded: tuple[WorkerProcess, list[socket.socket], psycopg.Connection], protocol: str
) -> None:
    worker, silent, session = crowded
    rejected, expected = REJECTIONS[protocol]
    said = rejected(worker.settings)
    assert expected in said
    assert REASON in said
    assert session.execute("select 1").fetchone() == (1,)
    assert "too many clients log in at once" in worker.log()
    assert worker.log().count("accepts no more clients") == 0  # a flood of clients is no flood of lines
    for stream in silent:
        stream.close()
    wait_until(lambda: comes_in(gateway.url(port=worker.port)))


def comes_in(url: str) -> bool:
    """Return whether a client is served; False where the worker has not seen yet that others left."""
    try:
        with psycopg.connect(url) as connection:
            return connection.execute("select 1").fetchone() == (1,)
    except psycopg.OperationalError as error:
        if REASON not in str(error):
            raise
        return False


def test_storm_of_logins_is_served_or_rejected_with_a_retry_message(gateway: Gateway) -> None:
    """Many more clients arrive at once than can be processed."""
    worker = worker_with(gateway, "storm", max_handshakes=500, max_handshakes_per_address=60)
    url = gateway.url(port=worker.port)

    def client(number: int) -> str:
        try:
            with psycopg.connect(url) as connection:
                assert connection.execute("select %s::int", [number]).fetchone() == (number,)
            return "served"
        except psycopg.OperationalError as error:
            return str(error)

    try:
        with psycopg.connect(url, autocommit=True) as session, ThreadPoolExecutor(100) as pool:
            answers = [pool.submit(client, number) for number in range(150)]
            for number in range(50):
                assert session.execute("select %s::int", [number]).fetchone() == (number,)
            outcomes = Counter(answer.result() for answer in answers)
        assert outcomes.pop("served") >= 60
        assert all("accepts no more clients now" in answer for answer in outcomes)
    finally:
        worker.kill()
