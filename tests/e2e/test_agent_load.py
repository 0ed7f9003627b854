"""Many idle sessions and one very large stream through an agent in a process of its own."""

from __future__ import annotations

import hashlib
import resource
import time
from collections.abc import Iterator

import psycopg
import pytest
from tests.support.agents import AgentProcess, connected, connection, enrolled, url_of
from tests.support.postgres import PostgresServer
from tests.support.processes import forget_peak, peak, resident
from tests.support.promises import wait_until, within
from tests.support.running import Gateway, started

SESSIONS = 1000
GIGABYTES = 5
BLOCK = 1_000_000  # rows of 1,000 bytes and a line end each


@pytest.fixture(scope="module")
def big() -> Iterator[PostgresServer]:
    server = PostgresServer(settings={"max_connections": str(SESSIONS + 50), "shared_buffers": "64MB"})
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def gateway(big: PostgresServer) -> Iterator[Gateway]:
    with started("--no-demo", MAX_HANDSHAKES_PER_ADDRESS=str(SESSIONS)) as made:
        yield made


@pytest.fixture(scope="module")
def agent(gateway: Gateway, big: PostgresServer) -> Iterator[AgentProcess]:
    made = AgentProcess(enrolled(gateway, "edge"), gateway.folder)
    made.until_it_serves()
    connection(gateway, "far", "edge", big.port)
    yield made
    made.stop()


@pytest.mark.huge
def test_thousand_idle_sessions_through_one_agent_use_little_memory(gateway: Gateway, agent: AgentProcess) -> None:
    """The figure is printed; the limit here only finds gross regressions."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, hard), hard))
    url = url_of(gateway, "far")
    [worker] = gateway.processes("worker")
    with psycopg.connect(url):
        before, files, held = agent.resident, agent.files, resident(worker)
    began = time.monotonic()
    clients = [psycopg.connect(url) for _ in range(SESSIONS)]
    opening = time.monotonic() - began
    each = (agent.resident - before) / SESSIONS
    print(f"{SESSIONS / opening:.0f} sessions opened per second, {each / 1024:.1f} KiB of the agent for each", end=" ")
    print(f"and {(resident(worker) - held) / SESSIONS / 1024:.1f} KiB of the gateway")
    began = time.monotonic()
    for client in (clients[0], clients[-1]):
        client.execute("select 1")
    assert time.monotonic() - began < within(2)
    for client in clients:
        client.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert each < 200 * 1024
    wait_until(lambda: agent.files <= files, 60)


@pytest.mark.huge
def test_very_large_stream_through_an_agent_is_unchanged_and_uses_little_memory(
    gateway: Gateway, agent: AgentProcess, big: PostgresServer
) -> None:
    query = f"copy (select md5(n::text) || repeat('x', 968) from generate_series(1, {BLOCK * GIGABYTES}) n) to stdout"

    def digest(client: psycopg.Connection[tuple[object, ...]]) -> tuple[str, int]:
        found, size = hashlib.sha256(), 0
        with client.cursor().copy(query) as rows:
            for block in rows:
                found.update(block)
                size += len(block)
        return found.hexdigest(), size

    [worker] = gateway.processes("worker")
    for pid in (worker, agent.process.pid):
        forget_peak(pid)
    with connected(gateway, "far") as client:
        began = time.monotonic()
        through = digest(client)
        took = time.monotonic() - began
    with psycopg.connect(big.dsn()) as client:
        assert digest(client) == through
    gateways, agents = peak(worker), peak(agent.process.pid)
    print(f"{through[1] / 1e9:.2f} GB in {took:.0f} s, {through[1] / took / 1e6:.0f} MB/s; at most", end=" ")
    print(f"{gateways >> 20} MiB of the gateway's worker, {agents >> 20} MiB of the agent")
    assert gateways < 400 << 20
    assert agents < 300 << 20
