"""Lines of the protocol: cut out of what arrives, and written."""

from __future__ import annotations

from postern.domain.text import one_line
from postern.errors import ProtocolViolation

OK = b"OK\n"
QUIT = b"QUIT\n"
TLS = b"TLS\n"


def error_line(message: str, hint: str = "") -> bytes:
    """Return the line that tells a client why its request was not done."""
    return b"ERROR " + _text(f"{message}. {hint}" if hint else message)


def note_line(message: str) -> bytes:
    """Return a line that explains the answer behind it."""
    return b"NOTE " + _text(message)


def _text(message: str) -> bytes:
    """Return one line, whatever is in the message: a line break would begin another answer."""
    return one_line(message).encode("utf-8", "replace") + b"\n"


class Lines:
    """Lines as they arrive. Sizes in bytes."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._unread = b""

    def feed(self, data: bytes) -> None:
        self._unread += data

    def next(self) -> bytes | None:
        """Return the next whole line, with its line break; None until there is one. Raises ProtocolViolation."""
        line, end, rest = self._unread.partition(b"\n")
        if len(line) > self._longest:
            raise ProtocolViolation(f"a line is longer than {self._longest} bytes")
        if not end:
            return None
        self._unread = rest
        return line + end

    @property
    def rest(self) -> bytes:
        """The beginning of a line whose end has not arrived."""
        return self._unread
