"""Changing columns of copied data, in the text and CSV formats (SQL COPY, "File Formats")."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from postern.interception.copied_fields import LINE_END, join_fields, split_fields
from postern.interception.events import Change, CopyFormat, Fill
from postern.protocols.postgres.wire.postgres_types import INT8, NUMERIC, TEXT
from postern.protocols.postgres.wire.postgres_values import CellChange, cell_change

CopiedColumns = Sequence[tuple[int, Change] | None]
"""For each column, the OID of its type (0 if unknown) and the requested change; None if it is unchanged."""

_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)
_ESCAPES = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_UNESCAPE = {value: b"\\" + key for key, value in _ESCAPES.items()} | {b"\\": b"\\\\"}
_TEXT_OID: Final = 25

# The form of a value whose type is unknown: the first that matches it whole.
_SHAPES = (
    (rb"-?\d{1,18}", INT8),
    (rb"-?\d+(?:\.\d+)?", NUMERIC),
    (rb"[tf]", 16),
    (rb"\d{4}-\d\d-\d\d", 1082),
    (rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", 1114),
    (rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", 2950),
)
_SHAPE = re.compile(b"|".join([b"(%b)" % shape for shape, _ in _SHAPES]))


HOLE: Final = b"\0"
"""Placeholder for a replaced field that needs no masking; PostgreSQL's texts cannot contain a NUL."""


class Changed:
    """Lines with changed columns, and for each column the number of changed fields and their former size in bytes."""

    def __init__(self, columns: int) -> None:
        self.counts = [0] * columns
        self.sizes = [0] * columns
        self._lines: list[bytes] = []
        self._others: list[list[bytes]] = []

    def count_changes(self) -> list[tuple[int, int]]:
        return list(zip(self.counts, self.sizes, strict=True))

    def add(self, line: bytes, others: list[bytes]) -> None:
        self._lines.append(line)
        self._others.append(others)

    def with_holes(self) -> tuple[list[bytes], list[list[bytes]]]:
        """Return the lines with holes instead of changed fields, and the new fields of each line."""
        return self._lines, self._others

    def render_lines(self) -> list[bytes]:
        """Return the lines to send."""
        return [fill_holes(line, others) for line, others in zip(self._lines, self._others, strict=True)]


class ChangedColumns(Changed):
    """The same for fields in one list: for each line its fields, then a line end. `new` are the changed columns."""

    def __init__(self, fields: list[bytes], width: int, form: CopyFormat) -> None:
        super().__init__(width)
        self._fields = fields
        self._width = width
        self._form = form
        self._new: dict[int, list[bytes]] = {}

    def column(self, place: int) -> list[bytes]:
        """Return the original fields of a column."""
        return self._fields[place :: self._width + 1]

    def put(self, place: int, new: list[bytes]) -> None:
        self._new[place] = new
        old = self.column(place)
        unchanged = [len(was) for was, now in zip(old, new, strict=True) if was == now]
        self.counts[place], self.sizes[place] = len(old) - len(unchanged), sum(map(len, old)) - sum(unchanged)

    def with_holes(self) -> tuple[list[bytes], list[list[bytes]]]:
        null = self._form.null
        columns = {place: self.column(place) for place in self._new}
        holes = {place: [null if field == null else HOLE for field in fields] for place, fields in columns.items()}
        old = zip(*columns.values(), strict=True)
        new = zip(*self._new.values(), strict=True)
        others = [
            [now for was, now in zip(old_fields, other, strict=True) if was != null]
            for old_fields, other in zip(old, new, strict=True)
        ]
        return self._join_fields(holes), others

    def render_lines(self) -> list[bytes]:
        return self._join_fields(self._new)

    def _join_fields(self, columns: Mapping[int, list[bytes]]) -> list[bytes]:
        """Return the lines with these columns in place of the original ones."""
        fields = self._fields.copy()
        width = self._width
        for place, column in columns.items():
            fields[place :: width + 1] = column
        return join_fields(fields, width, self._form.delimiter)


def fill_holes(line: bytes, others: list[bytes]) -> bytes:
    """Fill the holes of a line. Raises ValueError if their number differs."""
    parts = line.split(HOLE)
    if len(parts) != len(others) + 1:
        raise ValueError("a copied line lost a field that was masked already")
    return b"".join([part for pair in zip(parts, [*others, b""], strict=True) for part in pair])


def change_lines(lines: Sequence[bytes], form: CopyFormat, columns: CopiedColumns) -> Changed:
    """Change the lines, which contain no header. Raises ValueError for a line of another format or another number of
    columns."""
    changing = [(place, _FieldChange(form, *column)) for place, column in enumerate(columns) if column is not None]
    plain = _plain_fields(lines, form, len(columns)) if changing else None
    if plain is not None:
        by_column = ChangedColumns(plain, len(columns), form)
        for place, change in changing:
            by_column.put(place, change.all(by_column.column(place)))
        return by_column
    changed = Changed(len(columns))
    for line in lines:
        if not line.endswith(b"\n") or HOLE in line:
            raise ValueError("a copied line without an end, or with a NUL")
        fields = _split(line[:-1], form)
        if len(fields) != len(columns):
            raise ValueError(f"a copied line has {len(fields)} columns, not {len(columns)}")
        others: list[bytes] = []
        for place, change in changing:
            old = fields[place]
            if old == form.null:
                continue
            new = change.of(old)
            fields[place] = HOLE
            others.append(new)
            if new != old:
                changed.counts[place] += 1
                changed.sizes[place] += len(old)
        changed.add(form.delimiter.join(fields) + b"\n" if others else line, others)
    return changed


def _plain_fields(lines: Sequence[bytes], form: CopyFormat, width: int) -> list[bytes] | None:
    """Split lines in the text format, if every delimiter and every line end is a real one. Return the fields of all
    lines, with a line end after those of each; None if some delimiters may be escaped, or a line has not `width`
    fields."""
    joined = b"".join(lines)
    if form.kind != "text" or form.delimiter in b"\\\r\n" or b"\r" in joined or HOLE in joined:
        return None
    if b"\\" in joined and any(sign in joined for sign in (b"\\\n", b"\\" + form.delimiter)):
        return None
    fields = split_fields(joined, form.delimiter, len(lines))
    return fields if fields is not None and fields.index(LINE_END) == width else None


class _FieldChange:
    """The change of the fields of one column, in their written form."""

    def __init__(self, form: CopyFormat, oid: int, by: Change) -> None:
        self._form = form
        self._is_csv = form.kind == "csv"
        self._oid = oid
        self._by = by
        self._known: dict[int, CellChange] = {}  # by type: one of _SHAPES if the type is unknown

    def all(self, fields: Sequence[bytes]) -> list[bytes]:
        """Change the fields; NULL stays."""
        null = self._form.null
        if isinstance(self._by, Fill):
            return [null] * len(fields)
        change = self._change(self._oid) if self._oid else None
        is_escaped = b"\\" in b"".join(fields)
        if change is not None and change.is_fixed:
            fixed = null if change.fixed is None else _text_field(change.fixed, self._form)
            if not is_escaped and null not in fields:
                return [fixed] * len(fields)
            return [null if field == null else fixed if b"\\" not in field else self.of(field) for field in fields]
        distinct = set(fields)
        distinct.discard(null)
        changes = {field: self.of(field) for field in distinct} if is_escaped else self._change_plain(distinct)
        return [changes.get(field, field) for field in fields]

    def _change_plain(self, values: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the changes of values that are written without escapes; as `of`, but faster."""
        null = self._form.null
        is_special = _signs(self._form.delimiter).search
        each = self._change(self._oid).each if self._oid else self._change_guessed
        changes: dict[bytes, bytes] = {}
        for value in values:
            new = each(value)
            if new is None:
                new = null
            elif new != value and (new == null or is_special(new)):
                new = _text_field(new, self._form)
            changes[value] = new
        return changes

    def _change_guessed(self, value: bytes) -> bytes | None:
        return self._change(_guess_type(value)).each(value)

    def of(self, field: bytes) -> bytes:
        """Change one field that is not NULL."""
        form = self._form
        if isinstance(self._by, Fill):  # the type of a computed value is unknown: NULL is valid for all types
            return form.null
        if self._is_csv:
            value = _csv_value(field, form)
        elif b"\\" in field:
            value = _ESCAPE.sub(lambda match: _ESCAPES.get(match[1], match[1]), field)
        else:
            value = field
        new = self._change(self._oid or _guess_type(value)).each(value)
        if new is None:
            return form.null
        if new == value:
            return field
        return _csv_field(new, form) if self._is_csv else _text_field(new, form)

    def _change(self, oid: int) -> CellChange:
        change = self._known.get(oid)
        if change is None:
            change = self._known[oid] = cell_change(oid, TEXT, self._by)
        return change


@lru_cache(maxsize=64)
def _field_pattern(is_csv: bool, delimiter: bytes, quote: bytes, escape: bytes) -> re.Pattern[bytes]:
    d, q, e = (re.escape(sign) for sign in (delimiter, quote, escape))
    if not is_csv:
        return re.compile(rb"(?:[^\\\n\r%b]|\\.)*+" % d, re.DOTALL)
    within = rb"[^%b]|%b%b" % (q, q, q) if quote == escape else rb"[^%b%b]|%b[%b%b]" % (q, e, e, q, e)
    return re.compile(rb"%b(?:%b)*+%b|[^%b%b\n\r]*+" % (q, within, q, d, q), re.DOTALL)


def _split(line: bytes, form: CopyFormat) -> list[bytes]:
    """Split a line into its written fields."""
    pattern = _field_pattern(form.kind == "csv", form.delimiter, form.quote, form.escape)
    fields: list[bytes] = []
    pos = 0
    while True:
        match = pattern.match(line, pos)
        if match is None:
            raise ValueError("a field is not valid")
        fields.append(match.group())
        pos = match.end()
        if pos == len(line):
            return fields
        if line[pos : pos + 1] != form.delimiter:
            raise ValueError("a field continues after its closing quote")
        pos += 1


def _guess_type(value: bytes) -> int:
    match = _SHAPE.fullmatch(value)
    return _TEXT_OID if match is None or match.lastindex is None else _SHAPES[match.lastindex - 1][1]


@lru_cache(maxsize=64)
def _signs(delimiter: bytes) -> re.Pattern[bytes]:
    return re.compile(rb"[\b\f\n\r\t\v\\%b]" % re.escape(delimiter))


def _text_field(value: bytes, form: CopyFormat) -> bytes:
    written = _signs(form.delimiter).sub(lambda match: _UNESCAPE.get(match[0], b"\\" + match[0]), value)
    return b"\\" + written if written == form.null and written else written


def _csv_value(field: bytes, form: CopyFormat) -> bytes:
    if not field.startswith(form.quote):
        return field
    escaped = re.compile(rb"%b([%b%b])" % tuple(map(re.escape, (form.escape, form.quote, form.escape))))
    return escaped.sub(rb"\1", field[1:-1])


def _csv_field(value: bytes, form: CopyFormat) -> bytes:
    """Quote a CSV field only if it must be: whether the target quoted it reveals something about the value."""
    signs = (form.delimiter, form.quote, form.escape, b"\n", b"\r")
    if value not in (form.null, b"\\.") and not any(sign in value for sign in signs):
        return value
    special = re.compile(rb"[%b%b]" % (re.escape(form.quote), re.escape(form.escape)))
    return form.quote + special.sub(lambda match: form.escape + match[0], value) + form.quote
