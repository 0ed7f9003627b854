"""Stored segments, for the library."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, cast
from uuid import UUID

from postern.domain.sessions.segment import Segment
from postern.recording.blob import open_blob
from postern.recording.reader import SegmentReader
from postern.store.ports.keys import SegmentKeys
from postern.store.ports.recording_ports import Blobs

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_BUFFER = 256 * 1024


@dataclass(frozen=True, slots=True)
class StoredSegments:
    """Access to stored segments. `segments` returns a session's rows; it blocks, as `blobs` does."""

    segments: Callable[[UUID], Sequence[Segment]]
    blobs: Blobs
    keys: SegmentKeys


class SegmentRows:
    """Rows of one session while it is read.

    A segment's row exists before its file is deleted. A row that is queried after its file was not found is therefore
    found, unless the segment was never stored.
    """

    def __init__(self, stored: StoredSegments | None, session_id: UUID) -> None:
        self._stored = stored
        self._session_id = session_id
        self._rows: dict[int, Segment] = {}
        self._asked = False

    def find(self, number: int) -> Segment | None:
        if number not in self._rows and self._stored is not None:
            self._asked = True
            self._rows = {row.number: row for row in self._stored.segments(self._session_id)}
        return self._rows.get(number)

    def find_cached(self, number: int) -> Segment | None:
        """Return a segment's row; query the store only the first time."""
        if self._asked:
            return self._rows.get(number)
        return self.find(number)

    def has_later(self, number: int) -> bool:
        """Return whether a later segment is known."""
        return any(row > number for row in self._rows)

    def reader(self, row: Segment) -> tuple[SegmentReader, Hashed]:
        """Open a stored segment. Raises NotFound, Unavailable, and Malformed if its header cannot be read."""
        assert self._stored is not None
        file = open_blob(self._stored.blobs, self._stored.keys, row)
        hashed: list[Hashed] = []

        def through(plain: BinaryIO) -> BinaryIO:
            hashed.append(Hashed(plain))
            return cast(BinaryIO, io.BufferedReader(hashed[0], _BUFFER))

        return SegmentReader(file, name=row.place, through=through), hashed[0]


class Hashed(io.RawIOBase):
    """File that counts and hashes the bytes read from `source`."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._hash = hashlib.sha256()
        self.size = 0

    @property
    def digest(self) -> bytes:
        """Return the SHA-256 of what was read so far."""
        return self._hash.digest()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        data = self._source.read(len(view))
        view[: len(data)] = data
        self._hash.update(data)
        self.size += len(data)
        return len(data)
