"""Changing columns of copied data, in the text and CSV formats (SQL COPY, "File Formats")."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from postern.interception.events import Change, CopyFormat
from postern.protocols.postgres.types import INT8, NUMERIC, TEXT
from postern.protocols.postgres.values import changed

CopiedColumns = Sequence[tuple[int, Change] | None]
"""Of each column the number of its type, 0 where it is not known, and what is asked; None for one that stays."""

_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)
_ESCAPES = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_UNESCAPE = {value: b"\\" + key for key, value in _ESCAPES.items()} | {b"\\": b"\\\\"}
_TEXT_OID: Final = 25

# What a value looks like whose type is not told.
_SHAPES = (
    (re.compile(rb"-?\d{1,18}"), INT8),
    (re.compile(rb"-?\d+(?:\.\d+)?"), NUMERIC),
    (re.compile(rb"[tf]"), 16),
    (re.compile(rb"\d{4}-\d\d-\d\d"), 1082),
    (re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"), 1114),
    (re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"), 2950),
)


HOLE: Final = b"\0"
"""Stands for a field that became another one, at which nobody needs to look; no text of PostgreSQL's holds a NUL."""


class Changed:
    """Lines, with holes where fields became others; those by line, as they are written; and for each column how many
    did and how many bytes they had."""

    def __init__(self, columns: int) -> None:
        self.lines: list[bytes] = []
        self.others: list[list[bytes]] = []
        self.counts = [0] * columns
        self.sizes = [0] * columns

    def told(self) -> list[tuple[int, int]]:
        return list(zip(self.counts, self.sizes, strict=True))


def filled(line: bytes, others: list[bytes]) -> bytes:
    """Raises ValueError where another number of holes is left than were made."""
    parts = line.split(HOLE)
    if len(parts) != len(others) + 1:
        raise ValueError("a copied line lost a field that was masked already")
    return b"".join([part for pair in zip(parts, [*others, b""], strict=True) for part in pair])


def change_lines(lines: Sequence[bytes], form: CopyFormat, columns: CopiedColumns) -> Changed:
    """Lines without a header among them. Raises ValueError for one that is not of this format and of so many
    columns."""
    made = Changed(len(columns))
    changing = [(place, one) for place, one in enumerate(columns) if one is not None]
    for line in lines:
        if not line.endswith(b"\n") or HOLE in line:
            raise ValueError("a copied line without an end, or with a NUL")
        fields = _split(line[:-1], form)
        if len(fields) != len(columns):
            raise ValueError(f"a copied line has {len(fields)} columns, not {len(columns)}")
        others: list[bytes] = []
        for place, one in changing:
            old = fields[place]
            if old == form.null:
                continue
            new = _field(old, form, one)
            fields[place] = HOLE
            others.append(new)
            if new != old:
                made.counts[place] += 1
                made.sizes[place] += len(old)
        made.lines.append(form.delimiter.join(fields) + b"\n" if others else line)
        made.others.append(others)
    return made


@lru_cache(maxsize=64)
def _field_pattern(is_csv: bool, delimiter: bytes, quote: bytes, escape: bytes) -> re.Pattern[bytes]:
    d, q, e = (re.escape(sign) for sign in (delimiter, quote, escape))
    if not is_csv:
        return re.compile(rb"(?:[^\\\n\r%b]|\\.)*+" % d, re.DOTALL)
    within = rb"[^%b]|%b%b" % (q, q, q) if quote == escape else rb"[^%b%b]|%b[%b%b]" % (q, e, e, q, e)
    return re.compile(rb"%b(?:%b)*+%b|[^%b%b\n\r]*+" % (q, within, q, d, q), re.DOTALL)


def _split(line: bytes, form: CopyFormat) -> list[bytes]:
    """The fields as they are written."""
    pattern = _field_pattern(form.kind == "csv", form.delimiter, form.quote, form.escape)
    fields: list[bytes] = []
    pos = 0
    while True:
        found = pattern.match(line, pos)
        if found is None:
            raise ValueError("a field that cannot be read")
        fields.append(found.group())
        pos = found.end()
        if pos == len(line):
            return fields
        if line[pos : pos + 1] != form.delimiter:
            raise ValueError("a field goes on where it should end")
        pos += 1


def _field(field: bytes, form: CopyFormat, column: tuple[int, Change]) -> bytes:
    oid, by = column
    is_csv = form.kind == "csv"
    value = _csv_value(field, form) if is_csv else _ESCAPE.sub(lambda found: _ESCAPES.get(found[1], found[1]), field)
    new = changed(oid or _guessed(value), TEXT, value, by)
    if new is None:
        return form.null
    if new == value:
        return field
    return _csv_field(new, form, field.startswith(form.quote)) if is_csv else _text_field(new, form)


def _guessed(value: bytes) -> int:
    return next((oid for shape, oid in _SHAPES if shape.fullmatch(value)), _TEXT_OID)


def _text_field(value: bytes, form: CopyFormat) -> bytes:
    signs = re.compile(rb"[\b\f\n\r\t\v\\%b]" % re.escape(form.delimiter))
    written = signs.sub(lambda found: _UNESCAPE.get(found[0], b"\\" + found[0]), value)
    return b"\\" + written if written == form.null and written else written


def _csv_value(field: bytes, form: CopyFormat) -> bytes:
    if not field.startswith(form.quote):
        return field
    escaped = re.compile(rb"%b([%b%b])" % tuple(map(re.escape, (form.escape, form.quote, form.escape))))
    return escaped.sub(rb"\1", field[1:-1])


def _csv_field(value: bytes, form: CopyFormat, is_quoted: bool) -> bytes:
    signs = (form.delimiter, form.quote, form.escape, b"\n", b"\r")
    if not is_quoted and value not in (form.null, b"\\.") and not any(sign in value for sign in signs):
        return value
    special = re.compile(rb"[%b%b]" % (re.escape(form.quote), re.escape(form.escape)))
    return form.quote + special.sub(lambda found: form.escape + found[0], value) + form.quote
