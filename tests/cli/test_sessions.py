"""Finding sessions from the command line."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.support.served import Served
from tests.support.sessions import add_session, catch_up

from postern.cli.commands.sessions import session_commands as commands
from postern.client import client_resources
from postern.domain.issues.issue import Issue, in_session
from postern.domain.sessions.session import EndReason

pytestmark = pytest.mark.ci


@pytest.fixture
def root(gate: Served) -> Served:
    gate.log_in()
    return gate


def add(root: Served, *asked: str, days: float = 0, **fields: object) -> str:
    """It began so many days ago."""
    at = datetime.now(UTC) - timedelta(days=days)
    made = add_session(root.world, root.root, at=at, asked=asked, **fields)  # type: ignore[arg-type]
    return str(root.run(made).id)


OF_ISSUE = in_session(Issue("OPS-7", "https://tracker.example.com/OPS-7"))


def ids(root: Served, *arguments: str) -> list[str]:
    return [one["id"] for one in root.json("sessions", "list", *arguments)["data"]]


def test_filters(root: Served) -> None:
    old = add(root, days=3, seconds=500, labels={"a": "b"}, metrics={"refused": 1})
    shown: dict[str, Any] = {"connection_tags": {"env": "prod"}, "integrations_metadata": OF_ISSUE}
    new = add(root, reason=EndReason.KILLED, correlation_id="order 7", **shown)
    assert ids(root) == [new, old]
    for arguments, expected in {
        ("--since", "2h"): [new],
        ("--since", "yesterday"): [new],
        ("--until", "1d"): [old],
        ("--longer", "100"): [old],
        ("--label", "a:b"): [old],
        ("--refused",): [old],
        ("--not-refused", "--status", "done"): [new],
        ("--end-reason", "killed"): [new],
        ("--tag", "env=prod"): [new],
        ("--correlation-id", "order 7"): [new],
        ("--issue", "OPS-7"): [new],
        ("--issue", "OPS-7", "--user", "nobody@example.com"): [],
        ("--user", "nobody@example.com"): [],
        ("--limit", "1", "--offset", "1"): [old],
    }.items():
        assert ids(root, *arguments) == expected, arguments
    assert "2h, 7d, yesterday" in root.cli("sessions", "list", "--since", "soon").stderr
    assert root.cli("sessions", "list", "--label", "a").exit_code == 1
    assert new in root.ok("sessions").stdout


def test_pages(root: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_resources, "PAGE", 2)
    made = [add(root, days=n) for n in range(5)]
    first = root.ok("sessions", "list", "--limit", "2")
    assert "5 in total; continue with --cursor " in first.stderr
    cursor = first.stderr.split("--cursor ")[1].split(",")[0]
    assert ids(root, "--limit", "2", "--cursor", cursor) == made[2:4]
    lines = root.ok("sessions", "list", "--all").stdout.splitlines()
    assert [json.loads(line)["id"] for line in lines] == made


def test_searching(root: Served) -> None:
    one = add(root, "begin", "drop table \x1b[2J pets", days=1)
    other = add(root, "select * from pets")
    root.run(catch_up(root.world, root.services))
    shown = root.ok("sessions", "search", "drop", "pets").stdout
    assert one in shown
    assert other not in shown
    assert "2.0 s  drop table \\x1b[2J pets" in shown
    assert "\x1b" not in shown
    assert ids(root, "--search", "pets -drop") == [other]
    assert other in root.ok("sessions", "search", "pets", "--", "-drop").stdout
    assert [json.loads(line)["id"] for line in root.ok("sessions", "search", "pets", "--all").stdout.splitlines()] == [
        other,
        one,
    ]
    assert "No sessions." in root.ok("sessions", "search", "nowhere").stderr
    assert "search: " in root.cli("sessions", "search", "🙂").stderr


def test_a_session_is_named_by_its_beginning_or_as_last(root: Served) -> None:
    old, new = add(root, "select 1", days=3), add(root, "select 2")
    for command in ("show", "hooks", "export"):
        assert root.cli("sessions", command, new[:8]).stdout == root.cli("sessions", command, new).stdout
        assert root.cli("sessions", command, "last").stdout == root.cli("sessions", command, new).stdout
    assert root.json("sessions", "show", old[:9])["id"] == old
    held = root.cli("sessions", "legal-hold", "add", old[:8], "last", "--name", "case", "--reason", "court order")
    assert held.stdout == f"Added the legal hold 'case' to {old}, {new}.\n"
    missing = root.cli("sessions", "show", "0123456789")
    assert (missing.exit_code, "there is no session" in missing.stderr) == (5, True)


def test_last_without_any_session_says_so(root: Served) -> None:
    missing = root.cli("sessions", "show", "last")
    assert (missing.exit_code, "no last session" in missing.stderr) == (5, True)


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"reason": EndReason.KILLED}, "killed"),
        ({"reason": EndReason.COMPLETED}, "succeeded"),
        ({"reason": EndReason.REJECTED}, "refused"),
        ({"reason": EndReason.GATEWAY_CRASHED}, "failed"),
    ],
)
def test_a_session_that_is_done_shows_its_outcome(root: Served, fields: dict[str, Any], status: str) -> None:
    made = add(root, **fields)
    assert root.ok("sessions", "list").stdout.split()[-1] == status
    assert f"status      {status}" in root.ok("sessions", "show", made).stdout
    assert root.json("sessions", "show", made)["outcome"] == status


def test_kill_says_ended_only_when_the_session_has_ended(root: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "KILL_PATIENCE", 0.1)
    running = add(root, seconds=None)  # no worker runs here, so nobody ends it
    shown = root.cli("sessions", "kill", running)
    assert shown.exit_code == 10
    assert "Ended" not in shown.stdout
    assert f"Session {running} is still running; the gateway ends it as soon as possible." in shown.stdout
    assert json.loads(root.cli("sessions", "kill", running, "--json").stdout) == {
        "requested": running,
        "status": "open",
    }
    done = add(root)
    assert root.ok("sessions", "kill", done).stdout == f"Ended session {done}.\n"
