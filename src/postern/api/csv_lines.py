"""Lines with tabs as lines of CSV (RFC 4180, with LF): the bytes of every field as they were, quoted where needed.

Nothing is added to a field that a spreadsheet would take for a formula: what was recorded is what the file has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

_LONGEST = 1 << 20  # bytes of a line that are held; a longer one is quoted as it comes
_SPECIAL = (b'"', b",", b"\r")


def from_tabs(contents: Iterable[bytes]) -> Iterator[bytes]:
    """A line may span several contents."""
    rest = b""
    is_long = False  # in the middle of a field of a long line, within its quotes
    for content in contents:
        if is_long:
            end = content.find(b"\n")
            yield _inside(content if end < 0 else content[:end])
            if end < 0:
                continue
            yield b'"\n'
            is_long, content = False, content[end + 1 :]
        whole = rest + content if rest else content
        end = whole.rfind(b"\n") + 1
        if end:
            yield _rows(whole[: end - 1])
        rest = whole[end:]
        if len(rest) > _LONGEST:
            yield _long(rest)
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
    if not any(special in line for special in _SPECIAL):
        return line.replace(b"\t", b",") + b"\n"
    return b",".join([_field(field) for field in line.split(b"\t")]) + b"\n"


def _field(field: bytes) -> bytes:
    if not any(special in field for special in _SPECIAL):
        return field
    return b'"' + field.replace(b'"', b'""') + b'"'


def _long(line: bytes) -> bytes:
    """All of it quoted, but for the last quote."""
    return b'"' + _inside(line)


def _inside(part: bytes) -> bytes:
    return part.replace(b'"', b'""').replace(b"\t", b'","')
