"""Reviewed access with the whole product: one user asks with psql, another approves at the command line and revokes."""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime

import psycopg
import pytest
from tests.e2e.test_waiting_clients import Psql, is_cut
from tests.support.postgres import PostgresServer
from tests.support.promises import wait_until
from tests.support.running import Gateway, started

pytestmark = pytest.mark.slow

DBA = "dba@example.com"


@pytest.fixture(scope="module")
def gateway(target: PostgresServer) -> Iterator[Gateway]:
    with started("--no-demo") as made:
        place = ["HOST=127.0.0.1", f"PORT={target.port}", "USER=postgres", "DB=postgres"]
        ok(made, "connections", "create", "orders", "--subtype", "postgres", *(f"--env={one}" for one in place))
        ok(made, "connections", "update", "orders", "--set", "reviewers=dba")
        password = secrets.token_urlsafe(20)
        ok(made, "admin", "users", "create", DBA, "--group", "dba", "--password-stdin", stdin=password)
        url = made.told["api_url"]
        ok(made, "login", url, "--email", DBA, "--password-stdin", "--profile", "dba", stdin=password)
        yield made


def ok(gateway: Gateway, *arguments: str, stdin: str | None = None) -> str:
    done: subprocess.CompletedProcess[str] = gateway.run(*arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout


def pending(gateway: Gateway) -> str:
    """The id of the review that waits for the dba."""

    def found() -> list[dict[str, str]]:
        shown = json.loads(ok(gateway, "reviews", "list", "--for-me", "--json", "--profile", "dba"))
        data: list[dict[str, str]] = shown["data"]
        return data

    (review,) = wait_until(found)
    return review["id"]


def test_psql_is_admitted_once_approved_and_disconnected_once_revoked(gateway: Gateway) -> None:
    line = json.loads(ok(gateway, "connect", "orders", "--native", "--json"))["psql"]
    url = line.removeprefix("psql ").strip('"')
    client = Psql(url)
    said = client.told("postern reviews approve")
    review = pending(gateway)
    assert f"/reviews/{review}" in said
    own = gateway.run("reviews", "approve", review)  # an administrator's, who is no reviewer
    assert own.returncode != 0
    assert "you are in none of these groups" in own.stderr
    ok(gateway, "reviews", "approve", review, "--profile", "dba")
    assert client.ended()[:2] == (0, "42\n")
    with psycopg.connect(url, autocommit=True) as mine:
        assert mine.execute("select 1").fetchone() == (1,)
        ok(gateway, "reviews", "revoke", review, "--comment", "done for today", "--profile", "dba")
        assert "done for today" in is_cut(mine)
    rejected = Psql(url)
    again = pending(gateway)
    assert again != review
    ok(gateway, "reviews", "reject", again, "--comment", "use the replica", "--profile", "dba")
    assert "use the replica" in rejected.ended()[2]


def test_approval_for_a_later_time_window_denies_access_until_then(gateway: Gateway) -> None:
    line = json.loads(ok(gateway, "connect", "orders", "--native", "--json"))["psql"]
    client = Psql(line.removeprefix("psql ").strip('"'))
    client.told("NOTICE")
    hour = datetime.now(UTC).hour
    window = f"{(hour + 4) % 24:02}:00-{(hour + 5) % 24:02}:00"
    ok(gateway, "reviews", "approve", pending(gateway), "--time-window", window, "--profile", "dba")
    code, _, said = client.ended()
    assert code == 2
    assert f"it can be used from {window.replace('-', ' to ')} UTC" in said
