"""What a session recorded, in the forms of spec 4.2: triples, one text, queries, or a file.

Everything here reads recordings from disk, so it runs in a thread.
"""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from postern.api.schemas.sessions import StreamFormat, Triple
from postern.domain.session import Session
from postern.services.sessions import Sessions

KINDS = ("i", "o", "e")
Events = Iterable[tuple[float, str, bytes]]


def event_stream(
    sessions: Sessions, session: Session, form: StreamFormat | None, kinds: frozenset[str]
) -> tuple[list[Triple] | list[str], int | None]:
    """The stream and its size in bytes; None for the size where nothing was parsed, so that the stored one stands."""
    if form is None:
        return [_triple(*event) for event in sessions.events(session) if event[1] in kinds], None
    if form is StreamFormat.RAW_QUERIES:
        queries = list(sessions.operations(session))
        return [_triple(at, "i", text) for at, text in queries], sum(len(text) for _, text in queries)
    joined = b"".join(content for _, kind, content in sessions.events(session) if kind in kinds and kind != "i")
    text = joined.decode(errors="replace") if form is StreamFormat.UTF8 else base64.b64encode(joined).decode()
    return [text], len(text.encode())


@dataclass(slots=True)
class Text:
    """The first `limit` bytes of what is added."""

    limit: int
    _kept: list[bytes] = field(default_factory=list)
    _size: int = 0

    def add(self, content: bytes) -> None:
        room = self.limit - self._size
        if room > 0:
            self._kept.append(content[:room])
        self._size += len(content)

    @property
    def truncated(self) -> bool:
        return self._size > self.limit

    def __str__(self) -> str:
        return b"".join(self._kept).decode(errors="ignore" if self.truncated else "replace")


@dataclass(frozen=True, slots=True)
class Output:
    """What came out: everything in its order, and either stream by itself."""

    both: Text
    stdout: Text
    stderr: Text


def output(events: Events, limit: int) -> Output:
    """Each text of at most `limit` bytes."""
    found = Output(Text(limit), Text(limit), Text(limit))
    for _, kind, content in events:
        if kind == "i":
            continue
        found.both.add(content)
        (found.stderr if kind == "e" else found.stdout).add(content)
        if found.both.truncated and found.stdout.truncated and found.stderr.truncated:
            break
    return found


def file_chunks(
    events: Events, session: Session, extension: str, *, event_time: bool, new_line: bool
) -> Iterator[bytes]:
    """The content of a download: `csv` and `json` by their formats, everything else as it was."""
    if extension == "csv":
        return _csv(content for _, _, content in events)
    if extension == "json":
        return _json(events, session.start_date)
    return _plain(events, session.start_date, event_time=event_time, new_line=new_line)


def media_type(extension: str) -> str:
    return {"csv": "text/csv; charset=utf-8", "json": "application/json"}.get(extension, "application/octet-stream")


def _plain(events: Events, start: datetime, *, event_time: bool, new_line: bool) -> Iterator[bytes]:
    for at, _, content in events:
        prefix = f"{_moment(start, at)} ".encode() if event_time else b""
        yield prefix + content + (b"\n" if new_line else b"")


def _json(events: Events, start: datetime) -> Iterator[bytes]:
    """One array, written piece by piece so that its size does not matter."""
    separator = b"["
    for at, kind, content in events:
        entry = {"time": _moment(start, at), "type": kind, "stream": content.decode(errors="replace")}
        yield separator + json.dumps(entry, ensure_ascii=False).encode()
        separator = b",\n"
    yield b"[]" if separator == b"[" else b"]"


def _csv(contents: Iterable[bytes]) -> Iterator[bytes]:
    """Tab-separated lines as comma-separated ones, quoted where needed. A line may span several events."""
    rest = b""
    for content in contents:
        *lines, rest = (rest + content).split(b"\n")
        if lines:
            yield _csv_rows(lines)
    if rest:
        yield _csv_rows([rest])


def _csv_rows(lines: list[bytes]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(line.decode(errors="replace").split("\t") for line in lines)
    return text.getvalue().encode()


def _triple(at: float, kind: str, content: bytes) -> Triple:
    return (at, kind, base64.b64encode(content).decode())


def _moment(start: datetime, milliseconds: float) -> str:
    at = start + timedelta(milliseconds=milliseconds)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
