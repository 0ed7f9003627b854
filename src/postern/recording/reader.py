"""Reader of a segment: a live spool, one that a crash cut, or a sealed one, in constant memory."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO
from zlib import crc32

import zstandard

from postern.errors import Malformed
from postern.interception.events import End, Event
from postern.recording.record_format import (
    CRC,
    FILE_PREFIX,
    MAX_HEADER,
    MAX_PAYLOAD,
    PREFIX,
    UNWRITTEN,
    Header,
    decode,
    decode_header,
)

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_BUFFER = 256 * 1024


class SegmentReader:
    """Iterator over a segment: (microseconds since start, event).

    `source` is a path, or an open file, which is closed with the reader. The plain bytes pass through `through`.

    Iteration stops at the first record that is incomplete or has a wrong checksum. `damage` then says why; it is empty
    after a clean end. `end` is the segment's last record, None if it was cut. `intact` is the number of bytes up to the
    end of the last good record. Opening raises FileNotFoundError, and Malformed if the header cannot be read; an open
    file then stays open.
    """

    def __init__(
        self, source: Path | BinaryIO, *, name: str = "", through: Callable[[BinaryIO], BinaryIO] = lambda plain: plain
    ) -> None:
        self.name = name or (source.name if isinstance(source, Path) else "segment")
        self.damage = ""
        self.intact = 0
        self.end: End | None = None
        self._expected: int | None = None  # size that a sealed segment declares
        self._file: BinaryIO = source.open("rb") if isinstance(source, Path) else source
        try:
            self._stream = through(self._open_stream())
            self.header = self._read_header()
        except BaseException:
            if isinstance(source, Path):
                self._file.close()
            raise

    def __enter__(self) -> SegmentReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def detach(self) -> int:
        """Return a new descriptor of the file, and close the reader."""
        descriptor = os.dup(self._file.fileno())
        self.close()
        return descriptor

    def __iter__(self) -> Iterator[tuple[int, Event]]:
        while True:
            try:
                record = self._next()
            except (Malformed, zstandard.ZstdError) as error:
                self.damage = f"damaged at byte {self.intact}: {error}"
                return
            if record is None:
                return
            if isinstance(record[1], End):
                self.end = record[1]
            yield record

    def _open_stream(self) -> BinaryIO:
        head = self._file.read(18)
        self._file.seek(0)
        if not head.startswith(_ZSTD_MAGIC):
            return self._file
        try:
            size = zstandard.get_frame_parameters(head).content_size
        except zstandard.ZstdError as error:
            raise Malformed(f"segment {self.name} is damaged: {error}") from error
        self._expected = None if size in (-1, 2**64 - 1) else size
        decompressor = zstandard.ZstdDecompressor()
        return io.BufferedReader(decompressor.stream_reader(self._file, closefd=False), _BUFFER)

    def _read_header(self) -> Header:
        try:
            prefix = self._stream.read(FILE_PREFIX.size)
            length = FILE_PREFIX.unpack(prefix)[2] if len(prefix) == FILE_PREFIX.size else 0
            body = self._stream.read(min(length, MAX_HEADER))
            crc = self._stream.read(CRC.size)
        except zstandard.ZstdError as error:
            raise Malformed(f"segment {self.name} is damaged: {error}") from error
        header = decode_header(prefix, body, crc)
        self.intact = len(prefix) + len(body) + len(crc)
        return header

    def _next(self) -> tuple[int, Event] | None:
        prefix = self._stream.read(PREFIX.size)
        if not prefix:
            if self._expected is not None and self.intact != self._expected:
                raise Malformed(f"the segment ends early; it should have {self._expected} bytes")
            return None
        if self._expected is None and prefix == UNWRITTEN[: len(prefix)]:
            return None  # a spool's space for more records
        if len(prefix) < PREFIX.size:
            raise Malformed("incomplete record")
        length, kind, micros = PREFIX.unpack(prefix)
        if length > MAX_PAYLOAD:
            raise Malformed(f"a record declares an impossible length of {length} bytes")
        body = self._stream.read(length + CRC.size)
        if len(body) < length + CRC.size:
            raise Malformed("incomplete record")
        payload = body[:length]
        if crc32(payload, crc32(prefix)) != CRC.unpack_from(body, length)[0]:
            raise Malformed("the checksum of a record is wrong")
        event = decode(kind, payload)
        self.intact += len(prefix) + len(body)
        return micros, event
