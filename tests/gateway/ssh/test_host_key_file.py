"""The gateway's own key as an SSH server."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from postern.domain.identity.ssh_key import public_key
from postern.errors import Misconfigured
from postern.protocols.ssh.listener.ssh_host_key import ensure_host_key


def test_host_key_is_created_once_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "keys" / "ssh"
    key = ensure_host_key(file)
    assert ensure_host_key(file) == key
    assert public_key(key.public).algorithm == "ssh-ed25519"
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert [path.name for path in file.parent.iterdir()] == ["ssh"]


def test_processes_that_start_at_once_have_the_same_host_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(lambda _: ensure_host_key(tmp_path / "ssh").public, range(8)))
    assert len(set(keys)) == 1


@pytest.mark.parametrize("content", [b"", b"not a key"])
def test_unreadable_host_key_is_an_error_and_stays(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "ssh"
    file.write_bytes(content)
    with pytest.raises(Misconfigured):
        ensure_host_key(file)
    assert file.read_bytes() == content
