"""The file of a backup: what is written is read, and nothing else is."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from postern.backup.backup_format import BLOCK, MANIFEST, MEMBERS, digest_of
from postern.backup.backup_reader import BackupReader
from postern.backup.backup_writer import BackupWriter
from postern.errors import BackupFailed, Conflict, Malformed, NotFound

FILES = {"store/a/000000": b"rows", "gateway/tls/ca.crt": b"", "recordings/o/s/000001": b"x" * 3_000_000}


def written(path: Path, files: dict[str, bytes] = FILES) -> Path:
    with BackupWriter(path) as writer:
        for name, content in files.items():
            writer.add(name, content)
        writer.finish({"postern": "1.2"})
    return path


def contents(path: Path) -> dict[str, bytes]:
    with BackupReader(path) as reader:
        return {member.name: b"".join(reader.read(member)) for member in reader.members()}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = written(tmp_path / "b.tar")
    assert contents(path) == FILES
    assert path.stat().st_mode & 0o777 == 0o600
    with BackupReader(path) as reader:
        assert reader.manifest["postern"] == "1.2"
        assert reader.total == 3_000_004
        reader.verify()
    assert [child.name for child in tmp_path.iterdir()] == ["b.tar"]


def test_other_tools_read_it(tmp_path: Path) -> None:
    with tarfile.open(written(tmp_path / "b.tar")) as tar:
        assert tar.getnames() == [*FILES, MEMBERS, MANIFEST]
        first = tar.extractfile("store/a/000000")
        assert first is not None
        assert first.read() == b"rows"


def test_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "b.tar"
    path.write_bytes(b"precious")
    with pytest.raises(Conflict, match="exists already"):
        written(path)
    assert path.read_bytes() == b"precious"


def test_file_that_appears_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "b.tar"
    with BackupWriter(path) as writer:
        path.write_bytes(b"precious")
        with pytest.raises(Conflict, match="exists already"):
            writer.finish({})
    assert path.read_bytes() == b"precious"
    assert list(tmp_path.iterdir()) == [path]


def test_failure_leaves_nothing(tmp_path: Path) -> None:
    with BackupWriter(tmp_path / "b.tar") as writer:
        writer.add("store/a", b"x")
        assert len(list(tmp_path.iterdir())) == 1
    assert list(tmp_path.iterdir()) == []


def test_full_disk_leaves_nothing_and_says_what_to_do(tmp_path: Path) -> None:
    with BackupWriter(tmp_path / "b.tar") as writer, Path("/dev/full").open("wb") as full:
        os.dup2(full.fileno(), writer._file.fileno())
        with pytest.raises(BackupFailed, match=r"No space left on device; nothing was left"):
            writer.add("store/a", b"x" * 1_000_000)
    assert list(tmp_path.iterdir()) == []


def test_disk_that_returns_something_else_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged_sync(descriptor: int) -> None:
        os.pwrite(descriptor, b"damaged", BLOCK)

    monkeypatch.setattr(os, "fsync", damaged_sync)
    with pytest.raises(Malformed, match="store/a/000000 was changed or damaged"):
        written(tmp_path / "b.tar")
    assert list(tmp_path.iterdir()) == []


def test_file_that_becomes_shorter_ends_the_backup(tmp_path: Path) -> None:
    with pytest.raises(BackupFailed, match="shorter"), BackupWriter(tmp_path / "b.tar") as writer:
        writer.add_file("unstored/x", io.BytesIO(b"123"), 4)
    assert list(tmp_path.iterdir()) == []


# A folder keeps each recording once.


def folder_backup(folder: Path, name: str, recordings: dict[str, bytes], previous: str = "") -> int:
    before = folder / previous if previous else None
    with BackupWriter(folder / name, folder=folder / "recordings", previous=before) as writer:
        for place, content in recordings.items():
            writer.add_recording(place, io.BytesIO(content), len(content))
        writer.finish({})
        return writer.new_recordings


def test_folder_keeps_each_recording_once(tmp_path: Path) -> None:
    assert folder_backup(tmp_path, "1.tar", {"a/1": b"one"}) == 1
    kept = tmp_path / "recordings" / "a" / "1"
    inode = kept.stat().st_ino
    assert folder_backup(tmp_path, "2.tar", {"a/1": b"one", "a/2": b"two"}, "1.tar") == 1
    assert kept.stat().st_ino == inode
    assert contents(tmp_path / "1.tar") == {"recordings/a/1": b"one"}
    assert contents(tmp_path / "2.tar") == {"recordings/a/1": b"one", "recordings/a/2": b"two"}


def test_recording_that_is_missing_in_the_folder_is_copied_again(tmp_path: Path) -> None:
    folder_backup(tmp_path, "1.tar", {"a/1": b"one"})
    (tmp_path / "recordings" / "a" / "1").unlink()
    with pytest.raises(Malformed, match="recordings/a/1 is missing beside it"):
        contents(tmp_path / "1.tar")
    assert folder_backup(tmp_path, "2.tar", {"a/1": b"one"}, "1.tar") == 1
    assert contents(tmp_path / "1.tar") == {"recordings/a/1": b"one"}


@pytest.mark.parametrize("content", [b"two", b"longer"])
def test_recording_that_was_changed_in_the_folder_is_found(tmp_path: Path, content: bytes) -> None:
    folder_backup(tmp_path, "1.tar", {"a/1": b"one"})
    (tmp_path / "recordings" / "a" / "1").write_bytes(content)
    with pytest.raises(Malformed, match="recordings/a/1 was changed or damaged"):
        contents(tmp_path / "1.tar")


# Damage, and archives that somebody made.


@pytest.mark.parametrize("text", [b"rows", b"ca.crt", b'["gateway', b"1.2", b"members_sha256"])
def test_changed_byte_is_found(tmp_path: Path, text: bytes) -> None:
    """In a file, a header, the list of files, and the manifest."""
    path = written(tmp_path / "b.tar")
    content = bytearray(path.read_bytes())
    content[content.index(text) + 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(Malformed, match="cannot be used"):
        contents(path)


def test_every_cut_is_found(tmp_path: Path) -> None:
    path = written(tmp_path / "b.tar", {"store/a/000000": b"rows"})
    whole = path.read_bytes()
    for size in range(0, len(whole) - 2 * BLOCK, 100):
        path.write_bytes(whole[:size])
        with pytest.raises(Malformed, match="cannot be used"):
            contents(path)


def test_missing_backup_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no backup"):
        contents(tmp_path / "b.tar")


def test_other_format_version_is_refused_with_the_version_that_wrote_it(tmp_path: Path) -> None:
    path = forged(tmp_path, lambda tar: None, version=99, postern="9.9")
    with pytest.raises(Malformed, match=r"format version 99, and this version of Postern reads 1.*\(9\.9\)"):
        contents(path)


@pytest.mark.parametrize("content", [b"", b"x" * 100, b"x" * 5000, bytes(5000)])
def test_other_files_are_no_backups(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "b.tar"
    path.write_bytes(content)
    with pytest.raises(Malformed, match="not a backup"):
        contents(path)


def regular(tar: tarfile.TarFile, name: str, content: bytes = b"x") -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))


def special(tar: tarfile.TarFile, kind: bytes) -> None:
    info = tarfile.TarInfo("store/x")
    info.type, info.linkname = kind, "/etc/passwd"
    tar.addfile(info)


def forged(
    folder: Path, change: Callable[[tarfile.TarFile], None], listed: dict[str, bytes] | None = None, **facts: Any
) -> Path:
    """A backup with a right list and manifest, and what `change` puts before them."""
    path = folder / "forged.tar"
    lines = b"".join(
        json.dumps([name, len(content), hashlib.sha256(content).hexdigest()]).encode() + b"\n"
        for name, content in (listed or {}).items()
    )
    manifest = {"format": "postern-backup", "version": 1, "members_sha256": hashlib.sha256(lines).hexdigest()}
    whole = manifest | facts
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        change(tar)
        regular(tar, MEMBERS, lines)
        regular(tar, MANIFEST, json.dumps(whole | {"sha256": digest_of(whole)}).encode())
    return path


NAMES = ("../x", "store/../../x", "/etc/x", "store//x", "store/./x", "store/.x", "store/x/", "C:\\x", "store/a b")


@pytest.mark.parametrize("name", [*NAMES, "store/" + "x" * 300, "store/\u00e9"])
def test_attack_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    path = forged(tmp_path, lambda tar: regular(tar, name), {name: b"x"})
    with pytest.raises(Malformed, match="cannot be used"):
        contents(path)


@pytest.mark.parametrize("name", ["recordings/../../x", "store/x", "/x"])
def test_attack_listed_name_that_is_not_in_the_file_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "x").write_bytes(b"x")
    with pytest.raises(Malformed, match="cannot be used"):
        contents(forged(tmp_path, lambda tar: None, {name: b"x"}))


KINDS = {
    "link": tarfile.LNKTYPE, "symlink": tarfile.SYMTYPE, "device": tarfile.CHRTYPE, "block": tarfile.BLKTYPE,
    "folder": tarfile.DIRTYPE, "fifo": tarfile.FIFOTYPE, "sparse": tarfile.GNUTYPE_SPARSE,
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_attack_only_regular_files_are_taken(tmp_path: Path, kind: str) -> None:
    with pytest.raises(Malformed, match="not a regular file"):
        contents(forged(tmp_path, lambda tar: special(tar, KINDS[kind])))


def test_attack_second_file_of_the_same_name_is_refused(tmp_path: Path) -> None:
    def twice(tar: tarfile.TarFile) -> None:
        regular(tar, "store/x")
        regular(tar, "store/x", b"y")

    with pytest.raises(Malformed, match="store/x twice"):
        contents(forged(tmp_path, twice, {"store/x": b"x"}))


def test_attack_unlisted_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Malformed, match="store/x, which its list of files does not have"):
        contents(forged(tmp_path, lambda tar: regular(tar, "store/x")))


def test_attack_file_after_the_manifest_is_refused(tmp_path: Path) -> None:
    path = forged(tmp_path, lambda tar: None)
    with tarfile.open(path, "a") as tar:
        regular(tar, "store/x")
    with pytest.raises(Malformed, match="after its manifest"):
        contents(path)


def test_attack_declared_size_beyond_the_file_is_refused(tmp_path: Path) -> None:
    path = forged(tmp_path, lambda tar: regular(tar, "store/x"), {"store/x": b"x"})
    with path.open("r+b") as file:
        info = tarfile.TarInfo.frombuf(file.read(BLOCK), "ascii", "strict")
        info.size = 1 << 40
        file.seek(0)
        file.write(info.tobuf(tarfile.GNU_FORMAT))
    with pytest.raises(Malformed, match="cut off"):
        contents(path)


def test_attack_large_manifest_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(Malformed, match="manifest is too large"):
        contents(forged(tmp_path, lambda tar: None, filler="x" * (17 << 20)))
