"""An agent in a network of its own, and a link to its gateway that swallows everything for a minute."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.support.agents import AgentProcess, connected, connection, enrolled, url_of
from tests.support.gateway import wait_until
from tests.support.networks import EDGE, HERE, TARGET, Network
from tests.support.postgres import PostgresServer, free_port
from tests.support.running import Gateway

FROZEN = 60.0  # seconds


@pytest.fixture(params=[0.0])
def network(request: pytest.FixtureRequest) -> Iterator[Network]:
    """The parameter is how many seconds each way of the link to the gateway takes."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    made = Network(request.param)
    try:
        made.make()
    except (subprocess.CalledProcessError, OSError) as error:
        made.remove()
        pytest.skip(f"no network namespaces here: {error}")
    yield made
    made.remove()


@pytest.fixture
def far() -> Iterator[PostgresServer]:
    server = PostgresServer(
        settings={"listen_addresses": "*"}, hba=["host all all 127.0.0.1/32 trust", f"host all all {EDGE}/32 trust"]
    )
    server.start()
    yield server
    server.stop()


@pytest.fixture
def gateway(network: Network, target: PostgresServer) -> Iterator[Gateway]:
    with tempfile.TemporaryDirectory(prefix="postern-") as folder:
        made = Gateway(Path(folder), ("--no-demo", "--host", "0.0.0.0", "--public-host", HERE))
        for name in ("API", "TUNNEL", "CONTROL", "POSTGRES"):
            made.environment[f"POSTERN_{name}_PORT"] = str(free_port())
        try:
            made.start()
            connection(made, "near", "embedded", target.port)
            yield made
        finally:
            made.remove()


def status(gateway: Gateway) -> str:
    return str(json.loads(gateway.run("connections", "show", "far", "--json").stdout)["status"])


def took(client: psycopg.Connection[tuple[object, ...]]) -> float:
    before = time.monotonic()
    client.execute("select 1")
    return time.monotonic() - before


@pytest.mark.slow
def test_a_link_that_swallows_everything_for_a_minute(network: Network, gateway: Gateway, far: PostgresServer) -> None:
    agent = AgentProcess(enrolled(gateway, "edge"), gateway.folder, "ip", "netns", "exec", network.name)
    try:
        agent.until_it_serves()
        connection(gateway, "far", "edge", far.port, TARGET)
        url = url_of(gateway, "far")
        near = connected(gateway, "near")
        with psycopg.connect(url, autocommit=True, connect_timeout=20) as client:
            assert client.execute("select 'there'").fetchone() == ("there",)
            files = agent.files
            with network.frozen():
                began = time.monotonic()
                with pytest.raises(psycopg.OperationalError):
                    client.execute("select 'lost'")
                noticed = time.monotonic() - began
                assert noticed < 20
                wait_until(lambda: status(gateway) == "offline", 20)
                with pytest.raises(psycopg.OperationalError, match="offline"):
                    psycopg.connect(url, connect_timeout=20)
                slowest = 0.0
                while time.monotonic() - began < FROZEN:
                    slowest = max(slowest, took(near))
                    time.sleep(0.05)
                assert slowest < 1, "another session noticed"
        thawed = time.monotonic()
        wait_until(lambda: status(gateway) == "online", 20)
        with psycopg.connect(url, autocommit=True, connect_timeout=20) as client:
            assert client.execute("select 'back'").fetchone() == ("back",)
            print(f"noticed after {noticed:.1f} s, back {time.monotonic() - thawed:.1f} s after the link was")
            wait_until(lambda: agent.files <= files, 20)
        near.close()
    finally:
        agent.stop()


@pytest.mark.slow
@pytest.mark.parametrize("network", [0.05], indirect=True)
def test_a_large_result_from_an_agent_a_round_trip_of_100_ms_away(
    network: Network, gateway: Gateway, far: PostgresServer
) -> None:
    """One stream is not held to its first window a round trip, which is 10 MB/s at most."""
    rows, agent = 80_000, AgentProcess(enrolled(gateway, "edge"), gateway.folder, "ip", "netns", "exec", network.name)
    try:
        agent.until_it_serves()
        connection(gateway, "far", "edge", far.port, TARGET)
        with psycopg.connect(url_of(gateway, "far"), autocommit=True, connect_timeout=20) as client:
            assert took(client) >= 0.1
            got = hashlib.sha256()
            began = time.monotonic()
            statement = f"copy (select repeat(md5(n::text), 60) from generate_series(1, {rows}) n) to stdout"
            with client.cursor().copy(statement) as copy:
                for data in copy:
                    got.update(data)
            rate = rows * 1921 / (time.monotonic() - began) / 1e6
        expected = hashlib.sha256()
        for number in range(1, rows + 1):
            expected.update(hashlib.md5(str(number).encode()).hexdigest().encode() * 60 + b"\n")
        assert got.digest() == expected.digest()
        print(f"{rate:.1f} MB/s at 100 ms")
        assert rate > 13
    finally:
        agent.stop()
