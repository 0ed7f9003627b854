"""Rendering of recorded events as readable text."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from postern.domain.sessions.recorded import ERROR, INPUT, OUTPUT, SIZE, UNREADABLE, Kind
from postern.interception.events import ClientOutput, Completed, End, Event, Note, Operation, Refusal, Resized
from postern.recording.recorder import OUTPUT_LIMIT_REACHED
from postern.recording.resync_point import ResyncPoint
from postern.store.ports.target_ports import Piece

log = logging.getLogger(__name__)


class Renderer(Protocol):
    """Renderer of one replay: turns wire bytes for the client into readable text."""

    def feed(self, data: bytes) -> list[tuple[str, bytes]]:
        """Render the next bytes of the stream, cut anywhere: ("o" or "e", text) pieces that are complete."""
        ...

    def rest(self) -> list[tuple[str, bytes]]:
        """Render what is incomplete, at the end or a break of the stream, and reset the renderer."""
        ...


@dataclass(frozen=True, slots=True)
class Gap:
    """Missing part of a recording."""

    segment: int
    reason: str

    def __str__(self) -> str:
        return f"segment {self.segment} of the recording {UNREADABLE}: {self.reason}"


class RecordingReplay:
    """Replay of recorded events.

    It remembers whether output was cut; errors then come from the other records. After a gap, the position in the
    protocol's stream is unknown: output is passed raw up to the next request that was sent with nothing in flight.
    `framed`: each record is whole messages, so that rendering can continue with any record.
    """

    def __init__(self, renderer: Callable[[], Renderer] | None, *, framed: bool = False) -> None:
        self._renderer = renderer() if renderer else None
        self._framed = framed
        self._lost: ResyncPoint | None = None
        self._cut = False

    def pieces(self, event: Event | Gap) -> list[tuple[Kind, bytes]]:
        if isinstance(event, (Gap, End)):
            return self._break(event)
        if self._lost is not None and self._lost.has_come(event):
            self._lost = None
        return self._pieces(event)

    def _break(self, event: Gap | End) -> list[tuple[Kind, bytes]]:
        """Return the unfinished output, and a note for a gap."""
        if isinstance(event, End):
            return [] if event.continues else self._flush()
        pieces = self._flush()
        self._lost = None if self._framed else ResyncPoint()
        return [*pieces, (ERROR, f"[note] {event}\n".encode())]

    def _flush(self) -> list[tuple[Kind, bytes]]:
        if self._renderer is None or self._lost is not None:
            return []
        return _label_streams(self._renderer.rest())

    def _pieces(self, event: Event) -> list[tuple[Kind, bytes]]:
        if isinstance(event, Operation):
            return [(INPUT, describe(event))]
        if isinstance(event, ClientOutput):
            return self._render(event.data)
        if isinstance(event, Note):
            self._cut = self._cut or event.text == OUTPUT_LIMIT_REACHED
            return [(ERROR, describe_note(event))]
        if isinstance(event, Resized):
            return [(SIZE, b"%dx%d" % (event.columns, event.rows))]
        if self._cut and isinstance(event, Refusal):
            return [(ERROR, as_bytes(event.message) + b"\n")]
        if self._cut and isinstance(event, Completed):
            return [(ERROR, as_bytes(event.error) + b"\n")] if event.error else [(OUTPUT, as_bytes(event.tag) + b"\n")]
        return []

    def _render(self, data: bytes) -> list[tuple[Kind, bytes]]:
        if self._renderer is None or self._lost is not None:
            return [(OUTPUT, data)]
        try:
            pieces = self._renderer.feed(data)
        except Exception:
            log.exception("recorded output could not be rendered; the rest is returned as raw bytes")
            self._renderer = None
            return [(ERROR, b"[note] output could not be rendered; the raw bytes follow\n"), (OUTPUT, data)]
        return _label_streams(pieces)


def _label_streams(pieces: list[tuple[str, bytes]]) -> list[tuple[Kind, bytes]]:
    return [(ERROR if stream == "e" else OUTPUT, text) for stream, text in pieces]


def text_of(operation: Operation) -> bytes:
    """Return the statement's bytes, including those without a valid encoding."""
    return as_bytes(operation.text)


def piece_of(micros: int, operation: Operation) -> Piece:
    """Return an operation for the search index."""
    return micros / 1000, text_of(operation).decode("utf-8", "replace")


def describe(operation: Operation) -> bytes:
    """Return the statement, followed by one comment line for each bind value: `-- $1 = 'x'`."""
    lines = [text_of(operation)]
    for number, value in enumerate(operation.values, 1):
        lines.append(b"-- $%d = %s" % (number, b"NULL" if value is None else _quote(value)))
    if operation.truncated:
        lines.append(b"-- some values are incomplete: they were too large to record")
    return b"\n".join(lines)


def _quote(value: bytes) -> bytes:
    """Quote a value in one line, so that it can never pass for a statement."""
    escaped = value.replace(b"\\", b"\\\\").replace(b"\r", b"\\r").replace(b"\n", b"\\n").replace(b"'", b"''")
    return b"'" + escaped + b"'"


def describe_note(note: Note) -> bytes:
    details = ", ".join(f"{key}: {value}" for key, value in note.details.items())
    return as_bytes(f"[note] {note.text} ({details})\n" if details else f"[note] {note.text}\n")


def as_bytes(text: str) -> bytes:
    """Return the text's bytes, including those without a valid encoding."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")
