"""Rendering of recorded bytes as text: exactly as the program printed it."""

from __future__ import annotations

from postern.protocols.terminal import terminal_frames as m

_STREAMS = {m.STDOUT: "o", m.STDERR: "e"}


class TerminalTextRenderer:
    """A `Renderer`: `feed` takes the recorded stream in chunks of any size and returns ("o" or "e", text) pieces."""

    def __init__(self) -> None:
        self._header = b""
        self._kind = 0
        self._left = 0

    def feed(self, data: bytes) -> list[tuple[str, bytes]]:
        pieces: list[tuple[str, bytes]] = []
        pos = 0
        while pos < len(data):
            if self._left:
                part = data[pos : pos + self._left]
                pos += len(part)
                self._left -= len(part)
                stream = _STREAMS.get(self._kind)
                if stream is None:
                    continue
                if pieces and pieces[-1][0] == stream:
                    pieces[-1] = (stream, pieces[-1][1] + part)
                else:
                    pieces.append((stream, part))
                continue
            missing = m.HEADER - len(self._header)
            self._header += data[pos : pos + missing]
            pos += missing
            if len(self._header) == m.HEADER:
                self._kind = self._header[0]
                self._left = int.from_bytes(self._header[1:], "big")
                self._header = b""
        return pieces

    def rest(self) -> list[tuple[str, bytes]]:
        """Return the buffered messages: none, the next byte begins a message."""
        self._header, self._left = b"", 0
        return []
