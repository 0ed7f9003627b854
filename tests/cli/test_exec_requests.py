"""How many requests `postern exec` sends for one script, and what it prints from the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
from tests.support.served import ANN, ROOT, Served
from tests.support.target_tasks import answer_target_tasks

from postern.domain.sessions.results import Finished, Mask, Problem, Result, ResultColumns, Row
from postern.domain.sessions.session import EndReason
from postern.domain.targets.target_task import TargetTaskAnswer, TargetTaskKind
from postern.store.ports.common_ports import Topic

pytestmark = pytest.mark.ci

POST, SESSION, EVENTS = "POST /api/sessions", "GET /api/sessions/ID", "GET /api/sessions/ID?expand"
CONNECTION, RESULTS = "GET /api/connections/shop", "GET /api/sessions/ID/results"
SCRIPT = "select 1;\nselect 2 frm x y"
INPUT = (0.1, "i", SCRIPT.encode())
MEBIBYTE = b"x" * (1 << 20)


@dataclass
class Ran:
    """What the worker records of a script. Without events, an administrator kills the script before it begins."""

    events: list[tuple[float, str, bytes]] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    exit_code: int | None = 0
    metrics: dict[str, Any] = field(default_factory=dict)


@pytest.fixture
def ann(gate: Served) -> Served:
    gate.run(gate.world.add_connection())
    gate.log_in(ANN)
    return gate


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The requests of the command line, with `ID` instead of the session's identifier."""
    found: list[str] = []
    send = httpx.Client.send

    def counted(client: httpx.Client, request: httpx.Request, **more: Any) -> httpx.Response:
        parts = request.url.path.split("/")
        path = "/".join("ID" if len(part) == 36 else part for part in parts)
        found.append(f"{request.method} {path}{'?expand' if 'expand' in request.url.params else ''}")
        return send(client, request, **more)

    monkeypatch.setattr(httpx.Client, "send", counted)
    return found


def run_scripts(gate: Served, ran: Ran) -> list[asyncio.Task[None]]:
    """Claim each script that is submitted, and end it as `ran` says."""
    tasks: list[asyncio.Task[None]] = []
    sessions, recordings = gate.services.sessions, gate.world.recordings

    async def work(session_id: UUID) -> None:
        if not ran.events:
            await sessions.kill(gate.root, session_id)
            return
        assert await sessions.claim(session_id, "w1")
        recordings.stored[session_id] = ran.events
        recordings.answered[session_id] = ran.results
        await sessions.close(
            session_id,
            reason=EndReason.FAILED if ran.exit_code else EndReason.COMPLETED,
            exit_code=ran.exit_code,
            metrics=ran.metrics,
            event_size=sum(len(content) for _, _, content in ran.events),
        )

    def hear(payload: Mapping[str, str]) -> None:
        tasks.append(asyncio.get_running_loop().create_task(work(UUID(payload["session_id"]))))

    gate.world.signals.subscribe(Topic.SESSION_RUN, hear)
    return tasks


SYNTAX = Problem("ERROR", "syntax error", position=24)
POINTER = "LINE 2: select 2 frm x y\n" + " " * 21 + "^\n"


MAIL = ((1, Mask("people", "hash")),)
CARD = (*MAIL, (2, Mask("", "replace", ("CREDIT_CARD",))))
ROWS: list[Result] = [
    ResultColumns(("id", "mail", "note\x1b[2J")),
    *[Row(("1", "h_x", "y"), masks) for masks in (MAIL, MAIL, CARD)],
    Finished("SELECT 3"),
]
MASKED = {"data_masking": {"info_types": {"people": 3}}}
LINES = (
    'postern: masked by rule "people" (hash): mail (3 cells)\n'
    "postern: masked by information types of the connection (replace, CREDIT_CARD): note\\x1b[2J (1 cell)\n"
)


@pytest.mark.parametrize(
    ("ran", "options", "requests", "code", "stdout", "stderr"),
    [
        pytest.param(Ran([INPUT, (1, "o", b"id\n1\n")]), [], [POST], 0, "id\n1\n", "", id="short"),
        pytest.param(
            Ran([INPUT, (1, "o", b"a\xc3"), (2, "o", b"\xa4\n"), (3, "e", b"no\n"), (4, "o", b"b\n")], exit_code=3),
            *([], [POST], 3, "aä\nb\n", "no\n"),
            id="both streams",
        ),
        pytest.param(
            Ran([INPUT, (1, "o", b"1\n"), (2, "e", b"syntax error")], [SYNTAX], 1),
            *([], [POST], 1, "1\n", "syntax error\n" + POINTER),
            id="error with position",
        ),
        pytest.param(Ran([INPUT]), [], [POST], 0, "", "", id="silent"),
        pytest.param(Ran(), [], [POST], 1, "", f"postern: killed by {ROOT}\n", id="never began"),
        pytest.param(
            Ran([INPUT, (1, "o", b"a"), (2, "o", b"b")], metrics={"truncated": True}),
            *([], [POST, SESSION, EVENTS], 0, "ab", ""),
            id="cut at the limit of the recording",
        ),
        pytest.param(
            Ran([INPUT, (1, "o", MEBIBYTE), (2, "o", "ä".encode()[:1]), (3, "o", "ä".encode()[1:]), (4, "e", b"no\n")]),
            *([], [POST, SESSION, EVENTS], 0, MEBIBYTE.decode() + "ä", "no\n"),
            id="longer than an answer",
        ),
        pytest.param(
            Ran([INPUT, (1, "o", b"1\n"), (2, "e", b"no\n")], [SYNTAX], 1),
            *(["--format", "csv"], [CONNECTION, POST, RESULTS], 1, "", "no\n" + POINTER),
            id="csv",
        ),
        pytest.param(
            *(Ran([INPUT, (1, "o", b"id\n1\n")], ROWS, metrics=MASKED), [], [POST], 0, "id\n1\n", LINES),
            id="masked columns",
        ),
    ],
)
def test_exec_sends_one_request_for_a_short_answer(
    ann: Served,
    sent: list[str],
    ran: Ran,
    options: list[str],
    requests: list[str],
    code: int,
    stdout: str,
    stderr: str,
) -> None:
    run_scripts(ann, ran)
    sent.clear()
    done = ann.cli("exec", "shop", "-i", SCRIPT, *options)
    assert (done.exit_code, done.stdout) == (code, stdout)
    (session,) = ann.json("sessions", "list")["data"]
    cut = "postern: the output was truncated at the gateway's limit\n" if ran.metrics.get("truncated") else ""
    assert done.stderr == f"{stderr}postern: session {session['id']}\n{cut}"
    assert sent[:-1] == requests


def test_exec_sends_parameters_with_the_script(ann: Served, tmp_path: Path) -> None:
    run_scripts(ann, Ran([INPUT]))
    (tmp_path / "note.txt").write_text("from a file")
    script = "select :id, :name, :note"
    values = ("-p", "id=7", "--parameter", "name=it's = x", "-p", f"note=@{tmp_path / 'note.txt'}")
    assert ann.cli("exec", "shop", "-i", script, *values).exit_code == 0
    (session,) = ann.json("sessions", "list")["data"]
    assert session["labels"] == {"scriptParameters": '["id", "name", "note"]'}


@pytest.mark.parametrize(
    ("options", "code", "reason"),
    [
        (("-p", "id"), 2, "write a parameter as KEY=VALUE"),
        (("-p", "id=1", "-p", "id=2"), 2, "id is given twice"),
        (("-p", "id=1", "-p", "other=2"), 1, "does not use 'other'"),
        (("-p", "other=2"), 1, "uses :id without a value"),
    ],
)
def test_exec_names_parameters_that_do_not_fit(ann: Served, options: tuple[str, ...], code: int, reason: str) -> None:
    done = ann.cli("exec", "shop", "-i", "select :id", *options)
    assert (done.exit_code, reason in done.stderr) == (code, True), done.stderr


PREVIEW: dict[str, Any] = {
    "outcome": "deny",
    "messages": [{"rule": "care / where", "message": "blocked by \x1b[31mcare", "hint": "Ask Ann."}],
    "held_by": [],
    "statements": [
        {
            "offset": 0,
            "length": 8,
            "tag": "SELECT",
            "effects": ["read"],
            "objects": [{"kind": "table", "schema": "", "name": "t"}],
            "without_where": False,
            "reason": "",
            "outcome": "allow",
            "messages": [],
            "held_by": [],
        },
    ],
    "statements_truncated": True,
    "syntax_error": {"message": "syntax error", "offset": 10},
}


def preview_as(gate: Served, preview: dict[str, Any]) -> list[Mapping[str, str]]:
    answer = TargetTaskAnswer(preview)
    return answer_target_tasks(gate.world, gate.services.target_tasks, {TargetTaskKind.PREVIEW: answer})


def test_preview_prints_what_rules_say_and_runs_nothing(ann: Served, sent: list[str]) -> None:
    asked = preview_as(ann, PREVIEW)
    done = ann.cli("exec", "shop", "-i", SCRIPT, "--preview")
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        "It would be denied.",
        "  blocked by \\x1b[31mcare Ask Ann.",
        "line 1: allow (read): select 1",
        "There are more statements, which are not listed.",
        "line 2: syntax error",
    ]
    assert asked == [{"script": SCRIPT}]
    assert sent == ["POST /api/connections/shop/preview"]
    assert ann.json("sessions", "list")["total"] == 0


@pytest.mark.parametrize(
    ("outcome", "line"),
    [
        ("allow", "It would run."),
        ("warn", "It would run, with a warning."),
        ("hold", "It would wait for a review."),
    ],
)
def test_preview_of_what_is_not_denied_succeeds(ann: Served, outcome: str, line: str) -> None:
    asked = preview_as(ann, {**PREVIEW, "outcome": outcome, "messages": []})
    done = ann.cli("exec", "shop", "-i", "select :a", "-p", "a=1", "--preview")
    assert (done.exit_code, done.stdout.splitlines()[0]) == (0, line)
    assert asked[0]["parameters"] == '{"a": "1"}'
    found = ann.json("exec", "shop", "-i", "select 1", "--preview", "--json")
    assert found["review"] == {"required": False, "approvers": []}


def test_preview_names_who_must_approve_first(ann: Served) -> None:
    ann.run(ann.world.add_connection("reviewed", reviewers=("dba", "ops")))
    preview_as(ann, {**PREVIEW, "outcome": "allow", "messages": []})
    done = ann.cli("exec", "reviewed", "-i", "select 1", "--preview")
    assert done.stdout.splitlines()[:2] == ["It needs a review first: dba or ops.", "It would run."]


def test_json_of_exec_tells_what_was_masked(ann: Served) -> None:
    run_scripts(ann, Ran([INPUT, (1, "o", b"id\n1\n")], ROWS, metrics=MASKED))
    assert ann.json("exec", "shop", "-i", SCRIPT)["masked"] == [
        {"rule": "people", "strategy": "hash", "info_types": [], "columns": ["mail"], "cells": 3},
        {"rule": None, "strategy": "replace", "info_types": ["CREDIT_CARD"], "columns": ["note\x1b[2J"], "cells": 1},
    ]
