"""Tail of a recording that is being written: its spools grow, are followed by others, and are sealed meanwhile.

A spool that is sealed while it is read stays readable through the open descriptor. The tail waits for incomplete
records. The writing process does not know about it.
"""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar
from zlib import crc32

from postern.domain.sessions.recorded import Moment, Tail
from postern.domain.sessions.results import Result
from postern.errors import Malformed
from postern.interception.events import End, Event
from postern.recording import seek
from postern.recording.layout import SPOOL_SUFFIX
from postern.recording.reader import SegmentReader
from postern.recording.record_format import CRC, MAX_PAYLOAD, PREFIX, Header, decode
from postern.recording.recorded_results import RecordedResults, ResultReader
from postern.recording.recording_rendering import Gap, RecordingReplay
from postern.recording.resync_point import ResyncPoint
from postern.recording.spool import WINDOW

_READ = 256 * 1024  # bytes
_PATIENCE = 2.0  # seconds in which unreadable data can still become complete


ReadT = TypeVar("ReadT")


class RecordTail(Tail[ReadT], ABC):
    """Tail of one session, from before `since` (microseconds). A subclass turns records into what `read` returns."""

    def __init__(self, session: seek.Segmented, since: int = 0) -> None:
        self._session = session
        self._since = since
        self._segment = 0
        self._earliest = 0  # first segment that was searched; those from here to `_segment` are done
        self._source: _Growing | _Whole | None = None
        self._has_begun = False
        self._rest: ResyncPoint | None = None
        self._micros = 0
        self._stuck: float | None = None
        self._ended = False
        self._lock = threading.Lock()  # `close` can come from another thread
        self._closed = False
        self._settled = False

    @property
    def behind(self) -> int:
        with self._lock:
            return 0 if self._source is None else self._source.behind

    @property
    def ended(self) -> bool:
        return self._ended

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._drop()

    @abstractmethod
    def _start(self, protocol: str) -> bool:
        """Prepare for a protocol; return whether reading can start at any of its records."""

    @abstractmethod
    def _items(self, micros: int, event: Event | Gap) -> Iterable[ReadT]:
        """Return what a record contributes."""

    def read(self, *, settled: bool = False) -> list[ReadT]:
        """Return what is new, from at most _READ bytes of the recording and one record."""
        with self._lock:
            self._settled = settled
            return [] if self._closed else self._read()

    def _drop(self) -> None:
        if self._source is not None:
            self._source.close()
            self._source = None

    def _read(self) -> list[ReadT]:
        items: list[ReadT] = []
        size = 0
        while size < _READ and not self._ended:
            record = self._next()
            if record is None:
                break
            micros, event, length = record
            self._micros = micros
            size += length
            if self._rest is None or self._rest.has_come(event):
                items += self._items(micros, event)
        return items

    def _next(self) -> tuple[int, Event | Gap, int] | None:
        """Return the next record and its size; None if there is none yet."""
        if self._source is None:
            gap = self._open()
            if self._source is None:
                return gap
        try:
            record = self._source.next()
        except Malformed as error:
            return self._give_up(error.message) if self._is_stuck() else None
        if record is None:
            return self._after_the_last()
        self._stuck = None
        if isinstance(record[1], End):
            self._ended = not record[1].continues
            self._leave()
        return record

    def _open(self) -> tuple[int, Event | Gap, int] | None:
        """Open the next segment once it exists; return a Gap if it never will."""
        if self._segment == 0:
            self._segment = self._earliest = seek.first_segment(self._session, self._since)
        try:
            reader = self._session.open(self._segment)
        except Malformed as error:  # its header can be incomplete
            return self._give_up(error.message) if self._is_stuck() else None
        if reader is None:
            is_missing = self._session.exists(self._segment + 1) and self._is_stuck()
            return self._give_up("it is missing") if is_missing else None
        self._stuck = None
        if not self._has_begun and not self._begin(reader.header):
            reader.close()
            return None
        self._source = _Growing(reader) if reader.name.endswith(SPOOL_SUFFIX) else _Whole(reader)
        return None

    def _begin(self, header: Header) -> bool:
        """Start reading; return False if it has to start in an earlier segment."""
        self._has_begun = True
        if self._start(header.protocol):
            return True
        first = seek.rendering_segment(self._session, self._segment, self._since)
        self._rest = ResyncPoint(come=first == 1)
        if first >= self._earliest:  # the part between was already reported as a gap
            return True
        self._segment, before = first, self._segment
        return first == before

    def _after_the_last(self) -> tuple[int, Event | Gap, int] | None:
        """Handle the end of a segment without End: it is still being written, or was cut."""
        assert self._source is not None
        if not self._source.is_whole and not self._session.exists(self._segment + 1):
            return None
        if not self._is_stuck():
            return None
        return self._give_up(self._source.damage or "it ends early")

    def _give_up(self, reason: str) -> tuple[int, Event | Gap, int]:
        gap = Gap(self._segment, reason)
        self._leave()
        return self._micros, gap, 0

    def _leave(self) -> None:
        self._drop()
        self._segment += 1
        self._stuck = None

    def _is_stuck(self) -> bool:
        """Return whether no progress was possible for a while."""
        now = time.monotonic()
        if self._stuck is None:
            self._stuck = now
        return self._settled or now - self._stuck > _PATIENCE


class RecordingTail(RecordTail[Moment]):
    """Tail of what a session shows. `replay_of` is `RecordingLibrary.make_replay`."""

    def __init__(
        self, session: seek.Segmented, replay_of: Callable[[str], tuple[RecordingReplay, bool]], since: int
    ) -> None:
        super().__init__(session, since)
        self._replay_of = replay_of
        self._replay = RecordingReplay(None)

    def _start(self, protocol: str) -> bool:
        self._replay, is_framed = self._replay_of(protocol)
        return is_framed

    def _items(self, micros: int, event: Event | Gap) -> list[Moment]:
        return [Moment(micros, kind, content) for kind, content in self._replay.pieces(event)]


class ResultTail(RecordTail[Result]):
    """Tail of a script's results. `readers` are their decoders, by protocol."""

    def __init__(self, session: seek.Segmented, readers: Mapping[str, Callable[[], ResultReader]]) -> None:
        super().__init__(session)
        self._readers = readers
        self._results = RecordedResults(None)

    def _start(self, protocol: str) -> bool:
        reader = self._readers.get(protocol)
        self._results = RecordedResults(reader() if reader is not None else None)
        return True  # from the first record on, which is such a point

    def _items(self, micros: int, event: Event | Gap) -> Iterator[Result]:
        yield from self._results.take(event)
        if isinstance(event, End) and not event.continues:
            yield from self._results.rest()


class _Whole:
    """Sealed segment."""

    is_whole = True

    def __init__(self, reader: SegmentReader) -> None:
        self._reader = reader
        self._records = iter(reader)

    @property
    def behind(self) -> int:
        return 0

    @property
    def damage(self) -> str:
        return self._reader.damage

    def next(self) -> tuple[int, Event, int] | None:
        before = self._reader.intact
        record = next(self._records, None)
        return None if record is None else (*record, self._reader.intact - before)

    def close(self) -> None:
        self._reader.close()


class _Growing:
    """Spool after its header. Only whole records are taken; the file can be truncated after them."""

    is_whole = False
    damage = ""

    def __init__(self, reader: SegmentReader) -> None:
        self._descriptor = reader.detach()
        self._at = reader.intact  # offset of the first byte of `_data`
        self._data = b""
        self._pos = 0

    @property
    def behind(self) -> int:
        """Return how many bytes were not read yet, at least; space for more records is not counted."""
        return max(0, os.fstat(self._descriptor).st_size - WINDOW - self._at - self._pos)

    def next(self) -> tuple[int, Event, int] | None:
        if not self._has(PREFIX.size):
            return None
        length, kind, micros = PREFIX.unpack_from(self._data, self._pos)
        if not (length or kind or micros):  # space for more records
            self._again()
            return None
        if length > MAX_PAYLOAD:
            self._again()
            raise Malformed(f"a record declares an impossible length of {length} bytes")
        size = PREFIX.size + length + CRC.size
        if not self._has(size):
            return None
        end = self._pos + size
        body = memoryview(self._data)[self._pos : end - CRC.size]
        if crc32(body) != CRC.unpack_from(self._data, end - CRC.size)[0]:
            self._again()
            raise Malformed("the checksum of a record is wrong")
        event = decode(kind, bytes(body[PREFIX.size :]))
        self._pos = end
        return micros, event, size

    def close(self) -> None:
        os.close(self._descriptor)

    def _has(self, size: int) -> bool:
        """Return whether that many unread bytes are available."""
        have = len(self._data) - self._pos
        if have >= size:
            return True
        at = self._at + len(self._data)
        more = [self._data[self._pos :]]
        if os.fstat(self._descriptor).st_size - at < size - have:
            return False
        while have < size:
            part = os.pread(self._descriptor, max(_READ, size - have), at)
            if not part:
                return False
            more.append(part)
            have += len(part)
            at += len(part)
        self._at += self._pos
        self._data, self._pos = b"".join(more), 0
        return True

    def _again(self) -> None:
        """Discard the buffer: this part of the file can be written again."""
        self._at += self._pos
        self._data, self._pos = b"", 0
