"""Masks columns of copied lines, and what errors quote of columns."""

from __future__ import annotations

import re
from collections.abc import Sequence

from postern.inspection.masking.columns import ColumnRule
from postern.interception.events import Scalar

_TAB = b"\t"
_NULL = rb"\N"
# A copy in the text format: one that is given options may be in another.
_PLAIN_COPY = re.compile(r"\s*copy\b.*\bto\s+stdout\s*;?\s*", re.IGNORECASE | re.DOTALL)
_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)
_ESCAPES = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_UNESCAPE = {value: b"\\" + key for key, value in _ESCAPES.items()} | {b"\\": b"\\\\"}
_SPECIAL = re.compile(rb"[\b\f\n\r\t\v\\]")

_SHAPES = (
    (re.compile(rb"-?\d{1,18}"), Scalar.BIGINT),
    (re.compile(rb"-?\d+(?:\.\d+)?"), Scalar.DECIMAL),
    (re.compile(rb"[tf]"), Scalar.BOOLEAN),
    (re.compile(rb"\d{4}-\d\d-\d\d"), Scalar.DATE),
    (re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"), Scalar.TIMESTAMP),
    (re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"), Scalar.UUID),
)

# What an error quotes of a row: `Key (email)=(…) already exists.`, `Failing row contains (…).`, `…: "…"`, in the
# quotes of any language of the server's messages.
_QUOTED = re.compile(
    rb"(?<==\().*(?=\))|(?<= \().*(?=\)\.$)|(?<=: \").*(?=\"$)|(?<=: \xc2\xab).*(?=\xc2\xbb$)", re.DOTALL
)
_MASK = b"****"


def is_plain_copy(statement: str) -> bool:
    """Whether its lines are in the text format, with a tab between fields."""
    return _PLAIN_COPY.fullmatch(statement) is not None


def mask_columns(
    lines: Sequence[bytes], rules: Sequence[ColumnRule | None]
) -> tuple[list[bytes], list[int], int] | None:
    """The lines with the fields of those rules changed, how many of each column, and how many bytes they had. None
    when a line has another number of fields."""
    masked: list[bytes] = []
    counts = [0] * len(rules)
    size = 0
    for line in lines:
        end = b"\n" if line.endswith(b"\n") else b""
        fields = line[: len(line) - len(end)].split(_TAB)
        if len(fields) != len(rules):
            return None
        for place, rule in enumerate(rules):
            if rule is None or fields[place] == _NULL:
                continue
            new = _field(fields[place], rule)
            if new != fields[place]:
                counts[place] += 1
                size += len(fields[place])
                fields[place] = new
        masked.append(_TAB.join(fields) + end)
    return masked, counts, size


def _field(field: bytes, rule: ColumnRule) -> bytes:
    """The type of a field is not told, so a value is taken for what it looks like."""
    value = _ESCAPE.sub(lambda found: _ESCAPES.get(found[1], found[1]), field)
    scalar = next((kind for shape, kind in _SHAPES if shape.fullmatch(value)), Scalar.TEXT)
    new = rule.substitutes.change(scalar, value)
    return _NULL if new is None else _SPECIAL.sub(lambda found: _UNESCAPE[found[0]], new)


def without_quoted(texts: Sequence[bytes]) -> list[bytes]:
    """Messages without the values that they quote."""
    return [_QUOTED.sub(_MASK, text) for text in texts]
