from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.examples import examples

from postern.domain.sessions.results import Mask
from postern.errors import RecordingFailed
from postern.interception.events import ClientOutput, Completed, Event, Mark, Masked, Note, Operation, Refusal
from postern.recording.reader import SegmentReader
from postern.recording.record_format import encode
from postern.recording.recorder import OUTPUT_LIMIT_REACHED, Recorder

from .conftest import MakeSegments

pytestmark = pytest.mark.usefixtures("way")


def recorded(recorder: Recorder) -> list[Event]:
    with SegmentReader(recorder.segments.spool.path) as reader:
        events = [event for _, event in reader]
    assert not reader.damage
    return events


def test_events_are_recorded_in_order(make_segments: MakeSegments) -> None:
    recorder = Recorder(make_segments(), 1000)
    events: list[Event] = [
        Operation(1, "select $1", values=(b"1", None)),
        ClientOutput(b"answer"),
        Completed(1, "SELECT 1", 1),
        Refusal(2, "no drops", "blocked"),
        Note("killed", {"by": "an admin"}),
    ]
    for at, event in enumerate(events):
        recorder.record(event, at)
    assert recorded(recorder) == events
    recorder.segments.spool.end()
    assert recorder.size == recorder.segments.spool.path.stat().st_size
    assert not recorder.truncated


def test_output_is_cut_once_at_the_limit_and_other_events_continue(make_segments: MakeSegments) -> None:
    recorder = Recorder(make_segments(), 10)
    for event in (
        ClientOutput(b"123456"),
        ClientOutput(b"789012"),
        ClientOutput(b"3"),
        Operation(2, "select 2"),
        ClientOutput(b"4"),
        Completed(2),
    ):
        recorder.record(event, 1)
    assert recorded(recorder) == [
        ClientOutput(b"123456"),
        ClientOutput(b"7890"),
        Note(OUTPUT_LIMIT_REACHED, {"limit": "10"}),
        Operation(2, "select 2"),
        Completed(2),
    ]
    assert recorder.truncated


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=examples(50),
    deadline=None,
)
@given(chunks=st.lists(st.binary(max_size=20)), limit=st.integers(0, 100))
def test_output_up_to_the_limit_is_recorded(make_segments: MakeSegments, chunks: list[bytes], limit: int) -> None:
    segments = make_segments()
    try:
        recorder = Recorder(segments, limit)
        for chunk in chunks:
            recorder.record(ClientOutput(chunk), 0)
        kept = b"".join(event.data for event in recorded(recorder) if isinstance(event, ClientOutput))
        assert kept == b"".join(chunks)[:limit]
        assert recorder.truncated == (sum(map(len, chunks)) > limit)
    finally:
        segments.spool.close()
        segments.spool.path.unlink()


MARKS = Masked(1, 0, 6, 2, [Mark(Mask("people", "hash"), (0, 3), whole=True)])


def test_marks_count_as_output_and_output_whose_marks_do_not_fit_is_cut(make_segments: MakeSegments) -> None:
    size = len(encode(MARKS, 1))
    recorder = Recorder(make_segments(), 2 * size + 5)
    for _ in range(3):
        recorder.record_all([MARKS, ClientOutput(b"123456")], 1)
    assert recorded(recorder) == [
        MARKS,
        ClientOutput(b"123456"),
        Note(OUTPUT_LIMIT_REACHED, {"limit": str(2 * size + 5)}),
    ]
    assert recorder.truncated


def test_event_that_cannot_be_encoded_fails_the_session(make_segments: MakeSegments) -> None:
    recorder = Recorder(make_segments(), 10)
    with pytest.raises(RecordingFailed):
        recorder.record(Event(), 0)
    with pytest.raises(RecordingFailed):
        recorder.record(ClientOutput(b"x"), 0)


def test_record_after_close_fails(make_segments: MakeSegments) -> None:
    recorder = Recorder(make_segments(), 10)
    recorder.segments.spool.close()
    with pytest.raises(RecordingFailed):
        recorder.record(ClientOutput(b"x"), 0)
