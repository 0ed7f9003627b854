"""Cutting of bodies into parts that rules can evaluate: a value that is split over two reads must not pass in halves.

Text is cut at line ends, JSON between two members, an event stream between events. What cannot be cut is buffered up to
a limit, beyond which the response is refused.
"""

from __future__ import annotations

import re
from typing import Final

LINE: Final = 8 * 1024  # bytes of a line of text that are buffered
WHOLE: Final = 1 << 20  # bytes of a document that are evaluated before any of it is sent
MEMBERS: Final = 128 * 1024  # bytes of the later parts of a document
_KEPT: Final = 256  # bytes buffered after a cut, so that a value there is evaluated with what follows
_CLEAR: Final = 6  # bytes around a cut without digits, because numbers can contain spaces
_DIGITS: Final = frozenset(b"0123456789")
_BLANKS: Final = frozenset(b" \t\0>,;")
_REFERENCE_END: Final = 0x3B  # of HTML, such as `&commat;`
_LONGEST_REFERENCE: Final = 40
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_GUESSES: Final = 16  # commas that are tried before all strings are looked at
_EVENT_END: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r|\r\n\n|\n\r\n")
_BALANCED: Final = 64 * 1024  # bytes of a document of a stream whose end is looked for


class SliceError(ValueError):
    """A part of the body is too large to be evaluated."""


class Slicer:
    """Cutter. `feed` returns parts that are complete, `rest` the last one. `limit` is the maximum size of a part."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []  # what is buffered
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Return the complete parts. Raises SliceError."""
        self._pieces.append(data)
        self._size += len(data)
        parts: list[bytes] = []
        if self._can_end(data, self._size):
            whole = self.rest()
            end = self._find_end(whole)
            if end:
                parts.append(whole[:end])
            if end < len(whole):
                self._pieces.append(whole[end:])
                self._size = len(whole) - end
        if self._size > self._limit:
            raise SliceError(f"one part of it is larger than the {self._limit} bytes that can be inspected")
        return parts

    def rest(self) -> bytes:
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces, self._size = [], 0
        return data

    def _can_end(self, data: bytes, size: int) -> bool:
        """Return whether a part can end in the last piece, of `size` buffered bytes. Others are not even joined."""
        return True

    def _find_end(self, data: bytes) -> int:
        """Return the number of bytes that are complete parts."""
        raise NotImplementedError


class PassingSlicer(Slicer):
    """Marks content that passes decoded."""

    def __init__(self) -> None:
        super().__init__(0)

    def rest(self) -> bytes:
        return b""


class WholeSlicer(Slicer):
    """Everything is one part."""

    def _can_end(self, data: bytes, size: int) -> bool:
        return False

    def _find_end(self, data: bytes) -> int:
        return 0


class TextSlicer(Slicer):
    """Lines. A line that is longer than `LINE` is cut, if possible where no value can be."""

    def _find_end(self, data: bytes) -> int:
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        return _cut(data, end) if len(data) - end > LINE else end


class LineSlicer(Slicer):
    """Whole lines."""

    def _can_end(self, data: bytes, size: int) -> bool:
        return b"\n" in data

    def _find_end(self, data: bytes) -> int:
        return data.rfind(b"\n") + 1


class EventSlicer(Slicer):
    """Events of an event stream, each with the blank line that ends it."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self._searched = 0

    def _find_end(self, data: bytes) -> int:
        end = 0
        for match in _EVENT_END.finditer(data, max(self._searched - 3, 0)):
            end = match.end()
        self._searched = 0 if end else len(data)
        return end


class JsonSlicer(Slicer):
    """Members of a document, or documents that follow each other.

    The first `WHOLE` bytes are one part, so that a response can be refused as a whole. Where the length of the body is
    unknown, a document that is complete at a line end is a part: more of them can follow much later.
    """

    def __init__(self, limit: int, *, streams: bool = False) -> None:
        super().__init__(limit)
        self._next = WHOLE
        self._streams = streams

    def _can_end(self, data: bytes, size: int) -> bool:
        return size >= self._next or (self._streams and size <= _BALANCED and data.endswith((b"\n", b"\x1e")))

    def _find_end(self, data: bytes) -> int:
        if self._streams and len(data) <= _BALANCED and data.endswith((b"\n", b"\x1e")) and _is_balanced(data):
            return len(data)
        if len(data) < self._next:
            return 0
        end = _last_comma(data) + 1
        self._next = MEMBERS if end else 2 * len(data)  # a long string is not searched at every read
        return end


def _is_balanced(data: bytes) -> bool:
    """Return whether every bracket outside of strings is closed."""
    outside = _STRING.sub(b"", data)
    if b'"' in outside:
        return False
    opened = outside.count(b"{") + outside.count(b"[")
    return opened == outside.count(b"}") + outside.count(b"]") and opened > 0


def _last_comma(data: bytes) -> int:
    """Return the place of the last comma outside of strings, or -1."""
    comma = len(data)
    for _ in range(_GUESSES):
        comma = data.rfind(b",", 0, comma)
        if comma < 0 or not _is_in_string(data, comma):
            return comma
    last, at = -1, 0
    for match in _STRING.finditer(data):
        comma = data.rfind(b",", at, match.start())
        if comma >= 0:
            last = comma
        at = match.end()
    quote = data.find(b'"', at)
    return max(last, data.rfind(b",", at, quote if quote >= 0 else len(data)))


def _is_in_string(data: bytes, end: int) -> bool:
    """Return whether a string is open at `end`. Backslashes occur in strings only."""
    quotes = data.count(b'"', 0, end)
    if data.find(b"\\", 0, end) >= 0:
        quotes -= data[:end].replace(b"\\\\", b"").count(b'\\"')
    return quotes % 2 == 1


def _cut(data: bytes, start: int) -> int:
    """Return where to cut a line that is too long: after the last space that cannot be in a number, or else as late as
    possible with `_KEPT` bytes left."""
    last = len(data) - _KEPT
    for pos in range(last, max(start, last - LINE // 2), -1):
        if data[pos - 1] == _REFERENCE_END and b"&" in data[max(pos - _LONGEST_REFERENCE, 0) : pos]:
            continue  # a value can contain a reference
        if data[pos - 1] in _BLANKS and _DIGITS.isdisjoint(data[max(pos - _CLEAR, 0) : pos + _CLEAR]):
            return pos
    return last
