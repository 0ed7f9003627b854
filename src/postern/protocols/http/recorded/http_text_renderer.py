"""Rendering recorded frames as text: the status, the headers, the body.

Where responses take turns, a line names the exchange that continues.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter

from postern.protocols.http.recorded.recorded_responses import RecordedPart, RecordedResponses, status_line

_FAILS = 400


class HttpTextRenderer:
    """A `Renderer`: `feed` takes the recorded stream in chunks of any size and returns ("o" or "e", text) pieces."""

    def __init__(self) -> None:
        self._responses = RecordedResponses()
        self._current = 0  # exchange whose text was rendered last, until it ends
        self._ends_line = True

    def feed(self, data: bytes) -> list[tuple[str, bytes]]:
        """Return the pieces; adjacent ones of the same kind are joined. Raises ProtocolViolation."""
        pieces = [piece for part in self._responses.feed(data) for piece in self._pieces(part) if piece[1]]
        return [(kind, b"".join(text for _, text in same)) for kind, same in groupby(pieces, itemgetter(0))]

    def rest(self) -> list[tuple[str, bytes]]:
        """Return a note about an incomplete frame, of which nothing can be rendered."""
        waiting = self._responses.waiting
        self._responses, self._current, self._ends_line = RecordedResponses(), 0, True
        return [("o", b"[%d bytes of a response]\n" % waiting)] if waiting else []

    def _pieces(self, part: RecordedPart) -> list[tuple[str, bytes]]:
        response = part.response
        kind = "e" if response.head is not None and response.head.status >= _FAILS else "o"
        pieces = [(kind, text) for text in self._texts(part)]
        if part.failure is not None:
            pieces.append(("e", f"ERROR {part.failure.code}: {part.failure.message}\n".encode()))
            self._ends_line = True
        if part.ends:
            self._current = 0
        return pieces

    def _texts(self, part: RecordedPart) -> list[bytes]:
        texts: list[bytes] = []
        number = part.response.exchange
        if (part.begins or part.text) and self._current not in (0, number):
            texts += (self._end_line(), b"[exchange %d]\n" % number)
        if part.begins or part.text:
            self._current = number
        if part.begins and part.response.head is not None:
            head = part.response.head
            lines = [f"HTTP {status_line(head)}".encode()]
            lines += [name.title() + b": " + value for name, value in head.headers]
            texts.append(b"\n".join([*lines, b"", b""]))
            self._ends_line = True
        if part.text:
            texts.append(part.text)
            self._ends_line = part.text.endswith(b"\n")
        if part.ends:
            texts.append(self._end_line())
            texts += [name + b": " + value + b"\n" for name, value in part.trailers]
        return texts

    def _end_line(self) -> bytes:
        if self._ends_line:
            return b""
        self._ends_line = True
        return b"\n"
