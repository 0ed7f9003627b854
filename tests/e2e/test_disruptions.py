"""A dozen busy clients, while an agent, a relay worker or the whole gateway is stopped and restarted."""

from __future__ import annotations

import base64
import json
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from tests.support.agents import AgentProcess, enrolled, url_of
from tests.support.clients_at_work import at_work
from tests.support.postgres import PostgresServer, free_port
from tests.support.processes import Holding
from tests.support.promises import wait_until, within
from tests.support.running import Gateway

from postern.agent.secret_files import PREFIX
from postern.cli.connection_files import MODES

CLIENTS = 12
ROUNDS = 3
BACK = within(20)  # seconds after which all clients are served again
MORE = 24 << 20  # bytes that a process may hold more after some rounds
POOLS = 10  # threads that pools start as they are needed, up to their bounds
DRAINING = 300  # seconds that sessions have to end by themselves, however busy the machine is
AGENT_LOST, STOPPED = {"08006"}, {"57P01"}  # what the gateway says: connection_failure, admin_shutdown
UNSAID = {"None"}  # by who was killed: the connection just ends, which the client's own library says


@dataclass
class Site:
    gateway: Gateway
    key: str
    runtime: Path  # where the agent keeps files with secrets

    def agent(self) -> AgentProcess:
        environment = {"XDG_RUNTIME_DIR": str(self.runtime)}
        return AgentProcess(self.key, self.gateway.folder, grace=DRAINING, environment=environment)

    @property
    def folders(self) -> list[Path]:
        """Of agents, for files with secrets."""
        return list(self.runtime.glob(f"{PREFIX}*"))

    def processes(self) -> dict[str, int]:
        """The gateway's, by what they are."""
        workers = self.gateway.processes("worker")
        return {**{f"worker {at}": pid for at, pid in enumerate(workers)}, "api": self.gateway.processes("api")[0]}

    def all_closed(self) -> None:
        """And each session says why."""
        wait_until(lambda: not self.gateway.sessions("--status", "open"), 60)
        sessions = self.gateway.sessions()
        assert len(sessions) >= CLIENTS
        assert not [session["id"] for session in sessions if not session["metadata"].get("end_reason")]


@pytest.fixture
def site(target: PostgresServer) -> Iterator[Site]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="postern-")))
        gateway = Gateway(folder, ("--no-demo", "--workers", "2"))
        for name in ("API", "TUNNEL", "CONTROL", "POSTGRES"):
            gateway.environment[f"POSTERN_{name}_PORT"] = str(free_port())
        stack.callback(gateway.remove)
        gateway.start()
        runtime = folder / "runtime"
        runtime.mkdir(mode=0o700)
        site = Site(gateway, enrolled(gateway, "edge"), runtime)
        agent = json.loads(gateway.run("admin", "agents", "show", "edge", "--json").stdout)["id"]
        values = {"HOST": "127.0.0.1", "PORT": str(target.port), "USER": "postgres", "SSLMODE": "disable"}
        secret = {f"envvar:{name}": _encoded(value) for name, value in values.items()}
        body = {
            "name": "far",
            "type": "database",
            "subtype": "postgres",
            "agent_id": agent,
            **MODES,
            "secret": {**secret, "filesystem:PASS": _encoded("a key")},
        }
        made = gateway.run("connections", "create", "--file", "-", stdin=json.dumps(body))
        assert made.returncode == 0, made.stderr
        yield site


def _encoded(value: str) -> str:
    return base64.b64encode(value.encode()).decode()


def codes(errors: list[psycopg.Error]) -> set[str]:
    return {str(getattr(error, "sqlstate", None)) for error in errors}


@pytest.mark.slow
def test_gateway_leaks_nothing_when_agents_are_killed_and_drained_under_load(
    site: Site, target: PostgresServer
) -> None:
    """The gateway keeps running: it must hold no more after some rounds than after the first."""
    agent = site.agent()
    urls = [url_of(site.gateway, "far") for _ in range(CLIENTS)]
    held: list[dict[str, Holding]] = []
    try:
        agent.until_it_serves()
        for _ in range(ROUNDS):
            with at_work(urls, target.dsn()) as crowd:
                agent.stop(signal.SIGKILL)
                agent = site.agent()
                back = crowd.recovered(BACK)
                cut, refused = crowd.forget()
                print(f"killed: {len(cut)} cut, {len(refused)} refused, back after {back:.1f} s", codes(cut + refused))
                assert len(cut) == CLIENTS
                assert codes(cut) == AGENT_LOST
                assert len(site.folders) == 1, "what the killed one left is swept"
                drained = site.gateway.run("admin", "agents", "drain", "edge", "--yes")
                assert drained.returncode == 0, drained.stderr
                wait_until(lambda: agent.process.poll() == 0, 2 * DRAINING)  # noqa: B023 - asked here
                agent = site.agent()
                back = crowd.recovered(BACK)
                cut, refused = crowd.forget()
                print(f"drained: {len(cut)} cut, {len(refused)} refused, back after {back:.1f} s", codes(cut + refused))
                assert not cut
            assert not crowd.wrong
            site.all_closed()
            assert not [found for folder in site.folders for found in folder.iterdir()]
            time.sleep(2)
            held.append({name: Holding.of(pid) for name, pid in site.processes().items()})
        show(held)
        not_more(held, site.processes())
    finally:
        agent.stop()
    assert not site.folders


@pytest.mark.slow
def test_agent_leaks_nothing_when_workers_are_killed_and_the_gateway_restarts(
    site: Site, target: PostgresServer
) -> None:
    """The agent keeps running."""
    agent = site.agent()
    urls = [url_of(site.gateway, "far") for _ in range(CLIENTS)]
    held: list[dict[str, Holding]] = []
    try:
        agent.until_it_serves()
        for _ in range(ROUNDS):
            with at_work(urls, target.dsn()) as crowd:
                os.kill(site.gateway.processes("worker")[0], signal.SIGKILL)
                back = crowd.recovered(BACK)
                cut, refused = crowd.forget()
                print(f"worker killed: {len(cut)} cut, {len(refused)} refused, back after {back:.1f} s", codes(cut))
                assert codes(cut) == UNSAID
                [api] = site.gateway.processes("api")
                os.kill(api, signal.SIGKILL)
                wait_until(lambda: api not in (now := site.gateway.processes("api")) and now, 60)  # noqa: B023
                crowd.recovered(BACK)
                assert crowd.forget() == ([], []), "sessions do without the API"
                began = time.monotonic()
                assert site.gateway.stop(signal.SIGTERM) == 0
                site.gateway.start()
                crowd.recovered(BACK)
                back = time.monotonic() - began
                cut, refused = crowd.forget()
                print(f"restarted: {len(cut)} cut, {len(refused)} refused, back after {back:.1f} s", codes(cut))
                assert len(cut) == CLIENTS
                assert codes(cut) == STOPPED
            assert not crowd.wrong
            site.all_closed()
            wait_until(lambda: not [found for folder in site.folders for found in folder.iterdir()], 60)
            time.sleep(2)
            held.append({"agent": Holding.of(agent.process.pid)})
        show(held)
        not_more(held, {"agent": agent.process.pid})
    finally:
        agent.stop()
    assert not site.folders


def show(held: list[dict[str, Holding]]) -> None:
    for name in held[0]:
        print(f"{name}:", "; ".join(str(one[name]) for one in held))


def not_more(held: list[dict[str, Holding]], pids: dict[str, int]) -> None:
    """Than after the first round; what is being dialled just now may take a moment."""
    for name, before in held[0].items():
        now = held[-1][name]
        wait_until(lambda: Holding.of(pids[name]).files <= before.files, 120)  # noqa: B023 - asked here
        assert now.threads <= before.threads + POOLS, name
        assert now.resident <= before.resident + MORE, name
