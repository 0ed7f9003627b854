"""Lines with tabs as lines of CSV (RFC 4180, with LF): the bytes of every field as they were, quoted where needed.

What a spreadsheet would take for a formula has an apostrophe in front, as it stands before text there: whoever was
recorded may have wanted the auditor's machine to compute it. Numbers are left as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_LONGEST = 1 << 20  # bytes of a line that are held; a longer one is quoted as it comes
_SPECIAL = (b'"', b",", b"\r")
_FORMULA = re.compile(rb"(^|\t)(?=[=+@\r-])")
_NUMBER = re.compile(rb"[+-][0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?")


def from_tabs(contents: Iterable[bytes]) -> Iterator[bytes]:
    """A line may span several contents."""
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


def _field(field: bytes) -> bytes:
    if _FORMULA.match(field) and not _NUMBER.fullmatch(field):
        field = b"'" + field
    if not any(special in field for special in _SPECIAL):
        return field
    return b'"' + field.replace(b'"', b'""') + b'"'


def _inside(part: bytes, *, begins: bool) -> bytes:
    """Of a long line, within quotes. Where its fields end is not known yet, so numbers are treated like formulas."""
    if not begins:  # what is there goes on with a field
        first, tab, others = part.partition(b"\t")
        return first.replace(b'"', b'""') + (b'","' + _inside(others, begins=True) if tab else b"")
    return _FORMULA.sub(rb"\1'", part).replace(b'"', b'""').replace(b"\t", b'","')
