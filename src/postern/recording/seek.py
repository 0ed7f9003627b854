"""Beginning to read in the middle: only the segments are opened that the search looks at.

Records are found by time without reading what is before them. What was *shown* is a stream of the protocol's bytes
that records cut anywhere, so rendering begins where nothing was under way: at a request that was made when the one
before it was answered. Where a protocol's records are whole messages, that is any record.
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
    """A session while it is read."""

    def open(self, segment: int) -> SegmentReader | None:
        """None when it is not there. Raises Malformed when its header cannot be read."""

    def exists(self, segment: int) -> bool: ...

    def begins(self, segment: int) -> int | None:
        """When its first record was made, in microseconds, or up to a millisecond later; None when only the segment
        itself can tell."""

    def records(self, first: int = 1) -> Iterator[Record]: ...


def records(session: Segmented, since: int, *, framed: bool) -> Iterator[Record]:
    """From before `since`, in microseconds, and from a place where rendering can begin."""
    first = first_segment(session, since)
    if framed:
        return session.records(first)
    first = rendering_segment(session, first, since)
    return from_rest(session.records(first), first)


def rendering_segment(session: Segmented, segment: int, since: int) -> int:
    """The last segment, up to this one, in which rendering can begin before `since`."""
    while segment > 1 and not _has_rest(session, segment, since):
        segment -= 1
    return segment


def from_rest(found: Iterable[Record], first: int) -> Iterator[Record]:
    """What can be rendered of the records from the segment `first` on."""
    rest = ResyncPoint(come=first == 1)
    return (record for record in found if rest.has_come(record[1]))


def first_segment(session: Segmented, since: int) -> int:
    """The last segment that begins before `since`; an earlier one where damage is in the way of knowing."""
    low, step = 1, 1
    while _begins_before(session, low + step, since):
        low += step
        step *= 2
    high = low + step  # does not begin before, or cannot be read
    while high - low > 1:
        middle = (low + high) // 2
        if _begins_before(session, middle, since):
            low = middle
        else:
            high = middle
    return low


def untold(found: Iterable[Record]) -> Iterator[tuple[int, Event | Gap, list[tuple[Kind, bytes]]]]:
    """Records with nothing rendered."""
    return ((micros, event, []) for micros, event in found)


def _has_rest(session: Segmented, segment: int, since: int) -> bool:
    rest = ResyncPoint(come=segment == 1)
    reader = _open(session, segment)
    if reader is None:
        return False
    with reader:
        for micros, event in reader:
            if micros >= since:
                return False
            if rest.has_come(event):
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
    """None also where it cannot be read."""
    try:
        return session.open(segment)
    except Malformed:
        return None
