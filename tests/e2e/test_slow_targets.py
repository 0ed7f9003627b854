"""Slow and silent targets behind an agent, and the other sessions through it, which must not be affected."""

from __future__ import annotations

import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from tests.support.agents import AgentProcess, connection, enrolled, url_of
from tests.support.postgres import PostgresServer
from tests.support.processes import open_files
from tests.support.promises import wait_until, within
from tests.support.running import Gateway

TAKES = 10.0  # seconds that the slow target takes until its first byte
DIAL, HANDSHAKE = 12, 5  # seconds: the gateway's settings; a client has less time to log in than a target to answer
EACH = 5  # clients of each kind


@contextmanager
def relayed(port: int, delay: float) -> Iterator[int]:
    """A port that accepts at once, and leads to `port` after `delay` seconds; never for one below zero."""
    stack = ExitStack()
    server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=100))
    ended = threading.Event()

    def pump(one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)
        with suppress(OSError):
            other.shutdown(socket.SHUT_RDWR)

    def serve(stream: socket.socket) -> None:
        with closing(stream):
            if delay < 0:
                pump(stream, stream)
            elif not ended.wait(delay):
                with socket.create_connection(("127.0.0.1", port)) as far:
                    threading.Thread(target=pump, args=(far, stream), daemon=True).start()
                    pump(stream, far)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    with stack:
        yield server.getsockname()[1]
        ended.set()
        server.shutdown(socket.SHUT_RDWR)


@dataclass
class Site:
    gateway: Gateway
    agent: AgentProcess

    @property
    def files(self) -> list[int]:
        """Of the agent, and of the gateway's worker."""
        [worker] = self.gateway.processes("worker")
        return [self.agent.files, open_files(worker)]


@pytest.fixture
def site(target: PostgresServer) -> Iterator[Site]:
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="postern-"))
        gateway = Gateway(Path(folder), ("--no-demo",))
        gateway.environment |= {"POSTERN_DIAL_TIMEOUT": str(DIAL), "POSTERN_HANDSHAKE_TIMEOUT": str(HANDSHAKE)}
        stack.callback(gateway.remove)
        gateway.start()
        agent = AgentProcess(enrolled(gateway, "edge"), gateway.folder)
        stack.callback(agent.stop)
        agent.until_it_serves()
        for name, port in (
            ("far", target.port),
            ("slow", stack.enter_context(relayed(target.port, TAKES))),
            ("silent", stack.enter_context(relayed(target.port, -1))),
        ):
            connection(gateway, name, "edge", port)
        yield Site(gateway, agent)


@pytest.mark.slow
def test_slow_and_silent_targets_do_not_delay_other_sessions_of_their_agent(site: Site) -> None:
    urls = {name: url_of(site.gateway, name) for name in ("far", "slow", "silent")}
    stop = threading.Event()

    def work() -> tuple[float, int]:
        """The slowest of its queries, and how many there were."""
        slowest, count = 0.0, 0
        with psycopg.connect(urls["far"], autocommit=True) as client:
            while not stop.wait(0.01):
                before = time.monotonic()
                assert client.execute("select %s::int", [count]).fetchone() == (count,)
                slowest, count = max(slowest, time.monotonic() - before), count + 1
        return slowest, count

    def slow() -> float:
        before = time.monotonic()
        with psycopg.connect(urls["slow"], autocommit=True) as client:
            assert client.execute("select 'late'").fetchone() == ("late",)
        return time.monotonic() - before

    def silent() -> float:
        before = time.monotonic()
        with pytest.raises(psycopg.OperationalError, match=f"'silent' did not answer within {DIAL} seconds"):
            psycopg.connect(urls["silent"])
        return time.monotonic() - before

    psycopg.connect(urls["far"]).close()
    files = site.files
    with ThreadPoolExecutor(4 + 2 * EACH) as pool:
        try:
            working = [pool.submit(work) for _ in range(4)]
            late = [pool.submit(slow) for _ in range(EACH)]
            never = [pool.submit(silent) for _ in range(EACH)]
            opened = [one.result(120) for one in late]
            refused = [one.result(120) for one in never]
        finally:
            stop.set()
        done = [one.result(60) for one in working]
    slowest, queries = max(one for one, _ in done), sum(count for _, count in done)
    print(f"opened after {max(opened):.1f} s, refused after {max(refused):.1f} s;", end=" ")
    print(f"{queries} queries of the others meanwhile, the slowest took {slowest * 1000:.0f} ms")
    assert TAKES <= min(opened) <= max(opened) < TAKES + within(2)
    assert DIAL <= min(refused) <= max(refused) < DIAL + within(2)
    assert slowest < within(1)
    wait_until(lambda: all(now <= before for now, before in zip(site.files, files, strict=True)), 60)
    wait_until(lambda: not site.gateway.sessions("--status", "open"), 60)
