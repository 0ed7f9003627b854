"""Sessions (spec 2.2, 4.2)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.event_streams import LiveResponse
from postern.api.info import Info
from postern.api.paging import FacetsAnswer, LongListAnswer, LongPaging, make_long_list_answer
from postern.api.query_words import words
from postern.api.responses import errors
from postern.api.schemas.reviews.review_schemas import ReviewAnswer
from postern.api.schemas.sessions.session_schemas import (
    FoundAnswer,
    MatchesAnswer,
    ScriptBeginningAnswer,
    SessionAnswer,
    StreamFormat,
)
from postern.api.sessions import downloads, following, recording_files, recording_window_query, streams
from postern.api.sessions.result_answers import MEDIA, ResultFormat, ResultWriter, join_pieces
from postern.api.sessions.result_lines import ResultFollower, ResultLines, end_line
from postern.api.sessions.session_filters import Filters
from postern.domain.identity.principal import Principal
from postern.domain.sessions.matches import Match
from postern.domain.sessions.session import SCRIPT_BEGINNING, Session, require_recording
from postern.domain.sessions.words import MAX_SEARCH, parse_search
from postern.domain.targets.connection import OF_TABLES
from postern.errors import Invalid, NotFound
from postern.services.bundle import Services
from postern.services.recordings.texts import PAGE
from postern.services.sessions import SessionFacet

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
        "application/x-ndjson": {},
    },
}
_MAX_ROW = 1 << 53


@router.get("", responses=errors())
async def list_sessions(
    caller: Caller,
    services: Use,
    info: Info,
    page: LongPaging,
    session_filter: Filters,
    expand: Annotated[
        list[str] | None,
        Query(
            description="matches: the places where a search found its words; script: the first "
            f"{SCRIPT_BEGINNING} characters of each script; repeated, or separated by commas"
        ),
    ] = None,
) -> LongListAnswer[FoundAnswer]:
    """List sessions, newest first, without events. Users who are neither administrator nor auditor see
    their own. The input of a session can be searched a few seconds after it has ended."""
    expanded = words("expand", expand, ("matches", "script"))
    stretch = await services.sessions.find(caller, session_filter, page)
    matches: Mapping[UUID, Sequence[Match]] | None = None
    if "matches" in expanded and session_filter.search is not None:
        matches = await services.session_texts.matches(stretch.items, session_filter.search)
    reviews = await reviews_of(services, caller, stretch.items, info.api_url)
    answers = [
        FoundAnswer.with_matches(
            session,
            None if matches is None else matches.get(session.id, ()),
            sees_all=caller.sees_all,
            review=reviews.get(session.id),
        )
        for session in stretch.items
    ]
    if "script" in expanded:
        scripts = await services.sessions.script_beginnings(stretch.items)
        for answer in answers:
            if answer.id in scripts:
                data, is_cut = scripts[answer.id]
                answer.script = ScriptBeginningAnswer(data=data, is_cut=is_cut)
    return make_long_list_answer(answers, stretch)


@router.get("/facets", responses=errors(403))
async def count_session_facets(
    caller: Caller,
    services: Use,
    session_filter: Filters,
    fields: Annotated[
        list[str] | None,
        Query(
            description=f"{', '.join(SessionFacet)}; repeated, or separated by commas; default: all",
        ),
    ] = None,
) -> FacetsAnswer:
    """Count the values of fields over the sessions of a period that the filters select. 422 with `search`."""
    names = [SessionFacet(name) for name in words("fields", fields, tuple(SessionFacet))] or list(SessionFacet)
    return FacetsAnswer.of(await services.sessions.facets(caller, session_filter, names))


async def reviews_of(
    services: Services, caller: Principal, sessions: Sequence[Session], api_url: str
) -> Mapping[UUID, ReviewAnswer]:
    """List the reviews of a session, under which it runs or for which it waits. At most one is for a statement."""
    reviewed = [session.id for session in sessions if session.review_id is not None]
    reviews = await services.reviews.of_sessions(caller, reviewed) if reviewed else {}
    return {session_id: ReviewAnswer.of(review, api_url, caller) for session_id, review in reviews.items()}


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
        request = recording_files.RecordingFileRequest(
            extension=extension,
            kinds="".join(sorted(kinds or {"o", "e"})),
            event_time=event_time == "1",
            new_line=new_line == "1",
            start=window.start,
            end=window.end,
        )
        session = await services.sessions.get(caller, session_id)
        await services.sessions.require_download(caller)
        return await downloads.answer(services, session, request)
    with_events = "event_stream" in expanded or event_stream is not None
    read = services.sessions.get if with_events else services.sessions.get_without_recording
    session = await read(caller, session_id)
    review = (await reviews_of(services, caller, [session], info.api_url)).get(session.id)
    if not with_events:
        return SessionAnswer.of(session, sees_all=caller.sees_all, review=review)
    stream = await asyncio.to_thread(
        streams.event_stream, services.sessions, session, event_stream, kinds or frozenset(streams.KINDS), window
    )
    if stream.next is not None:
        response.headers[recording_window_query.NEXT] = str(stream.next)
    return SessionAnswer.of(
        session, sees_all=caller.sees_all, events=stream.events, event_size=stream.size, review=review
    )


@router.get(
    "/{session_id}/results",
    response_class=StreamingResponse,
    responses={**errors(403, 404, 409, 410, 429), 200: _RESULTS},
)
async def get_results(
    session_id: str,
    request: Request,
    caller: Caller,
    services: Use,
    form: Annotated[ResultFormat, Query(alias="format")] = ResultFormat.JSON,
    safe: Annotated[
        bool,
        Query(description="In CSV, put an apostrophe before fields that a spreadsheet would evaluate"),
    ] = False,
    follow: Annotated[bool, Query(description="In NDJSON, also of a script that waits or runs, up to its end")] = False,
    from_row: Annotated[
        int, Query(ge=0, le=_MAX_ROW, description="In NDJSON, leave out the rows before this one, of all results")
    ] = 0,
) -> StreamingResponse:
    """Return the results of a script from its recording: the database's texts, after masking. In JSON one object for
    each statement: `columns`, `fields` (name, type, mask of each column), `rows`, `masked` (the masked cells), `tag`,
    `notices`, `error`, `truncated`.

    In NDJSON one object on each line, by `type`: `columns`, `rows`, `notice`, `done`, `error` and at last `end`. With
    `follow` the rows come while the script runs, `waiting` says that nothing is new, and `cut` ends the stream early:
    continue with the last `next_row` as `from_row`. A stream lasts at most an hour, and takes a slot of `stream`."""
    if form is not ResultFormat.NDJSON and (follow or from_row):
        name = "follow" if follow else "from_row"
        raise Invalid(f"{name}: only for format=ndjson; add it", field=name)
    if follow:
        return await _follow_results(services, caller, session_id, request, from_row)
    session = await services.sessions.require_finished(caller, session_id)
    chunks = _result_chunks(services, session, form, from_row, safe=safe)
    first = await asyncio.to_thread(next, chunks, b"")  # errors must be raised before the answer begins
    return StreamingResponse(chain([first], chunks), media_type=MEDIA[form])


async def _follow_results(
    services: Services, caller: Principal, session_id: str, request: Request, from_row: int
) -> StreamingResponse:
    session = await services.sessions.script(caller, session_id)
    if session.connection_subtype not in OF_TABLES:
        raise NotFound(f"sessions of {session.connection_subtype!r} do not have results as values")
    require_recording(session)
    services.watchers.require(caller.id)
    texts = following.follow(services, caller, lambda: ResultFollower(request, services, session, from_row))
    return LiveResponse(texts, media_type=MEDIA[ResultFormat.NDJSON])


def _result_chunks(
    services: Services, session: Session, form: ResultFormat, from_row: int, *, safe: bool
) -> Iterator[bytes]:
    if form is ResultFormat.NDJSON:
        lines = ResultLines(from_row)
        for text in join_pieces(chain(lines.write(services.sessions.results(session)), lines.flush())):
            yield text.encode()
        yield end_line(session).encode()
        return
    if form is ResultFormat.TEXT:
        for _, kind, content in services.sessions.events(session):
            if kind != "i":
                yield content
        return
    writer = ResultWriter(services.sessions.results(session))
    for piece in writer.json() if form is ResultFormat.JSON else writer.csv(safe=safe):
        yield piece.encode()


@router.get("/{session_id}/matches", responses=errors(404, 410))
async def find_matches(
    session_id: str,
    caller: Caller,
    services: Use,
    search: Annotated[str, Query(min_length=1, max_length=MAX_SEARCH, description="As in the list of sessions")],
    cursor: recording_window_query.Cursor = None,
    limit: Annotated[int, Query(ge=1, le=1_000, description="Matches of a page; it can have fewer, or none")] = PAGE,
) -> MatchesAnswer:
    """Search the statements of a session, in order; one matches if it contains one of the words or phrases. A page
    looks through a bounded part of the recording: continue while there is a `next_cursor`."""
    terms = parse_search(search)
    window = recording_window_query.window(cursor=cursor, limit=limit)
    session = await services.sessions.get(caller, session_id)
    if streams.never_recorded(session):
        return MatchesAnswer(data=[], next_cursor=None)
    return MatchesAnswer.of(await services.session_texts.matches_of(session, terms, window))


@router.post("/{session_id}/kill", status_code=204, responses=errors(403, 404))
async def kill_session(session_id: str, caller: Caller, services: Use) -> None:
    """End a session; one that has already ended is not an error. The review that it waits for is withdrawn.

    The answer does not wait for the end: the session has ended once its `status` is `done`.
    """
    await services.sessions.kill(caller, session_id)
