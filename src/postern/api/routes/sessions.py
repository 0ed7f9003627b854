"""Sessions (spec 2.2, 4.2)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse

from postern.api import streams
from postern.api.audited import AuditedRoute
from postern.api.auth import Caller, Use
from postern.api.paging import LongListAnswer, LongPaging, long_listed
from postern.api.responses import errors
from postern.api.results import MEDIA, Format, Writer
from postern.api.schemas.sessions import FoundAnswer, SessionAnswer, StreamFormat
from postern.api.session_filters import Filters
from postern.domain.matches import Match
from postern.domain.session import Session
from postern.errors import Invalid
from postern.services.bundle import Services

router = APIRouter(prefix="/sessions", tags=["Sessions"], route_class=AuditedRoute)

_EXTENSION = re.compile(r"[A-Za-z0-9]{1,16}")
_EXPANDABLE = ("event_stream", "session_input")
_FILE = {
    "description": "The session, or a file when `extension` is given",
    "content": {"text/csv": {}, "application/octet-stream": {}},
}

_RESULTS = {
    "description": "The results, as they are read",
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
    page: LongPaging,
    wanted: Filters,
    expand: Annotated[list[str] | None, Query(description="matches: where a search found its words")] = None,
) -> LongListAnswer[FoundAnswer]:
    """Newest first, without scripts and events. Who is neither admin nor auditor finds their own. What was asked in a
    session can be searched a few seconds after it has ended."""
    expanded = _words("expand", expand, ("matches",))
    found = await services.sessions.find(caller, wanted, page)
    matches: Mapping[UUID, Sequence[Match]] | None = None
    if "matches" in expanded and wanted.search is not None:
        matches = await services.session_texts.matches(found.items, wanted.search)
    shown = [
        FoundAnswer.with_matches(session, None if matches is None else matches.get(session.id, ()))
        for session in found.items
    ]
    return long_listed(shown, found)


@router.get("/{session_id}", response_model=SessionAnswer, responses={**errors(403, 404), 200: _FILE})
async def get_session(
    session_id: str,
    caller: Caller,
    services: Use,
    event_time: Annotated[Literal["0", "1"], Query(alias="event-time")] = "0",
    event_stream: StreamFormat | None = None,
    events: Annotated[list[str] | None, Query(description="i, o, e; repeated, or separated by commas")] = None,
    expand: Annotated[
        list[str] | None, Query(description="event_stream, session_input; repeated, or separated by commas")
    ] = None,
    extension: Annotated[str | None, Query(description="csv, json or any other: answers a file")] = None,
    new_line: Literal["0", "1"] = "0",
) -> SessionAnswer | Response:
    """One session. `expand=event_stream`, or a format for it, brings the recorded events along."""
    kinds = frozenset(_words("events", events, streams.KINDS))
    expanded = _words("expand", expand, _EXPANDABLE)
    session = await services.sessions.get(caller, session_id)
    if extension is not None:
        await services.sessions.require_download(caller)
        wanted = kinds or frozenset({"o", "e"})
        timed, lines = event_time == "1", new_line == "1"
        return await asyncio.to_thread(_file, services, session, extension, wanted, event_time=timed, new_line=lines)
    if "event_stream" not in expanded and event_stream is None:
        return SessionAnswer.of(session)
    found, size = await asyncio.to_thread(
        streams.event_stream, services.sessions, session, event_stream, kinds or frozenset(streams.KINDS)
    )
    return SessionAnswer.of(session, events=found, event_size=size)


@router.get(
    "/{session_id}/results", response_class=StreamingResponse, responses={**errors(403, 404, 409), 200: _RESULTS}
)
async def get_results(
    session_id: str,
    caller: Caller,
    services: Use,
    form: Annotated[Format, Query(alias="format")] = Format.JSON,
) -> StreamingResponse:
    """All that a script answered, as far as its recording goes: as the database's texts, after masking. In JSON one
    object for each statement: `columns`, `rows`, `tag`, `notices`, `error`, `truncated`."""
    session = await services.sessions.finished(caller, session_id)
    chunks = _result_chunks(services, session, form)
    first = await asyncio.to_thread(next, chunks, b"")  # what raises does so before the answer begins
    return StreamingResponse(chain([first], chunks), media_type=MEDIA[form])


def _result_chunks(services: Services, session: Session, form: Format) -> Iterator[bytes]:
    if form is Format.TEXT:
        for _, kind, content in services.sessions.events(session):
            if kind != "i":
                yield content
        return
    writer = Writer(services.sessions.results(session))
    for piece in writer.json() if form is Format.JSON else writer.csv():
        yield piece.encode()


@router.post("/{session_id}/kill", status_code=204, responses=errors(403, 404))
async def kill_session(session_id: str, caller: Caller, services: Use) -> None:
    """Ends it within a moment; also fine when it is done already."""
    await services.sessions.kill(caller, session_id)


def _file(
    services: Services, session: Session, extension: str, kinds: frozenset[str], *, event_time: bool, new_line: bool
) -> Response:
    if not _EXTENSION.fullmatch(extension):
        raise Invalid("extension: must be 1 to 16 letters and digits", field="extension")
    chosen = (event for event in services.sessions.events(session) if event[1] in kinds)
    # The first is read before the answer begins: a recording that is not there is 404, not half an answer.
    begun = chain(list(islice(chosen, 1)), chosen)
    chunks = streams.file_chunks(begun, session, extension, event_time=event_time, new_line=new_line)
    name = f"{session.connection}-{session.id}-{session.start_date:%Y%m%d-%H%M%S}.{extension}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(chunks, media_type=streams.media_type(extension), headers=headers)


def _words(name: str, given: list[str] | None, known: tuple[str, ...]) -> list[str]:
    """Repeated parameters and comma lists alike. Raises Invalid for a word that is not known."""
    words = [word.strip() for text in given or () for word in text.split(",") if word.strip()]
    for word in words:
        if word not in known:
            raise Invalid(f"{name}: {word!r} is not one of {', '.join(known)}", field=name)
    return words
