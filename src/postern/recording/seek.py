"""Seeking in a recording: only the segments that the search visits are opened.

Records are found by time, without reading earlier ones. Rendering is harder: output is a protocol stream that records
cut anywhere, so it must start where nothing was in flight, at a request that was sent after the previous one was
answered. If a protocol's output records are whole messages, it can start at any record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from postern.domain.sessions.recorded import Kind
from postern.errors import Malformed
from postern.interception.events import Event
from postern.recording.reader import SegmentReader
from postern.recording.recording_rendering import Gap
from postern.recording.resync_point import ResyncPoint

Record = tuple[int, Event | Gap]


class Segmented(Protocol):
    """Session that is being read."""

    def open(self, segment: int) -> SegmentReader | None:
        """Open a segment; None if it does not exist. Raises Malformed if its header cannot be read."""

    def exists(self, segment: int) -> bool: ...

    def begins(self, segment: int) -> int | None:
        """Return the time of its first record in microseconds, up to a millisecond late; None if only the segment
        knows.
        """

    def records(self, first: int = 1) -> Iterator[Record]: ...


def records(session: Segmented, since: int, *, framed: bool) -> Iterator[Record]:
    """Yield records from before `since` (microseconds), and from a point where rendering can start."""
    first = first_segment(session, since)
    if framed:
        return session.records(first)
    first = rendering_segment(session, first, since)
    return from_resync_point(session.records(first), first)


def rendering_segment(session: Segmented, segment: int, since: int) -> int:
    """Return the last segment, up to this one, in which rendering can start before `since`."""
    while segment > 1 and not _has_resync_point(session, segment, since):
        segment -= 1
    return segment


def from_resync_point(records: Iterable[Record], first: int) -> Iterator[Record]:
    """Yield the records that can be rendered, from the segment `first` on."""
    point = ResyncPoint(come=first == 1)
    return (record for record in records if point.has_come(record[1]))


def first_segment(session: Segmented, since: int) -> int:
    """Return the last segment that starts before `since`, or an earlier one if damage hides it."""
    low, step = 1, 1
    while _begins_before(session, low + step, since):
        low += step
        step *= 2
    high = low + step  # does not start before, or cannot be read
    while high - low > 1:
        middle = (low + high) // 2
        if _begins_before(session, middle, since):
            low = middle
        else:
            high = middle
    return low


def without_rendering(records: Iterable[Record]) -> Iterator[tuple[int, Event | Gap, list[tuple[Kind, bytes]]]]:
    """Yield records without rendering."""
    return ((micros, event, []) for micros, event in records)


def _has_resync_point(session: Segmented, segment: int, since: int) -> bool:
    point = ResyncPoint(come=segment == 1)
    reader = _open(session, segment)
    if reader is None:
        return False
    with reader:
        for micros, event in reader:
            if micros >= since:
                return False
            if point.has_come(event):
                return True
    return False


def _begins_before(session: Segmented, segment: int, since: int) -> bool:
    begins = session.begins(segment)
    if begins is not None:
        return begins < since
    reader = _open(session, segment)
    if reader is None:
        return False
    with reader:
        return next((micros < since for micros, _ in reader), False)


def _open(session: Segmented, segment: int) -> SegmentReader | None:
    """Open a segment; None also if it cannot be read."""
    try:
        return session.open(segment)
    except Malformed:
        return None
