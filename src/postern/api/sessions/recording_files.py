"""A session as a file (spec 4.2 `extension`, and the forms of its export), written in pieces.

The same session and form give the same bytes each time, so that a download can be resumed. This module reads recordings
from disk, so it runs in a thread.

Sessions at a terminal become asciicasts (docs.asciinema.org/manual/asciicast/v2 and v3): output, the sizes of the
terminal, and each entered line as a marker. Texts are UTF-8: a character that was split over two records is written
with the second one; invalid bytes become replacement characters, and are exact in all other forms of export.

Lines with tabs become lines of CSV (RFC 4180, with LF): the bytes of every field are unchanged, and quoted if needed. A
field that a spreadsheet would evaluate as a formula begins with an apostrophe: the recorded user could want the
auditor's machine to evaluate it. Numbers are unchanged.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import chain
from typing import Any

from postern.api.sessions import timelines
from postern.domain.sessions.recorded import INPUT, SIZE, Missing, Moment
from postern.domain.sessions.session import Session
from postern.domain.targets.connection import TEXTUAL
from postern.errors import Invalid
from postern.services.recordings.recording_pages import LONGEST
from postern.services.sessions import Sessions

_LONGEST = 1 << 20  # bytes of a line that are buffered; a longer one is quoted as it arrives
_SPECIAL = (b'"', b",", b"\r")
_FORMULA = re.compile(rb"(^|\t)(?=[=+@\r-])")
_FORMULA_STARTS = (b"=", b"+", b"-", b"@", b"\r", b"\t")  # of a field, which in lines with tabs has no tab
_NUMBER = re.compile(rb"[+-][0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?")


def from_tabs(contents: Iterable[bytes]) -> Iterator[bytes]:
    """Yield CSV for lines with tabs. A line can span several contents."""
    rest = b""
    is_long = False  # in the middle of a field of a long line, within its quotes
    begins = False  # at the beginning of that field
    for content in contents:
        if is_long:
            end = content.find(b"\n")
            part = content if end < 0 else content[:end]
            yield _inside(part, begins=begins)
            if end < 0:
                begins = part.endswith(b"\t") or (begins and not part)
                continue
            yield b'"\n'
            is_long, content = False, content[end + 1 :]
        whole = rest + content if rest else content
        end = whole.rfind(b"\n") + 1
        if end:
            yield _rows(whole[: end - 1])
        rest = whole[end:]
        if len(rest) > _LONGEST:
            yield b'"' + _inside(rest, begins=True)
            begins = rest.endswith(b"\t")
            rest, is_long = b"", True
    if is_long:
        yield b'"\n'
    elif rest:
        yield _rows(rest)


def _rows(text: bytes) -> bytes:
    return b"".join([_row(line) for line in text.split(b"\n")])


def _row(line: bytes) -> bytes:
    if not line:
        return b'""\n'  # one empty field; an empty line would be none
    if not (_FORMULA.search(line) or any(special in line for special in _SPECIAL)):
        return line.replace(b"\t", b",") + b"\n"
    return b",".join([_field(field) for field in line.split(b"\t")]) + b"\n"


def is_formula(field: bytes) -> bool:
    """Return whether a spreadsheet would evaluate this field. Numbers with a sign stay numbers."""
    return field.startswith(_FORMULA_STARTS) and not _NUMBER.fullmatch(field)


def _field(field: bytes) -> bytes:
    if is_formula(field):
        field = b"'" + field
    if not any(special in field for special in _SPECIAL):
        return field
    return b'"' + field.replace(b'"', b'""') + b'"'


def _inside(part: bytes, *, begins: bool) -> bytes:
    """Write a part of a long line, within quotes. Where its fields end is not known yet, so numbers are treated like
    formulas."""
    if not begins:  # the text continues a field
        first, tab, others = part.partition(b"\t")
        return first.replace(b'"', b'""') + (b'","' + _inside(others, begins=True) if tab else b"")
    return _FORMULA.sub(rb"\1'", part).replace(b'"', b'""').replace(b"\t", b'","')


_WIDE, _HIGH = 80, 24  # if no size was recorded
_LABEL = 200  # characters


def lines(moments: Iterable[Moment], session: Session, *, version: int) -> Iterator[bytes]:
    """Yield the asciicast, `version` 2 or 3. Nothing is read before the first line is requested."""
    found_moments = iter(moments)
    first = next(found_moments, None)
    size = _size(first.content) if first is not None and first.kind == SIZE else None
    yield _line(_header(session, size or (_WIDE, _HIGH), version))
    if first is not None and size is None:
        found_moments = _with(first, found_moments)
    before = 0
    for micros, code, text in _events(found_moments):
        at = micros - before if version == 3 else micros
        before = micros
        yield _line([round(at / 1_000_000, 6), code, text])
    if version == 3 and session.exit_code is not None:
        yield _line([0, "x", str(session.exit_code)])


def _header(session: Session, size: tuple[int, int], version: int) -> dict[str, Any]:
    columns, rows = size
    header: dict[str, Any] = {"version": version}
    if version == 3:
        header["term"] = {"cols": columns, "rows": rows}
    else:
        header |= {"width": columns, "height": rows}
    header["timestamp"] = int(session.start_date.timestamp())
    if version == 2 and session.end_date is not None:
        header["duration"] = (session.end_date - session.start_date).total_seconds()
    header["title"] = f"{session.connection} ({session.id})"
    return header


def _events(moments: Iterable[Moment]) -> Iterator[tuple[int, str, str]]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    micros = 0
    for micros, kind, content in moments:
        if kind == SIZE:
            columns, rows = _size(content)
            yield micros, "r", f"{columns}x{rows}"
        elif kind == INPUT:
            yield micros, "m", content.decode(errors="replace")[:_LABEL]
        elif text := decoder.decode(content):
            yield micros, "o", text
    if text := decoder.decode(b"", final=True):
        yield micros, "o", text


def _size(content: bytes) -> tuple[int, int]:
    columns, _, rows = content.partition(b"x")
    return int(columns), int(rows)


def _with(first: Moment, rest: Iterable[Moment]) -> Iterator[Moment]:
    yield first
    yield from rest


def _line(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


_EXTENSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_PIECE = 64 * 1024  # bytes


class RecordingForm(StrEnum):
    FILE = "file"
    ASCIICAST = "asciicast"
    ASCIICAST_3 = "asciicast-v3"
    TIMELINE = "timeline"
    HAR = "har"


_EXTENSIONS = {
    RecordingForm.ASCIICAST: "cast",
    RecordingForm.ASCIICAST_3: "cast",
    RecordingForm.TIMELINE: "jsonl",
    RecordingForm.HAR: "har",
}
_MEDIA = {
    "csv": "text/csv; charset=utf-8",
    "json": "application/json",
    "cast": "application/x-asciicast",
    "jsonl": "application/x-ndjson",
    "har": "application/json",
}


@dataclass(frozen=True, slots=True)
class RecordingFileRequest:
    """A form of export. Times are in microseconds since the session's start. Without `kinds`: output and errors."""

    form: RecordingForm = RecordingForm.FILE
    extension: str = ""
    kinds: str = "oe"
    event_time: bool = False
    new_line: bool = False
    start: int = 0
    end: int = LONGEST

    def __post_init__(self) -> None:
        if self.form is RecordingForm.FILE and (not _EXTENSION.fullmatch(self.extension) or ".." in self.extension):
            raise Invalid("extension: must be 1 to 32 letters, digits, dots and dashes", field="extension")

    def texts(self) -> dict[str, str]:
        """Return the form's texts for a signed link."""
        return {name: str(int(value) if isinstance(value, bool) else value) for name, value in asdict(self).items()}

    @classmethod
    def read(cls, texts: Mapping[str, str]) -> RecordingFileRequest:
        """Return the form for what `texts` returned. Raises KeyError, ValueError, Invalid."""
        return cls(
            form=RecordingForm(texts["form"]),
            extension=texts["extension"],
            kinds=texts["kinds"],
            event_time=texts["event_time"] == "1",
            new_line=texts["new_line"] == "1",
            start=int(texts["start"]),
            end=int(texts["end"]),
        )

    @property
    def media_type(self) -> str:
        extension = self.extension if self.form is RecordingForm.FILE else _EXTENSIONS[self.form]
        if extension == "json" and self.new_line:
            extension = "jsonl"
        elif extension not in _own(self.form):
            return _PLAIN
        return _MEDIA[extension]

    def name(self, session: Session) -> str:
        """Return the file's name: letters, digits, dots and dashes, whatever the connection's name is."""
        extension = self.extension if self.form is RecordingForm.FILE else _EXTENSIONS[self.form]
        connection = _UNSAFE.sub("-", session.connection).strip(".-")[:100] or "session"
        return f"{connection}-{session.id}-{session.start_date:%Y%m%d-%H%M%S}.{extension}"


_PLAIN = "application/octet-stream"


def _own(form: RecordingForm) -> tuple[str, ...]:
    return ("csv", "json") if form is RecordingForm.FILE else ("cast", "jsonl", "har")


def content(sessions: Sessions, session: Session, file_request: RecordingFileRequest) -> Iterator[bytes]:
    """Return the file. Its beginning is read before this returns: raises NotFound if there is no recording, and Invalid
    for a form that the session does not have."""
    pieces = _merge_pieces(_pieces(sessions, session, file_request))
    return chain([next(pieces, b"")], pieces)


def _pieces(sessions: Sessions, session: Session, file_request: RecordingFileRequest) -> Iterator[bytes]:
    recordings = sessions.recordings
    if file_request.form is RecordingForm.TIMELINE:
        return timelines.lines(
            recordings.exchanges(session, file_request.start, timelines.OUTPUT), file_request.start, file_request.end
        )
    if file_request.form is RecordingForm.HAR:
        return recordings.archive(session, session.start_date)
    moments = _between(recordings.moments(session, file_request.start), file_request.start, file_request.end)
    if file_request.form is not RecordingForm.FILE:
        if recordings.protocol(session) not in TEXTUAL:
            raise Invalid(
                "format: only sessions at a terminal have asciicasts; export this session as timeline", field="format"
            )
        return lines(moments, session, version=2 if file_request.form is RecordingForm.ASCIICAST else 3)
    kinds = file_request.kinds.replace(SIZE, "")
    chosen = (moment for moment in moments if moment.kind in kinds or isinstance(moment, Missing))
    if file_request.extension == "csv":
        return from_tabs(
            _csv_contents(
                chosen, session.start_date, event_time=file_request.event_time, new_line=file_request.new_line
            )
        )
    if file_request.extension == "json":
        return (_json_lines if file_request.new_line else _json_array)(chosen, session.start_date)
    return _plain(chosen, session.start_date, event_time=file_request.event_time, new_line=file_request.new_line)


def _between(moments: Iterable[Moment], start: int, end: int) -> Iterator[Moment]:
    for moment in moments:
        if moment.micros > end:
            return
        if moment.micros >= start:
            yield moment


def _plain(moments: Iterable[Moment], start: datetime, *, event_time: bool, new_line: bool) -> Iterator[bytes]:
    for micros, _, content in moments:
        prefix = f"{_moment(start, micros)} ".encode() if event_time else b""
        yield prefix + content + (b"\n" if new_line else b"")


def _csv_contents(moments: Iterable[Moment], start: datetime, *, event_time: bool, new_line: bool) -> Iterator[bytes]:
    """Yield the content of each event, to be split at tabs and line ends. `event_time` puts the event's time into a
    first field of every line that begins in the event, so that all lines keep the same number of fields."""
    at_line_start = True
    for micros, _, content in moments:
        if event_time and content:
            prefix = f"{_moment(start, micros)}\t".encode()
            body = content.removesuffix(b"\n")
            line_end = content[len(body) :]
            content = (prefix if at_line_start else b"") + body.replace(b"\n", b"\n" + prefix) + line_end
        if new_line:
            content += b"\n"
        if content:
            at_line_start = content.endswith(b"\n")
        yield content


def _json_array(moments: Iterable[Moment], start: datetime) -> Iterator[bytes]:
    separator = b"["
    for moment in moments:
        yield separator + _json_entry(moment, start)
        separator = b",\n"
    yield b"[]" if separator == b"[" else b"]"


def _json_lines(moments: Iterable[Moment], start: datetime) -> Iterator[bytes]:
    for moment in moments:
        yield _json_entry(moment, start) + b"\n"


def _json_entry(moment: Moment, start: datetime) -> bytes:
    """Return the event as a JSON object. Content that is not UTF-8 is in `base64`, too."""
    entry: dict[str, Any] = {"time": _moment(start, moment.micros), "type": moment.kind}
    entry |= timelines.text_fields("stream", moment.content)
    return json.dumps(entry, ensure_ascii=False).encode()


def _moment(start: datetime, micros: int) -> str:
    at = start + timedelta(microseconds=micros)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _merge_pieces(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield larger pieces: each one costs a switch to a thread."""
    buffer: list[bytes] = []
    size = 0
    for piece in pieces:
        buffer.append(piece)
        size += len(piece)
        if size >= _PIECE:
            yield b"".join(buffer)
            buffer, size = [], 0
    if buffer:
        yield b"".join(buffer)
