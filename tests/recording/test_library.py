from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from postern.domain.sessions.results import CUT, Finished, Problem, Result, Row
from postern.errors import NotFound, ProtocolViolation
from postern.interception.events import ClientOutput, Completed, Event, Note, Operation, Refusal
from postern.recording.layout import sealed_path
from postern.recording.record_format import Header
from postern.recording.recorder import Recorder
from postern.recording.recording_library import RecordingLibrary, describe
from postern.recording.sealing import seal

from .conftest import MakeSegments
from .test_segments import TEXTS, filled, finish


class Lines:
    """A renderer of a made-up protocol: lines, those that open with `!` are errors."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[tuple[str, bytes]]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        if b"poison" in data:
            raise ValueError("cannot read this")
        return [("e" if line.startswith(b"!") else "o", line + b"\n") for line in lines]

    def rest(self) -> list[tuple[str, bytes]]:
        left, self._rest = self._rest, b""
        return [("o", left)] if left else []


EVENTS: list[tuple[int, Event]] = [
    (1500, Operation(1, "select $1, $2", values=(b"it's", None))),
    (2000, ClientOutput(b"one\ntw")),
    (2500, ClientOutput(b"o\n!bad\n")),
    (2500, Completed(1, "SELECT 2", 2)),
    (3000, Refusal(2, "drop", "blocked by drop")),
    (4000, Note("killed", {"by": "an admin"})),
]
WANTED = [
    (1.5, "i", b"select $1, $2\n-- $1 = 'it''s'\n-- $2 = NULL"),
    (2.0, "o", b"one\n"),
    (2.5, "o", b"two\n"),
    (2.5, "e", b"!bad\n"),
    (4.0, "e", b"[note] killed (by: an admin)\n"),
]


def record(make_segments: MakeSegments, events: list[tuple[int, Event]], limit: int = 1000) -> Recorder:
    recorder = Recorder(make_segments(), limit)
    for micros, event in events:
        recorder.record(event, micros)
    return recorder


@pytest.fixture
def library(home: Path) -> RecordingLibrary:
    return RecordingLibrary(home, {"postgres": Lines})


def test_live_and_sealed_recordings_read_the_same(
    make_segments: MakeSegments, home: Path, header: Header, library: RecordingLibrary
) -> None:
    recorder = record(make_segments, EVENTS)
    assert list(library.events(header.session)) == WANTED
    assert list(library.operations(header.session)) == [(1.5, b"select $1, $2")]
    recorder.segments.spool.close()
    seal(recorder.segments.spool.path, sealed_path(home, header.session, header.started_at))
    assert list(library.events(header.session)) == WANTED
    assert list(library.operations(header.session)) == [(1.5, b"select $1, $2")]


def test_missing_recording_is_not_found(library: RecordingLibrary) -> None:
    with pytest.raises(NotFound, match="no recording of session"):
        next(iter(library.events(uuid4())))


def test_errors_and_tags_are_shown_after_output_was_cut(
    make_segments: MakeSegments, header: Header, library: RecordingLibrary
) -> None:
    record(
        make_segments,
        [
            (0, ClientOutput(b"one\ntwo\n")),
            (0, Completed(1, "SELECT 1", 1)),
            (0, Refusal(2, "drop", "blocked by drop")),
            (0, Completed(3, error_code="42P01", error="no such table")),
        ],
        limit=4,
    )
    assert [(stream, content) for _, stream, content in library.events(header.session)] == [
        ("o", b"one\n"),
        ("e", b"[note] output limit reached (limit: 4)\n"),
        ("o", b"SELECT 1\n"),
        ("e", b"blocked by drop\n"),
        ("e", b"no such table\n"),
    ]


def test_failing_renderer_falls_back_to_raw_output(
    make_segments: MakeSegments, header: Header, library: RecordingLibrary
) -> None:
    record(make_segments, [(0, ClientOutput(b"poison\n")), (0, Operation(1, "select 1")), (0, ClientOutput(b"rest"))])
    contents = [content for _, _, content in library.events(header.session)]
    assert contents[1:] == [b"poison\n", b"select 1", b"rest"]
    assert contents[0].startswith(b"[note] output could not be rendered")


def test_unknown_protocol_is_replayed_raw(make_segments: MakeSegments, home: Path, header: Header) -> None:
    record(make_segments, [(0, ClientOutput(b"\x00raw"))])
    assert list(RecordingLibrary(home, {}).events(header.session)) == [(0.0, "o", b"\x00raw")]


def test_damaged_sealed_segment_ends_with_a_note(
    make_segments: MakeSegments, home: Path, header: Header, library: RecordingLibrary
) -> None:
    recorder = record(make_segments, [(n * 1000, Operation(n, f"select {n}")) for n in range(5)])
    recorder.segments.spool.close()
    path = recorder.segments.spool.path
    path.write_bytes(path.read_bytes()[:-2])
    assert len(list(library.events(header.session))) == 4, "a live spool may end in the middle of a record"
    seal(path, sealed_path(home, header.session, header.started_at))
    *operations, last = library.events(header.session)
    assert len(operations) == 4
    assert last[:2] == (3.0, "e")
    assert b"cannot be read further" in last[2]


def test_unreadable_recording_is_a_gap_in_every_view(
    make_segments: MakeSegments, home: Path, header: Header, library: RecordingLibrary
) -> None:
    path = record(make_segments, [(0, Operation(1, "select 1"))]).segments.spool.path
    path.write_bytes(b"?" * path.stat().st_size)
    (event,) = library.events(header.session)
    assert event[1] == "e"
    assert b"cannot be read" in event[2]
    ((_, query),) = library.operations(header.session)
    assert query.startswith(b"-- [note] segment 1 of the recording")
    (result,) = RecordingLibrary(home, {}, {"postgres": Letters}).results(header.session)
    assert isinstance(result, Problem)
    assert [one.error for one in library.exchanges(header.session)]


def test_bind_value_never_looks_like_a_statement() -> None:
    text = describe(Operation(1, "select $1", values=(b"x\ndrop table t;\r\n--\\",), truncated=True))
    lines = text.split(b"\n")
    assert lines == [
        b"select $1",
        b"-- $1 = 'x\\ndrop table t;\\r\\n--\\\\'",
        b"-- some values are incomplete: they were too large to record",
    ]


def test_undecodable_bytes_round_trip() -> None:
    assert describe(Operation(1, b"select '\xe9'".decode("utf-8", "surrogateescape"))) == b"select '\xe9'"
    assert describe(Operation(1, "select '\ud800'")) == b"select '?'"


class Letters:
    """A reader whose rows are letters; `!` is no letter."""

    def feed(self, data: bytes) -> list[Result]:
        if b"!" in data:
            raise ProtocolViolation("no letter")
        return [Row((letter,)) for letter in data.decode()]


def results_of(home: Path, header: Header) -> list[Result]:
    return list(RecordingLibrary(home, {}, {"postgres": Letters}).results(header.session))


def test_results_are_values_and_notes_and_after_a_cut_the_outcome(
    make_segments: MakeSegments, home: Path, header: Header
) -> None:
    events: list[tuple[int, Event]] = [
        (0, ClientOutput(b"ab")),
        (0, Note("session ended", {"reason": "failed"})),
        (0, ClientOutput(b"cd")),
        (0, Completed(1, "SELECT 4", 4)),
        (0, Completed(2, error_code="22012", error="division by zero")),
        (0, Note("session ended", {"reason": "killed"})),
    ]
    record(make_segments, events, limit=3)
    assert results_of(home, header) == [
        *(Row((letter,)) for letter in "abc"),
        Problem(CUT, "[note] output limit reached (limit: 3)", fails=False),
        Finished("SELECT 4"),
        Problem("ERROR", "division by zero", code="22012"),
        Problem("NOTE", "[note] session ended (reason: killed)", fails=False),
    ]


def test_unreadable_results_end_with_a_problem(make_segments: MakeSegments, home: Path, header: Header) -> None:
    record(make_segments, [(0, ClientOutput(b"a")), (0, ClientOutput(b"!")), (0, ClientOutput(b"b"))])
    first, cut = results_of(home, header)
    assert first == Row(("a",))
    assert isinstance(cut, Problem)
    assert (cut.severity, "no letter" in cut.text) == (CUT, True)


def test_protocol_without_a_value_reader_has_no_results(
    make_segments: MakeSegments, home: Path, header: Header
) -> None:
    record(make_segments, [(0, ClientOutput(b"a"))])
    with pytest.raises(NotFound, match="do not have results"):
        next(RecordingLibrary(home, {}).results(header.session))


def sealed_segments(make_segments: MakeSegments, home: Path) -> list[Path]:
    """Seal TEXTS in several segments; return their paths."""
    finish(filled(make_segments, most=300))
    return sorted(home.glob("sealed/*/*/*.rec.zst"))


def texts_of(library: RecordingLibrary, header: Header, without: frozenset[int] = frozenset()) -> dict[int, list[str]]:
    return {segment: [text for _, text in pieces] for segment, pieces in library.texts(header.session, without)}


def test_statement_texts_are_returned_by_segment(
    make_segments: MakeSegments, home: Path, header: Header, library: RecordingLibrary
) -> None:
    count = len(sealed_segments(make_segments, home))
    found = texts_of(library, header)
    assert list(found) == list(range(1, count + 1))
    assert [text for texts in found.values() for text in texts] == TEXTS


def test_statement_texts_of_an_unfinished_segment_are_not_returned(
    make_segments: MakeSegments, header: Header, library: RecordingLibrary
) -> None:
    segments = make_segments()
    Recorder(segments, 1000).record(Operation(1, "select 1"), 5)
    assert texts_of(library, header) == {}  # it may grow
    finish(segments)
    assert texts_of(library, header) == {1: ["select 1"]}
    assert texts_of(library, header, frozenset({1})) == {}


@pytest.mark.parametrize("damage", ["missing", "left out", "no header"])
@pytest.mark.parametrize("segment", [1, 2, -1])
def test_statement_texts_skip_unreadable_and_known_segments(
    make_segments: MakeSegments, home: Path, header: Header, library: RecordingLibrary, damage: str, segment: int
) -> None:
    paths = sealed_segments(make_segments, home)
    number = segment if segment > 0 else len(paths)
    whole = texts_of(library, header)
    without: frozenset[int] = frozenset()
    if damage == "missing":
        paths[number - 1].unlink()
    elif damage == "left out":
        without = frozenset({number})
    else:
        paths[number - 1].write_bytes(b"nothing of ours")
    del whole[number]
    assert texts_of(library, header, without) == whole


def test_statement_texts_of_a_missing_recording_are_not_found(library: RecordingLibrary) -> None:
    with pytest.raises(NotFound, match="no recording of session"):
        list(library.texts(uuid4()))
