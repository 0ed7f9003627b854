"""A whole gateway, managed while it runs: its log, its listener, and the way back in."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator

import httpx
import pytest
from tests.support.postgres import free_port
from tests.support.promises import wait_until, within
from tests.support.running import Gateway, started

from postern.cli.login import profile

pytestmark = pytest.mark.ci


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with started("--no-demo") as made:
        yield made


@pytest.fixture
def api(gateway: Gateway) -> Iterator[httpx.Client]:
    """As the first administrator, whom `postern up` logged in."""
    known = profile.find(gateway.environment)
    assert known is not None
    assert known.token is not None
    headers = {"Authorization": f"Bearer {known.token.reveal()}"}
    with httpx.Client(base_url=f"{known.api_url}/api", headers=headers, timeout=60) as client:
        yield client


def accepts(port: int) -> bool:
    with socket.socket() as stream:
        return stream.connect_ex(("127.0.0.1", port)) == 0


def becomes(port: int, wanted: bool, seconds: float = 1.0) -> bool:
    end = time.monotonic() + within(seconds)
    while time.monotonic() < end:
        if accepts(port) is wanted:
            return True
        time.sleep(0.01)
    return False


def test_it_is_ready_and_every_process_logs(api: httpx.Client) -> None:
    assert api.get("/readyz").json() == {"readiness": "OK"}

    def logged() -> list[dict[str, str]]:
        found: list[dict[str, str]] = api.get("/server-logs", params={"limit": 1000}).json()["data"]
        return found

    wait_until(lambda: {line["process"] for line in logged()} >= {"supervisor", "prepare", "api", "w1"})
    lines = logged()
    assert [line["at"] for line in lines] == sorted(line["at"] for line in lines)


def test_no_secret_of_the_start_is_in_the_log(gateway: Gateway, api: httpx.Client) -> None:
    shown = api.get("/server-logs", params={"limit": 1000}).text
    token = api.headers["authorization"].split()[1]
    secrets = [gateway.told["admin_password"], token]
    assert not [secret for secret in secrets if secret and secret in shown + gateway.log]


def test_the_listener_moves(api: httpx.Client) -> None:
    before = api.get("/serverconfig/misc").json()
    old, new = int(before["postgres_server_config"]["listen_address"].rpartition(":")[2]), free_port()
    assert accepts(old)
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = {"postgres_server_config": {"listen_address": f"127.0.0.1:{other.getsockname()[1]}"}}
        assert api.put("/serverconfig/misc", json=taken).status_code == 409
    moved = api.put("/serverconfig/misc", json={"postgres_server_config": {"listen_address": f"127.0.0.1:{new}"}})
    assert moved.status_code == 200, moved.text
    assert becomes(new, True)
    assert becomes(old, False)
    assert api.get("/serverinfo").json()["postgres_port"] == new
    assert api.put("/serverconfig/misc", json=before).status_code == 200
    assert becomes(old, True)


def test_who_locked_everybody_out_gets_back_in_on_the_machine(gateway: Gateway, api: httpx.Client) -> None:
    """A second factor that nobody has yet is required: the administrator can do nothing, until the reset."""
    wanted = {"auth_method": "local", "require_second_factor": True}
    assert api.put("/serverconfig/auth", json=wanted).status_code == 200
    assert api.get("/serverconfig/auth").status_code == 403
    done = gateway.run("auth", "reset", "--home", str(gateway.home), "--yes", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["auth_method"] == "local"
    wait_until(lambda: api.get("/serverconfig/auth").status_code == 200, within(2))
    assert api.get("/serverconfig/auth").json()["require_second_factor"] is False
    (entry,) = api.get("/audit/logs", params={"http_method": "COMMAND"}).json()["data"]
    assert entry["action"] == "reset"
    assert entry["before"]["require_second_factor"] is True
