"""The blob store of this gateway, by its setting, and stored segments as the library asks for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import TimeoutError as LateError
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import UUID

from postern.archive.folder import FolderBlobs
from postern.domain.segment import Segment
from postern.errors import Misconfigured, Unavailable
from postern.integrations.blobs import ObjectBlobs
from postern.recording.layout import recordings_folder
from postern.recording.stored import Stored
from postern.settings import Settings
from postern.store.ports import Blobs, SegmentStore

PATIENCE = 30.0  # seconds that the store has to tell of a session's segments


def open_blobs(settings: Settings) -> Blobs:
    """Raises Misconfigured."""
    folder = local_folder(settings)
    return ObjectBlobs(settings.recordings_url) if folder is None else FolderBlobs(folder)


def local_folder(settings: Settings) -> Path | None:
    """None where recordings are stored elsewhere. Raises Misconfigured."""
    url = settings.recordings_url
    if not url:
        return recordings_folder(settings.home)
    parts = urlsplit(url)
    if parts.scheme != "file":
        return None
    path = Path(unquote(parts.path))
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/") or parts.query or path == Path("/"):
        raise Misconfigured(
            "POSTERN_RECORDINGS_URL: a folder is file:///THE/FOLDER, with three slashes", field="recordings_url"
        )
    return path


def rows_from_threads(segments: SegmentStore, loop: asyncio.AbstractEventLoop) -> Callable[[UUID], Sequence[Segment]]:
    """The rows of a session's segments for code that blocks in a thread, while `loop` runs the store's statements."""

    async def ask(session_id: UUID) -> Sequence[Segment]:
        return await segments.of(session_id)

    def rows(session_id: UUID) -> Sequence[Segment]:
        return _result(ask(session_id), loop)

    return rows


def stored(settings: Settings, segments: SegmentStore) -> Stored:
    """Call it on the event loop. Raises Misconfigured."""
    return Stored(rows_from_threads(segments, asyncio.get_running_loop()), open_blobs(settings))


def _result(asked: Coroutine[Any, Any, Sequence[Segment]], loop: asyncio.AbstractEventLoop) -> Sequence[Segment]:
    try:
        here = asyncio.get_running_loop()
    except RuntimeError:
        here = None
    if here is loop:  # it would wait for itself
        asked.close()
        raise RuntimeError("recordings are read in a thread, never on the event loop")
    waiting = asyncio.run_coroutine_threadsafe(asked, loop)
    try:
        return waiting.result(PATIENCE)
    except LateError:
        waiting.cancel()
        raise Unavailable("the store does not say which segments a recording has; try again") from None
