"""What is stored of segments, as proof and exports read it."""

from __future__ import annotations

from collections.abc import Iterator

from postern.domain.segment import Segment
from postern.errors import NotFound
from postern.recording.stored import open_blob
from postern.store.ports import Blobs

_PIECE = 256 * 1024


class StoredCopies:
    """Of a blob store, wherever that is."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    def read(self, segment: Segment) -> Iterator[bytes]:
        """Raises NotFound, Unavailable."""
        if ".." in segment.place.split("/") or segment.place.startswith("/"):
            raise NotFound(f"the segment {segment.number} of session {segment.session_id} has a place outside")
        with open_blob(self._blobs, segment.place) as blob:
            while data := blob.read(_PIECE):
                yield data
