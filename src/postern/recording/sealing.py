"""Sealing: turns a closed spool into a compressed file, a sealed segment.

The order of steps keeps the recording whole in at least one place, wherever a crash stops them, and lets a second call
of `seal` finish the work: compress into a partial file, sync it, rename it, sync the name, and only then remove the
spool.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from io import FileIO
from pathlib import Path
from typing import BinaryIO

import zstandard

from postern.errors import NotFound
from postern.recording.layout import FILE_MODE, make_folder, sync_folder

LEVEL = 3
_CHUNK = 1024 * 1024


def seal(spool_path: Path, sealed_path: Path) -> None:
    """Turn a complete spool into a sealed segment. Can block; safe to repeat after an interruption.

    Raises NotFound if neither file exists, OSError if the disk fails; the spool is then still there.
    """
    (error,) = seal_all([(spool_path, sealed_path)])
    if error is not None:
        raise error


def seal_all(places: Sequence[tuple[Path, Path]]) -> list[Exception | None]:
    """Seal many spools, with one sync per folder; return the error of each."""
    compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True, write_content_size=True)
    errors: list[Exception | None] = [_attempt(_pack, spool, sealed, compressor) for spool, sealed in places]
    packed = {sealed.parent for (_, sealed), error in zip(places, errors, strict=True) if error is None}
    unsafe = {folder: _attempt(sync_folder, folder) for folder in packed}
    for number, (spool, sealed) in enumerate(places):
        if errors[number] is None:
            errors[number] = unsafe[sealed.parent] or _attempt(spool.unlink, True)
    return errors


def _attempt(step: Callable[..., None], *arguments: object) -> Exception | None:
    try:
        step(*arguments)
    except Exception as error:
        return error
    return None


def _pack(spool_path: Path, sealed_path: Path, compressor: zstandard.ZstdCompressor) -> None:
    if os.path.exists(sealed_path):
        return
    try:
        source = os.open(spool_path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise NotFound(f"the recording {spool_path.name} does not exist, so it cannot be sealed") from None
    partial = f"{sealed_path}.partial"
    with open(source, "rb", buffering=0) as plain, open(_create(partial, sealed_path.parent), "wb") as packed:
        _compress(plain, packed, compressor)
    os.replace(partial, sealed_path)


def _create(path: str, folder: Path) -> int:
    """Open a file to write it from the start, over what an earlier attempt left. Return its descriptor."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    try:
        return os.open(path, flags, FILE_MODE)
    except FileNotFoundError:
        make_folder(folder)
        return os.open(path, flags, FILE_MODE)


def _compress(plain: FileIO, packed: BinaryIO, compressor: zstandard.ZstdCompressor) -> None:
    """Compress a file into another one, and make that durable.

    The frame contains its content's size and checksum, so that a reader can detect a cut one.
    """
    size = os.fstat(plain.fileno()).st_size
    # A streaming context takes megabytes, whatever the size; most recordings have a few hundred bytes.
    if size <= _CHUNK:
        packed.write(compressor.compress(plain.read()))
    else:
        compressor.copy_stream(plain, packed, size=size, read_size=_CHUNK, write_size=_CHUNK)
    packed.flush()
    os.fsync(packed.fileno())
