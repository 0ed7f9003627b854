"""Library of recordings: reads a session's segments, wherever they are.

A segment moves from the spool to the sealed folder to the blob store, and is deleted at its old location only after it
is at the new one. The library looks in this order and can therefore not miss it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from datetime import datetime
from pathlib import Path
from typing import Protocol
from uuid import UUID

from postern.domain.rules.trial import Step
from postern.domain.sessions.recorded import ERROR, SIZE, Exchange, Kind, Missing, Moment
from postern.domain.sessions.results import Result
from postern.domain.sessions.segment import Segment
from postern.domain.sessions.session import Session, require_recording
from postern.domain.text import one_line
from postern.errors import Invalid, Malformed, NotFound, PosternError
from postern.interception.events import Event, Operation
from postern.recording import recording_timeline, seek
from postern.recording.layout import SEALED_SUFFIX, SPOOL_SUFFIX, read_sealed_name, read_spool_name, sealed_folder
from postern.recording.reader import SegmentReader
from postern.recording.record_format import Header
from postern.recording.recorded_results import RecordedResults, ResultReader
from postern.recording.recording_rendering import (
    Gap,
    RecordingReplay,
    Renderer,
    describe,
    piece_of,
    text_of,
)
from postern.recording.steps import AnswerReader, LineAnswers, steps
from postern.recording.stored import Hashed, SegmentRows, StoredSegments
from postern.recording.tail import RecordingTail, ResultTail
from postern.store.ports.target_ports import Piece

GONE = "it is missing from the blob store"
CHANGED = "its bytes differ from those that were stored"

__all__ = ["Gap", "RecordingLibrary", "Renderer", "ResultReader", "describe", "text_of"]


class Archive(Protocol):
    """A format of other tools, in which the sessions of a protocol can be exported."""

    def __call__(self, records: Iterable[tuple[int, object]], start: datetime, connection: str) -> Iterator[bytes]:
        """Yield the file in pieces. Records are (microseconds since the start, event)."""


class RecordingLibrary:
    """Reader of recordings.

    Three maps by protocol: `renderers` (without one, output is replayed as raw bytes), `readers` (without one, there
    are no results) and `answers` (without one, answers are lines). `framed` lists protocols in which each output record
    is whole messages, so that rendering can start at any record. `numbers` return the exchange of an output record, in
    protocols whose requests run at the same time; `archives` write sessions in formats of other tools. Without
    `stored`, only local segments are found.

    Methods that use the blob store raise Unavailable if it does not answer, and Gone if the recording was purged.
    """

    def __init__(
        self,
        home: Path,
        renderers: Mapping[str, Callable[[], Renderer]],
        readers: Mapping[str, Callable[[], ResultReader]] | None = None,
        framed: Iterable[str] = (),
        stored: StoredSegments | None = None,
        answers: Mapping[str, Callable[[], AnswerReader]] | None = None,
        *,
        numbers: Mapping[str, Callable[[bytes], int]] | None = None,
        archives: Mapping[str, Callable[[], Archive]] | None = None,
    ) -> None:
        self._numbers = numbers or {}
        self._archives = archives or {}
        self._answers = answers or {}
        self._home = home
        self._renderers = renderers
        self._readers = readers or {}
        self._framed = frozenset(framed)
        self._stored = stored

    def _header(self, key: UUID, rows: SegmentRows) -> Header:
        problem: PosternError | None = None
        for segment in itertools.count(1):
            try:
                copy = self._open(rows, key, segment)
            except (Malformed, NotFound) as error:
                problem = error
                continue
            if copy is not None:
                copy.reader.close()
                return copy.reader.header
            if not self._exists_beyond(rows, key, segment):
                break
        raise problem or NotFound(f"there is no recording of session {key}")

    def protocol(self, session: Session | UUID) -> str:
        """Return the session's protocol, empty if no segment can be read. Raises NotFound if there is no recording."""
        return self.reading(session).protocol()

    def records(self, session: Session | UUID, first: int = 1) -> Iterator[tuple[int, Event | Gap]]:
        """Yield (microseconds since start, event) in order, from segment `first` on, in constant memory.

        A live session is read up to now. A damaged or missing segment yields a Gap, and reading continues with the next
        one.
        """
        return self._records(*self._key_and_rows(session), first)

    def _records(self, key: UUID, rows: SegmentRows, first: int) -> Iterator[tuple[int, Event | Gap]]:
        micros, goes_on = 0, False
        for segment in itertools.count(first):
            copy, problem = self._try_open(rows, key, segment)
            if copy is not None:
                for record in copy.records():
                    micros = record[0]
                    yield record
                end, problem = copy.reader.end, copy.problem
                if end is None and copy.is_live:
                    return  # its last record can be incomplete
                goes_on = end is not None and end.continues
                if problem:
                    yield micros, Gap(segment, problem)
                if end is not None and not end.continues:
                    return
            else:
                if problem or goes_on or self._exists_beyond(rows, key, segment):
                    yield micros, Gap(segment, problem or "it is missing")
                goes_on = False
            if not goes_on and not self._exists_beyond(rows, key, segment):
                return

    def moments(self, session: Session | UUID, since: int = 0) -> Iterator[Moment]:
        """Yield what to display, in order; of a live session up to now.

        Damage appears in its place as error output. Starts somewhere before `since` (microseconds), never after it.
        Raises NotFound if there is no recording.
        """
        for micros, event, pieces in self.rendered_records(session, since):
            is_gap = isinstance(event, Gap)
            for kind, content in pieces:
                # A gap comes with the unfinished output before it.
                yield (Missing if is_gap and kind == ERROR else Moment)(micros, kind, content)

    def rendered_records(
        self, session: Session | UUID, since: int = 0
    ) -> Iterator[tuple[int, Event | Gap, list[tuple[Kind, bytes]]]]:
        """Yield each record with what to display of it. Starts as `moments` does."""
        reading = self.reading(session)
        protocol = reading.protocol()
        framed = protocol in self._framed
        replay = RecordingReplay(self._renderers.get(protocol), framed=framed)
        for micros, event in seek.records(reading, since, framed=framed):
            yield micros, event, replay.pieces(event)

    def events(self, session: Session | UUID) -> Iterator[tuple[float, Kind, bytes]]:
        """Yield (milliseconds since start, "i" | "o" | "e", content): moments without sizes of the terminal."""
        for micros, kind, content in self.moments(session):
            if kind != SIZE:
                yield micros / 1000, kind, content

    def exchanges(self, session: Session | UUID, since: int = 0, output: int = 0) -> Iterator[Exchange]:
        """Yield the session's timeline. `output` limits the bytes of output per exchange. Starts as `moments` does."""
        reading = self.reading(session)
        protocol = reading.protocol()
        number_of = self._numbers.get(protocol)
        if output:
            in_turn = number_of is not None or protocol not in self._framed
            rendered = self.rendered_records(session, since)
            return recording_timeline.exchanges(rendered, output, in_turn=in_turn, number_of=number_of)
        records = seek.without_rendering(reading.records(seek.first_segment(reading, since)))
        return recording_timeline.exchanges(records, 0, in_turn=True, number_of=number_of)

    def archive(self, session: Session, start: datetime) -> Iterator[bytes]:
        """Yield the session in the format of other tools for its protocol.

        Raises NotFound if there is no recording, and Invalid for a protocol without such a format.
        """
        protocol = self.protocol(session)
        make = self._archives.get(protocol)
        if make is None:
            raise Invalid("format: only sessions of HTTP have an archive; export this one as timeline", field="format")
        return make()(self.records(session), start, session.connection)

    def tail(self, session: Session | UUID, since: int = 0) -> RecordingTail:
        """Follow a session that runs, has ended, or whose recording has not started. Starts as `moments` does."""
        return RecordingTail(self.reading(session), self.make_replay, since)

    def result_tail(self, session: Session | UUID) -> ResultTail:
        """Follow the results of a script that runs, has ended, or whose recording has not started."""
        return ResultTail(self.reading(session), self._readers)

    def make_replay(self, protocol: str) -> tuple[RecordingReplay, bool]:
        """Return a new replay, and whether each output record is whole messages."""
        framed = protocol in self._framed
        return RecordingReplay(self._renderers.get(protocol), framed=framed), framed

    def results(self, session: Session | UUID) -> Iterator[Result]:
        """Yield the results of a script as values. Raises NotFound if this protocol has none.

        After output that was cut at the recording's limit, or is damaged, it yields only how statements ended.
        """
        protocol = self.protocol(session)
        values = self._readers.get(protocol)
        if values is None and protocol:
            raise NotFound(f"sessions of {protocol!r} do not have results as values")
        results = RecordedResults(values() if values else None)
        for _, event in self.records(session):
            yield from results.take(event)
        yield from results.rest()

    def operations(self, session: Session | UUID, since: int = 0) -> Iterator[tuple[float, bytes]]:
        """Yield (milliseconds since start, statement text) of all operations, with a comment for each missing part.

        Starts as `moments` does. Raises NotFound if there is no recording.
        """
        reading = self.reading(session)
        reading.protocol()  # raises NotFound
        for micros, event in reading.records(seek.first_segment(reading, since)):
            if isinstance(event, Operation):
                yield micros / 1000, text_of(event)
            elif isinstance(event, Gap):
                yield micros / 1000, one_line(f"-- [note] {event}").encode()

    def steps(self, session: Session | UUID, *, answers: bool) -> Iterator[Step]:
        """Yield operations and, with `answers`, their answers, in order. Raises NotFound if there is no recording."""
        reading = self.reading(session)
        protocol = reading.protocol()
        make = self._answers.get(protocol) if answers else None
        renderer = self._renderers.get(protocol)
        if answers and make is None and renderer is not None:
            make = functools.partial(_make_line_reader, renderer)
        return steps(reading.records(), make, framed=protocol in self._framed)

    def texts(self, session: Session | UUID, without: Set[int] = frozenset()) -> Iterator[tuple[int, list[Piece]]]:
        """Yield the operations of each segment, for search.

        Segments in `without` are not opened; unreadable ones are left out. Raises NotFound if there is no segment at
        all.
        """
        key, rows = self._key_and_rows(session)
        is_there = False
        for segment in itertools.count(1):
            copy = None if segment in without else self._try_open(rows, key, segment)[0]
            is_there = is_there or copy is not None or segment in without
            if copy is not None and copy.is_live:
                copy.reader.close()  # it can still grow
            elif copy is not None:
                records = copy.records()
                yield segment, [piece_of(micros, event) for micros, event in records if isinstance(event, Operation)]
            if not self._exists_beyond(rows, key, segment):
                break
        if not is_there:
            raise NotFound(f"there is no recording of session {key}")

    def reading(self, session: Session | UUID) -> SessionReading:
        """Return a reading of the session, for access to several parts of it."""
        return SessionReading(self, *self._key_and_rows(session))

    def _key_and_rows(self, session: Session | UUID) -> tuple[UUID, SegmentRows]:
        key = _key(session)
        return key, SegmentRows(self._stored, key)

    def _try_open(self, rows: SegmentRows, key: UUID, segment: int) -> tuple[_Copy | None, str]:
        """Open a segment as `_open` does; return the problem as text if it cannot be opened."""
        try:
            return self._open(rows, key, segment), ""
        except NotFound:
            return None, GONE
        except Malformed as error:
            return None, error.message

    def _open(self, rows: SegmentRows, key: UUID, segment: int) -> _Copy | None:
        """Open a segment; None if it does not exist.

        Raises Malformed if its header cannot be read, NotFound if it was stored and is gone, Unavailable.
        """
        copy: _Copy | None = None
        for path in self._paths(key, segment):
            try:
                copy = _Copy(SegmentReader(path), is_live=path.name.endswith(SPOOL_SUFFIX))
                break
            except FileNotFoundError:
                continue
        if copy is None:
            row = rows.find(segment)
            if row is None:
                return None
            reader, hashed = rows.reader(row)
            copy = _Copy(reader, row, hashed)
        header = copy.reader.header
        if (header.session, header.segment) != (key, segment):
            copy.reader.close()
            raise Malformed("another segment is stored in its place")
        return copy

    def _exists_beyond(self, rows: SegmentRows, key: UUID, segment: int) -> bool:
        """Return whether there is any later segment."""
        names = itertools.chain(
            (read_spool_name(path.name) for path in (self._home / "spool").glob(f"*/{key}.*{SPOOL_SUFFIX}")),
            (read_sealed_name(path.name) for path in sealed_folder(self._home).glob(f"*/*/{key}.*{SEALED_SUFFIX}")),
        )
        if any(name is not None and name[1] > segment for name in names):
            return True
        return rows.find(segment + 1) is not None or rows.has_later(segment)

    def _paths(self, key: UUID, segment: int) -> Iterator[Path]:
        # A segment moves from spool to sealed to stored, so that looking in this order cannot miss it.
        yield from (self._home / "spool").glob(f"*/{key}.{segment:06}{SPOOL_SUFFIX}")
        yield from sealed_folder(self._home).glob(f"*/*/{key}.{segment:06}{SEALED_SUFFIX}")


def _key(session: Session | UUID) -> UUID:
    if isinstance(session, UUID):
        return session
    require_recording(session)
    return session.id


class SessionReading:
    """Session that is being read (seek.Segmented). The store is queried once, and again only for segments found
    nowhere.
    """

    def __init__(self, library: RecordingLibrary, key: UUID, rows: SegmentRows) -> None:
        self._library = library
        self._key = key
        self._rows = rows

    def header(self) -> Header:
        """Return the header of the first readable segment. Raises NotFound without segments, Malformed if none is
        readable.
        """
        return self._library._header(self._key, self._rows)

    def protocol(self) -> str:
        """Return the protocol, as `RecordingLibrary.protocol` does."""
        try:
            return self.header().protocol
        except Malformed:
            return ""

    def records(self, first: int = 1) -> Iterator[tuple[int, Event | Gap]]:
        """Yield records, as `RecordingLibrary.records` does."""
        return self._library._records(self._key, self._rows, first)

    def open(self, segment: int) -> SegmentReader | None:
        """Open a segment; None if it does not exist. Raises Malformed if it cannot be read, Unavailable."""
        copy, problem = self._library._try_open(self._rows, self._key, segment)
        if problem:
            raise Malformed(problem)
        return None if copy is None else copy.reader

    def begins(self, segment: int) -> int | None:
        row = self._rows.find_cached(segment)
        return None if row is None else (row.begins + 1) * 1000

    def exists(self, segment: int) -> bool:
        is_here = next(self._library._paths(self._key, segment), None) is not None
        return is_here or self._rows.find(segment) is not None


class _Copy:
    """Opened segment. `row` and `hashed` belong to one from the blob store."""

    def __init__(
        self, reader: SegmentReader, row: Segment | None = None, hashed: Hashed | None = None, *, is_live: bool = False
    ) -> None:
        self.reader = reader
        self.is_live = is_live
        self.problem = ""
        self._row = row
        self._hashed = hashed

    def records(self) -> Iterator[tuple[int, Event]]:
        """Yield all records and close the segment. Then `problem` is set if there is one."""
        try:
            with self.reader:
                yield from self.reader
        except NotFound:
            self.problem = GONE
            return
        self.problem = self.reader.damage
        row, hashed = self._row, self._hashed
        if row and hashed and not self.problem and (hashed.size, hashed.digest) != (row.size, row.digest):
            self.problem = CHANGED


def _make_line_reader(renderer: Callable[[], Renderer]) -> AnswerReader:
    return LineAnswers(renderer())
