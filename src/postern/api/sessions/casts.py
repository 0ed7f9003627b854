"""Sessions at a terminal as asciicasts (docs.asciinema.org/manual/asciicast/v2 and v3): what was printed, the sizes of
the terminal, and each line that was entered as a marker.

Texts are UTF-8: a character that was split over two records comes whole with the second one; bytes that are none are
replacement characters, and whole in every other form of export.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable, Iterator
from typing import Any

from postern.domain.sessions.recorded import INPUT, SIZE, Moment
from postern.domain.sessions.session import Session

_WIDE, _HIGH = 80, 24  # where no size was recorded
_LABEL = 200  # characters


def lines(moments: Iterable[Moment], session: Session, *, version: int) -> Iterator[bytes]:
    """`version` 2 or 3. Nothing is read before the first line is asked for."""
    found = iter(moments)
    first = next(found, None)
    size = _size(first.content) if first is not None and first.kind == SIZE else None
    yield _line(_header(session, size or (_WIDE, _HIGH), version))
    if first is not None and size is None:
        found = _with(first, found)
    before = 0
    for micros, code, text in _events(found):
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
