"""Decoding of compressed bodies, piece by piece, with bounded memory and bounded growth."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Final

_STEP: Final = 256 * 1024  # bytes that are decoded at once
_GROWTH: Final = 200  # times the compressed size …
_FREE: Final = 16 << 20  # … beyond these bytes
_GZIP: Final = 31
_ZLIB: Final = 15
_RAW: Final = -15
SUPPORTED: Final = frozenset({"gzip", "x-gzip", "deflate"})


class CodedContentError(ValueError):
    """The content cannot be decoded."""


class ContentDecoder:
    """Decoder of `gzip` or `deflate`. Raises CodedContentError for other codings, damaged content and bombs."""

    def __init__(self, codings: Sequence[str]) -> None:
        if len(codings) != 1 or codings[0] not in SUPPORTED:
            names = ", ".join(codings)
            raise CodedContentError(f"it is compressed as {names!r}, which cannot be inspected")
        self._is_gzip = codings[0] != "deflate"
        self._decoder = zlib.decompressobj(_GZIP) if self._is_gzip else None
        self._taken = 0
        self._given = 0

    def decode(self, data: bytes) -> Iterator[bytes]:
        """Yield what this piece decodes to, in steps."""
        self._taken += len(data)
        while data:
            decoder = self._decoder
            if decoder is None:
                # Servers send deflate with or without the header of zlib; its first byte tells.
                decoder = self._decoder = zlib.decompressobj(_ZLIB if data[0] & 15 == 8 else _RAW)
            if decoder.eof:
                if not self._is_gzip or data.strip(b"\0") == b"":
                    return
                decoder = self._decoder = zlib.decompressobj(_GZIP)  # a further member
            try:
                decoded = decoder.decompress(data, _STEP)
            except zlib.error:
                raise CodedContentError("its compressed content is damaged") from None
            self._given += len(decoded)
            if self._given > _FREE and self._given > self._taken * _GROWTH:
                raise CodedContentError("its compressed content expands too much")
            data = decoder.unconsumed_tail or (decoder.unused_data if decoder.eof else b"")
            if decoded:
                yield decoded

    def finish(self) -> None:
        """Check that the content is complete."""
        if self._decoder is not None and not self._decoder.eof:
            raise CodedContentError("its compressed content is incomplete")


def decode_whole(codings: Sequence[str], data: bytes, limit: int) -> bytes:
    """Return decoded content of at most `limit` bytes. Raises CodedContentError."""
    decoder = ContentDecoder(codings)
    parts: list[bytes] = []
    size = 0
    for part in decoder.decode(data):
        size += len(part)
        if size > limit:
            raise CodedContentError(f"it has more than {limit} bytes when it is decoded")
        parts.append(part)
    decoder.finish()
    return b"".join(parts)
