"""What readers of requests and responses have in common: buffered bytes, heads as blocks of lines, bodies.

    HEAD ─▶ FIXED ──────────────────────────────▶ END ─▶ DONE ─▶ HEAD (next message)
      ├───▶ CHUNK_LINE ⇄ CHUNK_DATA ─▶ TRAILERS ──▲       └────▶ RAW (after an upgrade)
      └───▶ UNTIL_CLOSE ──────────────────────────┘

Every check looks at the same bytes however they arrive: a line and a block are searched within their limit, and what
is wrong in them is found in the same order. So the pieces of the input do not change the events, nor the error.
"""

from __future__ import annotations

import re
from typing import Final

from mypy_extensions import i64

from postern.protocols.http.http1.http1_events import END, BodyData, BodyEnd, Http1Limits
from postern.protocols.http.http1.http1_fields import read_trailers
from postern.protocols.http.http_heads import RequestHead, ResponseHead
from postern.protocols.http.http_syntax import HttpSyntaxError

Http1Event = RequestHead | ResponseHead | BodyData | BodyEnd

HEAD: Final = 0
FIXED: Final = 1
CHUNK_LINE: Final = 2
CHUNK_DATA: Final = 3
CHUNK_END: Final = 4  # the CR LF after a chunk's data
TRAILERS: Final = 5
UNTIL_CLOSE: Final = 6
ENDED: Final = 7  # BodyEnd is to be returned
DONE: Final = 8
RAW: Final = 9

# Extensions are dropped: there is none that a target could need. Spaces are not allowed but in an extension.
_CHUNK_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,16})(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?")


class Http1Reader:
    """Reader of one message after another. Base of both roles."""

    def __init__(self, limits: Http1Limits) -> None:
        self.limits = limits
        self._buffer = b""
        self._at: i64 = 0
        self._state: i64 = HEAD
        self._left = 0  # bytes of the body or the chunk that did not arrive yet
        self._extensions: i64 = 0  # bytes of chunk extensions in this body
        self._failure: HttpSyntaxError | None = None
        self.minor_version = 1
        self.keep_alive = True

    @property
    def waiting(self) -> int:
        """Return the number of bytes that were not returned in an event yet."""
        return len(self._buffer) - self._at

    @property
    def is_done(self) -> bool:
        """Return whether the message's end was returned."""
        return self._state == DONE

    def feed(self, data: bytes) -> None:
        """Add bytes. Take the events before you feed more: what is held is limited.

        Raises HttpSyntaxError if too many bytes wait."""
        rest = len(self._buffer) - self._at
        if not rest:
            self._buffer = data
        else:
            if self._state >= DONE and rest > self.limits.waiting:
                message = f"the peer sent more than {self.limits.waiting} bytes ahead"
                raise self._fail(HttpSyntaxError(400, message))
            self._buffer = self._buffer[self._at :] + data
        self._at = 0

    def take_rest(self) -> bytes:
        """Return the bytes after the message, and read no more: the connection changed to another protocol."""
        rest = self._buffer[self._at :]
        self._buffer = b""
        self._at = 0
        self._state = RAW
        return rest

    def _step(self) -> Http1Event | None:
        """Return the next event, or None if bytes are missing. Raises HttpSyntaxError."""
        if self._failure is not None:
            raise self._failure
        try:
            return self._next_head() if self._state == HEAD else self._next_of_body()
        except HttpSyntaxError as error:
            raise self._fail(error) from None

    def _fail(self, error: HttpSyntaxError) -> HttpSyntaxError:
        self._failure = error
        self.keep_alive = False
        return error

    def _next_head(self) -> Http1Event | None:
        raise NotImplementedError

    def _begin_body(self, length: int | None) -> None:
        """Read a body of this length next, or a chunked one."""
        self._extensions = 0
        if length is None:
            self._state = CHUNK_LINE
        elif length:
            self._state = FIXED
            self._left = length
        else:
            self._state = ENDED

    def _next_of_body(self) -> Http1Event | None:
        while True:
            if self._state == ENDED:
                return self._end(END)
            if self._state >= DONE:
                return None
            if self._state == FIXED or self._state == CHUNK_DATA or self._state == UNTIL_CLOSE:
                return self._data()
            if self._state == TRAILERS:
                return self._trailers()
            if not (self._read_chunk_line() if self._state == CHUNK_LINE else self._read_chunk_end()):
                return None

    def _end(self, end: BodyEnd) -> BodyEnd:
        self._state = DONE
        return end

    def _data(self) -> BodyData | None:
        at = self._at
        rest = len(self._buffer) - at
        if not rest:
            return None
        if self._state == UNTIL_CLOSE or rest < self._left:
            data = self._buffer[at:] if at else self._buffer
            self._buffer = b""
            self._at = 0
            self._left -= rest
            return BodyData(data)
        end: i64 = at + self._left
        self._at = end
        self._left = 0
        self._state = ENDED if self._state == FIXED else CHUNK_END
        return BodyData(self._buffer[at:end])

    def _read_chunk_line(self) -> bool:
        line = self._take_line(self.limits.chunk_line, 400, "a chunk")
        if line is None:
            return False
        match = _CHUNK_LINE.fullmatch(line)
        if match is None:
            raise HttpSyntaxError(400, "a chunk's size is not a hexadecimal number of up to 16 digits")
        digits: bytes = match.group(1)
        self._extensions += len(line) - len(digits)
        if self._extensions > self.limits.chunk_extensions:
            raise HttpSyntaxError(400, f"chunk extensions exceed {self.limits.chunk_extensions} bytes")
        self._left = int(digits, 16)
        self._state = CHUNK_DATA if self._left else TRAILERS
        return True

    def _read_chunk_end(self) -> bool:
        end = self._buffer[self._at : self._at + 2]
        if end == b"" or end == b"\r":
            return False
        if end != b"\r\n":
            raise HttpSyntaxError(400, "a chunk is longer than its size")
        self._at += 2
        self._state = CHUNK_LINE
        return True

    def _trailers(self) -> BodyEnd | None:
        block = self._take_block(self.limits.trailers, "trailers")
        if block is None:
            return None
        return self._end(BodyEnd(read_trailers(block, self.limits.fields)) if block else END)

    def _take_line(self, limit: int, status: int, what: str) -> bytes | None:
        """Take a line without its CR LF, once it is complete."""
        at = self._at
        end = self._buffer.find(b"\n", at, at + limit)
        if end < 0:
            if len(self._buffer) - at >= limit:
                raise HttpSyntaxError(status, f"the first line of {what} exceeds {limit} bytes")
            return None
        if end == at or self._buffer[end - 1] != 13:
            raise HttpSyntaxError(400, f"a line of {what} ends with LF and not with CR LF")
        self._at = end + 1
        return self._buffer[at : end - 1]

    def _take_block(self, limit: int, what: str) -> bytes | None:
        """Take the lines up to an empty one, once they are complete; without the last CR LF and the empty line."""
        buffer = self._buffer
        at = self._at
        if buffer[at : at + 2] == b"\r\n":
            self._at = at + 2
            return b""
        end = buffer.find(b"\r\n\r\n", at, at + limit)
        if end < 0:
            self._check_partial(buffer[at : at + limit], limit, what)
            return None
        block = buffer[at:end]
        _check_line_ends(block, what)
        self._at = end + 4
        return block

    def _check_partial(self, part: bytes, limit: int, what: str) -> None:
        _check_line_ends(part, what)
        if len(part) >= limit:
            raise HttpSyntaxError(431, f"the {what} exceeds {limit} bytes")


def _check_line_ends(block: bytes, what: str) -> None:
    if block.count(b"\n") != block.count(b"\r\n"):
        raise HttpSyntaxError(400, f"a line of the {what} ends with LF and not with CR LF")
