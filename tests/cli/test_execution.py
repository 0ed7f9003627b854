"""Waiting for a script while its gateway comes and goes; with a real gateway: tests/cli/test_commands.py."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from postern.cli.progress import ProgressLine
from postern.cli.scripts import outcome, review_wait
from postern.cli.scripts.review_wait import Patience
from postern.client.client import Client
from postern.client.client_http import Http
from postern.client.client_shapes import ExecResult
from postern.domain.secret import Secret
from postern.errors import Conflict, Unavailable

RUNNING: dict[str, Any] = {"session_id": "s1", "output_status": "running", "exit_code": None}
DONE = {**RUNNING, "output_status": "success", "exit_code": 0}
Answer = tuple[int, dict[str, Any]]


def waited(answers: Callable[[httpx.Request], Answer], patience: Patience | None = None) -> ExecResult:
    def answer(request: httpx.Request) -> httpx.Response:
        status, body = answers(request)
        return httpx.Response(status, text=json.dumps(body))

    http = Http("http://gateway.invalid", Secret("token"), transport=httpx.MockTransport(answer))
    with http, ProgressLine("", quiet=True) as progress:
        api = Client(http)
        return outcome.wait(api, lambda seconds: api.sessions.execute("shop", "x", wait=seconds), progress, patience)


def test_a_gateway_that_is_away_for_a_moment_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcome, "_PAUSE", 0.01)
    asked: list[str] = []

    def answers(request: httpx.Request) -> Answer:
        asked.append(f"{request.method} {request.url.path} {request.headers.get('Prefer')}")
        if request.method == "POST":
            return 202, RUNNING
        return (503, {"message": "away"}) if len(asked) < 4 else (202, RUNNING) if len(asked) < 5 else (200, DONE)

    assert waited(answers)["output_status"] == "success"
    assert asked == ["POST /api/sessions wait=1", *["GET /api/sessions/s1/exec None"] * 4]


def test_one_that_stays_away_is_given_up_and_what_to_look_at_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcome, "_PAUSE", 0.01)
    monkeypatch.setattr(outcome, "_AWAY", 0.05)
    with pytest.raises(Unavailable, match="away; `postern sessions show s1` shows what happened to the session"):
        waited(lambda request: (202, RUNNING) if request.method == "POST" else (503, {"message": "away"}))


def test_a_script_that_cannot_be_killed_is_said_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    def answers(request: httpx.Request) -> Answer:
        if request.method == "GET":
            raise KeyboardInterrupt
        return (403, {"message": "not\x1b[2J yours"}) if request.url.path.endswith("/kill") else (202, RUNNING)

    with pytest.raises(SystemExit) as ended:
        waited(answers)
    assert ended.value.code == 130
    assert capsys.readouterr().err == (
        "postern: session s1 could not be killed and can still be running: not\\x1b[2J yours\n"
    )


def waiting(status: str = "PENDING") -> dict[str, Any]:
    demand = {"groups": ["dba", "security"], "min_approvals": 2, "approvals": 1, "is_met": False}
    review = {
        "id": "r1",
        "url": "http://gateway.invalid/reviews/r1",
        "status": status,
        "expires_at": "2026-01-02T03:04:05Z",
        "demands": [{**demand, "all_groups_must_approve": False}],
    }
    return {**RUNNING, "output_status": "waiting", "review": review}


class Reviewed:
    """A gateway whose script waits for a review. `becomes` are the review's states, one for each look; `runs` is the
    answer to who wants it run."""

    def __init__(self, *becomes: str, runs: Answer = (200, DONE)) -> None:
        self.becomes = list(becomes)
        self.runs = runs
        self.asked: list[str] = []

    def __call__(self, request: httpx.Request) -> Answer:
        self.asked.append(f"{request.method} {request.url.path}")
        if request.url.path.endswith("/reviews/r1"):
            state = self.becomes.pop(0)
            return (503, {"message": "away"}) if state == "away" else (200, waiting(state)["review"])
        if self.asked[-1] == "POST /api/sessions":
            return 202, waiting()
        return self.runs if request.method == "POST" else (200, DONE)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review_wait, "PAUSE", 0.01)


@pytest.mark.usefixtures("at_once")
def test_what_is_approved_runs_by_itself(capsys: pytest.CaptureFixture[str]) -> None:
    gateway = Reviewed("PENDING", "away", "PENDING", "APPROVED", runs=(202, RUNNING))
    assert waited(gateway)["output_status"] == "success"
    looks = ["GET /api/reviews/r1"] * 4
    run = ["POST /api/sessions/s1/exec", "GET /api/sessions/s1/exec"]
    assert gateway.asked == ["POST /api/sessions", *looks, *run]
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "postern: this needs approval: 1 of dba, security"
    assert said[-1] == "postern: approved; running"


@pytest.mark.usefixtures("at_once")
def test_one_that_another_has_begun_meanwhile_is_followed() -> None:
    gateway = Reviewed("APPROVED", runs=(409, {"message": "it was already started"}))
    assert waited(gateway)["output_status"] == "success"
    assert gateway.asked[-1] == "GET /api/sessions/s1/exec"


@pytest.mark.usefixtures("at_once")
def test_one_that_cannot_be_run_says_why() -> None:
    def answers(request: httpx.Request) -> Answer:
        if request.url.path.endswith("/reviews/r1"):
            return 200, waiting("APPROVED")["review"]
        at_exec = request.url.path.endswith("/exec")
        return (409, {"message": "not now"}) if at_exec and request.method == "POST" else (202, waiting("APPROVED"))

    with pytest.raises(Conflict, match="not now"):
        waited(answers, Patience(quiet=True))


def test_nothing_is_waited_for_where_nobody_wants_to_wait() -> None:
    gateway = Reviewed()
    assert waited(gateway, Patience(0))["output_status"] == "waiting"
    assert gateway.asked == ["POST /api/sessions"]


@pytest.mark.usefixtures("at_once")
def test_ctrl_c_leaves_what_waits_and_says_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    def answers(request: httpx.Request) -> Answer:
        if request.method == "GET":
            raise KeyboardInterrupt
        assert not request.url.path.endswith("/kill")
        return 202, waiting()

    with pytest.raises(SystemExit) as ended:
        waited(answers)
    assert ended.value.code == 130
    said = capsys.readouterr().err
    assert "`postern exec --resume s1` continues once it is approved" in said
    assert "`postern reviews withdraw s1` withdraws it" in said
