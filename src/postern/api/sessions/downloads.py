"""A session's file as an answer: streamed in constant memory, and resumable.

Files are not stored, but generated from the recording each time, with the same bytes for the same form. So a Range must
read what comes before it, and the length needs one full generation; a limit of concurrent downloads bounds both.
Unreadable parts can become readable later, so the length of such a file is not cached. Only ended sessions have ranges,
because a running one still grows.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator

from fastapi import Response
from fastapi.concurrency import iterate_in_threadpool
from fastapi.responses import JSONResponse, StreamingResponse

from postern import __version__
from postern.api.sessions import recording_files
from postern.api.sessions.recording_files import RecordingFileRequest
from postern.domain.sessions.recorded import UNREADABLE
from postern.domain.sessions.session import Session, SessionStatus
from postern.services.bundle import Services

_RANGE = re.compile(r"bytes=\s*([0-9]*)-([0-9]*)\s*", re.ASCII)
_DIGITS = 18
_MAX_REMEMBERED = 1_000
_lengths: OrderedDict[str, int] = OrderedDict()  # lengths of generated files, by their tag


async def answer(
    services: Services,
    session: Session,
    file_request: RecordingFileRequest,
    *,
    range_header: str | None = None,
    condition: str | None = None,
    is_head: bool = False,
) -> Response:
    """Return the answer. `range_header` and `condition` are the headers Range and If-Range. Raises NotFound,
    Invalid."""
    headers = {"Content-Disposition": f'attachment; filename="{file_request.name(session)}"', "Accept-Ranges": "none"}
    tag = ""
    if session.status is SessionStatus.DONE:
        tag = tag_of(session, file_request)
        headers |= {"Accept-Ranges": "bytes", "ETag": tag}
        if tag in _lengths and range_header is None:
            headers["Content-Length"] = str(_lengths[tag])
    # The beginning is read before the answer begins: a missing recording is 404, not half an answer.
    content = await asyncio.to_thread(recording_files.content, services.sessions, session, file_request)
    if is_head:
        return Response(headers=headers, media_type=file_request.media_type)
    if tag and range_header is not None and (condition is None or condition == tag):
        bounds = _range(range_header)
        if bounds is not None:
            return await _part(services, session, file_request, content, bounds, headers)
    return StreamingResponse(_all(content, tag), media_type=file_request.media_type, headers=headers)


def tag_of(session: Session, file_request: RecordingFileRequest) -> str:
    """Return a tag that identifies exactly these bytes: a different release can write the same form differently."""
    parts = (session.id, session.end_date, session.event_size, __version__, sorted(file_request.texts().items()))
    return f'"{hashlib.sha256(repr(parts).encode()).hexdigest()[:32]}"'


async def _part(
    services: Services,
    session: Session,
    file_request: RecordingFileRequest,
    content: Iterator[bytes],
    bounds: tuple[int | None, int | None],
    headers: dict[str, str],
) -> Response:
    tag = headers["ETag"]
    if tag not in _lengths:
        length, is_whole = await asyncio.to_thread(_length, content)
        content = await asyncio.to_thread(recording_files.content, services.sessions, session, file_request)
        if is_whole:
            _remember(tag, length)
    else:
        length = _lengths[tag]
    first, last = bounds
    if first is None:
        first, last = max(0, length - (last or 0)), length - 1
    last = length - 1 if last is None else min(last, length - 1)
    if first >= length or first > last:
        body = {"message": f"the range begins after the end of the file, which has {length} bytes"}
        return JSONResponse(body, status_code=416, headers={"Content-Range": f"bytes */{length}", "ETag": tag})
    headers |= {"Content-Range": f"bytes {first}-{last}/{length}", "Content-Length": str(last - first + 1)}
    cut = iterate_in_threadpool(_cut(content, first, last + 1))
    return StreamingResponse(cut, status_code=206, media_type=file_request.media_type, headers=headers)


def _range(range_header: str) -> tuple[int | None, int | None] | None:
    """Return the first and last byte; or None and the number of bytes at the end. None if it is not a single range:
    then everything is returned, as RFC 9110 section 14.2 allows."""
    match = _RANGE.fullmatch(range_header)
    if match is None or not (match[1] or match[2]) or max(len(match[1]), len(match[2])) > _DIGITS:
        return None
    first, last = (int(text) if text else None for text in match.groups())
    if first is not None and last is not None and last < first:
        return None
    return first, last


def _length(content: Iterator[bytes]) -> tuple[int, bool]:
    """Return the number of bytes, and whether nothing of the recording is missing in them, see `_tells_damage`."""
    length, is_whole = 0, True
    for piece in content:
        length += len(piece)
        is_whole = is_whole and not _tells_damage(piece)
    return length, is_whole


def _tells_damage(piece: bytes) -> bool:
    """Return whether the text reports a damage. Text of a user can look like it: then a length is not cached."""
    return UNREADABLE.encode() in piece


def _cut(content: Iterator[bytes], first: int, end: int) -> Iterator[bytes]:
    at = 0
    for piece in content:
        if at + len(piece) > first:
            yield piece[max(0, first - at) : end - at]
        at += len(piece)
        if at >= end:
            return


async def _all(content: Iterator[bytes], tag: str) -> AsyncIterator[bytes]:
    length, is_whole = 0, True
    async for piece in iterate_in_threadpool(content):
        length += len(piece)
        if _tells_damage(piece):
            # An answer that has announced a different length is aborted; the next one announces none, and is complete.
            is_whole = False
            _lengths.pop(tag, None)
        yield piece
    if tag and is_whole:
        _remember(tag, length)


def _remember(tag: str, length: int) -> None:
    _lengths[tag] = length
    _lengths.move_to_end(tag)
    while len(_lengths) > _MAX_REMEMBERED:
        _lengths.popitem(last=False)
