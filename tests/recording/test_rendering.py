"""Rendering of output after damage, and of output that was cut off."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.spooled import ended, library, rows

from postern.domain.sessions.recorded import Missing
from postern.interception.events import ClientOutput, Completed, End, Event, Operation
from postern.protocols.postgres.wire import postgres_messages as pg
from postern.recording.layout import sealed_path
from postern.recording.record_format import Header, encode, encode_header

LONG = b"".join(b"long %d " % number for number in range(1000))
CUT = pg.message(b"D", b"\0\1" + len(LONG).to_bytes(4, "big") + LONG)
GOES_ON = (9000, End("", continues=True))


def write(home: Path, header: Header, number: int, events: list[tuple[int, Event]]) -> Path:
    path = sealed_path(home, header.session, header.started_at, number)
    path.parent.mkdir(parents=True, exist_ok=True)
    records = [encode(event, micros) for micros, event in events]
    path.write_bytes(encode_header(replace(header, segment=number)) + b"".join(records))
    return path


def texts(home: Path, header: Header) -> bytes:
    return b"".join(content for _, _, content in library(home).moments(header.session))


@pytest.fixture
def files(home: Path, header: Header) -> list[Path]:
    """Three segments. The answer to the second request goes through all of them, in four reads."""
    reads: list[tuple[int, Event]] = [(20, ClientOutput(CUT[at : at + 2500])) for at in range(0, len(CUT), 2500)]
    first: list[tuple[int, Event]] = [
        (1, Operation(1, "select 1")),
        (2, ClientOutput(rows("first"))),
        (2, Completed(1, "S")),
    ]
    last: list[tuple[int, Event]] = [
        (21, ClientOutput(pg.message(b"C", b"SELECT 1\0"))),
        (21, Completed(2, "SELECT 1")),
    ]
    last += [(30, Operation(3, "select 3")), (31, ClientOutput(rows("third"))), (31, Completed(3, "S"))]
    return [
        write(home, header, 1, [*first, (10, Operation(2, "select 2")), reads[0], GOES_ON]),
        write(home, header, 2, [reads[1], GOES_ON]),
        write(home, header, 3, [*reads[2:], *last, ended(40)]),
    ]


def test_rendering_resumes_at_the_next_request_after_damage(files: list[Path], home: Path, header: Header) -> None:
    """The rest of a damaged row is not parsed as messages with lengths taken from its bytes."""
    whole = texts(home, header)
    assert whole == b"select 1note\nfirst\nSELECT 1\nselect 2" + LONG + b"\nSELECT 1\nselect 3note\nthird\nSELECT 1\n"
    data = bytearray(files[1].read_bytes())
    data[-100] ^= 0xFF
    files[1].write_bytes(data)
    moments = list(library(home).moments(header.session))
    [gap] = [moment for moment in moments if isinstance(moment, Missing)]
    assert b"segment 2 of the recording cannot be read further" in gap.content or b"byte" in gap.content
    text = texts(home, header)
    assert text.startswith(b"select 1note\nfirst\nSELECT 1\nselect 2" + LONG[:2400])
    assert LONG[-200:] in text
    assert text.endswith(b"select 3note\nthird\nSELECT 1\n")
    tail = library(home).tail(header.session)
    seen = b""
    while not tail.ended:
        seen += b"".join(content for _, _, content in tail.read(settled=True))
    assert seen.endswith(b"select 3note\nthird\nSELECT 1\n")


def test_incomplete_row_is_rendered_as_far_as_it_was_received(home: Path, header: Header) -> None:
    write(home, header, 1, [(1, Operation(1, "select 1")), (2, ClientOutput(CUT[:2000])), ended(3, "target_closed")])
    assert texts(home, header) == b"select 1" + LONG[: 2000 - 11] + b"\n"


@pytest.mark.parametrize("size", range(1, 28))
def test_row_cut_at_any_byte_is_rendered_up_to_the_cut(home: Path, header: Header, size: int) -> None:
    values = (b"first", b"second")
    row = pg.message(b"D", b"\0\2" + b"".join(len(value).to_bytes(4, "big") + value for value in values))
    write(home, header, 1, [(1, ClientOutput(row[:size])), ended(2, "target_closed")])
    came = [values[0][: max(0, size - 11)], values[1][: max(0, size - 20)]]
    assert texts(home, header).rstrip(b"\n") == b"\t".join(came[: 1 + (size >= 20)])
