"""Sealing: a closed spool becomes a compressed file, a sealed segment.

The steps are in such an order that a stop between any two of them leaves the recording whole in at
least one place, and that calling `seal` again finishes the work: compress beside the sealed
name, make that durable, rename, make the name durable, and only then remove the spool.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import zstandard

from postern.errors import NotFound
from postern.recording.layout import FILE_MODE, make_folder, sync_folder

LEVEL = 3
_CHUNK = 1024 * 1024


def seal(spool_path: Path, sealed_path: Path) -> None:
    """Moves a spool that takes no more records into a sealed segment. May block; safe to repeat after an interruption.

    Raises NotFound when neither exists, OSError when the disk refuses; the spool is then still there.
    """
    (error,) = seal_all([(spool_path, sealed_path)])
    if error is not None:
        raise error


def seal_all(places: Sequence[tuple[Path, Path]]) -> list[Exception | None]:
    """As `seal`, for many: each folder is synced once. Answers what went wrong with each."""
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
    if sealed_path.exists():
        return
    if not spool_path.exists():
        raise NotFound(f"there is no recording {spool_path.name} to seal")
    make_folder(sealed_path.parent)
    partial = sealed_path.with_name(sealed_path.name + ".partial")
    _compress(spool_path, partial, compressor)
    os.replace(partial, sealed_path)


def _compress(source: Path, target: Path, compressor: zstandard.ZstdCompressor) -> None:
    """Writes `target` from the start, over what an earlier attempt may have left, and makes it durable.

    The frame carries its content's size and checksum, so that a reader can tell a cut one from a whole one.
    """
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    with source.open("rb", buffering=0) as plain, os.fdopen(descriptor, "wb") as packed:
        size = os.fstat(plain.fileno()).st_size
        # A context for streams takes megabytes, whatever the size: most recordings are a few hundred bytes.
        if size <= _CHUNK:
            packed.write(compressor.compress(plain.read()))
        else:
            compressor.copy_stream(plain, packed, size=size, read_size=_CHUNK, write_size=_CHUNK)
        packed.flush()
        os.fsync(packed.fileno())
