"""The tar that an export is."""

from __future__ import annotations

import tarfile
from uuid import UUID

import pytest

from postern.proof.package import BLOCK, MANIFEST, SEAL, header, part_name, segment_name

NAMES = (MANIFEST, SEAL, part_name("ledger", 3), segment_name(UUID(int=2**128 - 1), 999_999, ".rec.zst"), "x" * 100)


@pytest.mark.parametrize("size", [0, 1, BLOCK, 10**6, 8**11 - 1])
@pytest.mark.parametrize("name", NAMES)
def test_header_has_the_same_bytes_as_one_of_tarfile(name: str, size: int) -> None:
    one = tarfile.TarInfo(name)
    one.size, one.mode = size, 0o600
    assert header(name, size) == one.tobuf(tarfile.USTAR_FORMAT)


@pytest.mark.parametrize(("name", "size"), [("x" * 101, 1), ("x", 8**11), ("x", -1), ("ä", 1)])
def test_header_with_too_long_a_name_or_size_raises_value_error(name: str, size: int) -> None:
    with pytest.raises(ValueError, match=r"header|ascii"):
        header(name, size)
