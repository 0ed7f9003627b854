"""`postern proxy-manager` of a user, which opens ports on request of the API: a real query goes through one."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from tests.support.agents import AgentProcess, connection, enrolled
from tests.support.postgres import PostgresServer
from tests.support.processes import code
from tests.support.promises import wait_until, within
from tests.support.running import Gateway

pytestmark = pytest.mark.slow  # tests/cli/test_agents.py has the quick one

EMAIL, PASSWORD = "ann@example.com", "a long enough password"


@dataclass
class User:
    """Ann, logged in on a machine of her own, where her proxy manager runs."""

    gateway: Gateway
    manager: subprocess.Popen[str]
    api: httpx.Client

    def told(self, what: str, **body: Any) -> dict[str, Any]:
        answer = self.api.post(f"/api/proxymanager/{what}", json=body or None)
        assert answer.is_success, answer.text
        found: dict[str, Any] = answer.json()
        return found


@pytest.fixture
def user(target: PostgresServer) -> Iterator[User]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="postern-")))
        gateway = Gateway(folder, ("--no-demo",))
        stack.callback(gateway.remove)
        gateway.start()
        made = gateway.run(
            "admin", "users", "create", EMAIL, "--name", "Ann", "--password-stdin", stdin=PASSWORD + "\n"
        )
        assert made.returncode == 0, made.stderr
        agent = AgentProcess(enrolled(gateway, "edge"), folder)
        stack.callback(agent.stop)
        agent.until_it_serves()
        connection(gateway, "far", "edge", target.port, "127.0.0.1", "--redact", "EMAIL_ADDRESS")
        url = gateway.told["api_url"]
        hers = {"PATH": os.environ["PATH"], **code(), "XDG_CONFIG_HOME": str(folder / "ann")}
        command = [sys.executable, "-m", "postern"]
        login = [*command, "login", url, "--email", EMAIL, "--password-stdin"]
        subprocess.run(login, env=hers, input=PASSWORD + "\n", text=True, check=True, capture_output=True, timeout=120)
        output = stack.enter_context((folder / "manager.log").open("w"))
        manager = subprocess.Popen([*command, "proxy-manager"], env=hers, stdout=output, stderr=output, text=True)
        stack.callback(manager.wait, 60)
        stack.callback(manager.kill)
        token = httpx.post(f"{url}/api/localauth/login", json={"email": EMAIL, "password": PASSWORD}).headers["Token"]
        api = stack.enter_context(httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=120))
        wait_until(lambda: "Waiting for requests" in (folder / "manager.log").read_text(), 60)
        yield User(gateway, manager, api)


def at(port: int) -> psycopg.Connection[tuple[object, ...]]:
    where = {"host": "127.0.0.1", "port": port, "user": "me", "dbname": "postgres", "sslmode": "disable"}
    return psycopg.connect(**where, autocommit=True, connect_timeout=60)  # type: ignore[arg-type]


def test_queries_pass_through_the_port_that_the_user_opened(user: User) -> None:
    port = user.told("connect", connection_name="far")["port"]
    with at(port) as client, at(port) as other:
        assert client.execute("select count(*) from generate_series(1, 100000)").fetchone() == (100_000,)
        assert client.execute("select 'ann@example.com'").fetchone() == ("****@****",)
        assert other.execute("select 2").fetchone() == (2,)
        running = user.gateway.sessions("--status", "open")
        assert {(one["user"], one["connection"]) for one in running} == {(EMAIL, "far")}
        assert user.told("disconnect")["status"] == "ready"
        with pytest.raises(psycopg.OperationalError):
            client.execute("select 3")
    with pytest.raises(psycopg.OperationalError, match="refused"):
        at(port)
    again = user.told("connect", connection_name="far", port=port)
    assert again["port"] == port
    with at(port) as client:
        assert client.execute("select 4").fetchone() == (4,)
    wait_until(lambda: not user.gateway.sessions("--status", "open"))
    assert {one["metadata"]["end_reason"] for one in user.gateway.sessions()} == {"client_closed"}


def test_attack_deactivated_user_keeps_no_open_port(user: User) -> None:
    port = user.told("connect", connection_name="far")["port"]
    with at(port) as client:
        client.execute("select 1")
        ended = user.gateway.run("admin", "users", "deactivate", EMAIL, "--yes")
        assert ended.returncode == 0, ended.stderr
        with pytest.raises(psycopg.OperationalError):
            client.execute(f"select pg_sleep({within(2)})")  # what runs ends at once
    with pytest.raises(psycopg.OperationalError):
        at(port)
    assert user.api.get("/api/proxymanager/status").status_code == 401
    wait_until(lambda: user.manager.poll() is not None, 60)
    assert user.manager.returncode == 3
    with pytest.raises(psycopg.OperationalError, match="refused"):
        at(port)
