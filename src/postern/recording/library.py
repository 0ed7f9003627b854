"""The library: what a session did, read from wherever the segments of its recording lie now."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol
from uuid import UUID

from postern.domain.results import CUT, Finished, Problem, Result
from postern.domain.segment import Segment
from postern.domain.session import EndReason, Session
from postern.errors import Malformed, NotFound, PosternError
from postern.interception.events import Completed, Event, Note, Operation, Refusal, Shown
from postern.recording.layout import (
    ARCHIVE_SUFFIX,
    SPOOL_SUFFIX,
    read_sealed_name,
    read_spool_name,
    sealed_folder,
)
from postern.recording.reader import SegmentReader
from postern.recording.recorder import OUTPUT_LIMIT_REACHED
from postern.recording.records import Header
from postern.recording.stored import Hashed, Rows, Stored

log = logging.getLogger(__name__)

GONE = "it is gone from the blob store"
CHANGED = "its bytes are not those that were stored"
Stream = Literal["i", "o", "e"]  # input, output, error output (spec 2.2)


class Renderer(Protocol):
    """Turns the wire bytes a client was shown into text a person can read. One for each replay."""

    def feed(self, data: bytes) -> list[tuple[str, bytes]]:
        """The next bytes of the stream, cut anywhere → ("o" or "e", text) pieces that are complete now."""
        ...


class Reader(Protocol):
    """Turns the wire bytes that a script's client was shown into values. One for each reading."""

    def feed(self, data: bytes) -> list[Result]:
        """The next bytes of the stream, cut anywhere → what is complete now."""
        ...


@dataclass(frozen=True, slots=True)
class Gap:
    """What is missing from a recording."""

    segment: int
    reason: str

    def __str__(self) -> str:
        return f"segment {self.segment} of the recording cannot be read further: {self.reason}"


class Library:
    """By protocol name: `renderers`, where a protocol without one is replayed as its bytes were, and `readers`, without
    one of which a protocol has no results. Without `stored`, only what lies on this machine is found.

    Whatever reads of the blob store raises Unavailable when that does not answer."""

    def __init__(
        self,
        home: Path,
        renderers: Mapping[str, Callable[[], Renderer]],
        readers: Mapping[str, Callable[[], Reader]] | None = None,
        stored: Stored | None = None,
    ) -> None:
        self._home = home
        self._renderers = renderers
        self._readers = readers or {}
        self._stored = stored

    def header(self, session: Session | UUID) -> Header:
        """Of its first segment that can be read. Raises NotFound when there is none, Malformed when none can be."""
        key = session if isinstance(session, UUID) else session.id
        rows = Rows(self._stored, key)
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

    def records(self, session: Session | UUID, since: int = 0) -> Iterator[tuple[int, Event | Gap]]:
        """(microseconds since start, event), in order and constant memory; of a live session up to now. Where a segment
        is damaged or missing there is a Gap, and the next one follows. What is before `since` milliseconds is left out;
        stored segments that ended before are not even opened."""
        key = session if isinstance(session, UUID) else session.id
        rows = Rows(self._stored, key)
        micros, goes_on = 0, False
        for segment in itertools.count(1):
            row = rows.find(segment) if since else None
            if row is not None and not row.is_last and row.ends < since:
                goes_on = True
                continue
            copy, problem = self._opened(rows, key, segment)
            if copy is not None:
                for record in copy.records():
                    micros = record[0]
                    if micros >= since * 1000:
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

    def events(self, session: Session | UUID) -> Iterator[tuple[float, Stream, bytes]]:
        """(milliseconds since start, stream, content), in order; a live session up to now. What is damaged is told in
        its place, by an "e" event. Raises NotFound when there is no recording."""
        replay = _Replay(self._renderers.get(self.header(session).protocol))
        for micros, event in self.records(session):
            for stream, content in replay.pieces(event):
                yield micros / 1000, stream, content

    def results(self, session: Session | UUID) -> Iterator[Result]:
        """What a script answered, as values. Raises NotFound where there are none for this protocol.

        Where output was cut at the limit of the recording, or is damaged, only how statements ended is told from there
        on.
        """
        protocol = self.header(session).protocol
        values = self._readers.get(protocol)
        if values is None:
            raise NotFound(f"sessions of {protocol!r} have no results as values")
        made: Reader | None = values()
        is_cut = False
        for _, event in self.records(session):
            if isinstance(event, Shown):
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
                    text = _describe_note(event).decode(errors="replace").strip()
                    yield Problem(CUT if cut else "NOTE", text, fails=False)
            elif isinstance(event, Gap):
                made, is_cut = None, True
                yield Problem(CUT, str(event), fails=False)
            elif is_cut:
                yield from _ends(event)

    def operations(self, session: Session | UUID) -> Iterator[tuple[float, bytes]]:
        """(milliseconds since start, statement text) of everything that was asked. Raises NotFound."""
        self.header(session)
        for micros, event in self.records(session):
            if isinstance(event, Operation):
                yield micros / 1000, text_of(event)

    def _opened(self, rows: Rows, key: UUID, segment: int) -> tuple[_Copy | None, str]:
        """As `_open`; what is wrong with it, in words, where it cannot be opened."""
        try:
            return self._open(rows, key, segment), ""
        except NotFound:
            return None, GONE
        except Malformed as error:
            return None, error.message

    def _open(self, rows: Rows, key: UUID, segment: int) -> _Copy | None:
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

    def _exists_beyond(self, rows: Rows, key: UUID, segment: int) -> bool:
        """Whether there is any later segment."""
        names = itertools.chain(
            (read_spool_name(path.name) for path in (self._home / "spool").glob(f"*/{key}.*{SPOOL_SUFFIX}")),
            (read_sealed_name(path.name) for path in sealed_folder(self._home).glob(f"*/*/{key}.*{ARCHIVE_SUFFIX}")),
        )
        if any(name is not None and name[1] > segment for name in names):
            return True
        return rows.find(segment + 1) is not None or rows.beyond(segment)

    def _paths(self, key: UUID, segment: int) -> Iterator[Path]:
        # A segment moves from spool to sealed to stored, so looking in this order cannot miss it.
        yield from (self._home / "spool").glob(f"*/{key}.{segment:06}{SPOOL_SUFFIX}")
        yield from sealed_folder(self._home).glob(f"*/*/{key}.{segment:06}{ARCHIVE_SUFFIX}")


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


class _Replay:
    """Turns recorded events into pieces; remembers whether output was cut, for then errors need saying here."""

    def __init__(self, renderer: Callable[[], Renderer] | None) -> None:
        self._renderer = renderer() if renderer else None
        self._cut = False

    def pieces(self, event: Event | Gap) -> list[tuple[Stream, bytes]]:
        if isinstance(event, Operation):
            return [("i", describe(event))]
        if isinstance(event, Shown):
            return self._render(event.data)
        if isinstance(event, Note):
            self._cut = self._cut or event.text == OUTPUT_LIMIT_REACHED
            return [("e", _describe_note(event))]
        if isinstance(event, Gap):
            return [("e", f"[note] {event}\n".encode())]
        if self._cut and isinstance(event, Refusal):
            return [("e", _bytes(event.message) + b"\n")]
        if self._cut and isinstance(event, Completed):
            return [("e", _bytes(event.error) + b"\n")] if event.error else [("o", _bytes(event.tag) + b"\n")]
        return []

    def _render(self, data: bytes) -> list[tuple[Stream, bytes]]:
        if self._renderer is None:
            return [("o", data)]
        try:
            pieces = self._renderer.feed(data)
        except Exception:
            log.exception("recorded output could not be rendered; the rest is given as it is")
            self._renderer = None
            return [("e", b"[note] output could not be rendered; it follows as it was sent\n"), ("o", data)]
        return [("e" if stream == "e" else "o", text) for stream, text in pieces]


def _ends(event: object) -> Iterator[Result]:
    if isinstance(event, Refusal):
        yield Problem("ERROR", event.message)
    elif isinstance(event, Completed):
        yield Problem("ERROR", event.error, code=event.error_code) if event.error else Finished(event.tag)


def text_of(operation: Operation) -> bytes:
    """The statement's own bytes, those that no encoding explains included."""
    return _bytes(operation.text)


def describe(operation: Operation) -> bytes:
    """The statement, followed by one comment line for each bind value: `-- $1 = 'x'`."""
    lines = [text_of(operation)]
    for number, value in enumerate(operation.values, 1):
        lines.append(b"-- $%d = %s" % (number, b"NULL" if value is None else _quote(value)))
    if operation.truncated:
        lines.append(b"-- not all values are whole: some were too large to keep")
    return b"\n".join(lines)


def _quote(value: bytes) -> bytes:
    """One line whatever the value holds, so that a value can never pass for a statement."""
    escaped = value.replace(b"\\", b"\\\\").replace(b"\r", b"\\r").replace(b"\n", b"\\n").replace(b"'", b"''")
    return b"'" + escaped + b"'"


def _describe_note(note: Note) -> bytes:
    details = ", ".join(f"{key}: {value}" for key, value in note.details.items())
    return _bytes(f"[note] {note.text} ({details})\n" if details else f"[note] {note.text}\n")


def _bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")
