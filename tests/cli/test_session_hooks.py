"""`postern sessions hooks`, against the real API."""

from __future__ import annotations

from uuid import uuid4

import pytest
from tests.support.served import ANN, Served
from tests.support.sessions import add_session

from postern.domain.hook import HookKind, HookOutcome, HookRun


@pytest.fixture
def root(gate: Served) -> Served:
    gate.log_in()
    return gate


def test_runs_are_shown_and_what_they_printed_steers_no_terminal(root: Served) -> None:
    session = root.run(add_session(root.world, root.root))
    show = ("sessions", "hooks", str(session.id))
    assert "No hook has run" in root.ok(*show).stderr
    printed = HookOutcome(1, "first\r\n\x1b[2Jsecond\n\n")
    for kind, outcome in ((HookKind.OPEN, printed), (HookKind.CLOSE, HookOutcome(None, "", "there is no python3"))):
        at = root.world.clock()
        run = HookRun(uuid4(), session.org_id, session.id, kind, "git.example.com/a/b", "c0ffee", at, 0.5, outcome)
        root.run(root.services.hooks.record_run(run))
        root.world.clock.forward(seconds=1)
    lines = root.ok(*show).stdout.split("\n")
    assert lines[0].startswith("session-open of git.example.com/a/b at c0ffee, 2")
    assert lines[0].endswith(", 500.0 ms, exit code 1")
    assert lines[1:3] == ["  first", "  \\x1b[2Jsecond"]
    assert lines[3].endswith("it did not finish: there is no python3")
    shown = root.json(*show)
    assert [(one["exit_code"], one["output"]) for one in shown] == [(1, printed.output), (None, "")]


def test_they_are_not_for_who_had_the_session(root: Served) -> None:
    session = root.run(add_session(root.world, root.root))
    assert root.cli("sessions", "hooks", str(uuid4())).exit_code == 5
    root.log_in(ANN)
    assert root.cli("sessions", "hooks", str(session.id)).exit_code == 5
