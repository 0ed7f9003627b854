"""What is stored of segments, as proof and exports read it."""

from __future__ import annotations

from collections.abc import Iterator

from postern.domain.segment import Segment
from postern.recording.blob import open_blob
from postern.store.ports import Blobs, SegmentKeys

_PIECE = 256 * 1024


class StoredCopies:
    """Of a blob store."""

    def __init__(self, blobs: Blobs, keys: SegmentKeys) -> None:
        self._blobs = blobs
        self._keys = keys

    def read(self, segment: Segment) -> Iterator[bytes]:
        """Decrypted, in pieces. Raises NotFound, Malformed, Unavailable."""
        with open_blob(self._blobs, self._keys, segment) as blob:
            while data := blob.read(_PIECE):
                yield data
