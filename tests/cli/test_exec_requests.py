"""How many requests `postern exec` sends for one script, and what it prints from the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import httpx
import pytest
from tests.support.served import ANN, ROOT, Served

from postern.domain.sessions.results import Problem, Result
from postern.domain.sessions.session import EndReason
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
    cut = "postern: the output was truncated at the gateway's limit\n" if ran.metrics else ""
    assert done.stderr == f"{stderr}postern: session {session['id']}\n{cut}"
    assert sent[:-1] == requests
