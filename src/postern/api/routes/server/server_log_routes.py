"""The log of the server's processes: its last lines, and new ones as they are written."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Annotated, Literal

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse

from postern.api.authentication_of_requests import Caller, Use
from postern.api.event_streams import EVENT_STREAM, RETRY, STREAM, authenticate_again
from postern.api.query_times import Moment
from postern.api.responses import errors
from postern.api.route import Route
from postern.api.schemas.server.server_schemas import LogLineAnswer, LogLinesAnswer
from postern.domain.server_log import LogFilter
from postern.errors import Denied, TooMany, Unauthenticated, Unavailable
from postern.services.bundle import Services
from postern.services.server.server_logs import Follower

router = APIRouter(prefix="/server-logs", tags=["Server Management"], route_class=Route)

MAX_LINES = 1_000
_READ_EVERY = 0.5  # seconds
_ASK_EVERY = 5.0  # seconds between two checks that the caller is still allowed

Level = Annotated[Literal["debug", "info", "warning", "error"] | None, Query(description="Lowest level to return")]
Process = Annotated[str | None, Query(description="Process, such as api, w1 or supervisor")]


@router.get("", responses=errors(403))
async def list_server_logs(
    caller: Caller,
    services: Use,
    level: Level = None,
    process: Process = None,
    since: Moment | None = None,
    limit: Annotated[int, Query(ge=1, le=MAX_LINES)] = 200,
) -> LogLinesAnswer:
    """Return the last matching lines, oldest first; for administrators of the default organisation. Each process keeps
    about two megabytes."""
    await services.server_logs.require_reader(caller)
    log_filter = LogFilter(level, process, since)
    lines = await asyncio.to_thread(services.server_logs.journal.last, log_filter, limit)
    return LogLinesAnswer(data=[LogLineAnswer.of(line) for line in lines])


@router.get("/stream", response_class=StreamingResponse, responses={**errors(403, 429), 200: STREAM})
async def stream_server_logs(
    request: Request,
    caller: Caller,
    services: Use,
    level: Level = None,
    process: Process = None,
    last_event_id: Annotated[str | None, Header(description="Begin after this line")] = None,
) -> StreamingResponse:
    """Stream lines as they are written, as events `log`. It ends with the caller's login, and after an hour at the
    latest; clients then reconnect with the id of their last line."""
    logs = services.server_logs
    await logs.require_reader(caller)
    logs.require_room()
    follower = await asyncio.to_thread(logs.journal.follow, last_event_id)
    events = _events(request, services, follower, LogFilter(level, process))
    return StreamingResponse(events, media_type=EVENT_STREAM)


async def _events(
    request: Request, services: Services, follower: Follower, log_filter: LogFilter
) -> AsyncIterator[str]:
    """Stream the lines. A slow client is waited for, and costs at most one reading of the files."""
    loop = asyncio.get_running_loop()
    end = loop.time() + request.app.state.stream_life
    ask_at = loop.time() + _ASK_EVERY
    with contextlib.suppress(TooMany), services.server_logs.following():  # another request took the last slot meanwhile
        yield RETRY
        while True:
            lines = await asyncio.to_thread(follower.read)
            answers = [LogLineAnswer.of(line) for line in lines if log_filter.fits(line)]
            if answers:
                yield "".join(f"id: {line.id}\nevent: log\ndata: {line.model_dump_json()}\n\n" for line in answers)
            now = loop.time()
            if now >= ask_at:
                if not await _still_may(request, services):
                    return
                ask_at = now + _ASK_EVERY
                yield ": still here\n\n"  # detects whether the client is still there, too
            if now >= end:
                return
            await asyncio.sleep(min(_READ_EVERY, max(0.0, end - now)))


async def _still_may(request: Request, services: Services) -> bool:
    try:
        await services.server_logs.require_reader(await authenticate_again(request))
    except (Unauthenticated, Denied, Unavailable):
        return False
    return True
