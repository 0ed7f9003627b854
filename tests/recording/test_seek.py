"""Reading that begins in the middle of a recording."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.support.promises import wait_until

from postern.domain.sessions.recorded import Moment, RecordedPosition, with_positions
from postern.interception.events import ClientOutput, Completed, Event, Operation, Resized
from postern.protocols.terminal import terminal_frames as m
from postern.protocols.terminal.terminal_text import TerminalTextRenderer
from postern.recording.layout import spool_folder
from postern.recording.record_format import Header
from postern.recording.recorder import Recorder
from postern.recording.recording_library import RecordingLibrary
from postern.recording.segments import Segments

from .conftest import MakeSegments
from .test_library import Lines

COUNT = 60


def exchange(number: int) -> list[tuple[int, Event]]:
    """Its answer comes in two reads, cut in the middle of a line."""
    at = number * 1000
    return [
        (at, Operation(number, f"select {number}")),
        (at + 200, ClientOutput(b"row %d\nro" % number)),
        (at + 300, ClientOutput(b"w %d again\n" % number)),
        (at + 300, Completed(number, f"SELECT {number}", 2)),
    ]


@pytest.fixture
def written(make_segments: MakeSegments, home: Path) -> Segments:
    """All but the last one are sealed."""
    segments = make_segments(most=1000)
    recorder = Recorder(segments, 1 << 20)
    for number in range(1, COUNT + 1):
        for micros, event in exchange(number):
            recorder.record(event, micros)
    wait_until(lambda: len(list(spool_folder(home, "w1").iterdir())) == 1)
    return segments


@pytest.fixture
def library(home: Path, header: Header, written: Segments) -> RecordingLibrary:
    return RecordingLibrary(home, {"postgres": Lines})


@pytest.mark.parametrize("since", [0, 1, 5_000, 30_200, 30_300, 59_999, 61_000, 10**9])
def test_reading_from_the_middle_yields_the_same_records(library: RecordingLibrary, header: Header, since: int) -> None:
    whole = [moment for moment in library.moments(header.session) if moment.micros >= since]
    assert [moment for moment in library.moments(header.session, since) if moment.micros >= since] == whole
    exchanges = [one for one in library.exchanges(header.session) if one.micros >= since]
    assert [one for one in library.exchanges(header.session, since) if one.micros >= since] == exchanges


def test_seek_starts_shortly_before_the_requested_time(library: RecordingLibrary, header: Header) -> None:
    first = next(library.moments(header.session, 50_000))
    assert 40_000 < first.micros < 50_000
    assert first.content == b"select %d" % (first.micros // 1000)  # rendering began at a request


def test_rendering_never_starts_within_an_answer(make_segments: MakeSegments, home: Path, header: Header) -> None:
    """One answer spans many segments, so rendering starts before it."""
    segments = make_segments(most=500)
    recorder = Recorder(segments, 1 << 20)
    recorder.record(Operation(1, "copy"), 0)
    for number in range(100):
        recorder.record(ClientOutput(b"half of a li"), number * 1000 + 1)
        recorder.record(ClientOutput(b"ne\n"), number * 1000 + 2)
    library = RecordingLibrary(home, {"postgres": Lines})
    found = [moment for moment in library.moments(header.session, 90_000) if moment.micros >= 90_000]
    assert found[0] == Moment(90_002, "o", b"half of a line\n")


def test_frames_are_rendered_from_any_position(make_segments: MakeSegments, home: Path, header: Header) -> None:
    segments = make_segments(most=500)
    recorder = Recorder(segments, 1 << 20)
    recorder.record(Resized(80, 24), 0)
    for number in range(100):
        recorder.record(ClientOutput(m.frame(m.STDOUT, b"%d\r\n" % number)), number * 1000)
    library = RecordingLibrary(home, {"postgres": TerminalTextRenderer}, framed=("postgres",))
    first = next(library.moments(header.session, 90_000))
    assert first.micros > 60_000
    assert next(library.moments(header.session)) == Moment(0, "r", b"80x24")
    assert [kind for _, kind, _ in library.events(header.session)] == ["o"] * 100  # the spec knows no sizes


@pytest.mark.parametrize("damage", ["gone", "cut"])
def test_damage_before_the_start_does_not_prevent_seeking(
    library: RecordingLibrary, header: Header, home: Path, written: Segments, damage: str
) -> None:
    paths = sorted([*spool_folder(home, "w1").iterdir(), *home.glob("sealed/*/*/*")], key=lambda path: path.name)
    whole = [moment for moment in library.moments(header.session, 50_000) if moment.micros >= 50_000]
    broken = paths[3]
    if damage == "gone":
        shutil.move(broken, broken.with_suffix(".away"))
    else:
        broken.write_bytes(broken.read_bytes()[:100])
    found = [moment for moment in library.moments(header.session, 50_000) if moment.micros >= 50_000]
    assert found == whole
    told = [moment for moment in library.moments(header.session) if b"segment 4" in moment.content]
    assert len(told) == 1
    after = [moment for moment in library.moments(header.session) if moment.micros >= 50_000]
    assert [one for one in after if one.kind == "i"] == [one for one in whole if one.kind == "i"]


def test_positions_distinguish_simultaneous_events() -> None:
    items = [Moment(5, "o", b"a"), Moment(5, "e", b"b"), Moment(5, "o", b"c"), Moment(6, "o", b"d")]
    found = list(with_positions(items, RecordedPosition()))
    assert [str(place) for place, _ in found] == ["5-1", "5-2", "5-3", "6-1"]
    for number, (place, _) in enumerate(found):
        assert [item for _, item in with_positions(items, place)] == items[number + 1 :]
