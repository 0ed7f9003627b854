"""A recording is watched while another process writes it."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
from tests.support.promises import wait_until

from postern.domain.sessions.recorded import Moment
from postern.interception.events import ClientOutput, Operation
from postern.recording import tail
from postern.recording.layout import spool_folder, spool_path
from postern.recording.record_format import Header, encode
from postern.recording.recorder import Recorder
from postern.recording.recording_library import RecordingLibrary
from postern.recording.recovery import recover
from postern.recording.spool import Spool
from postern.recording.tail import RecordingTail

from .conftest import MakeSegments
from .test_segments import TEXTS, filled, finish

pytestmark = pytest.mark.usefixtures("way")


@pytest.fixture
def library(home: Path) -> RecordingLibrary:
    return RecordingLibrary(home, {})


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "_PATIENCE", 0.1)


def texts(moments: list[Moment]) -> list[str]:
    return [moment.content.decode() for moment in moments]


def read_all(watched: RecordingTail) -> list[Moment]:
    """Until it has ended."""
    found: list[Moment] = []
    end = time.monotonic() + 120
    while not watched.ended:
        assert time.monotonic() < end, texts(found)[-10:]
        found += watched.read()
        time.sleep(0.01)
    return found


def test_tail_yields_each_new_record_once_and_in_order(
    make_segments: MakeSegments, library: RecordingLibrary, header: Header
) -> None:
    watched = library.tail(header.session)
    assert watched.read() == []  # it has not begun
    segments = make_segments(most=300)
    recorder = Recorder(segments, 1000)
    found: list[str] = []
    for number, text in enumerate(TEXTS):
        recorder.record(Operation(number, text), number * 1000)
        found += texts(watched.read())
    finish(segments)
    found += texts(read_all(watched))
    assert found == TEXTS
    assert watched.ended
    assert watched.read() == []
    watched.close()


def test_tail_of_an_ended_session_yields_everything(
    make_segments: MakeSegments, library: RecordingLibrary, header: Header
) -> None:
    segments = filled(make_segments, most=300)
    finish(segments)
    watched = library.tail(header.session)
    assert texts(read_all(watched)) == TEXTS
    assert watched.ended


def test_tail_starts_before_the_requested_time(make_segments: MakeSegments, home: Path, header: Header) -> None:
    finish(filled(make_segments, most=300))
    watched = RecordingLibrary(home, {}, framed=("postgres",)).tail(header.session, 30_000)
    found = read_all(watched)
    assert 20_000 < found[0].micros < 30_000
    assert texts(found) == TEXTS[-len(found) :]


def test_tail_waits_for_an_incomplete_record(library: RecordingLibrary, home: Path, header: Header) -> None:
    spool = Spool.create(spool_path(home, "w1", header.session), header)
    watched = library.tail(header.session)
    record = encode(Operation(1, "select 1"), 5)
    spool.append(record[:20])
    assert watched.read() == []
    spool.append(record[20:])
    assert texts(watched.read()) == ["select 1"]
    spool.close()


def test_tail_rereads_a_truncated_and_rewritten_record(library: RecordingLibrary, home: Path, header: Header) -> None:
    """On a full disk, the written part of a record is removed again."""
    spool = Spool.create(spool_path(home, "w1", header.session), header)
    watched = library.tail(header.session)
    garbage = bytearray(encode(Operation(1, "x" * 50), 5))
    garbage[-10] ^= 1
    spool.append(bytes(garbage))
    assert watched.read() == []
    os.truncate(spool.path, spool.size - len(garbage))
    with spool.path.open("ab") as file:
        file.write(encode(Operation(1, "good"), 5))
    assert texts(watched.read()) == ["good"]
    spool.close()


def test_tail_reports_damage_and_continues_with_the_next_segment(
    make_segments: MakeSegments, library: RecordingLibrary, header: Header, home: Path
) -> None:
    segments = filled(make_segments, most=300)
    wait_until(lambda: len(list(spool_folder(home, "w1").iterdir())) == 1)
    second = next(iter(home.glob("sealed/*/*/*.000002.rec.zst")))
    second.write_bytes(second.read_bytes()[:-30])
    watched = library.tail(header.session)
    finish(segments)
    found = texts(read_all(watched))
    assert len([text for text in found if "segment 2" in text]) == 1
    assert found[-1] == TEXTS[-1]
    assert watched.ended


def test_tail_of_an_ended_session_does_not_wait_for_a_missing_segment(
    make_segments: MakeSegments, library: RecordingLibrary, header: Header, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "_PATIENCE", 1000.0)
    finish(filled(make_segments, most=300))
    next(iter(home.glob("sealed/*/*/*.000002.rec.zst"))).unlink()
    watched = library.tail(header.session)
    found: list[str] = []
    while more := watched.read(settled=True):
        found += texts(more)
    assert watched.ended
    assert len([text for text in found if "segment 2" in text]) == 1
    assert found[-1] == TEXTS[-1]


@pytest.mark.parametrize("missing", [1, 2, -2])
def test_missing_segment_is_a_gap_and_the_next_one_follows(
    make_segments: MakeSegments, library: RecordingLibrary, header: Header, home: Path, missing: int
) -> None:
    finish(filled(make_segments, most=300))
    paths = sorted(home.glob("sealed/*/*/*.rec.zst"))
    segment = missing if missing > 0 else len(paths) + 1 + missing
    paths[segment - 1].unlink()
    watched = library.tail(header.session)
    found = texts(read_all(watched))
    gaps = [text for text in found if "cannot be read further" in text]
    assert len(gaps) == 1
    assert f"segment {segment} of the recording cannot be read further: it is missing" in gaps[0]
    assert found[-1] == TEXTS[-1]


def test_missing_last_segment_is_waited_for(
    make_segments: MakeSegments, library: RecordingLibrary, header: Header, home: Path
) -> None:
    finish(filled(make_segments, most=300))
    sorted(home.glob("sealed/*/*/*.rec.zst"))[-1].unlink()
    watched = library.tail(header.session)
    found: list[Moment] = []
    while more := watched.read():
        found += more
    time.sleep(0.15)  # longer than the patience of these tests
    assert watched.read() == []
    assert not watched.ended
    assert texts(found) == TEXTS[: len(found)]


def test_closed_tail_returns_no_records(make_segments: MakeSegments, library: RecordingLibrary, header: Header) -> None:
    finish(filled(make_segments, most=300))
    watched = library.tail(header.session)
    watched.close()
    watched.close()
    assert (watched.read(), watched.behind) == ([], 0)


def test_tail_of_a_session_whose_worker_died_reaches_its_end(
    make_segments: MakeSegments, library: RecordingLibrary, header: Header, home: Path
) -> None:
    segments = make_segments()
    Recorder(segments, 1000).record(Operation(1, "select 1"), 5)
    watched = library.tail(header.session)
    assert texts(watched.read()) == ["select 1"]
    segments.spool.close()
    recover(spool_folder(home, "w1"))
    found = read_all(watched)
    assert "gateway stopped" in texts(found)[0]
    assert watched.ended


def test_tail_reports_its_lag(make_segments: MakeSegments, library: RecordingLibrary, header: Header) -> None:
    segments = make_segments()
    recorder = Recorder(segments, 1 << 20)
    recorder.record(ClientOutput(b"x"), 1)
    watched = library.tail(header.session)
    watched.read()
    assert watched.behind == 0
    for at in range(3):
        recorder.record(ClientOutput(b"y" * 200_000), at)
    assert watched.behind > 300_000


@pytest.mark.slow
def test_tail_loses_no_record_while_segments_are_sealed_and_stored(
    make_segments: MakeSegments, library: RecordingLibrary, header: Header
) -> None:
    segments = make_segments(most=2_000)
    recorder = Recorder(segments, 1 << 30)
    wanted = [f"{number}" for number in range(20_000)]

    def write() -> None:
        for number, text in enumerate(wanted):
            recorder.record(Operation(number, text), number)
        finish(segments)

    writer = threading.Thread(target=write)
    writer.start()
    found = texts(read_all(library.tail(header.session)))
    writer.join()
    assert found == wanted
