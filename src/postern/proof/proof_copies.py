"""Stored bytes of a segment, plain or compressed: their digest, and the position of damage."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator
from typing import BinaryIO
from zlib import crc32

import zstandard

from postern.errors import Malformed
from postern.recording.record_format import CRC, FILE_PREFIX, MAGIC, MAX_HEADER, MAX_PAYLOAD, PREFIX

_MAGIC = b"\x28\xb5\x2f\xfd"
_PIECE = 1024  # bytes; they expand to 32 MiB at most
_READ = 256 * 1024


def chunks_of(source: BinaryIO) -> Iterator[bytes]:
    while data := source.read(_READ):
        yield data


def plain(stored: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the bytes as they were written. Raises Malformed for a frame that is damaged, cut or followed by
    anything.
    """
    pieces = iter(stored)
    first = next(pieces, b"")
    if not first.startswith(_MAGIC):
        yield first
        yield from pieces
        return
    decompressor = zstandard.ZstdDecompressor().decompressobj()
    try:
        for piece in _small(first, pieces):
            if decompressor.eof:
                raise Malformed("there is extra data after its end")
            yield decompressor.decompress(piece)
            if decompressor.unused_data:
                raise Malformed("there is extra data after its end")
    except zstandard.ZstdError as error:
        raise Malformed(f"it cannot be decompressed: {error}") from None
    if not decompressor.eof:
        raise Malformed("it ends early")


def measure(stored: Iterable[bytes]) -> tuple[int, bytes]:
    """Return (size, SHA-256) of the plain bytes. Raises Malformed."""
    size, digest = 0, hashlib.sha256()
    for piece in plain(stored):
        size += len(piece)
        digest.update(piece)
    return size, digest.digest()


def locate(stored: Iterable[bytes]) -> tuple[int, int] | None:
    """Return the bytes (begin, end) of the first record, or of the header, whose own checksum is wrong.

    The range extends to the end if the length of a record is not plausible. None if all checksums are right: they were
    adjusted to the change.
    """
    source = _Source(plain(stored))
    try:
        head = source.take(FILE_PREFIX.size)
        magic, _, length = FILE_PREFIX.unpack(head)
        if magic != MAGIC or length > MAX_HEADER:
            return 0, len(head)
        if not _fits(head + source.take(length), source.take(CRC.size)):
            return 0, source.taken
        while not source.is_at_end():
            begin = source.taken
            prefix = source.take(PREFIX.size)
            length = PREFIX.unpack(prefix)[0]
            if length > MAX_PAYLOAD:
                return begin, source.rest()
            if not _fits(prefix + source.take(length), source.take(CRC.size)):
                return begin, source.taken
    except _Short as error:
        return error.args[0], source.taken
    except Malformed:
        return source.taken, source.taken
    return None


def _fits(data: bytes, crc: bytes) -> bool:
    return CRC.pack(crc32(data)) == crc


def _small(first: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    for piece in itertools.chain((first,), pieces):
        yield from (piece[at : at + _PIECE] for at in range(0, len(piece), _PIECE))


class _Short(Exception):
    """Unexpected end of the data; the first argument is where the incomplete part began."""


class _Source:
    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._kept = bytearray()
        self.taken = 0

    def take(self, size: int) -> bytes:
        begin = self.taken
        while len(self._kept) < size:
            piece = next(self._pieces, None)
            if piece is None:
                self.taken += len(self._kept)
                raise _Short(begin)
            self._kept += piece
        data = bytes(self._kept[:size])
        del self._kept[:size]
        self.taken += size
        return data

    def is_at_end(self) -> bool:
        while not self._kept:
            piece = next(self._pieces, None)
            if piece is None:
                return True
            self._kept += piece
        return False

    def rest(self) -> int:
        """Return the position of the end."""
        end = self.taken + len(self._kept)
        for piece in self._pieces:
            end += len(piece)
        return end
