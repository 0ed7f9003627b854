"""The library: what a session did, read from wherever the segments of its recording lie now."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from pathlib import Path
from typing import Protocol
from uuid import UUID

from postern.domain.rules.trial import Step
from postern.domain.sessions.recorded import ERROR, SIZE, Exchange, Kind, Missing, Moment
from postern.domain.sessions.results import CUT, Finished, Problem, Result
from postern.domain.sessions.segment import Segment
from postern.domain.sessions.session import EndReason, Session, require_recording
from postern.domain.text import one_line
from postern.errors import Malformed, NotFound, PosternError
from postern.interception.events import ClientOutput, Completed, Event, Note, Operation, Refusal
from postern.recording import recording_timeline, seek
from postern.recording.layout import SEALED_SUFFIX, SPOOL_SUFFIX, read_sealed_name, read_spool_name, sealed_folder
from postern.recording.reader import SegmentReader
from postern.recording.record_format import Header
from postern.recording.recorder import OUTPUT_LIMIT_REACHED
from postern.recording.recording_rendering import (
    Gap,
    RecordingReplay,
    Renderer,
    describe,
    describe_note,
    piece_of,
    text_of,
)
from postern.recording.steps import AnswerReader, LineAnswers, steps
from postern.recording.stored import Hashed, SegmentRows, StoredSegments
from postern.recording.tail import RecordingTail
from postern.store.ports.target_ports import Piece

GONE = "it is gone from the blob store"
CHANGED = "its bytes are not those that were stored"

__all__ = ["Gap", "RecordingLibrary", "Renderer", "ResultReader", "describe", "text_of"]


class ResultReader(Protocol):
    """Turns the wire bytes that a script's client was shown into values. One for each reading."""

    def feed(self, data: bytes) -> list[Result]:
        """The next bytes of the stream, cut anywhere → what is complete now."""
        ...


class RecordingLibrary:
    """By protocol name: `renderers`, where a protocol without one is replayed as its bytes were; `readers`, without one
    of which a protocol has no results; and `answers`, without one of which its answers are lines. `framed`: the
    protocols of which each record of output is whole messages, so that rendering may begin at any of them. Without
    `stored`, only what lies on this machine is found.

    Whatever reads of the blob store raises Unavailable when that does not answer, and Gone when the recording was
    purged."""

    def __init__(
        self,
        home: Path,
        renderers: Mapping[str, Callable[[], Renderer]],
        readers: Mapping[str, Callable[[], ResultReader]] | None = None,
        framed: Iterable[str] = (),
        stored: StoredSegments | None = None,
        answers: Mapping[str, Callable[[], AnswerReader]] | None = None,
    ) -> None:
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
        """Empty where no segment can be read, so that there is nothing but gaps to tell. Raises NotFound when there is
        no recording."""
        return self.reading(session).protocol()

    def records(self, session: Session | UUID, first: int = 1) -> Iterator[tuple[int, Event | Gap]]:
        """(microseconds since start, event), in order and constant memory, from the segment `first` on; of a live
        session up to now. Where a segment is damaged or missing there is a Gap, and the next one follows."""
        return self._records(*self._key_and_rows(session), first)

    def _records(self, key: UUID, rows: SegmentRows, first: int) -> Iterator[tuple[int, Event | Gap]]:
        micros, goes_on = 0, False
        for segment in itertools.count(first):
            copy, problem = self._opened(rows, key, segment)
            if copy is not None:
                for record in copy.records():
                    micros = record[0]
                    yield record
                end, problem = copy.reader.end, copy.problem
                if end is None and copy.is_live:
                    return  # its last record may be on its way
                goes_on = end is not None and end.goes_on
                if problem:
                    yield micros, Gap(segment, problem)
                if end is not None and not end.goes_on:
                    return
            else:
                if problem or goes_on or self._exists_beyond(rows, key, segment):
                    yield micros, Gap(segment, problem or "it is missing")
                goes_on = False
            if not goes_on and not self._exists_beyond(rows, key, segment):
                return

    def moments(self, session: Session | UUID, since: int = 0) -> Iterator[Moment]:
        """What is to be shown of it, in order; a live session up to now. What is damaged is told in its place, as error
        output. Begins somewhere before `since` (microseconds), never behind it. Raises NotFound when there is no
        recording."""
        for micros, event, pieces in self.told(session, since):
            is_gap = isinstance(event, Gap)
            for kind, content in pieces:
                # With a gap comes what was under way before it.
                yield (Missing if is_gap and kind == ERROR else Moment)(micros, kind, content)

    def told(
        self, session: Session | UUID, since: int = 0
    ) -> Iterator[tuple[int, Event | Gap, list[tuple[Kind, bytes]]]]:
        """As `moments`: each record, and what is to be shown of it."""
        reading = self.reading(session)
        protocol = reading.protocol()
        framed = protocol in self._framed
        replay = RecordingReplay(self._renderers.get(protocol), framed=framed)
        for micros, event in seek.records(reading, since, framed=framed):
            yield micros, event, replay.pieces(event)

    def events(self, session: Session | UUID) -> Iterator[tuple[float, Kind, bytes]]:
        """(milliseconds since start, "i" | "o" | "e", content): moments without sizes of the terminal."""
        for micros, kind, content in self.moments(session):
            if kind != SIZE:
                yield micros / 1000, kind, content

    def exchanges(self, session: Session | UUID, since: int = 0, output: int = 0) -> Iterator[Exchange]:
        """The session as a timeline; `output` is how many bytes of what was shown are kept of each. Begins as `moments`
        does."""
        reading = self.reading(session)
        protocol = reading.protocol()
        if output:
            return recording_timeline.exchanges(self.told(session, since), output, in_turn=protocol not in self._framed)
        told = seek.untold(reading.records(seek.first_segment(reading, since)))
        return recording_timeline.exchanges(told, 0, in_turn=True)

    def tail(self, session: Session | UUID, since: int = 0) -> RecordingTail:
        """Of a session that runs, or has ended, or whose recording has not begun. Begins as `moments` does."""
        return RecordingTail(self.reading(session), self.replay_of, since)

    def replay_of(self, protocol: str) -> tuple[RecordingReplay, bool]:
        """For a reading of its own; and whether each record of output is whole messages."""
        framed = protocol in self._framed
        return RecordingReplay(self._renderers.get(protocol), framed=framed), framed

    def results(self, session: Session | UUID) -> Iterator[Result]:
        """What a script answered, as values. Raises NotFound where there are none for this protocol.

        Where output was cut at the limit of the recording, or is damaged, only how statements ended is told from there
        on.
        """
        protocol = self.protocol(session)
        values = self._readers.get(protocol)
        if values is None and protocol:
            raise NotFound(f"sessions of {protocol!r} have no results as values")
        made: ResultReader | None = values() if values else None
        is_cut = False
        for _, event in self.records(session):
            if isinstance(event, ClientOutput):
                if made is None:
                    continue
                try:
                    found = made.feed(event.data)
                except PosternError as error:
                    made = None
                    found = [Problem(CUT, f"the rest cannot be read as values: {error.message}", fails=False)]
                yield from found
            elif isinstance(event, Note):
                cut = event.text == OUTPUT_LIMIT_REACHED
                is_cut = is_cut or cut
                if event.details.get("reason") != EndReason.FAILED:  # the error says that, and more
                    text = describe_note(event).decode(errors="replace").strip()
                    yield Problem(CUT if cut else "NOTE", text, fails=False)
            elif isinstance(event, Gap):
                made, is_cut = None, True
                yield Problem(CUT, str(event), fails=False)
            elif is_cut:
                yield from _ends(event)

    def operations(self, session: Session | UUID, since: int = 0) -> Iterator[tuple[float, bytes]]:
        """(milliseconds since start, statement text) of everything that was asked; what is missing is a comment in its
        place. Begins as `moments` does. Raises NotFound when there is no recording."""
        reading = self.reading(session)
        reading.protocol()  # asked for what it raises
        for micros, event in reading.records(seek.first_segment(reading, since)):
            if isinstance(event, Operation):
                yield micros / 1000, text_of(event)
            elif isinstance(event, Gap):
                yield micros / 1000, one_line(f"-- [note] {event}").encode()

    def steps(self, session: Session | UUID, *, answers: bool) -> Iterator[Step]:
        """What was asked and, with `answers`, what came back, in order. Raises NotFound when there is no recording."""
        reading = self.reading(session)
        protocol = reading.protocol()
        make = self._answers.get(protocol) if answers else None
        renderer = self._renderers.get(protocol)
        if answers and make is None and renderer is not None:
            make = functools.partial(_lines_of, renderer)
        return steps(reading.records(), make, framed=protocol in self._framed)

    def texts(self, session: Session | UUID, without: Set[int] = frozenset()) -> Iterator[tuple[int, list[Piece]]]:
        """What was asked, by segments; those in `without` are not opened, and what cannot be read is left out. Raises
        NotFound when there is no segment at all."""
        key, rows = self._key_and_rows(session)
        is_there = False
        for segment in itertools.count(1):
            copy = None if segment in without else self._opened(rows, key, segment)[0]
            is_there = is_there or copy is not None or segment in without
            if copy is not None and copy.is_live:
                copy.reader.close()  # more may come
            elif copy is not None:
                found = copy.records()
                yield segment, [piece_of(micros, event) for micros, event in found if isinstance(event, Operation)]
            if not self._exists_beyond(rows, key, segment):
                break
        if not is_there:
            raise NotFound(f"there is no recording of session {key}")

    def reading(self, session: Session | UUID) -> SessionReading:
        """For looks at several places of it."""
        return SessionReading(self, *self._key_and_rows(session))

    def _key_and_rows(self, session: Session | UUID) -> tuple[UUID, SegmentRows]:
        key = _key(session)
        return key, SegmentRows(self._stored, key)

    def _opened(self, rows: SegmentRows, key: UUID, segment: int) -> tuple[_Copy | None, str]:
        """As `_open`; what is wrong with it, in words, where it cannot be opened."""
        try:
            return self._open(rows, key, segment), ""
        except NotFound:
            return None, GONE
        except Malformed as error:
            return None, error.message

    def _open(self, rows: SegmentRows, key: UUID, segment: int) -> _Copy | None:
        """None when it is nowhere. Raises Malformed when its header cannot be read, NotFound when it was stored and is
        gone, Unavailable."""
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
            raise Malformed("what lies in its place is another segment")
        return copy

    def _exists_beyond(self, rows: SegmentRows, key: UUID, segment: int) -> bool:
        """Whether there is any later segment."""
        names = itertools.chain(
            (read_spool_name(path.name) for path in (self._home / "spool").glob(f"*/{key}.*{SPOOL_SUFFIX}")),
            (read_sealed_name(path.name) for path in sealed_folder(self._home).glob(f"*/*/{key}.*{SEALED_SUFFIX}")),
        )
        if any(name is not None and name[1] > segment for name in names):
            return True
        return rows.find(segment + 1) is not None or rows.beyond(segment)

    def _paths(self, key: UUID, segment: int) -> Iterator[Path]:
        # A segment moves from spool to sealed to stored, so looking in this order cannot miss it.
        yield from (self._home / "spool").glob(f"*/{key}.{segment:06}{SPOOL_SUFFIX}")
        yield from sealed_folder(self._home).glob(f"*/*/{key}.{segment:06}{SEALED_SUFFIX}")


def _key(session: Session | UUID) -> UUID:
    if isinstance(session, UUID):
        return session
    require_recording(session)
    return session.id


class SessionReading:
    """One session while it is read (seek.Segmented): the store is asked once for all that is stored of it, and again
    only for what is nowhere else."""

    def __init__(self, library: RecordingLibrary, key: UUID, rows: SegmentRows) -> None:
        self._library = library
        self._key = key
        self._rows = rows

    def header(self) -> Header:
        """Of its first segment that can be read. Raises NotFound when there is none, Malformed when none can be."""
        return self._library._header(self._key, self._rows)

    def protocol(self) -> str:
        """As Library.protocol."""
        try:
            return self.header().protocol
        except Malformed:
            return ""

    def records(self, first: int = 1) -> Iterator[tuple[int, Event | Gap]]:
        """As Library.records."""
        return self._library._records(self._key, self._rows, first)

    def open(self, segment: int) -> SegmentReader | None:
        """None when it is nowhere. Raises Malformed when it cannot be read, Unavailable."""
        copy, problem = self._library._opened(self._rows, self._key, segment)
        if problem:
            raise Malformed(problem)
        return None if copy is None else copy.reader

    def begins(self, segment: int) -> int | None:
        row = self._rows.known(segment)
        return None if row is None else (row.begins + 1) * 1000

    def exists(self, segment: int) -> bool:
        is_here = next(self._library._paths(self._key, segment), None) is not None
        return is_here or self._rows.find(segment) is not None


class _Copy:
    """A segment that is being read, from wherever it was found; `row` and `hashed` of one from the blob store."""

    def __init__(
        self, reader: SegmentReader, row: Segment | None = None, hashed: Hashed | None = None, *, is_live: bool = False
    ) -> None:
        self.reader = reader
        self.is_live = is_live
        self.problem = ""
        self._row = row
        self._hashed = hashed

    def records(self) -> Iterator[tuple[int, Event]]:
        """All, and closes it. Then `problem` is what is wrong with it."""
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


def _ends(event: object) -> Iterator[Result]:
    if isinstance(event, Refusal):
        yield Problem("ERROR", event.message)
    elif isinstance(event, Completed):
        yield Problem("ERROR", event.error, code=event.error_code) if event.error else Finished(event.tag)


def _lines_of(renderer: Callable[[], Renderer]) -> AnswerReader:
    return LineAnswers(renderer())
