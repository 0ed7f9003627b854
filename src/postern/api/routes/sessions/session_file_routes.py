"""Exports of sessions: timelines, files, and signed links."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Address, Caller, CallerInFull, Use
from postern.api.info import info_of
from postern.api.query_words import words
from postern.api.responses import errors, open_errors
from postern.api.schemas.common import Answer
from postern.api.sessions import downloads, recording_files, recording_window_query, timelines
from postern.api.sessions.streams import KINDS, never_recorded
from postern.domain.secret import Secret
from postern.domain.sessions.recorded import Exchange
from postern.errors import Unauthenticated
from postern.services.bundle import Services
from postern.services.recordings.concurrency_limit import ConcurrencyLimit
from postern.services.recordings.recording_pages import RecordingPart, part

router = APIRouter(prefix="/sessions", tags=["Sessions"], route_class=AuditedRoute)

_FILE: dict[str, Any] = {"description": "The file", "content": {"application/octet-stream": {}}}
_PART = {"description": "The part that `Range` requests", "content": {"application/octet-stream": {}}}
_MOST_OUTPUT = 1 << 20

Events = Annotated[list[str] | None, Query(description="i, o, e; repeated, or separated by commas")]
Extension = Annotated[str, Query(description="csv, json, or any other")]


class TimelineAnswer(Answer):
    data: list[dict[str, Any]]
    next_cursor: str | None


class LinkAnswer(Answer):
    download_url: str
    expire_at: datetime


@router.get("/{session_id}/timeline", responses=errors(403, 404, 410))
async def get_timeline(
    session_id: str,
    caller: Caller,
    services: Use,
    start: recording_window_query.Start = 0.0,
    end: recording_window_query.End = None,
    cursor: recording_window_query.Cursor = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    output: Annotated[int, Query(ge=0, le=_MOST_OUTPUT, description="Bytes of output of each exchange")] = 0,
) -> TimelineAnswer:
    """Return the input and its results, in order: statement, values, rows, duration (milliseconds), error, denial; and
    notes of the gateway. Long statements are truncated: `truncated`."""
    window = recording_window_query.window(start, end, cursor, limit)
    session = await services.sessions.get(caller, session_id)

    def read() -> RecordingPart[Exchange]:
        if never_recorded(session):
            return RecordingPart([], None)
        exchanges = services.sessions.recordings.exchanges(session, window.since, output)
        return part(exchanges, window, _size, lambda _: True)

    page = await asyncio.to_thread(read)
    return TimelineAnswer(
        data=[timelines.render_exchange(item) for item in page.items],
        next_cursor=None if page.next is None else str(page.next),
    )


@router.get("/{session_id}/export", response_class=StreamingResponse, responses={**errors(403, 404, 410), 200: _FILE})
async def export_session(
    session_id: str,
    caller: Caller,
    services: Use,
    form: Annotated[recording_files.RecordingForm, Query(alias="format")] = recording_files.RecordingForm.TIMELINE,
    extension: Extension = "txt",
    event_time: recording_window_query.EventTime = "0",
    events: Events = None,
    new_line: recording_window_query.NewLine = "0",
    start: recording_window_query.Start = 0.0,
    end: recording_window_query.End = None,
) -> Response:
    """Export a session as a file: `asciicast` (v2) and `asciicast-v3` for terminals, `timeline` as one JSON object on
    each line, or `file` as GET of the session writes it for `extension`."""
    request = _make_file_request(form, extension, event_time, events, new_line, start, end)
    session = await services.sessions.get(caller, session_id)
    await services.sessions.require_download(caller)
    places = services.download_links.places
    places.require(caller.id)
    return _hold_slot(await downloads.answer(services, session, request), places, caller.id)


@router.post("/{session_id}/download", responses=errors(403, 404, 410))
async def make_download_link(
    session_id: str,
    request: Request,
    caller: CallerInFull,
    services: Use,
    form: Annotated[recording_files.RecordingForm, Query(alias="format")] = recording_files.RecordingForm.FILE,
    extension: Extension = "txt",
    event_time: recording_window_query.EventTime = "0",
    events: Events = None,
    new_line: recording_window_query.NewLine = "0",
    start: recording_window_query.Start = 0.0,
    end: recording_window_query.End = None,
) -> LinkAnswer:
    """Create a link to the session's file, with the parameters of GET. It is valid for five minutes without a token, as
    long as the caller can download the session and is logged in."""
    file_request = _make_file_request(form, extension, event_time, events, new_line, start, end)
    link = await services.download_links.make(caller, session_id, file_request.texts())
    base = (await info_of(request)).api_url
    url = f"{base}/api/sessions/{quote(session_id, safe='')}/download?token={link.token.reveal()}"
    return LinkAnswer(download_url=url, expire_at=link.expires_at)


_OF_A_LINK: dict[int | str, dict[str, Any]] = {**open_errors(401, 403, 404, 410, 429), 200: _FILE}
Token = Annotated[str, Query(max_length=4096, description="From the link")]


@router.head("/{session_id}/download", response_class=StreamingResponse, responses=_OF_A_LINK)
async def describe_download(session_id: str, services: Use, address: Address, token: Token = "") -> Response:
    """Return the headers of GET, without the file."""
    return await _download(session_id, services, address, token, is_head=True)


@router.get(
    "/{session_id}/download",
    response_class=StreamingResponse,
    responses={**_OF_A_LINK, 206: _PART, **open_errors(416)},
)
async def download_session(
    session_id: str,
    services: Use,
    address: Address,
    token: Token = "",
    range_header: Annotated[str | None, Header(alias="Range")] = None,
    condition: Annotated[str | None, Header(alias="If-Range")] = None,
) -> Response:
    """Download the file of a link. The download of an ended session can be resumed: Range, If-Range."""
    return await _download(session_id, services, address, token, range_header, condition)


async def _download(
    session_id: str,
    services: Services,
    address: str,
    token: str,
    range_header: str | None = None,
    condition: str | None = None,
    *,
    is_head: bool = False,
) -> Response:
    links = services.download_links
    opened = await links.open(Secret(token), session_id, address=address)
    try:
        request = recording_files.RecordingFileRequest.read(opened.form)
    except (KeyError, ValueError):
        raise Unauthenticated("this link is from a different release; request a new one") from None
    with links.places.acquire(opened.principal.id):  # computing the length of a file is work, too
        answer = await downloads.answer(
            services, opened.session, request, range_header=range_header, condition=condition, is_head=is_head
        )
    return _hold_slot(answer, links.places, opened.principal.id)


def _hold_slot(answer: Response, places: ConcurrencyLimit, principal_id: Any) -> Response:
    """Hold a slot for as long as the answer is sent."""
    if isinstance(answer, StreamingResponse):
        answer.body_iterator = _holding(answer.body_iterator, places, principal_id)
    return answer


async def _holding(pieces: Any, places: ConcurrencyLimit, principal_id: Any) -> AsyncIterator[bytes]:
    with places.acquire(principal_id):
        async for piece in pieces:
            yield piece


def _make_file_request(
    form: recording_files.RecordingForm,
    extension: str,
    event_time: str,
    events: list[str] | None,
    new_line: str,
    start: float,
    end: float | None,
) -> recording_files.RecordingFileRequest:
    window = recording_window_query.window(start, end)
    kinds = words("events", events, KINDS) or ["o", "e"]
    return recording_files.RecordingFileRequest(
        form=form,
        extension=extension if form is recording_files.RecordingForm.FILE else "",
        kinds="".join(sorted(set(kinds))),
        event_time=event_time == "1",
        new_line=new_line == "1",
        start=window.start,
        end=window.end,
    )


def _size(exchange: Exchange) -> int:
    values_size = sum(map(len, filter(None, exchange.values)))
    return 300 + len(exchange.statement) + values_size + len(exchange.output) + len(exchange.errors)
