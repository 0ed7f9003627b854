"""The gateway's own key as an SSH server."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from postern.domain.identity.ssh_key import public_key
from postern.errors import Misconfigured
from postern.transport import ssh_host_keys


def test_it_is_made_once_and_is_its_owners_alone(tmp_path: Path) -> None:
    file = tmp_path / "keys" / "ssh"
    made = ssh_host_keys.ensure(file)
    assert ssh_host_keys.ensure(file) == made
    assert public_key(made.public).algorithm == "ssh-ed25519"
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert [path.name for path in file.parent.iterdir()] == ["ssh"]


def test_who_starts_at_the_same_time_has_the_same(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: ssh_host_keys.ensure(tmp_path / "ssh").public, range(8)))
    assert len(set(found)) == 1


@pytest.mark.parametrize("content", [b"", b"not a key"])
def test_one_that_cannot_be_read_is_told_and_kept(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "ssh"
    file.write_bytes(content)
    with pytest.raises(Misconfigured):
        ssh_host_keys.ensure(file)
    assert file.read_bytes() == content
