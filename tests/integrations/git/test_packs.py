"""Malformed packs, and small packs that would unpack to large ones."""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Sequence

import pytest
from dulwich.objects import ObjectID

from postern.domain.runbook import MAX_FILE
from postern.errors import Invalid, Unavailable
from postern.integrations.git.messages import RepositoryLimits
from postern.integrations.git.packs import unpack

BLOB, OFFSET, NAMED = 3, 6, 7
LIMITS = RepositoryLimits(unpacked=1 << 20, objects=100)


def number(value: int) -> bytes:
    """As deltas have sizes."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def entry(kind: int, content: bytes, *, size: int | None = None, base: bytes = b"") -> bytes:
    length = len(content) if size is None else size
    first, rest = kind << 4 | length & 15, length >> 4
    head = bytes([first | (128 if rest else 0)]) + (number(rest) if rest else b"")
    return head + base + zlib.compress(content)


def pack(entries: Sequence[bytes], *, count: int | None = None) -> bytes:
    body = b"PACK" + struct.pack(">II", 2, len(entries) if count is None else count) + b"".join(entries)
    return body + hashlib.sha1(body, usedforsecurity=False).digest()


def name(content: bytes) -> ObjectID:
    named = hashlib.sha1(f"blob {len(content)}\0".encode() + content, usedforsecurity=False)
    return ObjectID(named.hexdigest().encode())


def raw(content: bytes) -> bytes:
    return bytes.fromhex(name(content).decode())


def delta(source: int, target: int, operations: bytes) -> bytes:
    return number(source) + number(target) + operations


BASE = b"a" * 50
CHANGED = delta(50, 12, b"\x90\x0a" + b"\x02zz")  # ten bytes of the base, then two new ones


def test_pack_objects_are_found_by_name() -> None:
    found = unpack(pack([entry(BLOB, BASE), entry(NAMED, CHANGED, base=raw(BASE))]), LIMITS)
    assert found.get(name(BASE)) == (BLOB, BASE)
    assert found.get(name(b"a" * 10 + b"zz")) == (BLOB, b"a" * 10 + b"zz")
    assert found.get(ObjectID(b"0" * 40)) is None


def test_content_of_an_oversized_file_is_not_stored() -> None:
    large = b"x" * (MAX_FILE + 1)
    found = unpack(pack([entry(BLOB, large)]), RepositoryLimits())
    assert found.get(name(large)) == (BLOB, b"")
    assert found.is_large(name(large))


def test_highly_compressed_object_over_the_limit_is_rejected() -> None:
    bomb = pack([entry(BLOB, bytes(2 << 20))])
    assert len(bomb) < 4096
    with pytest.raises(Invalid, match="unpacks to more than 1 MiB"):
        unpack(bomb, LIMITS)


def test_object_larger_than_its_declared_size_is_rejected() -> None:
    with pytest.raises(Unavailable, match="an incomplete or invalid pack"):
        unpack(pack([entry(BLOB, bytes(1 << 20), size=10)]), LIMITS)


def test_object_with_an_enormous_declared_size_is_rejected() -> None:
    with pytest.raises(Invalid, match="unpacks to more than"):
        unpack(pack([entry(BLOB, b"x", size=1 << 60)]), LIMITS)


def test_delta_that_multiplies_its_base_over_the_limit_is_rejected() -> None:
    base = b"x" * 60_000
    copies = delta(len(base), 20 * len(base), (b"\xb0" + struct.pack("<H", len(base))) * 20)
    one = entry(NAMED, copies, base=raw(base))
    with pytest.raises(Invalid, match="unpacks to more than 1 MiB"):
        unpack(pack([entry(BLOB, base), one]), LIMITS)


def test_delta_larger_than_its_declared_size_is_rejected() -> None:
    base = b"x" * 60_000
    copies = delta(len(base), 10, (b"\xb0" + struct.pack("<H", len(base))) * 1000)
    with pytest.raises(Unavailable, match="an incomplete or invalid pack"):
        unpack(pack([entry(BLOB, base), entry(NAMED, copies, base=raw(base))]), LIMITS)


def test_long_delta_chain_is_resolved_without_recursion() -> None:
    entries, content = [entry(BLOB, BASE)], BASE
    for _ in range(5000):
        # All of what is there, and a byte more at the end.
        step = delta(len(content), len(content) + 1, b"\xb0" + struct.pack("<H", len(content)) + b"\x01y")
        entries.append(entry(NAMED, step, base=raw(content)))
        content += b"y"
    found = unpack(pack(entries), RepositoryLimits(unpacked=64 << 20))
    assert found.get(name(content)) == (BLOB, content)


@pytest.mark.parametrize(
    "given",
    [
        b"",
        b"PACK",
        b"<html>" + bytes(100),
        pack([], count=1),
        pack([entry(BLOB, b"x")])[:-1],
        pack([entry(BLOB, b"x"), b"more"], count=1),
        pack([bytes([0]) + zlib.compress(b"")]),
        pack([bytes([5 << 4]) + zlib.compress(b"")]),
        pack([b"\xff" * 30]),
        pack([bytes([3 << 4 | 1]) + b"no zlib"]),
        pack([bytes([3 << 4 | 1]) + zlib.compress(b"x")[:-3]]),
        pack([entry(NAMED, b"", base=bytes(20))]),
        pack([entry(NAMED, b"\xff" * 40, base=bytes(20))]),
        pack([entry(BLOB, b"x")])[:-20] + bytes(20),
        pack([entry(NAMED, CHANGED, base=bytes(20))]),
        pack([entry(OFFSET, CHANGED, base=b"\x7f")]),
        pack([entry(OFFSET, CHANGED, base=b"\x00")]),
    ],
)
def test_malformed_pack_is_rejected(given: bytes) -> None:
    with pytest.raises(Unavailable, match="an incomplete or invalid pack"):
        unpack(given, LIMITS)


def test_pack_with_too_many_objects_is_rejected() -> None:
    with pytest.raises(Invalid, match="has 101 objects; the limit is 100"):
        unpack(pack([], count=101), LIMITS)
