"""The library: what a session did, read from wherever its recording lies now."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal, Protocol
from uuid import UUID

from postern.domain.results import CUT, Finished, Problem, Result
from postern.domain.session import EndReason, Session
from postern.errors import NotFound, PosternError
from postern.interception.events import Completed, Note, Operation, Refusal, Shown
from postern.recording.layout import ARCHIVE_SUFFIX, SPOOL_SUFFIX
from postern.recording.reader import RecordingReader
from postern.recording.recorder import OUTPUT_LIMIT_REACHED

log = logging.getLogger(__name__)

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


class Library:
    """By protocol name: `renderers`, where a protocol without one is replayed as its bytes were, and `readers`, without
    one of which a protocol has no results."""

    def __init__(
        self,
        home: Path,
        renderers: Mapping[str, Callable[[], Renderer]],
        readers: Mapping[str, Callable[[], Reader]] | None = None,
    ) -> None:
        self._home = home
        self._renderers = renderers
        self._readers = readers or {}

    def open(self, session: Session | UUID) -> RecordingReader:
        """Raises NotFound when there is no recording, Malformed when its header cannot be read."""
        key = session if isinstance(session, UUID) else session.id
        # A recording moves from spool to archive, so looking in this order cannot miss it.
        for place, pattern in (
            ("spool", f"*/{key}{SPOOL_SUFFIX}"),
            ("recordings", f"*/*/{key}{ARCHIVE_SUFFIX}"),
        ):
            for path in (self._home / place).glob(pattern):
                try:
                    return RecordingReader(path)
                except FileNotFoundError:
                    continue
        raise NotFound(f"there is no recording of session {key}")

    def events(self, session: Session | UUID) -> Iterator[tuple[float, Stream, bytes]]:
        """(milliseconds since start, stream, content), in order; a live session up to now.

        A recording that is damaged ends with an "e" event that says so.
        """
        with self.open(session) as reader:
            replay = _Replay(self._renderers.get(reader.header.protocol))
            ms = 0.0
            for micros, event in reader:
                ms = micros / 1000
                for stream, content in replay.pieces(event):
                    yield ms, stream, content
            if reader.damage and not self._is_live(reader):
                yield ms, "e", f"[note] the recording cannot be read further: {reader.damage}\n".encode()

    def results(self, session: Session | UUID) -> Iterator[Result]:
        """What a script answered, as values. Raises NotFound where there are none for this protocol.

        Where output was cut at the limit of the recording, only how statements ended is told from there on.
        """
        with self.open(session) as reader:
            values = self._readers.get(reader.header.protocol)
            if values is None:
                raise NotFound(f"sessions of {reader.header.protocol!r} have no results as values")
            made: Reader | None = values()
            is_cut = False
            for _, event in reader:
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
                elif is_cut:
                    yield from _ends(event)
            if reader.damage and not self._is_live(reader):
                yield Problem("NOTE", f"the recording cannot be read further: {reader.damage}", fails=False)

    def operations(self, session: Session | UUID) -> Iterator[tuple[float, bytes]]:
        """(milliseconds since start, statement text) of everything that was asked."""
        with self.open(session) as reader:
            for micros, event in reader:
                if isinstance(event, Operation):
                    yield micros / 1000, text_of(event)

    def _is_live(self, reader: RecordingReader) -> bool:
        """A spool may be read while its last record is on its way; that is no damage."""
        return reader.path.name.endswith(SPOOL_SUFFIX)


class _Replay:
    """Turns recorded events into pieces; remembers whether output was cut, for then errors need saying here."""

    def __init__(self, renderer: Callable[[], Renderer] | None) -> None:
        self._renderer = renderer() if renderer else None
        self._cut = False

    def pieces(self, event: object) -> list[tuple[Stream, bytes]]:
        if isinstance(event, Operation):
            return [("i", describe(event))]
        if isinstance(event, Shown):
            return self._render(event.data)
        if isinstance(event, Note):
            self._cut = self._cut or event.text == OUTPUT_LIMIT_REACHED
            return [("e", _describe_note(event))]
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
