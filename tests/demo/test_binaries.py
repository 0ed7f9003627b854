from __future__ import annotations

import os
from pathlib import Path

import pytest

from postern.demo import binaries
from postern.demo.binaries import Binaries, ServerAccount
from postern.errors import Misconfigured

STRANGER = ServerAccount("stranger", 54_321, 54_321)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with the shape of a server that anybody can reach, inside one that nobody else can."""
    root = tmp_path / "original"
    for part in ("bin", "lib", "share"):
        (root / part).mkdir(parents=True)
    (root / "bin" / "postgres").write_text("#!/bin/sh\necho 'postgres (PostgreSQL) 18.4'\n")
    (root / "bin" / "initdb").write_text("#!/bin/sh\n")
    for name in ("postgres", "initdb"):
        (root / "bin" / name).chmod(0o700)
    (root / "lib" / "libpq.so.5").write_text("library")
    (root / "lib" / "libpq.a").write_text("static library")
    (root / "share" / "postgres.bki").write_text("catalogue")
    return root


def test_the_newest_packaged_server_is_found_first() -> None:
    found = binaries.find()
    assert found.major == 18
    assert found.movable
    assert found.postgres.is_file()


def test_the_machines_own_server_is_the_fall_back(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.rename(tmp_path / "17")
    (tmp_path / "9").mkdir()
    monkeypatch.setattr(binaries, "PACKAGE", "no_such_package")
    monkeypatch.setattr(binaries, "SYSTEM", tmp_path)
    found = binaries.find()
    assert (found.root, found.major, found.movable) == (tmp_path / "17", 18, False)


def test_without_any_server_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "PACKAGE", "no_such_package")
    monkeypatch.setattr(binaries, "SYSTEM", tmp_path)
    with pytest.raises(Misconfigured, match=r"install .* or run without the demo: `postern up --no-demo`"):
        binaries.find()


def test_reach_ends_at_the_first_closed_folder(tree: Path) -> None:
    folder = Path("/usr/share")
    assert binaries.reachable(folder / "misc" if (folder / "misc").is_dir() else folder / "zoneinfo", STRANGER)
    (tree / "share" / "postgres.bki").chmod(0o644)
    tree.chmod(0o700)
    assert not binaries.reachable(tree / "share", STRANGER)


def test_modes_are_judged_by_owner_group_and_others(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    file.chmod(0o640)
    found = file.stat()
    owner, member = ServerAccount("o", found.st_uid, 54_321), ServerAccount("m", 54_321, found.st_gid)
    assert [binaries._allows(found, who, os.R_OK) for who in (owner, member, STRANGER)] == [True, True, False]


def test_an_unreachable_server_is_copied_whole_and_readable(tree: Path, tmp_path: Path) -> None:
    tree.chmod(0o700)
    copy = binaries.within_reach(Binaries(tree, 18, movable=True), STRANGER, tmp_path / "copy")
    assert copy.root == tmp_path / "copy"
    assert copy.postgres.stat().st_mode & 0o777 == 0o755
    assert (copy.root / "share" / "postgres.bki").stat().st_mode & 0o777 == 0o644
    assert (copy.root / "lib" / "libpq.so.5").is_file()
    assert not (copy.root / "lib" / "libpq.a").exists()


def test_a_copy_is_kept_until_the_original_changes(tree: Path, tmp_path: Path) -> None:
    tree.chmod(0o700)
    original, folder = Binaries(tree, 18, movable=True), tmp_path / "copy"
    binaries.within_reach(original, STRANGER, folder)
    (folder / "kept").write_text("")
    binaries.within_reach(original, STRANGER, folder)
    assert (folder / "kept").exists()
    original.postgres.write_text("#!/bin/sh\n# newer\n")
    binaries.within_reach(original, STRANGER, folder)
    assert not (folder / "kept").exists()
    assert "newer" in (folder / "bin" / "postgres").read_text()


def test_a_system_server_out_of_reach_is_a_clear_error(tree: Path, tmp_path: Path) -> None:
    tree.chmod(0o700)
    with pytest.raises(Misconfigured, match="cannot be copied"):
        binaries.within_reach(Binaries(tree, 18, movable=False), STRANGER, tmp_path / "copy")


def test_the_server_inherits_nothing_of_our_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PGPASSWORD", "secret")
    assert set(Binaries(tmp_path, 18, movable=True).environment()) == {"PATH", "LC_ALL", "TZ", "LD_LIBRARY_PATH"}
