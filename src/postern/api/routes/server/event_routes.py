"""The form of events for sinks, and the stream of changes for clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.event_streams import (
    EVENT_STREAM,
    RETRY,
    LiveResponse,
    authenticate_again,
    describe_stream,
    format_event,
)
from postern.api.responses import errors
from postern.api.schemas.server.change_schemas import ChangeAnswer, ChangeStreamAnswer
from postern.api.schemas.server.event_schemas import event_schemas
from postern.domain.change import ChangeNotice, ChangeSubject
from postern.domain.identity.principal import Principal
from postern.errors import Denied, TooMany, Unauthenticated, Unavailable
from postern.services.notifications.change_feed import ChangeFeed, ChangeFollower

router = APIRouter(prefix="/events", tags=["Server Management"], route_class=AuditedRoute)

_HEARTBEAT = 15.0  # seconds; the caller is authenticated again as often, in case a signal was lost
_PAUSE = 0.2  # seconds between two batches, so that busy gateways send many changes at once
_MAX_POSITION = 64  # characters


@router.get("/schemas", responses=errors())
async def get_event_schemas(caller: Caller) -> dict[str, dict[str, Any]]:
    """Return a JSON Schema (draft 2020-12) for each kind of event, in the form of a webhook. For all users."""
    return event_schemas()


@router.get(
    "/stream",
    response_class=LiveResponse,
    responses={**errors(429), 200: describe_stream(ChangeAnswer, ChangeStreamAnswer)},
)
async def stream_changes(
    request: Request,
    caller: Caller,
    services: Use,
    last_event_id: Annotated[
        str | None, Header(max_length=_MAX_POSITION, description="Continue after this event")
    ] = None,
    after: Annotated[
        str | None,
        Query(max_length=_MAX_POSITION, description="`changes_position` of `GET /userinfo`; Last-Event-ID comes first"),
    ] = None,
) -> LiveResponse:
    """Stream what changes for the caller, as server-sent events without content: read what you show again.

    - `review`: own reviews, and those that the caller can decide; for administrators and auditors all.
    - `session`: own sessions (`started`, `ended`); for administrators and auditors all.
    - `agent` (`online`, `offline`, `renewed`, `drained`, `deleted`): for administrators and auditors.
    - `connection` (`changed`): with a null `id` read the list of connections again.
    - `login`: own logins (`started`, `ended`), or `changed` for the caller's account and groups.
    - `ready` begins the stream: changes after it are sent, so read what you show now. With `after`, what you
      read after you got that position needs no second reading.
    - `resync`: events may be missing, so read everything again.
    - `cut` ends the stream, with a `reason`, when the login ends.

    A client that reconnects with the id of its last event as Last-Event-ID gets the events between. The stream ends
    after an hour at the latest. One user can have 8 at once."""
    feed = services.changes
    feed.limit.require(caller.id)
    return LiveResponse(_ChangeStream(request, feed, caller, last_event_id or after).texts(), media_type=EVENT_STREAM)


class _ChangeStream:
    def __init__(self, request: Request, feed: ChangeFeed, caller: Principal, position: str | None) -> None:
        self._request = request
        self._feed = feed
        self._caller = caller
        self._position = position

    async def texts(self) -> AsyncGenerator[str, None]:
        try:
            with self._feed.follow(self._caller, self._position) as follower:
                follower.doubt()  # the login can have ended since the request was authenticated
                yield RETRY
                yield format_event("ready", {}, follower.position if self._position is None else "")
                try:
                    async for text in self._follow(follower):
                        yield text
                except (Unauthenticated, Denied, Unavailable) as error:
                    yield _format_changes(
                        [change for change in follower.take().changes if change.subject is ChangeSubject.LOGIN], ""
                    )
                    yield format_event("cut", {"reason": error.message})
        except TooMany as error:  # another request took the last slot meanwhile
            yield format_event("cut", {"reason": error.message})

    async def _follow(self, follower: ChangeFollower) -> AsyncGenerator[str, None]:
        """Yield the changes, until the stream's end. Raises Unauthenticated, Denied, Unavailable."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._request.app.state.stream_life
        heartbeat_at = loop.time() + _HEARTBEAT
        while loop.time() < end:
            await follower.wait(max(0.0, min(heartbeat_at, end) - loop.time()))
            is_due = loop.time() >= heartbeat_at
            if follower.is_doubtful or is_due:
                doubts = follower.doubts
                follower.settle(await authenticate_again(self._request), doubts)
            batch = follower.take()
            if batch.has_gap:
                yield format_event("resync", {}, batch.position)
            if batch.changes:
                yield _format_changes(await self._feed.show(follower.principal, batch.changes), batch.position)
            if is_due:
                yield f"id: {batch.position}\n: still here\n\n"
                heartbeat_at = loop.time() + _HEARTBEAT
            await asyncio.sleep(min(_PAUSE, max(0.0, end - loop.time())))


def _format_changes(changes: Sequence[ChangeNotice], position: str) -> str:
    """Return the events of a batch. Only the last one has its position: a client that has a part of the batch gets the
    whole batch again."""
    texts = []
    for index, change in enumerate(changes, 1):
        key = position if index == len(changes) else ""
        texts.append(format_event(change.subject, ChangeAnswer.of(change).model_dump(mode="json"), key))
    return "".join(texts)
