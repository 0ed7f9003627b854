"""Buffering of incoming bytes until a message is complete. Shared by all length-prefixed protocols."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64


def uint32(data: bytes, pos: i64) -> i64:
    """Return the unsigned big-endian Int32 at `pos`. Compiled, this is a few machine instructions."""
    a: i64 = data[pos]
    b: i64 = data[pos + 1]
    c: i64 = data[pos + 2]
    d: i64 = data[pos + 3]
    return (a << 24) | (b << 16) | (c << 8) | d


_PACKED: Final = [size.to_bytes(4, "big") for size in range(1024)]


def encode_length(size: i64) -> bytes:
    """Encode a length as a big-endian Int32. Small lengths are precomputed."""
    return _PACKED[size] if size < 1024 else int(size).to_bytes(4, "big")


class Intake:
    """The unread bytes of one side: `buf[pos:]`. A large message is joined once, and not at every read."""

    __slots__ = ("_have", "_need", "_parts", "buf", "pos", "taken")

    def __init__(self) -> None:
        self.buf: bytes = b""
        self.pos: i64 = 0
        self.taken: i64 = 0  # bytes so far
        self._parts: list[bytes] = []
        self._have: i64 = 0
        self._need: i64 = 0

    def feed(self, data: bytes) -> None:
        self.taken += len(data)
        if self._need:
            self._parts.append(data)
            self._have += len(data)
            if self._have < self._need:
                return
            self.buf = b"".join(self._parts)
            self._parts = []
            self._need = self._have = 0
        elif self.pos < len(self.buf):
            self.buf = self.buf[self.pos :] + data
        else:
            self.buf = data
        self.pos = 0

    def wait(self, need: i64) -> None:
        """Do not parse again until `need` bytes from `pos` on have arrived."""
        self._parts = [self.buf[self.pos :]]
        self._have = len(self._parts[0])
        self._need = need
        self.buf = b""
        self.pos = 0

    @property
    def first(self) -> int:
        """Return the offset of `buf[0]` in the whole stream."""
        return self.taken - self._have - len(self.buf)

    @property
    def lacking(self) -> int:
        """Return the number of bytes that `wait` still waits for, or 0."""
        return self._need - self._have

    @property
    def waiting(self) -> int:
        """Return the number of buffered bytes."""
        return self._have + len(self.buf) - self.pos
