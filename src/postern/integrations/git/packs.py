"""Reading a server's pack as objects by name, with limits that are checked before anything is stored.

dulwich resolves deltas. Before that, every entry is unpacked once and discarded, so that neither a large object in few
bytes nor deltas that copy one base a thousand times exceed the limits.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from io import BytesIO
from typing import Protocol

from dulwich.object_format import DEFAULT_OBJECT_FORMAT
from dulwich.objects import Blob, ObjectID
from dulwich.pack import PackData, PackInflater

from postern.domain.runbook import MAX_FILE
from postern.errors import Invalid, PosternError, Unavailable
from postern.integrations.git.messages import RepositoryLimits

_HEADER, _CHECKSUM, _NAME = 12, 20, 20  # bytes
_CHUNK = 1 << 16
_OFFSET_DELTA, _NAMED_DELTA = 6, 7
_KINDS = {1, 2, 3, 4, _OFFSET_DELTA, _NAMED_DELTA}
_LONGEST = 10  # bytes of a number

Object = tuple[int, bytes]  # the number of its type, and its content


class Objects(Protocol):
    def get(self, name: ObjectID) -> Object | None:
        """Return the object of that hexadecimal name, or None. A file larger than a runbook can be has b"" as content;
        `is_large` is then True."""

    def is_large(self, name: ObjectID) -> bool: ...


class PackObjects:
    """The objects of a pack."""

    def __init__(self, objects: Mapping[ObjectID, Object], large: frozenset[ObjectID]) -> None:
        self._kept = objects
        self._large = large

    def get(self, name: ObjectID) -> Object | None:
        return self._kept.get(name)

    def is_large(self, name: ObjectID) -> bool:
        return name in self._large


def unpack(pack: bytes, limits: RepositoryLimits) -> PackObjects:
    """Unpack. Raises Invalid over a limit, Unavailable for an invalid pack."""
    try:
        _count(pack, limits)
        return _objects(pack)
    except (PosternError, MemoryError):
        raise
    except Exception:  # of many kinds, here and in dulwich: truncated or contradictory bytes
        raise _malformed_pack_error() from None


def _objects(pack: bytes) -> PackObjects:
    objects: dict[ObjectID, Object] = {}
    large: set[ObjectID] = set()
    with PackData.from_file(BytesIO(pack), DEFAULT_OBJECT_FORMAT) as data:
        data.check()
        for file in PackInflater.for_pack_data(data):
            if file.type_num == Blob.type_num and file.raw_length() > MAX_FILE:
                large.add(file.id)
                objects[file.id] = (file.type_num, b"")
            else:
                objects[file.id] = (file.type_num, file.as_raw_string())
    return PackObjects(objects, frozenset(large))


def _count(pack: bytes, limits: RepositoryLimits) -> None:
    if pack[:4] != b"PACK" or len(pack) < _HEADER + _CHECKSUM:
        raise _malformed_pack_error()
    objects = int.from_bytes(pack[8:12], "big")
    if objects > limits.objects:
        raise Invalid(
            f"the repository has {objects} objects; the limit is {limits.objects}; keep "
            "runbooks in a separate repository"
        )
    at, total = _HEADER, 0
    for _ in range(objects):
        at, size = _entry(pack, at, limits.unpacked - total)
        total += size
        if total > limits.unpacked:
            raise Invalid(
                f"the repository unpacks to more than {limits.unpacked >> 20} MiB; keep "
                "runbooks in a separate repository"
            )
    if at != len(pack) - _CHECKSUM:
        raise _malformed_pack_error()


def _entry(pack: bytes, at: int, most: int) -> tuple[int, int]:
    """Return where the entry ends, and its resolved size; it is unpacked no further than `most`."""
    kind, size = (pack[at] >> 4) & 7, pack[at] & 15
    start, shift = at, 4
    while pack[at] & 128:
        at += 1
        size |= (pack[at] & 127) << shift
        shift += 7
        if at - start > _LONGEST:
            raise _malformed_pack_error()
    at += 1
    if kind not in _KINDS:
        raise _malformed_pack_error()
    if kind == _NAMED_DELTA:
        at += _NAME
    elif kind == _OFFSET_DELTA:
        start = at
        while pack[at] & 128:
            at += 1
            if at - start > _LONGEST:
                raise _malformed_pack_error()
        at += 1
    if size > most:
        return at, size
    end, first = _inflate(pack, at, size)
    return end, size + (_result(first) if kind in (_OFFSET_DELTA, _NAMED_DELTA) else 0)


def _inflate(pack: bytes, at: int, size: int) -> tuple[int, bytes]:
    """Return where the stream ends that begins at `at`, and its first bytes."""
    stream, length, first = zlib.decompressobj(), 0, b""
    while not stream.eof:
        compressed = stream.unconsumed_tail
        if not compressed:
            compressed = pack[at : at + _CHUNK]
            at += len(compressed)
        inflated = stream.decompress(compressed, _CHUNK)
        if not compressed and not inflated:
            raise _malformed_pack_error()
        first = first or inflated[: 2 * _LONGEST]
        length += len(inflated)
        if length > size:
            raise _malformed_pack_error()
    if length != size:
        raise _malformed_pack_error()
    return at - len(stream.unused_data), first


def _result(delta: bytes) -> int:
    """Return the size of a delta's result, its second number."""
    sizes = size = shift = 0
    for byte in delta:
        size |= (byte & 127) << shift
        shift += 7
        if not byte & 128:
            sizes += 1
            if sizes == 2:
                return size
            size = shift = 0
    raise _malformed_pack_error()


def _malformed_pack_error() -> Unavailable:
    return Unavailable(
        "the server sent an incomplete or invalid pack of git objects; try again, and check the repository"
    )
