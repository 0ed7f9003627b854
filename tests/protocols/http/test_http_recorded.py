"""Reading recorded frames as text, answers and tables, also where responses take turns."""

from __future__ import annotations

import gzip
import json

import pytest
from tests.support.protocols.http_test_frames import data, response
from tests.support.protocols.query_contracts import check_lens

from postern.domain.sessions.results import Finished, Problem, Result, ResultColumns, Row
from postern.errors import ProtocolViolation
from postern.protocols.http import http_frames as f
from postern.protocols.http.content.websocket_frames import websocket_frame
from postern.protocols.http.recorded.http_answer_reader import HttpAnswers
from postern.protocols.http.recorded.http_results import HttpResults
from postern.protocols.http.recorded.http_text_renderer import HttpTextRenderer

JSON = {"content-type": "application/json"}
TEXT = {"content-type": "text/plain"}
END = f.end_frame(f.RESPONSE_END, 1)
USERS = [{"id": 1, "name": "Al", "tags": ["a"]}, {"id": 2, "mail": None}]

RENDERED = [
    (response(b"hello", headers=TEXT), [("o", b"HTTP 200 OK\nContent-Type: text/plain\n\nhello\n")]),
    (response(b"", status=204), [("o", b"HTTP 204 No Content\n\n")]),
    (response(b"gone\n", status=404), [("e", b"HTTP 404 Not Found\n\ngone\n")]),
    (response(b"", status=299), [("o", b"HTTP 299\n\n")]),
    (
        response(bytes(20), headers={"content-type": "image/png"}),
        [("o", b"HTTP 200 OK\nContent-Type: image/png\n\n[20 bytes of content of the type image/png]\n")],
    ),
    (
        response(gzip.compress(b"hello", mtime=0), headers={**TEXT, "content-encoding": "gzip"}),
        [("o", b"HTTP 200 OK\nContent-Type: text/plain\nContent-Encoding: gzip\n\nhello\n")],
    ),
    (response("é".encode("utf-16"), headers={"content-type": "text/plain; charset=utf-16"}, piece=50),
     [("o", "HTTP 200 OK\nContent-Type: text/plain; charset=utf-16\n\né\n".encode())]),
    (response(b"x", trailers=((b"grpc-status", b"0"),)), [("o", b"HTTP 200 OK\n\nx\ngrpc-status: 0\n")]),
    (
        response(b"begin", ends=False) + f.failed_frame(1, f.TargetFailure("timeout", "away")),
        [("o", b"HTTP 200 OK\n\nbegin\n"), ("e", b"ERROR timeout: away\n")],
    ),
    (
        response(websocket_frame(1, b'{"a": 1}') + websocket_frame(2, bytes(3)) + websocket_frame(9, b""), status=101),
        [("o", b'HTTP 101 Switching Protocols\n\n{"a": 1}\n[3 bytes of a binary message]\n')],
    ),
    (
        response(b"one", ends=False)
        + response(b"two", number=2, ends=False)
        + data(f.RESPONSE_DATA, b" more\n")
        + f.end_frame(f.RESPONSE_END, 2)
        + END,
        [("o", b"HTTP 200 OK\n\none\n[exchange 2]\nHTTP 200 OK\n\ntwo\n[exchange 1]\n more\n")],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("shown", "text"), RENDERED)
def test_frames_are_rendered_as_text(shown: bytes, text: list[tuple[str, bytes]]) -> None:
    check_lens(HttpTextRenderer, shown, text)


def test_body_can_be_read_from_its_middle() -> None:
    assert HttpTextRenderer().feed(data(f.RESPONSE_DATA, b"rest of it\n") + END) == [("o", b"rest of it\n")]


def test_answers_are_texts_of_responses() -> None:
    reader = HttpAnswers()
    shown = response(b'{"a": 1}', headers=JSON) + response(b"e", status=500, number=2)
    found = [answer for at in range(len(shown)) for answer in reader.feed(shown[at : at + 1])]
    assert [(answer.texts, answer.ends) for answer in found] == [
        ((b"application/json",), False),
        ((b'{"a": 1}',), True),
        ((b"e",), True),
    ]
    assert reader.feed(response(bytes(9), number=3))[-1].lost == "9 bytes of content without a type"


@pytest.mark.parametrize(
    ("shown", "results"),
    [
        (
            response(json.dumps(USERS).encode(), headers=JSON),
            [
                ResultColumns(("id", "name", "tags", "mail")),
                Row(("1", "Al", '["a"]', None)),
                Row(("2", None, None, None)),
                Finished("200 OK"),
            ],
        ),
        (response(b'{"a": 1}', headers=JSON), [ResultColumns(("a",)), Row(("1",)), Finished("200 OK")]),
        (
            response(b"[1, null]", headers=JSON),
            [ResultColumns(("body",)), Row(("1",)), Row((None,)), Finished("200 OK")],
        ),
        (response(b"[]", headers=JSON), [ResultColumns(("body",)), Finished("200 OK")]),
        (
            response(b'{"a": 1}\n{"b": 2}\n', headers={"content-type": "application/x-ndjson"}),
            [ResultColumns(("a", "b")), Row(("1", None)), Row((None, "2")), Finished("200 OK")],
        ),
        (response(b"a\nb", headers=TEXT), [ResultColumns(("body",)), Row(("a",)), Row(("b",)), Finished("200 OK")]),
        (response(b"{broken", headers=JSON), [ResultColumns(("body",)), Row(("{broken",)), Finished("200 OK")]),
        (response(b"", status=204), [Finished("204 No Content")]),
        (response(b"no such user", status=404), [Problem("ERROR", "no such user", code="404")]),
        (response(b"", status=404), [Problem("ERROR", "404 Not Found", code="404")]),
        (f.failed_frame(1, f.TargetFailure("timeout", "away")), [Problem("ERROR", "away", code="timeout")]),
        (
            response(bytes(9)),
            [Problem("NOTE", "9 bytes of content without a type", fails=False), Finished("200 OK")],
        ),
    ],
)  # fmt: skip
def test_bodies_are_tables(shown: bytes, results: list[Result]) -> None:
    reader = HttpResults()
    assert [each for at in range(len(shown)) for each in reader.feed(shown[at : at + 1])] == results


@pytest.mark.parametrize("reader", [HttpTextRenderer, HttpAnswers, HttpResults])
def test_bytes_that_are_no_frames_are_a_violation(reader: type[HttpTextRenderer | HttpAnswers | HttpResults]) -> None:
    with pytest.raises(ProtocolViolation):
        reader().feed(f.frame(99, 1))
