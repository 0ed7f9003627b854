from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from postern.errors import Misconfigured
from postern.store.encryption import Encryption


def test_opens_what_it_sealed_and_only_in_its_row() -> None:
    encryption = Encryption(os.urandom(32))
    sealed = encryption.seal(b"secret", row="connections/1")
    assert b"secret" not in sealed
    assert encryption.open(sealed, row="connections/1") == b"secret"
    with pytest.raises(Misconfigured, match="connections/2"):
        encryption.open(sealed, row="connections/2")


def test_another_key_or_a_changed_value_does_not_open() -> None:
    encryption = Encryption(os.urandom(32))
    sealed = encryption.seal(b"secret", row="connections/1")
    with pytest.raises(Misconfigured, match="does not open with this encryption key"):
        Encryption(os.urandom(32)).open(sealed, row="connections/1")
    for position in range(len(sealed)):
        changed = bytearray(sealed)
        changed[position] ^= 1
        with pytest.raises(Misconfigured):
            encryption.open(bytes(changed), row="connections/1")


def test_the_key_is_made_once_with_a_private_mode(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "encryption.key"
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: Encryption.from_file(path), range(4)))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [entry.name for entry in path.parent.iterdir()] == ["encryption.key"]
    sealed = made[0].seal(b"x", row="r")
    assert all(one.open(sealed, row="r") == b"x" for one in made)


def test_a_key_that_others_can_read_or_of_wrong_size_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "encryption.key"
    path.write_bytes(os.urandom(32))
    path.chmod(0o644)
    with pytest.raises(Misconfigured, match="chmod 600"):
        Encryption.from_file(path)
    path.chmod(0o600)
    path.write_bytes(b"short")
    with pytest.raises(Misconfigured, match="5 bytes"):
        Encryption.from_file(path)
