"""The blob store of this gateway, by its setting, and stored segments for the library."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import TimeoutError as LateError
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit
from uuid import UUID

from postern.archive.folder import FolderBlobs
from postern.domain.sessions.segment import Segment
from postern.errors import Malformed, Misconfigured, Unavailable
from postern.integrations.cloud_blobs import ObjectBlobs
from postern.recording.layout import recordings_folder
from postern.recording.stored import StoredSegments
from postern.settings import Settings
from postern.store.encryption import Encryption
from postern.store.ports.recording_ports import Blobs, SegmentStore

T = TypeVar("T")

PATIENCE = 30.0  # seconds in which the store must return a session's segments, or data keys


def open_blobs(settings: Settings) -> Blobs:
    """Raises Misconfigured."""
    folder = local_folder(settings)
    return ObjectBlobs(settings.recordings_url) if folder is None else FolderBlobs(folder)


def local_folder(settings: Settings) -> Path | None:
    """Return the folder of recordings; None if they are stored elsewhere. Raises Misconfigured."""
    url = settings.recordings_url
    if not url:
        return recordings_folder(settings.home)
    parts = urlsplit(url)
    if parts.scheme != "file":
        return None
    path = Path(unquote(parts.path))
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/") or parts.query or path == Path("/"):
        raise Misconfigured(
            "POSTERN_RECORDINGS_URL: write a folder as file:///THE/FOLDER, with three slashes", field="recordings_url"
        )
    return path


def rows_from_threads(segments: SegmentStore, loop: asyncio.AbstractEventLoop) -> Callable[[UUID], Sequence[Segment]]:
    """Return a function that reads the rows of a session's segments in a thread, while `loop` runs the statements."""

    async def ask(session_id: UUID) -> Sequence[Segment]:
        return await segments.of(session_id)

    def rows(session_id: UUID) -> Sequence[Segment]:
        return _result(ask(session_id), loop, "the store did not return the segments of a recording in time; try again")

    return rows


class KeysForThreads:
    """Keys of segments for code that blocks in a thread, while `loop` reads data keys that are not cached."""

    def __init__(self, encryption: Encryption, loop: asyncio.AbstractEventLoop) -> None:
        self._encryption = encryption
        self._loop = loop

    async def in_use(self, org_id: UUID) -> UUID:
        return await self._encryption.in_use(org_id)

    def derive(self, data_key: UUID, org_id: UUID, *, salt: bytes, info: bytes) -> bytes:
        data = self._encryption.derive_key(data_key, org_id, salt=salt, info=info)
        if data is None:
            _result(self._encryption.load(), self._loop, "the store did not return the data keys in time; try again")
            data = self._encryption.derive_key(data_key, org_id, salt=salt, info=info)
        if data is None:
            raise Malformed(
                f"it is encrypted with the data key {data_key}, which this store does not have: the "
                "segment was changed, or the store is older than it"
            )
        return data


def open_segments(settings: Settings, segments: SegmentStore, encryption: Encryption) -> StoredSegments:
    """Return the source of segments; call it on the event loop. Raises Misconfigured."""
    loop = asyncio.get_running_loop()
    return StoredSegments(rows_from_threads(segments, loop), open_blobs(settings), KeysForThreads(encryption, loop))


def _result(query: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop, late: str) -> T:
    try:
        here = asyncio.get_running_loop()
    except RuntimeError:
        here = None
    if here is loop:  # it would wait for itself
        query.close()
        raise RuntimeError("recordings are read in a thread, never on the event loop")
    waiting = asyncio.run_coroutine_threadsafe(query, loop)
    try:
        return waiting.result(PATIENCE)
    except LateError:
        waiting.cancel()
        raise Unavailable(late) from None
