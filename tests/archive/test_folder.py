"""The folder blob store stores a recording completely, once, or not at all."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from postern.archive.folder import FolderBlobs
from postern.errors import Malformed, NotFound, Unavailable


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "one.rec.zst"
    path.write_bytes(os.urandom(3_000_000))
    path.chmod(0o600)
    return path


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, of 4 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], capture_output=True)
    if done.returncode != 0:
        pytest.skip("only root may mount")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as source:
        while data := source.read(100_000):
            yield data


async def check(blobs: FolderBlobs, file: Path, folder: Path, content: bytes) -> None:
    kept = folder / "org/2026/01/02/session/000001.rec.zst"
    key = str(kept.relative_to(folder))
    assert await blobs.put(key, pieces(file))
    assert not await blobs.put(key, pieces(file))
    assert blobs.size(key) == len(content)
    assert blobs.read(key, 0, 10) == content[:10]
    assert blobs.read(key, len(content) - 5, 100) == content[-5:]
    assert blobs.read(key, len(content), 100) == b""
    for path in (kept, *list(kept.parents)[:6]):
        assert path.stat().st_mode & 0o077 == 0, path
    assert [path.name for path in kept.parent.iterdir()] == [kept.name]


async def test_stored_blob_is_read_back(tmp_path: Path, file: Path) -> None:
    folder = tmp_path / "kept"
    await check(FolderBlobs(folder), file, folder, file.read_bytes())  # noqa: ASYNC240


async def test_blob_is_stored_on_a_file_system_without_hard_links(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_given: object, **_more: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", none)
    folder = tmp_path / "kept"
    await check(FolderBlobs(folder), file, folder, file.read_bytes())  # noqa: ASYNC240


async def test_full_folder_is_unavailable_and_keeps_no_partial_blob(small: Path, file: Path) -> None:
    blobs = FolderBlobs(small / "kept")
    assert await blobs.put("a/first", pieces(file))
    with pytest.raises(Unavailable, match="No space left"):
        await blobs.put("a/second", pieces(file))
    assert [path.name for path in (small / "kept" / "a").iterdir()] == ["first"]
    (small / "kept" / "a" / "first").unlink()
    assert await blobs.put("a/second", pieces(file))


async def test_write_to_a_read_only_folder_is_unavailable_and_reads_still_work(small: Path, file: Path) -> None:
    blobs = FolderBlobs(small / "kept")
    assert await blobs.put("a/first", pieces(file))
    await asyncio.to_thread(subprocess.run, ["mount", "-o", "remount,ro", str(small)], check=True)
    with pytest.raises(Unavailable, match="Read-only"):
        await blobs.put("b/second", pieces(file))
    assert blobs.read("a/first", 0, 1) == file.read_bytes()[:1]  # noqa: ASYNC240


async def test_missing_blob_is_not_found(tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path / "kept")
    with pytest.raises(NotFound):
        blobs.size("nothing")
    with pytest.raises(NotFound):
        blobs.read("nothing", 0, 1)
    with pytest.raises(FileNotFoundError):
        await blobs.put("nothing", pieces(tmp_path / "nothing"))


async def test_partial_copy_of_a_killed_archiver_is_deleted(small: Path, file: Path) -> None:
    """The copy of a running archiver stays, because it is locked."""
    blobs, folder = FolderBlobs(small / "kept"), small / "kept" / "a"
    folder.mkdir(parents=True)
    dead, living = folder / ".first.0001", folder / ".first.0002"
    for half in (dead, living):
        half.write_bytes(b"half")
    with living.open("rb") as copy:
        fcntl.flock(copy, fcntl.LOCK_EX)
        assert await blobs.put("a/first", pieces(file))
        assert {path.name for path in await asyncio.to_thread(lambda: list(folder.iterdir()))} == {"first", living.name}
    assert not await blobs.put("a/first", pieces(file))
    assert [path.name for path in await asyncio.to_thread(lambda: list(folder.iterdir()))] == ["first"]


async def test_blob_is_stored_on_a_file_system_without_locks(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partial copy stays there, because its owner is unknown."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    folder = tmp_path / "kept" / "a"
    folder.mkdir(parents=True)
    half = folder / ".first.0001"
    half.write_bytes(b"half")
    assert await FolderBlobs(tmp_path / "kept").put("a/first", pieces(file))
    assert {path.name for path in await asyncio.to_thread(lambda: list(folder.iterdir()))} == {"first", half.name}


async def test_attack_key_that_points_outside_the_folder_is_not_found(tmp_path: Path, file: Path) -> None:
    """Keys come from the store: an attacker who can write to it must not reach other files."""
    blobs = FolderBlobs(tmp_path / "kept")
    for key in (f"../{file.name}", str(file), f"a/../../{file.name}"):
        with pytest.raises(NotFound):
            blobs.size(key)
        with pytest.raises(NotFound):
            blobs.read(key, 0, 10)
        with pytest.raises(NotFound):
            await blobs.put(key, [b"x"])


@pytest.mark.parametrize("key", ["", ".", "a", "a/first/more"])
async def test_key_of_a_folder_or_of_a_path_below_a_file_is_not_found(tmp_path: Path, file: Path, key: str) -> None:
    blobs = FolderBlobs(tmp_path / "kept")
    await blobs.put("a/first", pieces(file))
    with pytest.raises(NotFound):
        blobs.read(key, 0, 10)


async def test_content_that_fails_while_read_leaves_no_blob(tmp_path: Path) -> None:
    def content() -> Iterator[bytes]:
        yield b"half"
        raise Malformed("no more")

    blobs = FolderBlobs(tmp_path / "kept")
    with pytest.raises(Malformed):
        await blobs.put("a/first", content())
    assert not list((tmp_path / "kept" / "a").iterdir())


async def test_delete_removes_the_blob_and_its_empty_folder_and_can_be_repeated(tmp_path: Path, file: Path) -> None:
    folder = tmp_path / "kept"
    blobs = FolderBlobs(folder)
    for key in ("org/session/1", "org/session/2", "org/other/1"):
        assert await blobs.put(key, pieces(file))
    (folder / "org/session/.1.0001").write_bytes(b"half a copy")
    for _ in range(2):
        await blobs.delete("org/session/1")
    assert [path.name for path in (folder / "org/session").iterdir()] == ["2"]
    await blobs.delete("org/session/2")
    await blobs.delete("org/session/2")
    assert [path.name for path in (folder / "org").iterdir()] == ["other"]
    assert blobs.size("org/other/1")


@pytest.mark.parametrize("key", ["../outside", "/{outside}", "org/../../outside", "link/outside"])
async def test_file_outside_the_folder_is_never_deleted(tmp_path: Path, key: str) -> None:
    folder, outside = tmp_path / "kept", tmp_path / "outside"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    outside.write_text("not ours")
    with pytest.raises(Unavailable, match="does not delete files outside"):
        await FolderBlobs(folder).delete(key.format(outside=outside))
    assert outside.exists()


async def test_delete_in_a_read_only_folder_is_unavailable(small: Path, file: Path) -> None:
    blobs = FolderBlobs(small / "kept")
    assert await blobs.put("a/first", pieces(file))
    await asyncio.to_thread(subprocess.run, ["mount", "-o", "remount,ro", str(small)], check=True)
    with pytest.raises(Unavailable, match="Read-only"):
        await blobs.delete("a/first")
