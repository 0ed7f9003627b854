"""One gateway, three networks that only their agents reach, and a link that loses all packets for a minute."""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from tests.support.agents import AgentProcess, connected, connection, enrolled, url_of
from tests.support.networks import INSIDE, Network, networks
from tests.support.postgres import PostgresServer, free_port, need_server
from tests.support.promises import TIMED, wait_until, within
from tests.support.running import Gateway

FROZEN = 60.0  # seconds
KNOWN = 16.0  # seconds: a dead peer is known within 15, and its sessions are told at once
DEAD = 12.0  # seconds: a dead target within 10
BRIEFLY = 5.0  # seconds


@dataclass
class Site:
    """A network with its target, its agent, and the connection of its name."""

    name: str
    network: Network
    gateway: Gateway
    agent: AgentProcess

    @property
    def status(self) -> str:
        return str(json.loads(self.gateway.run("connections", "show", self.name, "--json").stdout)["status"])


def _gateway(host: str, stack: ExitStack) -> Gateway:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="postern-")))
    gateway = Gateway(folder, ("--no-demo", "--host", "0.0.0.0", "--public-host", host))
    for name in ("API", "TUNNEL", "CONTROL", "POSTGRES"):
        gateway.environment[f"POSTERN_{name}_PORT"] = str(free_port())
    stack.callback(gateway.remove)
    gateway.start()
    return gateway


@pytest.fixture
def sites() -> Iterator[list[Site]]:
    need_server()
    with ExitStack() as stack:
        made = stack.enter_context(networks(3))
        gateway = _gateway(made[0].here, stack)
        found = [_site(gateway, network, stack) for network in made]
        for site in found:
            site.agent.until_it_serves()
        yield found


def _site(gateway: Gateway, network: Network, stack: ExitStack) -> Site:
    name = f"site-{network.number}"
    server = PostgresServer(
        settings={"listen_addresses": "*", "cluster_name": name},
        hba=["host all all samehost trust"],
        before=network.entering,
    )
    server.start()
    stack.callback(server.stop)
    agent = AgentProcess(enrolled(gateway, name), gateway.folder, *network.entering)
    stack.callback(agent.stop)
    connection(gateway, name, name, server.port, INSIDE)
    return Site(name, network, gateway, agent)


def took(client: psycopg.Connection[tuple[object, ...]], name: str) -> float:
    before = time.monotonic()
    assert client.execute("show cluster_name").fetchone() == (name,)
    return time.monotonic() - before


def answer_of(client: psycopg.Connection[tuple[object, ...]]) -> str:
    """To the query that was sent."""
    found = client.pgconn.get_result()
    assert found is not None
    value = found.get_value(0, 0)
    assert client.pgconn.get_result() is None
    return "" if value is None else value.decode()


@pytest.mark.huge
def test_agent_whose_link_is_dead_for_a_minute_reconnects_and_others_are_unaffected(sites: list[Site]) -> None:
    frozen, others = sites[1], [sites[0], sites[2]]
    url = url_of(frozen.gateway, frozen.name)
    clients = [(site.name, connected(site.gateway, site.name)) for site in others]
    with psycopg.connect(url, autocommit=True, connect_timeout=60) as client:
        took(client, frozen.name)
        with frozen.network.frozen():
            client.pgconn.send_query(b"show cluster_name")
            time.sleep(BRIEFLY)
        assert answer_of(client) == frozen.name, "what does not last is only waited for"
        files = [site.agent.files for site in sites]
        with frozen.network.frozen():
            began = time.monotonic()
            with pytest.raises(psycopg.OperationalError):
                client.execute("select 'lost'")
            noticed = time.monotonic() - began
            assert noticed < within(KNOWN)
            wait_until(lambda: frozen.status == "offline", within(2))
            assert [site.status for site in others] == ["online", "online"]
            with pytest.raises(psycopg.OperationalError, match="offline"):
                psycopg.connect(url, connect_timeout=60)
            slowest, count = 0.0, 0
            while time.monotonic() - began < FROZEN:
                slowest = max(slowest, *(took(one, name) for name, one in clients))
                count += len(clients)
                time.sleep(0.05)
            assert slowest < within(1), "another session noticed"
    thawed = time.monotonic()
    wait_until(lambda: frozen.status == "online", 120)
    with psycopg.connect(url, autocommit=True, connect_timeout=60) as client:
        took(client, frozen.name)
        print(f"noticed after {noticed:.1f} s, back {time.monotonic() - thawed:.1f} s after the link was;", end=" ")
        print(f"{count} queries of the others meanwhile, the slowest took {slowest * 1000:.0f} ms")
        wait_until(lambda: all(site.agent.files <= before for site, before in zip(sites, files, strict=True)), 60)
    for _, one in clients:
        one.close()


@pytest.mark.slow
def test_sessions_of_a_target_with_a_dead_link_end_and_others_continue(target: PostgresServer) -> None:
    """One of its sessions waits for an answer and one is idle; both end."""
    with ExitStack() as stack:
        [network] = stack.enter_context(networks(1))
        server = PostgresServer(
            settings={"listen_addresses": "*"}, hba=["host all all all trust"], before=network.entering
        )
        server.start()
        stack.callback(server.stop)
        gateway = _gateway(network.here, stack)
        agent = AgentProcess(enrolled(gateway, "edge"), gateway.folder)
        stack.callback(agent.stop)
        agent.until_it_serves()
        connection(gateway, "far", "edge", server.port, network.there)
        connection(gateway, "near", "edge", target.port)
        url = url_of(gateway, "far")
        near = stack.enter_context(connected(gateway, "near"))
        files = agent.files
        with psycopg.connect(url, autocommit=True) as busy, psycopg.connect(url, autocommit=True) as idle:
            for client in (busy, idle):
                client.execute("select 1")
            with network.frozen():
                began = time.monotonic()
                with pytest.raises(psycopg.OperationalError):
                    busy.execute("select 'lost'")
                noticed = time.monotonic() - began
                assert noticed < within(DEAD)
                assert near.execute("select 2").fetchone() == (2,)
                wait_until(lambda: len(gateway.sessions("--connection", "far", "--status", "open")) == 0, within(DEAD))
                with pytest.raises(psycopg.OperationalError, match="did not answer within 10 seconds"):
                    psycopg.connect(url)
            with pytest.raises(psycopg.OperationalError):
                idle.execute("select 3")
        with psycopg.connect(url, autocommit=True, connect_timeout=60) as client:
            assert client.execute("select 4").fetchone() == (4,)
        ends = [session["metadata"].get("end_reason") for session in gateway.sessions("--connection", "far")]
        assert ends.count("target_closed") == 2
        assert ends.count("failed") == 1
        print(f"a dead target was noticed after {noticed:.1f} s")
        wait_until(lambda: agent.files <= files, 60)


@pytest.mark.huge
def test_large_result_over_a_100_ms_link_exceeds_its_first_window_rate() -> None:
    """A stream that stayed at its first window per round trip would reach at most 10 MB/s."""
    rows = 80_000
    with ExitStack() as stack:
        [network] = stack.enter_context(networks(1, delay=0.05))
        gateway = _gateway(network.here, stack)
        site = _site(gateway, network, stack)
        site.agent.until_it_serves()
        with connected(gateway, site.name) as client:
            assert took(client, site.name) >= 0.1
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
    assert rate > 13 or not TIMED
