"""Recorded sessions as HTTP archives, and as timelines where requests run at the same time."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from tests.support.protocols.http_test_frames import data, response

from postern.interception.events import ClientOutput, Completed, Event, Operation, Refusal
from postern.protocols.http import http_frames as f
from postern.protocols.http.recorded.exchange_numbers import exchange_of
from postern.protocols.http.recorded.http_archive import write_archive
from postern.protocols.http.recorded.http_text_renderer import HttpTextRenderer
from postern.recording.recording_rendering import RecordingReplay
from postern.recording.recording_timeline import exchanges

START = datetime(2026, 1, 2, tzinfo=UTC)
JSON = {"content-type": "application/json"}
RECORDS: list[tuple[int, Event]] = [
    (1000, Operation(1, 'POST /a?x=1&y=%20\nContent-Type: application/json\n\n{"a": 1}')),
    (2000, Operation(2, "GET /b")),
    (5000, ClientOutput(response(b'{"b"', headers=JSON, number=2, ends=False))),
    (6000, ClientOutput(response(b"one", headers={"location": "/c"}, status=302))),
    (6000, Completed(1, "302", micros=5000)),
    (9000, ClientOutput(data(f.RESPONSE_DATA, b": 2}", 2) + f.end_frame(f.RESPONSE_END, 2))),
    (9000, Completed(2, "200", micros=7000)),
    (9500, Operation(3, "DELETE /admin")),
    (9500, Refusal(3, "g.r", "blocked")),
    (9600, ClientOutput(response(b"blocked", status=403, number=3))),
    (9700, Operation(4, "GET /image")),
    (9800, ClientOutput(response(bytes(3), headers={"content-type": "image/png"}, number=4))),
    (9800, Completed(4, "200")),
    (9900, Operation(5, "GET /ws")),
    (9900, ClientOutput(response(b"", status=101, number=5, ends=False))),
    (9950, Operation(5, "WEBSOCKET /ws\n\nhello")),
]


def test_archive_has_an_entry_for_each_exchange() -> None:
    archive = json.loads(b"".join(write_archive(RECORDS, START, "my app")))
    first, second, third, fourth, fifth = archive["log"]["entries"]
    assert archive["log"]["version"] == "1.2"
    assert first["startedDateTime"] == "2026-01-02T00:00:00.001000+00:00"
    assert (first["time"], first["timings"]["wait"]) == (5.0, 5.0)
    assert first["request"]["url"] == "https://my%20app/a?x=1&y=%20"
    assert first["request"]["queryString"] == [{"name": "x", "value": "1"}, {"name": "y", "value": " "}]
    assert first["request"]["postData"] == {"mimeType": "application/json", "text": '{"a": 1}'}
    assert (first["response"]["status"], first["response"]["redirectURL"]) == (302, "/c")
    assert second["response"]["content"] == {"size": 8, "mimeType": "application/json", "text": '{"b": 2}'}
    assert (second["timings"]["wait"], second["timings"]["receive"]) == (3.0, 4.0)
    assert (third["response"]["status"], third["comment"]) == (403, "refused by g.r: blocked")
    assert fourth["response"]["content"]["text"] == "AAAA"
    assert fifth["_webSocketMessages"][0]["data"] == "hello"


def test_empty_session_is_a_valid_archive() -> None:
    assert json.loads(b"".join(write_archive([], START, "x")))["log"]["entries"] == []


def test_timeline_attributes_output_that_takes_turns() -> None:
    replay = RecordingReplay(HttpTextRenderer, framed=True)
    told = [(micros, event, replay.pieces(event)) for micros, event in RECORDS[:7]]
    first, second = exchanges(told, 1000, in_turn=True, number_of=exchange_of)
    assert (first.number, first.tag, first.duration) == (1, "302", 5000)
    assert (second.number, second.tag, second.duration) == (2, "200", 7000)
    assert b"one" in first.output
    assert b'{"b"' in second.output
    assert b": 2}" in second.output
