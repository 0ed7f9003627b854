"""Recorded bytes as text that a person reads."""

from __future__ import annotations

_ERRORS = (b"ERROR ", b"NOTE ")


class PantryTextRenderer:
    """`feed` takes the recorded stream cut anywhere, and gives ("o" or "e", text) pieces."""

    def __init__(self) -> None:
        self._unread = b""

    def feed(self, data: bytes) -> list[tuple[str, bytes]]:
        *lines, self._unread = (self._unread + data).split(b"\n")
        return [_piece(line + b"\n") for line in lines]

    def rest(self) -> list[tuple[str, bytes]]:
        """Return the line that was broken off; what comes next begins a new one."""
        line, self._unread = self._unread, b""
        return [_piece(line)] if line else []


def _piece(line: bytes) -> tuple[str, bytes]:
    if line.startswith(_ERRORS):
        return "e", line
    return "o", line.removeprefix(b"VALUE ")
