"""Output of scripts while they run, over streams that break; with a real gateway: test_end_to_end.py."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from postern.cli.scripts import live_output
from postern.cli.scripts.live_output import LineOutput, LiveOutput, PartPrinter, TextOutput
from postern.client.client import Client
from postern.client.client_http import Http
from postern.domain.secret import Secret

COLUMNS = {"type": "columns", "result": 0, "columns": ["n"], "fields": []}
DONE, END = {"type": "done", "result": 0, "tag": "SELECT 3"}, {"type": "end", "exit_code": 0}
WAITING = {"type": "waiting"}


class Stream(httpx.SyncByteStream):
    """Lines of an answer; the connection breaks after them, unless they are `whole`."""

    def __init__(self, lines: list[str], *, whole: bool) -> None:
        self._lines = lines
        self._whole = whole

    def __iter__(self) -> Iterator[bytes]:
        for line in self._lines:
            yield f"{line}\n".encode()
        if not self._whole:
            raise httpx.ReadError("broken")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_output, "_PAUSE", 0.0)


def followed(live: LiveOutput, answers: list[httpx.Response]) -> list[str]:
    """Follow a session with these answers, and return what was asked."""
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url.params) + request.headers.get("Last-Event-ID", ""))
        return answers[len(asked) - 1]

    with Http("http://gateway.invalid", Secret("token"), transport=httpx.MockTransport(answer)) as http:
        live.follow(Client(http), "s1")
        if isinstance(live, LineOutput):
            live.finish(Client(http), "s1")
    return asked


def lines(*values: dict[str, Any], whole: bool = True) -> httpx.Response:
    return httpx.Response(200, stream=Stream([json.dumps(value) for value in values], whole=whole))


def rows(first: int, *cells: str) -> dict[str, Any]:
    return {"type": "rows", "result": 0, "row": first, "next_row": first + len(cells), "rows": [[c] for c in cells]}


def test_lines_of_a_stream_that_breaks_are_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    answers = [
        lines(COLUMNS, WAITING, rows(0, "1", "2"), whole=False),
        lines(COLUMNS, rows(2, "3"), DONE),  # the hour of a stream has passed
        lines(COLUMNS, DONE, END),
    ]
    asked = followed(LineOutput(), answers)
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert shown == [COLUMNS, rows(0, "1", "2"), rows(2, "3"), DONE, END]
    assert asked == ["format=ndjson&follow=true", *[f"format=ndjson&from_row={row}&follow=true" for row in (2, 3)]]


def test_lines_that_cannot_be_followed_are_printed_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    busy = httpx.Response(429, json={"message": "too many streams"})
    asked = followed(LineOutput(), [busy, lines(COLUMNS, rows(0, "1"), DONE, END)])
    assert asked == ["format=ndjson&follow=true", "format=ndjson"]
    assert len(capsys.readouterr().out.splitlines()) == 4


def event(place: int, kind: str, content: bytes) -> list[str]:
    data = {"time": place, "type": kind, "payload": base64.b64encode(content).decode()}
    return [f"id: {place}-0", "event: event", f"data: {json.dumps(data)}", ""]


def sse(*parts: list[str], whole: bool = True) -> httpx.Response:
    return httpx.Response(200, stream=Stream([line for part in parts for line in part], whole=whole))


def test_text_continues_after_the_last_event_and_in_the_middle_of_a_character(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = TextOutput(PartPrinter())
    asked = followed(
        text,
        [
            sse(event(1, "i", b"select 1"), event(2, "o", b"a\xc3"), whole=False),
            sse(event(3, "o", b"\xa4\n"), event(4, "e", b"no\n"), ["event: session_end", "data: {}"]),
        ],
    )
    assert asked == ["", "2-0"]
    assert capsys.readouterr() == ("aä\n", "no\n")
    assert list(text.rest([("stdout", "aä\nmore"), ("stderr", "no\n"), ("gateway", "killed")])) == [
        ("stdout", "more"),
        ("gateway", "killed"),
    ]


def test_text_whose_stream_stays_away_is_left_to_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    text = TextOutput(PartPrinter())
    away = [httpx.Response(503, json={"message": "away"})] * 10
    assert len(followed(text, [sse(event(1, "o", b"one\n"), whole=False), *away])) == 5
    assert capsys.readouterr().out == "one\n"
    assert list(text.rest([("stdout", "one\ntwo\n")])) == [("stdout", "two\n")]
