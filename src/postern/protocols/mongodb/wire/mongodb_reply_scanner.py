"""Reads what a large reply says of its request while its bytes pass.

A reply that no interceptor looks at is not buffered. Its fields are still read in order: `ok`, `n`, the id of `cursor`,
and the number of documents in its batch. Everything else is skipped by its length.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from postern.errors import ProtocolViolation
from postern.protocols.mongodb.wire import mongodb_messages as m
from postern.protocols.mongodb.wire.bson_documents import (
    ARRAY,
    BINARY,
    CODE,
    CODE_WITH_SCOPE,
    DB_POINTER,
    DOCUMENT,
    REGEX,
    STRING,
    SYMBOL,
    BsonField,
    int32_at,
    integer_at,
    number_at,
    value_end,
)
from postern.protocols.mongodb.wire.mongodb_output import ReplyFacts

_MAX_NAME: Final = 64 * 1024  # bytes of a name, or of a regular expression
# Levels that are read
_TOP: Final = 1
_CURSOR: Final = 2
_BATCH: Final = 3


class ReplyScanner:
    """The document of one reply of `size` bytes, which arrives in pieces."""

    def __init__(self, size: i64) -> None:
        self.facts = ReplyFacts()
        self._rest = b""  # the beginning of an element that has not arrived
        self._skip: i64 = 0  # remaining bytes of a value that is skipped
        self._left: i64 = size  # bytes of the document that have not arrived
        self._ends: list[i64] = []  # by level, the bytes of the document that are left after it, with its NUL before
        self._begun = False

    def feed(self, data: bytes) -> None:
        """Read on. Raises ProtocolViolation for bytes that are not a document of this size."""
        self._left -= len(data)
        if self._skip >= len(data) and not self._rest:
            self._skip -= len(data)
            return
        if self._skip:
            data = data[self._skip :]
            self._skip = 0
        self._scan(self._rest + data if self._rest else data)

    @property
    def is_complete(self) -> bool:
        """Return True if the document ends where its message ends."""
        return self._begun and not self._ends and not self._left and not self._rest and not self._skip

    def _scan(self, buf: bytes) -> None:
        end: i64 = len(buf)
        pos: i64 = 0
        if not self._begun:
            if end < 4:
                self._rest = buf
                return
            if int32_at(buf, 0) != end + self._left:
                raise ProtocolViolation("the length of a BSON document is not valid")
            self._begun = True
            self._ends.append(0)
            pos = 4
        while pos < end:
            if not self._ends:
                raise ProtocolViolation("a reply has bytes after its document")
            limit: i64 = end + self._left - self._ends[len(self._ends) - 1]  # position after this level's NUL
            if buf[pos] == 0:
                pos += 1
                if pos != limit:
                    raise ProtocolViolation("the length of a BSON document is not valid")
                self._ends.pop()
                continue
            after = self._element(buf, pos, end, limit)
            if after < 0:
                break
            pos = after
        self._skip = pos - end if pos > end else 0
        self._rest = buf[pos:] if pos < end else b""

    def _element(self, buf: bytes, pos: i64, end: i64, limit: i64) -> i64:
        """Process the element at `pos`. Return where reading continues, which can be after `end`; -1 if too little of
        it has arrived."""
        kind: i64 = buf[pos]
        stop: i64 = buf.find(b"\0", pos + 1, end)
        if stop < 0:
            if end - pos > _MAX_NAME:
                raise ProtocolViolation("a name in a BSON document is too long")
            return -1
        name = buf[pos + 1 : stop]
        value: i64 = stop + 1
        level = len(self._ends)
        after = self._value_end(buf, kind, value, end)
        if after < 0:
            return -1
        if after >= limit:
            raise ProtocolViolation("a BSON value is longer than its document")
        if level == _BATCH:
            self.facts.rows += 1
            return after
        is_cursor = level == _TOP and name == b"cursor" and kind == DOCUMENT
        if is_cursor or (level == _CURSOR and kind == ARRAY and name in (b"firstBatch", b"nextBatch")):
            if not is_cursor:
                self.facts.rows = 0
            self._ends.append(end + self._left - after)
            return value + 4
        is_read = (level == _TOP and name in (b"ok", b"n", b"code")) or (level == _CURSOR and name == b"id")
        if not is_read:
            return after
        if after > end:
            return -1 if after - value <= 16 else after
        self._read(BsonField(int(kind), name, pos, value, after), buf)
        return after

    def _read(self, field: BsonField, buf: bytes) -> None:
        facts = self.facts
        if field.name == b"ok":
            facts.succeeded = number_at(buf, field) == 1.0
            if not facts.succeeded and not facts.code:
                facts.code = str(m.UNKNOWN_ERROR[0])
            return
        number = integer_at(buf, field)
        if number is None:
            return
        if field.name == b"id":
            facts.cursor = number
            facts.has_cursor = True
        elif field.name == b"code":
            facts.code = str(number)
        elif facts.rows < 0 <= number < 1 << 62:
            facts.rows = number

    def _value_end(self, buf: bytes, kind: i64, value: i64, end: i64) -> i64:
        """Return where a value ends, which can be after `end`; -1 if its length has not arrived."""
        if kind == REGEX:
            stop: i64 = buf.find(b"\0", value, end)
            stop = -1 if stop < 0 else buf.find(b"\0", stop + 1, end)
            if stop < 0 and end - value > 2 * _MAX_NAME:
                raise ProtocolViolation("a regular expression is too long")
            return -1 if stop < 0 else stop + 1
        if kind not in _SIZED:
            # Of a fixed size: the largest has 16 bytes.
            return value_end(_SIXTEEN, kind, 0, 16) + value
        if end - value < 4:
            return -1
        length = int32_at(buf, value)
        if length < 0:
            raise ProtocolViolation("a length in a BSON document is not valid")
        if kind in (DOCUMENT, ARRAY, CODE_WITH_SCOPE):
            if length < 5:
                raise ProtocolViolation("the length of a BSON document is not valid")
            return value + length
        if kind == BINARY:
            return value + 5 + length
        return value + 4 + length + (12 if kind == DB_POINTER else 0)


_SIZED: Final = frozenset({STRING, SYMBOL, CODE, DOCUMENT, ARRAY, CODE_WITH_SCOPE, BINARY, DB_POINTER})
_SIXTEEN: Final = bytes(16)
