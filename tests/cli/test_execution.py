"""Waiting for a script while its gateway comes and goes; with a real gateway: tests/cli/test_commands.py."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from postern.cli import execution
from postern.cli.progress import Progress
from postern.client.client import Client
from postern.client.http import Http
from postern.client.shapes import ExecResult
from postern.domain.secret import Secret
from postern.errors import Unavailable

RUNNING: dict[str, Any] = {"session_id": "s1", "output_status": "running", "exit_code": None}
DONE = {**RUNNING, "output_status": "success", "exit_code": 0}
Answer = tuple[int, dict[str, Any]]


def waited(answers: Callable[[httpx.Request], Answer]) -> ExecResult:
    def answer(request: httpx.Request) -> httpx.Response:
        status, body = answers(request)
        return httpx.Response(status, text=json.dumps(body))

    http = Http("http://gateway.invalid", Secret("token"), transport=httpx.MockTransport(answer))
    with http, Progress("", quiet=True) as progress:
        api = Client(http)
        return execution.wait(api, lambda seconds: api.sessions.execute("shop", "x", wait=seconds), progress)


def test_a_gateway_that_is_away_for_a_moment_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "_PAUSE", 0.01)
    asked: list[str] = []

    def answers(request: httpx.Request) -> Answer:
        asked.append(f"{request.method} {request.url.path} {request.headers.get('Prefer')}")
        if request.method == "POST":
            return 202, RUNNING
        return (503, {"message": "away"}) if len(asked) < 4 else (202, RUNNING) if len(asked) < 5 else (200, DONE)

    assert waited(answers)["output_status"] == "success"
    assert asked == ["POST /api/sessions wait=1", *["GET /api/sessions/s1/exec None"] * 4]


def test_one_that_stays_away_is_given_up_and_what_to_look_at_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "_PAUSE", 0.01)
    monkeypatch.setattr(execution, "_AWAY", 0.05)
    with pytest.raises(Unavailable, match="away; what became of session s1 is shown by `postern sessions show s1`"):
        waited(lambda request: (202, RUNNING) if request.method == "POST" else (503, {"message": "away"}))


def test_a_script_that_cannot_be_killed_is_said_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    def answers(request: httpx.Request) -> Answer:
        if request.method == "GET":
            raise KeyboardInterrupt
        return (403, {"message": "not\x1b[2J yours"}) if request.url.path.endswith("/kill") else (202, RUNNING)

    with pytest.raises(SystemExit) as ended:
        waited(answers)
    assert ended.value.code == 130
    assert capsys.readouterr().err == ("postern: session s1 could not be killed, and may go on: not\\x1b[2J yours\n")
