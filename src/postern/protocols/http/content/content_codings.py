"""Decoding of compressed bodies, piece by piece, with bounded memory and bounded growth.

bytes ─▶ outermost coding ─▶ … ─▶ innermost coding ─▶ content

Each coding is a stage that returns its output in steps of about `_STEP` bytes, so that a few bytes of input never
become more than that at once. What each stage has returned is compared with the compressed size: that refuses bombs,
also those whose output a further stage would swallow.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

import brotli

if sys.version_info >= (3, 14):
    from compression import zstd as zstd
else:
    from backports import zstd as zstd

MOST_CODINGS: Final = 5

_PIECE: Final = 64 * 1024  # bytes of input at once: decoders copy what they have not read yet
_STEP: Final = 256 * 1024  # bytes that are decoded at once
_GROWTH: Final = 200  # times the compressed size …
_FREE: Final = 16 << 20  # … beyond these bytes
_MEMBERS: Final = 10_000  # parts of one stream that begin anew …
_PER_MEMBER: Final = 1024  # … and one more for each of these bytes
_GZIP: Final = 31
_ZLIB: Final = 15
_RAW: Final = -15
_WINDOW: Final = 23  # as a power of two: RFC 9659 allows no more for content
_OPTIONS: Final = {int(zstd.DecompressionParameter.window_log_max): _WINDOW}

_DAMAGED: Final = "its compressed content is damaged"


class CodedContentError(ValueError):
    """The content cannot be decoded."""


class Stage(Protocol):
    """Decoder of one coding. Raises the errors of its library, and CodedContentError."""

    def decode(self, data: bytes) -> Iterator[bytes]:
        """Yield what this piece decodes to, in steps."""
        ...

    @property
    def is_complete(self) -> bool:
        """Return whether the content can end here."""
        ...


class DeflateStage:
    """Decoder of `deflate`. Servers send it with or without the header of zlib; its first byte tells."""

    def __init__(self) -> None:
        self._decoder: zlib._Decompress | None = None

    def decode(self, data: bytes) -> Iterator[bytes]:
        while data:
            decoder = self._decoder
            if decoder is None:
                decoder = self._decoder = zlib.decompressobj(_ZLIB if data[0] & 15 == 8 else _RAW)
            if decoder.eof:
                return
            yield decoder.decompress(data, _STEP)
            data = decoder.unconsumed_tail

    @property
    def is_complete(self) -> bool:
        return self._decoder is None or self._decoder.eof


class GzipStage:
    """Decoder of `gzip`: members that follow each other, and zero bytes after the last one."""

    def __init__(self) -> None:
        self._decoder: zlib._Decompress | None = None
        self._members = MemberCount()

    def decode(self, data: bytes) -> Iterator[bytes]:
        while data:
            decoder = self._decoder
            if decoder is None or decoder.eof:
                if decoder is not None and not data.strip(b"\0"):
                    return
                self._members.begin()
                decoder = self._decoder = zlib.decompressobj(_GZIP)
            decoded = decoder.decompress(data, _STEP)
            self._members.add(len(decoded))
            data = decoder.unused_data if decoder.eof else decoder.unconsumed_tail
            yield decoded

    @property
    def is_complete(self) -> bool:
        return self._decoder is None or self._decoder.eof


class BrotliStage:
    """Decoder of `br`."""

    def __init__(self) -> None:
        self._decoder = brotli.Decompressor()
        self._is_begun = False

    def decode(self, data: bytes) -> Iterator[bytes]:
        self._is_begun = True
        yield self._decoder.process(data, output_buffer_limit=_STEP)
        while not self._decoder.can_accept_more_data():
            yield self._decoder.process(b"", output_buffer_limit=_STEP)

    @property
    def is_complete(self) -> bool:
        return not self._is_begun or self._decoder.is_finished()


class ZstdStage:
    """Decoder of `zstd`: frames that follow each other, with windows of at most 8 MiB."""

    def __init__(self) -> None:
        self._decoder: zstd.ZstdDecompressor | None = None
        self._frames = MemberCount()

    def decode(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._decoder is None or self._decoder.eof:
                self._frames.begin()
                self._decoder = zstd.ZstdDecompressor(options=_OPTIONS)
            decoder = self._decoder
            yield self._count(decoder.decompress(data, _STEP))
            while not (decoder.eof or decoder.needs_input):
                yield self._count(decoder.decompress(b"", _STEP))
            data = decoder.unused_data if decoder.eof else b""

    def _count(self, decoded: bytes) -> bytes:
        self._frames.add(len(decoded))
        return decoded

    @property
    def is_complete(self) -> bool:
        return self._decoder is None or self._decoder.eof


class MemberCount:
    """Limit of parts of a stream that begin anew: each costs as much as many bytes, and can be empty."""

    def __init__(self) -> None:
        self._members = 0
        self._decoded = 0

    def begin(self) -> None:
        self._members += 1
        if self._members > _MEMBERS + self._decoded // _PER_MEMBER:
            raise CodedContentError("its compressed content has too many parts")

    def add(self, decoded: int) -> None:
        self._decoded += decoded


_STAGES: Final[dict[str, type[DeflateStage] | type[GzipStage] | type[BrotliStage] | type[ZstdStage]]] = {
    "deflate": DeflateStage,
    "gzip": GzipStage,
    "x-gzip": GzipStage,
    "br": BrotliStage,
    "zstd": ZstdStage,
}


def can_decode(codings: Sequence[str]) -> bool:
    return len(codings) <= MOST_CODINGS and all(coding in _STAGES for coding in codings)


class ContentDecoder:
    """Decoder of codings in the order in which they were applied.

    Raises CodedContentError for other codings, damaged content and bombs.
    """

    def __init__(self, codings: Sequence[str]) -> None:
        if not can_decode(codings):
            raise CodedContentError(f"it is compressed as {', '.join(codings)!r}, which cannot be inspected")
        self._stages: list[Stage] = [_STAGES[coding]() for coding in reversed(codings)]
        self._taken = 0
        self._given = [0] * len(self._stages)

    def decode(self, data: bytes) -> Iterator[bytes]:
        """Yield what this piece decodes to, in steps."""
        for start in range(0, len(data), _PIECE):
            piece = data[start : start + _PIECE]
            self._taken += len(piece)
            yield from self._pass_on(piece, 0)

    def _pass_on(self, data: bytes, place: int) -> Iterator[bytes]:
        """Yield what the stages from `place` on make of data."""
        if place == len(self._stages):
            yield data
            return
        try:
            for decoded in self._stages[place].decode(data):
                if decoded:
                    self._count(place, len(decoded))
                    yield from self._pass_on(decoded, place + 1)
        except (zlib.error, brotli.error, zstd.ZstdError):
            raise CodedContentError(_DAMAGED) from None

    def _count(self, place: int, size: int) -> None:
        self._given[place] += size
        if self._given[place] > _FREE and self._given[place] > self._taken * _GROWTH:
            raise CodedContentError("its compressed content expands too much")

    def finish(self) -> None:
        """Check that the content is complete."""
        if not all(stage.is_complete for stage in self._stages):
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
