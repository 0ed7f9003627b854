"""A recording of several segments is written in time, read as one, and damaged one segment at a time."""

from __future__ import annotations

import errno
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.promises import wait_until

from postern.errors import RecordingFailed
from postern.interception.events import ClientOutput, End, Event, Note, Operation
from postern.recording.layout import sealed_path, spool_folder, spool_path
from postern.recording.record_format import Header
from postern.recording.recorder import Recorder
from postern.recording.recording_library import Gap, RecordingLibrary
from postern.recording.recovery import GATEWAY_STOPPED, recover
from postern.recording.segments import Segments
from postern.recording.spool import Spool

from .conftest import MakeSegments

pytestmark = pytest.mark.usefixtures("way")

TEXTS = [f"select {number:04}" for number in range(40)]


def filled(make_segments: MakeSegments, **limits: int) -> Segments:
    """TEXTS, one for each millisecond, in small segments."""
    segments = make_segments(**({"most": 1000} | limits))
    recorder = Recorder(segments, 1000)
    for number, text in enumerate(TEXTS):
        recorder.record(Operation(number, text), number * 1000)
    return segments


def finish(segments: Segments, reason: str = "client_closed") -> None:
    """Returns when all is sealed."""
    done, told = threading.Event(), []

    def sealed(error: Exception | None) -> None:
        told.append(error)
        done.set()

    segments.finish(reason, 40_000, sealed, soon=True)
    assert done.wait(60)
    assert told == [None]


def archives(home: Path, header: Header) -> list[Path]:
    folder = sealed_path(home, header.session, header.started_at).parent
    return sorted(folder.glob(f"{header.session}.*")) if folder.exists() else []


def texts(found: list[tuple[int, Event | Gap]]) -> list[str]:
    return [event.text for _, event in found if isinstance(event, Operation)]


def test_new_segment_starts_at_the_size_limit_and_all_segments_are_read_as_one(
    make_segments: MakeSegments, home: Path, header: Header
) -> None:
    segments = filled(make_segments)
    library = RecordingLibrary(home, {})
    live = list(library.records(header.session))
    assert texts(live) == TEXTS
    finish(segments)
    found = list(library.records(header.session))
    assert texts(found) == TEXTS
    assert [at for at, event in found if isinstance(event, Operation)] == [1000 * n for n in range(40)]
    paths = archives(home, header)
    assert len(paths) > 2
    assert [event for _, event in found if isinstance(event, End)] == [
        *[End("", continues=True)] * (len(paths) - 1),
        End("client_closed"),
    ]
    assert not list(spool_folder(home, "w1").iterdir())
    assert segments.size > 1000 * (len(paths) - 1)


def test_new_segment_starts_at_the_age_limit(make_segments: MakeSegments, home: Path, header: Header) -> None:
    segments = filled(make_segments, most=1 << 20, longest=10_000)
    finish(segments)
    assert len(archives(home, header)) == 4
    assert texts(list(RecordingLibrary(home, {}).records(header.session))) == TEXTS


@pytest.mark.parametrize("damage", ["missing", "cut", "a byte", "no header"])
def test_damage_to_one_segment_does_not_affect_others(
    make_segments: MakeSegments, home: Path, header: Header, damage: str
) -> None:
    finish(filled(make_segments))
    second = archives(home, header)[1]
    content = second.read_bytes()
    if damage == "missing":
        second.unlink()
    elif damage == "cut":
        second.write_bytes(content[:-20])
    elif damage == "a byte":
        middle = len(content) // 2
        second.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    else:
        second.write_bytes(b"nothing of ours")
    found = list(RecordingLibrary(home, {}).records(header.session))
    (gap,) = [event for _, event in found if isinstance(event, Gap)]
    assert gap.segment == 2
    whole = RecordingLibrary(home, {})
    assert texts(found)[0] == TEXTS[0]
    assert texts(found)[-1] == TEXTS[-1]
    assert len(texts(found)) >= 20
    shown = [content for _, kind, content in whole.events(header.session) if kind == "e"]
    assert len(shown) == 1
    assert b"segment 2 of the recording cannot be read further" in shown[0]


def test_missing_last_segment_is_a_gap(make_segments: MakeSegments, home: Path, header: Header) -> None:
    finish(filled(make_segments))
    *_, last = paths = archives(home, header)
    last.unlink()
    *_, (_, gap) = RecordingLibrary(home, {}).records(header.session)
    assert gap == Gap(len(paths), "it is missing")


def test_recovery_reports_all_segments_of_a_session(make_segments: MakeSegments, home: Path, header: Header) -> None:
    segments = filled(make_segments)
    wait_until(lambda: len(list(spool_folder(home, "w1").iterdir())) == 1)  # the others are sealed meanwhile
    (found,) = recover(spool_folder(home, "w1"))
    assert (found.operations, found.damage) == (len(TEXTS), "")
    assert found.size > segments.size
    events = [event for _, event in RecordingLibrary(home, {}).records(header.session)]
    assert events[-2:] == [Note(GATEWAY_STOPPED), End("gateway_crashed")]
    assert len([event for event in events if isinstance(event, Operation)]) == len(TEXTS)


def test_crash_between_two_segments_loses_nothing(make_segments: MakeSegments, home: Path, header: Header) -> None:
    """The next segment exists before the last record of the previous one is written."""
    segments = make_segments()
    Recorder(segments, 1000).record(Operation(1, "select 1"), 10)
    Spool.create(spool_path(home, "w1", header.session, 2), replace(header, segment=2)).close()
    (found,) = recover(spool_folder(home, "w1"))
    assert (found.operations, found.damage) == (1, "")
    events = [event for _, event in RecordingLibrary(home, {}).records(header.session)]
    assert events == [
        Operation(1, "select 1"),
        End("", continues=True),
        Note(GATEWAY_STOPPED),
        End("gateway_crashed"),
    ]


def test_full_disk_at_a_new_segment_fails_the_recorder_and_keeps_the_recording(
    make_segments: MakeSegments, home: Path, header: Header, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments = make_segments(most=100)
    recorder = Recorder(segments, 1000)
    recorder.record(ClientOutput(b"x" * 100), 0)
    real = os.open

    def full(path: object, flags: int, *mode: int) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(str(path), flags, *mode)

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(RecordingFailed, match="No space left"):
        recorder.record(ClientOutput(b"y"), 1)
    with pytest.raises(RecordingFailed):
        recorder.record(ClientOutput(b"z"), 2)
    monkeypatch.setattr(os, "open", real)
    found = [event for _, event in RecordingLibrary(home, {}).records(header.session)]
    assert found == [ClientOutput(b"x" * 100)]
    assert len(list(spool_folder(home, "w1").iterdir())) == 1
