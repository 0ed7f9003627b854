"""Set-up links and second factors on the command line, with the real thing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import httpx
import pyotp
import pytest
from tests.support.running import Gateway, started

pytestmark = pytest.mark.ci

NEW = "another long password"


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with started("--no-demo") as made:
        yield made


def test_a_link_of_the_machine_then_a_second_factor(gateway: Gateway) -> None:
    first = gateway.told["setup_url"]
    printed = (gateway.folder / "printed").read_text()
    assert str(gateway.home / "first-run.json") in printed
    assert first.partition("#")[2] not in printed  # a log, and no terminal
    assert gateway.run("setup", first, "--password-stdin", stdin=f"{NEW} 0\n").returncode == 0
    (gateway.home / "first-run.json").rename(gateway.folder / "kept.json")  # who read it removes it
    link = json.loads(gateway.run("setup-link", "--json").stdout)
    (gateway.folder / "kept.json").rename(gateway.home / "first-run.json")
    assert link["url"].startswith(f"{gateway.told['api_url']}/setup#token=")
    assert "ends with #token=" in gateway.run("setup", "https://nowhere", stdin="x\n").stderr
    shown = gateway.run("setup", link["url"], "--password-stdin", "--json", stdin=f"{NEW}\n")
    assert json.loads(shown.stdout)["email"] == "admin@localhost"
    again = gateway.run("setup", link["url"], "--password-stdin", stdin=f"{NEW}\n")
    assert again.returncode == 3
    assert "already used" in again.stderr
    assert gateway.run("connections", "--json").returncode == 0

    api = f"{gateway.told['api_url']}/api"
    body = {"email": "admin@localhost", "password": NEW}
    token = httpx.post(f"{api}/localauth/login", json=body).headers["token"]
    bearer = {"Authorization": f"Bearer {token}"}
    wanted = {"kind": "totp", "name": "phone", "current_password": NEW}
    made = httpx.post(f"{api}/users/self/second-factors", json=wanted, headers=bearer).json()
    app = pyotp.TOTP(made["secret"])
    now = datetime.now(UTC)
    confirm = f"{api}/users/self/second-factors/{made['id']}/confirm"
    codes = httpx.post(confirm, json={"code": app.at(now)}, headers=bearer).json()
    login = ("login", "--email", "admin@localhost", "--password-stdin", "--json")
    # The next step's: good now, and still good should that step begin meanwhile.
    for code in (app.at(now + timedelta(seconds=30)), codes["recovery_codes"][0]):
        done = gateway.run(*login, stdin=f"{NEW}\n{code}\n")
        assert json.loads(done.stdout)["email"] == "admin@localhost"
    wrong = gateway.run(*login, stdin=f"{NEW}\n{codes['recovery_codes'][0]}\n")
    assert wrong.returncode == 3
    assert "not accepted" in wrong.stderr
    reset = json.loads(gateway.run("setup-link", "--reset-second-factors", "--json").stdout)
    assert gateway.run("setup", reset["url"], "--password-stdin", stdin=f"{NEW} 2\n").returncode == 0
