"""`postern runbooks run` against the real API."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import click
import pytest
from click.testing import CliRunner
from tests.support.running import Gateway
from tests.support.served import ANN, Served
from tests.support.shelf import NAME, shelve
from tests.support.sitting import Sitting

from postern.cli.scripts.runbook_parameters import ask_for_missing
from postern.domain.sessions.session import Session

pytestmark = pytest.mark.ci

RUN = ("runbooks", "run")
UNLOCK = """update users set state = {{ .state | type "select" | options "locked" "free" | default "free" | squote }}
where name = {{ .user | description "Who is locked out" | required "whom?" | squote }} -- {{ .pin | type "password" }}
"""
FILES = {
    "users/unlock.runbook.sql": UNLOCK,
    "note.runbook.sql": "select {{ .text | type `file` | squote }}",
}


@pytest.fixture
def ann(gate: Served) -> Served:
    """Ann is logged in; `shop` is reviewed by administrators, so that what she runs waits."""
    agent = gate.run(gate.world.add_agent("edge"))
    gate.run(gate.world.add_connection("shop", agent=agent, reviewers=("admin",)))
    gate.run(shelve(gate.world.stores, gate.world.org_id, FILES))
    gate.log_in(ANN)
    return gate


@pytest.fixture
def sitting(ann: Served) -> Iterator[Sitting]:
    """At a terminal, about to run `users/unlock.runbook.sql` as far as it is reviewed."""
    home = cast(Gateway, SimpleNamespace(environment={**os.environ, **ann.environment}))
    opened = Sitting(home, *RUN, "users/unlock.runbook.sql", "-c", "shop", "--no-wait")
    yield opened
    opened.close()


def run(ann: Served, name: str, *more: str, **how: Any) -> Session:
    """The session that waits now for its review."""
    done = ann.cli(*RUN, name, "-c", "shop", "--no-wait", "--json", *more, **how)
    assert (done.exit_code, done.stderr) == (7, "")
    return newest(ann, json.loads(done.stdout)["session_id"])


def newest(ann: Served, session_id: str) -> Session:
    return ann.run(ann.services.sessions.get(ann.root, session_id))


def test_values_come_from_the_line_from_files_and_from_json(ann: Served, tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text(json.dumps({"user": "bob", "state": "locked"}))
    (tmp_path / "pin").write_text("4711")
    found = run(
        ann,
        "users/unlock.runbook.sql",
        *("--parameters", str(tmp_path / "p.json"), "-p", "user=o'hara", "-p", f"pin=@{tmp_path / 'pin'}"),
        *("--reason", "ticket 7", "--batch", "tuesday", "--repository", NAME),
    )
    assert found.script == "update users set state = 'locked'\nwhere name = 'o''hara' -- 4711\n"
    assert found.labels["sessionBatchId"] == "tuesday"
    assert json.loads(found.labels["runbookParameters"]) == {"state": "locked", "user": "o'hara", "pin": "***"}
    at = run(ann, "users/unlock.runbook.sql", "--parameters", "-", stdin=json.dumps({"user": "@me", "pin": ""}))
    assert "'@me'" in str(at.script)
    assert "'@you'" in str(run(ann, "/users/unlock.runbook.sql", "-p", "user=@@you", "-p", "pin=").script)


def test_what_is_wrong_is_said_and_nothing_is_put_up(ann: Served, tmp_path: Path) -> None:
    (tmp_path / "bin").write_bytes(b"\xff\x00")
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "number.json").write_text('{"user": 7}')
    for more, code, says in (
        ((), 1, "whom?"),
        (("-p", "user"), 2, "KEY=VALUE"),
        (("-p", "user=s3cr3t", "-p", "user=x"), 2, "user is given twice"),
        (("-p", f"user=@{tmp_path / 'gone'}"), 2, "user: the file cannot be read"),
        (("-p", f"user=@{tmp_path / 'bin'}"), 2, "not UTF-8"),
        (("--parameters", str(tmp_path / "list.json")), 2, "one JSON object"),
        (("--parameters", str(tmp_path / "number.json")), 2, "user: must be a string"),
        (("-p", "user=x", "-p", "usr=y"), 1, "no inputs [usr]"),
        (("-p", "user=x", "--commit", "0" * 40), 1, "is at commit"),
        (("-p", "user=x", "-e", "A"), 2, "NAME=VALUE"),
        (("-p", "user=x", "--resume", "s1"), 2, "leave out its other options"),
    ):
        done = ann.cli(*RUN, "users/unlock.runbook.sql", "-c", "shop", *more)
        assert (done.exit_code, says in done.stderr, "s3cr3t" in done.stderr) == (code, True, False), done.stderr
    assert ann.cli(*RUN, "users/unlock.runbook.sql").exit_code == 2
    assert ann.cli(*RUN, "users/nothing.runbook.sql", "-c", "shop").exit_code == 5
    assert ann.json("reviews")["data"] == []


def test_a_dry_run_prints_the_text_and_puts_nothing_up(ann: Served) -> None:
    line = (*RUN, "users/unlock.runbook.sql", "-c", "shop", "-p", "user=ann", "-p", "pin=4711", "--dry-run")
    done = ann.ok(*line)
    assert done.stdout == "update users set state = 'free'\nwhere name = 'ann' -- ***\n"
    assert "nothing was run" in done.stderr
    assert ann.json(*line)["variables"] == []
    assert ann.json("reviews")["data"] == []


def test_it_goes_on_once_it_is_approved(ann: Served) -> None:
    found = run(ann, "users/unlock.runbook.sql", "-p", "user=ann", "-p", "pin=")
    done = ann.cli(*RUN, "--resume", str(found.id), "--no-wait")
    assert (done.exit_code, "this needs approval: 1 of admin" in done.stderr) == (7, True)


@pytest.mark.parametrize("form", ["csv", "json"])
def test_what_has_no_values_is_told_before_it_runs(ann: Served, form: str) -> None:
    ann.run(ann.world.add_connection("console", reviewers=("admin",), subtype="bash", command=("bash",)))
    ann.run(shelve(ann.world.stores, ann.world.org_id, FILES | {"hello.runbook.sh": "echo hello\n"}))
    exec_ = ("exec", "console", "-i", "echo hello")
    waiting = json.loads(ann.cli(*exec_, "--no-wait", "--json").stdout)["session_id"]
    for line in (exec_, (*RUN, "hello.runbook.sh", "-c", "console"), ("exec", "--resume", waiting)):
        done = ann.cli(*line, "--format", form, "--no-wait")
        assert done.exit_code == 2, done.stderr
        assert f"--format {form} is for tables, but connections of subtype bash" in done.stderr
    assert len(ann.json("reviews")["data"]) == 1
    assert ann.cli("exec", "--resume", waiting, "--format", "text", "--no-wait").exit_code == 7
    assert ann.cli("exec", "nowhere", "-i", "select 1", "--format", form).exit_code == 5


def test_attack_what_a_runbook_says_steers_no_terminal() -> None:
    steers = "\x1b[2J\u202e\r"
    about = {"type": "text", "description": steers, "default": steers}

    @click.command()
    def ask() -> None:
        assert ask_for_missing({steers: about}, {}) == {}

    shown = CliRunner().invoke(ask, input="\n")
    assert (shown.exit_code, shown.output.count("\\x1b[2J\\u202e\\r")) == (0, 3)
    assert not set(shown.output) & set(steers.replace("[2J", ""))


def test_at_a_terminal_what_is_missing_is_asked_for(ann: Served, sitting: Sitting) -> None:
    sitting.shows("state (locked, free) [free]: ")
    sitting.type("open\r")
    sitting.shows("is not one of")
    sitting.type("locked\r")
    sitting.shows("Who is locked out")
    sitting.shows("user: ")
    sitting.type("\r")
    sitting.shows("user is required")
    sitting.type("o'hara\r")
    sitting.shows("pin: ")
    sitting.type("4711\r")
    sitting.shows("this needs approval")
    assert sitting.leaves() == 7
    assert b"4711" not in sitting.shown
    (review,) = ann.json("reviews")["data"]
    found = newest(ann, review["session"])
    assert found.script == "update users set state = 'locked'\nwhere name = 'o''hara' -- 4711\n"
