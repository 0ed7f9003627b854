"""An agent in a separate process, between a whole gateway and a real PostgreSQL."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from tests.support.agents import AgentProcess, connected, connection, enrolled
from tests.support.gateway import running
from tests.support.postgres import PostgresServer
from tests.support.promises import wait_until
from tests.support.running import Gateway, started

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with started("--no-demo", again=True) as made:
        yield made


@pytest.fixture(scope="module")
def key(gateway: Gateway, target: PostgresServer) -> str:
    """Of the agent `edge`; the connection `far` is its."""
    found = enrolled(gateway, "edge")
    connection(gateway, "far", "edge", target.port, "127.0.0.1", "--redact", "EMAIL_ADDRESS")
    return found


@pytest.fixture
def agent(gateway: Gateway, key: str) -> Iterator[AgentProcess]:
    made = AgentProcess(key, gateway.folder)
    made.until_it_serves()
    yield made
    made.stop(signal.SIGKILL)


def status(gateway: Gateway) -> str:
    return str(json.loads(gateway.run("connections", "show", "far", "--json").stdout)["status"])


def test_query_through_an_agent_is_masked(gateway: Gateway, agent: AgentProcess) -> None:
    with connected(gateway, "far") as client:
        assert client.execute("select 'ann@example.com'").fetchone() != ("ann@example.com",)
        assert client.execute("select count(*) from generate_series(1, 100000)").fetchone() == (100_000,)
    wait_until(lambda: status(gateway) == "online")
    shown = json.loads(gateway.run("admin", "agents", "show", "edge", "--json").stdout)
    assert shown["status"] == "CONNECTED"
    assert shown["version"]


def test_connection_test_schema_and_script_work_through_an_agent(gateway: Gateway, agent: AgentProcess) -> None:
    assert json.loads(gateway.run("connections", "test", "far", "--json").stdout) == {"success": True}
    shown = gateway.run(
        "connections", "schema", "far", "--table", "pg_class", "--schema", "pg_catalog", "--json"
    ).stdout
    assert {"name": "relname", "type": "name", "nullable": False} in json.loads(shown)["columns"]
    done = gateway.run("exec", "far", "-i", "select 'ann@example.com' as who", "--format", "csv")
    assert (done.returncode, done.stdout) == (0, "who\n****@****\n")
    assert agent.stop() == 0
    failed = gateway.run("connections", "test", "far")
    assert (failed.returncode, failed.stdout) == (6, "")
    assert "offline" in failed.stderr
    ran = gateway.run("exec", "far", "-i", "select 1")
    assert (ran.returncode, "offline" in ran.stderr) == (6, True), ran.stderr


def test_killed_agent_ends_its_sessions_and_its_successor_serves(
    gateway: Gateway, key: str, agent: AgentProcess
) -> None:
    with connected(gateway, "far") as client:
        client.execute("select 1")
        agent.stop(signal.SIGKILL)
        with pytest.raises(psycopg.OperationalError):
            client.execute("select pg_sleep(5)")
    wait_until(lambda: status(gateway) == "offline", 60)
    with pytest.raises(psycopg.OperationalError, match="offline"):
        connected(gateway, "far")
    successor = AgentProcess(key, gateway.folder)
    try:
        successor.until_it_serves()
        with connected(gateway, "far") as client:
            assert client.execute("select 2").fetchone() == (2,)
    finally:
        assert successor.stop() == 0


def test_terminated_agent_waits_for_its_sessions_to_end(gateway: Gateway, agent: AgentProcess) -> None:
    with connected(gateway, "far") as client:
        agent.process.terminate()
        time.sleep(0.5)
        assert client.execute("select 3").fetchone() == (3,)
        assert agent.process.poll() is None
    assert agent.process.wait(60) == 0


def test_agent_reconnects_to_a_restarted_gateway(gateway: Gateway, agent: AgentProcess) -> None:
    before = agent.log.count("is open")
    assert gateway.stop(signal.SIGTERM) == 0
    gateway.start()
    wait_until(lambda: agent.log.count("is open") > before, 120)
    wait_until(lambda: status(gateway) == "online")
    with connected(gateway, "far") as client:
        assert client.execute("select 4").fetchone() == (4,)


def test_stopping_gateway_cancels_statements_behind_an_agent(
    gateway: Gateway, agent: AgentProcess, direct: psycopg.Connection
) -> None:
    client = connected(gateway, "far")

    def work() -> None:
        with client, pytest.raises(psycopg.errors.AdminShutdown):  # and hangs up at once
            client.execute("select 'left running', pg_sleep(120)")

    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work)
        wait_until(lambda: running(direct, "left running"))
        assert gateway.stop(signal.SIGTERM) == 0
        try:
            working.result(60)
            wait_until(lambda: not running(direct, "left running"))
        finally:
            gateway.start()
    assert agent.process.poll() is None


def test_renewed_agent_key_ends_the_agent_with_the_old_key(gateway: Gateway, agent: AgentProcess) -> None:
    with connected(gateway, "far") as client:
        assert gateway.run("admin", "agents", "renew-key", "edge", "--yes").returncode == 0
        wait_until(lambda: agent.process.poll() is not None, 60)
        with pytest.raises(psycopg.OperationalError):
            client.execute("select 5")
    assert agent.process.returncode != 0
    assert "key" in agent.log.splitlines()[-1]
    assert "xagt-" not in agent.log
    assert "Traceback" not in agent.log
