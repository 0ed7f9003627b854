"""Blob of a segment: written from a sealed file, and read in pieces, so that slow readers keep no request open."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from postern.domain.sessions.segment import Segment
from postern.errors import Malformed
from postern.recording import cipher
from postern.recording.cipher import CHUNK, STEP, Cipher, Preamble
from postern.store.ports.keys import SegmentKeys
from postern.store.ports.recording_ports import Blobs

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_CHUNKS = 16
PIECE = cipher.PREAMBLE + _CHUNKS * STEP  # bytes per read, at most


def open_blob(blobs: Blobs, keys: SegmentKeys, segment: Segment) -> BinaryIO:
    """Open a stored segment as a seekable file of its sealed bytes.

    Reading raises NotFound, Unavailable, and Malformed if the blob is not what was stored or its data key is
    unavailable.
    """
    return cast(BinaryIO, io.BufferedReader(BlobFile(blobs, keys, segment), CHUNK))


def read_pieces(blobs: Blobs, keys: SegmentKeys, segment: Segment) -> Iterator[bytes]:
    """Yield the segment as it was sealed, chunk by chunk. Raises what `open_blob` raises."""
    return BlobFile(blobs, keys, segment).chunks()


def read_preamble(blobs: Blobs, place: str) -> Preamble:
    """Read the preamble of a blob. Blocks. Raises NotFound, Unavailable, Malformed."""
    return Preamble.decode(blobs.read(place, 0, cipher.PREAMBLE))


def encrypt_file(path: Path, keys: SegmentKeys, segment: Segment) -> Iterator[bytes]:
    """Yield the blob of the sealed file at `path`, encrypted with the segment's data key and a new salt.

    Blocks. Raises OSError, Malformed, Misconfigured, Unavailable.
    """
    assert segment.data_key is not None
    preamble = Preamble(segment.data_key, os.urandom(cipher.SALT))
    with path.open("rb", buffering=0) as file:
        yield from cipher.encrypt_blob(
            _derive_key(keys, segment, preamble), preamble, iter(lambda: file.read(CHUNK), b"")
        )


def _derive_key(keys: SegmentKeys, segment: Segment, preamble: Preamble) -> bytes:
    info = cipher.key_info(segment.org_id, segment.session_id, segment.number)
    return keys.derive(preamble.data_key, segment.org_id, salt=preamble.salt, info=info)


class BlobFile(io.RawIOBase):
    """Reader of a blob. Holds one piece as it was read, and one decrypted chunk of it."""

    def __init__(self, blobs: Blobs, keys: SegmentKeys, segment: Segment) -> None:
        self._blobs = blobs
        self._keys = keys
        self._segment = segment
        self._size = segment.stored_size
        self._at = 0
        self._cipher: Cipher | None = None
        self._begin, self._piece = 0, b""
        self._index, self._chunk = -1, b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_END:
            offset += cipher.content_size(self._size)
        self._at = offset + (self._at if whence == io.SEEK_CUR else 0)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        new_cipher = self._cipher or self._open()
        index, within = divmod(self._at, CHUNK)
        if index >= cipher.count_chunks(self._size):
            return 0
        if index != self._index:
            self._chunk, self._index = self._decrypt(new_cipher, index), index
        data = self._chunk[within : within + len(view)]
        view[: len(data)] = data
        self._at += len(data)
        return len(data)

    def chunks(self) -> Iterator[bytes]:
        """Yield the whole content, without the copies that reading into a buffer makes."""
        new_cipher = self._open()
        for index in range(cipher.count_chunks(self._size)):
            if chunk := self._decrypt(new_cipher, index):
                yield chunk

    def _open(self) -> Cipher:
        segment = self._segment
        if self._at < _CHUNKS * CHUNK:
            self._fetch(0)
            preamble = Preamble.decode(self._piece)
        else:
            preamble = read_preamble(self._blobs, segment.place)
        self._cipher = Cipher(_derive_key(self._keys, segment, preamble), preamble)
        return self._cipher

    def _decrypt(self, new_cipher: Cipher, index: int) -> bytes:
        last = index == cipher.count_chunks(self._size) - 1
        begin = cipher.offset(index)
        end = self._size if last else begin + STEP
        if not (self._begin <= begin and end <= self._begin + len(self._piece)):
            self._fetch(begin)
        return new_cipher.decrypt(index, self._piece[begin - self._begin : end - self._begin], last=last)

    def _fetch(self, begin: int) -> None:
        most = PIECE if begin == 0 else _CHUNKS * STEP
        # One byte more than was stored, to detect a blob that has grown.
        self._piece = self._blobs.read(self._segment.place, begin, max(0, min(most, self._size - begin + 1)))
        self._begin = begin
        if begin == 0:
            Preamble.decode(self._piece)  # reports a blob that is not encrypted at all, whatever its size
        end = begin + len(self._piece)
        if end < min(begin + most, self._size):
            raise Malformed(f"it was cut: only {end} of the {self._size} stored bytes are there")
        if end > self._size:
            raise Malformed(f"it was changed: it has more than the {self._size} stored bytes")
