"""Recordings in a folder: whole, once, or not at all."""

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


async def test_what_is_put_is_read(tmp_path: Path, file: Path) -> None:
    folder = tmp_path / "kept"
    await check(FolderBlobs(folder), file, folder, file.read_bytes())  # noqa: ASYNC240


async def test_on_a_file_system_without_links_it_is_renamed(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_given: object, **_more: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", none)
    folder = tmp_path / "kept"
    await check(FolderBlobs(folder), file, folder, file.read_bytes())  # noqa: ASYNC240


async def test_a_full_folder_is_unavailable_and_keeps_no_half(small: Path, file: Path) -> None:
    blobs = FolderBlobs(small / "kept")
    assert await blobs.put("a/first", pieces(file))
    with pytest.raises(Unavailable, match="No space left"):
        await blobs.put("a/second", pieces(file))
    assert [path.name for path in (small / "kept" / "a").iterdir()] == ["first"]
    (small / "kept" / "a" / "first").unlink()
    assert await blobs.put("a/second", pieces(file))


async def test_a_folder_that_may_only_be_read_is_unavailable(small: Path, file: Path) -> None:
    blobs = FolderBlobs(small / "kept")
    assert await blobs.put("a/first", pieces(file))
    await asyncio.to_thread(subprocess.run, ["mount", "-o", "remount,ro", str(small)], check=True)
    with pytest.raises(Unavailable, match="Read-only"):
        await blobs.put("b/second", pieces(file))
    assert blobs.read("a/first", 0, 1) == file.read_bytes()[:1]  # noqa: ASYNC240


async def test_what_is_not_there(tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path / "kept")
    with pytest.raises(NotFound):
        blobs.size("nothing")
    with pytest.raises(NotFound):
        blobs.read("nothing", 0, 1)
    with pytest.raises(FileNotFoundError):
        await blobs.put("nothing", pieces(tmp_path / "nothing"))


async def test_half_a_copy_of_a_killed_archiver_goes_away(small: Path, file: Path) -> None:
    """Whether or not it had come as far as the name; that of a living one stays."""
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


async def test_a_file_system_without_locks_takes_all_the_same(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a copy stays there, as nobody can tell whose it is."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    folder = tmp_path / "kept" / "a"
    folder.mkdir(parents=True)
    half = folder / ".first.0001"
    half.write_bytes(b"half")
    assert await FolderBlobs(tmp_path / "kept").put("a/first", pieces(file))
    assert {path.name for path in await asyncio.to_thread(lambda: list(folder.iterdir()))} == {"first", half.name}


async def test_attack_a_key_that_leads_out_of_the_folder_is_not_found(tmp_path: Path, file: Path) -> None:
    """Keys come from the store: who can write there must not reach other files by them."""
    blobs = FolderBlobs(tmp_path / "kept")
    for key in (f"../{file.name}", str(file), f"a/../../{file.name}"):
        with pytest.raises(NotFound):
            blobs.size(key)
        with pytest.raises(NotFound):
            blobs.read(key, 0, 10)
        with pytest.raises(NotFound):
            await blobs.put(key, [b"x"])


@pytest.mark.parametrize("key", ["", ".", "a", "a/first/more"])
async def test_key_of_a_folder_or_below_a_file_is_not_found(tmp_path: Path, file: Path, key: str) -> None:
    blobs = FolderBlobs(tmp_path / "kept")
    await blobs.put("a/first", pieces(file))
    with pytest.raises(NotFound):
        blobs.read(key, 0, 10)


async def test_what_cannot_be_read_to_its_end_leaves_nothing(tmp_path: Path) -> None:
    def content() -> Iterator[bytes]:
        yield b"half"
        raise Malformed("no more")

    blobs = FolderBlobs(tmp_path / "kept")
    with pytest.raises(Malformed):
        await blobs.put("a/first", content())
    assert not list((tmp_path / "kept" / "a").iterdir())


async def test_what_is_deleted_is_gone_with_its_folder_and_may_be_deleted_again(tmp_path: Path, file: Path) -> None:
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
async def test_nothing_outside_of_the_folder_is_deleted(tmp_path: Path, key: str) -> None:
    folder, outside = tmp_path / "kept", tmp_path / "outside"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    outside.write_text("not ours")
    with pytest.raises(Unavailable, match="does not delete files outside"):
        await FolderBlobs(folder).delete(key.format(outside=outside))
    assert outside.exists()


async def test_a_folder_that_may_only_be_read_deletes_nothing_and_says_so(small: Path, file: Path) -> None:
    blobs = FolderBlobs(small / "kept")
    assert await blobs.put("a/first", pieces(file))
    await asyncio.to_thread(subprocess.run, ["mount", "-o", "remount,ro", str(small)], check=True)
    with pytest.raises(Unavailable, match="Read-only"):
        await blobs.delete("a/first")
