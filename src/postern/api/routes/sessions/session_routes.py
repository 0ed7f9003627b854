"""Sessions (spec 2.2, 4.2)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.info import Info
from postern.api.paging import LongListAnswer, LongPaging, make_long_list_answer
from postern.api.responses import errors
from postern.api.schemas.reviews.review_schemas import ReviewAnswer
from postern.api.schemas.sessions.session_schemas import FoundAnswer, SessionAnswer, StreamFormat
from postern.api.sessions import downloads, recording_files, recording_window_query, streams
from postern.api.sessions.recording_window_query import words
from postern.api.sessions.result_answers import MEDIA, Format, ResultWriter
from postern.api.sessions.session_filters import Filters
from postern.domain.identity.principal import Principal
from postern.domain.sessions.matches import Match
from postern.domain.sessions.session import Session
from postern.services.bundle import Services

router = APIRouter(prefix="/sessions", tags=["Sessions"], route_class=AuditedRoute)

_EXPANDABLE = ("event_stream", "session_input")
_FILE = {
    "description": "The session, or a file if `extension` is given",
    "content": {"text/csv": {}, "application/octet-stream": {}},
}

_RESULTS = {
    "description": "The results, streamed",
    "content": {
        "application/json": {"schema": {"type": "array", "items": {"type": "object"}}},
        "text/csv": {},
        "text/plain": {},
    },
}


@router.get("", responses=errors())
async def list_sessions(
    caller: Caller,
    services: Use,
    info: Info,
    page: LongPaging,
    wanted: Filters,
    expand: Annotated[list[str] | None, Query(description="matches: the places where a search found its words")] = None,
) -> LongListAnswer[FoundAnswer]:
    """List sessions, newest first, without scripts and events. Users who are neither administrator nor auditor see
    their own. The input of a session can be searched a few seconds after it has ended."""
    expanded = words("expand", expand, ("matches",))
    found = await services.sessions.find(caller, wanted, page)
    matches: Mapping[UUID, Sequence[Match]] | None = None
    if "matches" in expanded and wanted.search is not None:
        matches = await services.session_texts.matches(found.items, wanted.search)
    reviews = await reviews_of(services, caller, found.items, info.api_url)
    shown = [
        FoundAnswer.with_matches(
            session,
            None if matches is None else matches.get(session.id, ()),
            sees_all=caller.sees_all,
            review=reviews.get(session.id),
        )
        for session in found.items
    ]
    return make_long_list_answer(shown, found)


async def reviews_of(
    services: Services, caller: Principal, sessions: Sequence[Session], api_url: str
) -> Mapping[UUID, ReviewAnswer]:
    """List the reviews of a session, under which it runs or for which it waits. At most one is for a statement."""
    reviewed = [session.id for session in sessions if session.review_id is not None]
    found = await services.reviews.of_sessions(caller, reviewed) if reviewed else {}
    return {session_id: ReviewAnswer.of(review, api_url, caller) for session_id, review in found.items()}


@router.get("/{session_id}", response_model=SessionAnswer, responses={**errors(403, 404, 410), 200: _FILE})
async def get_session(
    session_id: str,
    response: Response,
    caller: Caller,
    services: Use,
    info: Info,
    event_time: recording_window_query.EventTime = "0",
    event_stream: StreamFormat | None = None,
    events: Annotated[
        list[str] | None, Query(description="i, o, e, and r for sizes of a terminal; repeated, or separated by commas")
    ] = None,
    expand: Annotated[
        list[str] | None, Query(description="event_stream, session_input; repeated, or separated by commas")
    ] = None,
    extension: Annotated[str | None, Query(description="csv, json, or any other: returns a file")] = None,
    new_line: recording_window_query.NewLine = "0",
    start: recording_window_query.Start = 0.0,
    end: recording_window_query.End = None,
    cursor: recording_window_query.Cursor = None,
    limit: recording_window_query.Limit = None,
) -> SessionAnswer | Response:
    """Return a session. `expand=event_stream`, or a format for it, includes the recorded events: all of them, up to 16
    MiB; or with `limit` or `cursor` a page, with the next cursor in the header `Next-Cursor`. Reviewers can read the
    sessions whose reviews they decide, without recorded events and files."""
    kinds = frozenset(words("events", events, streams.ALL_KINDS if extension is None else streams.KINDS))
    expanded = words("expand", expand, _EXPANDABLE)
    window = recording_window_query.window(start, end, cursor, limit)
    if extension is not None:
        wanted = recording_files.RecordingFileRequest(
            extension=extension,
            kinds="".join(sorted(kinds or {"o", "e"})),
            event_time=event_time == "1",
            new_line=new_line == "1",
            start=window.start,
            end=window.end,
        )
        session = await services.sessions.get(caller, session_id)
        await services.sessions.require_download(caller)
        return await downloads.answer(services, session, wanted)
    with_events = "event_stream" in expanded or event_stream is not None
    read = services.sessions.get if with_events else services.sessions.get_without_recording
    session = await read(caller, session_id)
    review = (await reviews_of(services, caller, [session], info.api_url)).get(session.id)
    if not with_events:
        return SessionAnswer.of(session, sees_all=caller.sees_all, review=review)
    found = await asyncio.to_thread(
        streams.event_stream, services.sessions, session, event_stream, kinds or frozenset(streams.KINDS), window
    )
    if found.next is not None:
        response.headers[recording_window_query.NEXT] = str(found.next)
    return SessionAnswer.of(
        session, sees_all=caller.sees_all, events=found.events, event_size=found.size, review=review
    )


@router.get(
    "/{session_id}/results", response_class=StreamingResponse, responses={**errors(403, 404, 409, 410), 200: _RESULTS}
)
async def get_results(
    session_id: str,
    caller: Caller,
    services: Use,
    form: Annotated[Format, Query(alias="format")] = Format.JSON,
) -> StreamingResponse:
    """Return the results of a script from its recording: the database's texts, after masking. In JSON one object for
    each statement: `columns`, `rows`, `tag`, `notices`, `error`, `truncated`."""
    session = await services.sessions.require_finished(caller, session_id)
    chunks = _result_chunks(services, session, form)
    first = await asyncio.to_thread(next, chunks, b"")  # errors must be raised before the answer begins
    return StreamingResponse(chain([first], chunks), media_type=MEDIA[form])


def _result_chunks(services: Services, session: Session, form: Format) -> Iterator[bytes]:
    if form is Format.TEXT:
        for _, kind, content in services.sessions.events(session):
            if kind != "i":
                yield content
        return
    writer = ResultWriter(services.sessions.results(session))
    for piece in writer.json() if form is Format.JSON else writer.csv():
        yield piece.encode()


@router.post("/{session_id}/kill", status_code=204, responses=errors(403, 404))
async def kill_session(session_id: str, caller: Caller, services: Use) -> None:
    """End a session; one that has already ended is not an error. The review that it waits for is withdrawn.

    The answer does not wait for the end: the session has ended once its `status` is `done`.
    """
    await services.sessions.kill(caller, session_id)
