"""Access to stored segments for proofs and exports."""

from __future__ import annotations

from collections.abc import Iterator

from postern.domain.sessions.segment import Segment
from postern.recording.blob import read_pieces
from postern.store.ports.keys import SegmentKeys
from postern.store.ports.recording_ports import Blobs


class StoredCopies:
    """Segments in a blob store."""

    def __init__(self, blobs: Blobs, keys: SegmentKeys) -> None:
        self._blobs = blobs
        self._keys = keys

    def read(self, segment: Segment) -> Iterator[bytes]:
        """Yield the decrypted segment. Raises NotFound, Malformed, Unavailable."""
        return read_pieces(self._blobs, self._keys, segment)
