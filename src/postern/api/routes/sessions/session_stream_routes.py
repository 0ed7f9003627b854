"""A running session as it is recorded, as server-sent events.

The session does not know its watchers: the events are read from its recording. A slow watcher costs a slot of watchers,
and nothing else; one that falls too far behind is notified and disconnected.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, cast

from fastapi import APIRouter, Header, Request
from fastapi.responses import StreamingResponse
from starlette.requests import ClientDisconnect
from starlette.types import Message, Send

from postern.api.authentication_of_requests import Caller, Use, address_of
from postern.api.responses import errors
from postern.api.route import Route
from postern.domain.identity.principal import Principal
from postern.domain.secret import Secret
from postern.domain.sessions.recorded import SIZE, RecordedPosition, Tail, with_positions
from postern.domain.sessions.session import Session, SessionStatus, require_recording
from postern.errors import Denied, NotFound, TooMany, Unauthenticated, Unavailable
from postern.services.bundle import Services

log = logging.getLogger(__name__)

router = APIRouter(prefix="/sessions", tags=["Sessions"], route_class=Route)

_LOOK_EVERY = 0.2  # seconds, while there are events
_LOOK_SELDOM = 1.0
_QUIET_AFTER = 10.0
_ASK_EVERY = 3.0  # seconds between two checks that the watcher is still allowed
_KEEP_ALIVE = 15.0
_SETTLED = 1.0  # seconds after the end of a session in which the rest of its recording can arrive
_MOST_BEHIND = 8 << 20  # bytes of recording that a watcher can fall behind after it had caught up
TOO_SLOW = "the client read too slowly; reconnect with the id of the last event, as Last-Event-ID"
_SEND_WITHIN = 30.0  # seconds in which a client must read what it is sent
_STREAM = {"description": "Server-sent events", "content": {"text/event-stream": {}}}


@router.get(
    "/{session_id}/stream", response_class=StreamingResponse, responses={**errors(403, 404, 410, 429), 200: _STREAM}
)
async def stream_session(
    session_id: str,
    request: Request,
    caller: Caller,
    services: Use,
    last_event_id: Annotated[str | None, Header(description="Continue after this event")] = None,
) -> StreamingResponse:
    """Stream the past and new events of a session, as `event` (`time` in milliseconds, `type`, `payload` in base64).
    `session_end` closes the stream and says how the session ended, `cut` says why the stream ended early. It ends when
    the caller is no longer allowed to watch, and after an hour at the latest; clients then reconnect with the id of
    their last event."""
    session = await services.sessions.get(caller, session_id)
    require_recording(session)
    after = RecordedPosition.read(last_event_id, "Last-Event-ID") if last_event_id else RecordedPosition()
    services.watchers.require(caller.id)
    return _Watched(_events(request, services, caller, session, after), media_type="text/event-stream")


class _Watched(StreamingResponse):
    """Disconnect a client that reads nothing."""

    async def stream_response(self, send: Send) -> None:
        async def within(message: Message) -> None:
            await asyncio.wait_for(send(message), _SEND_WITHIN)

        async with aclosing(cast("AsyncGenerator[str, None]", self.body_iterator)):
            try:
                await super().stream_response(within)
            except TimeoutError:
                log.info("a watcher of a session read nothing for %s s and was disconnected", _SEND_WITHIN)
                raise ClientDisconnect from None


async def _events(
    request: Request, services: Services, caller: Principal, session: Session, after: RecordedPosition
) -> AsyncGenerator[str, None]:
    try:
        with services.watchers.acquire(caller.id):
            watch = _Watch(request, services, session, after)
            try:
                async with aclosing(watch.texts()) as texts:
                    async for text in texts:
                        yield text
            finally:  # a thread can still be reading from it, although its result is no longer needed
                asyncio.get_running_loop().run_in_executor(None, watch.tail.close)
    except TooMany as error:  # another request took the last slot meanwhile
        yield _event("cut", {"reason": error.message})


class _Watch:
    def __init__(self, request: Request, services: Services, session: Session, after: RecordedPosition) -> None:
        self.tail: Tail = services.sessions.recordings.tail(session, after.micros)
        self._request = request
        self._services = services
        self._session = session
        self._after = after
        self._base = RecordedPosition()  # from the tail, which can begin before `after`
        self._caught_up = False

    async def texts(self) -> AsyncGenerator[str, None]:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        end = begun + self._request.app.state.stream_life
        ask_at, alive_at, busy_at, done_at = begun + _ASK_EVERY, begun + _KEEP_ALIVE, begun, begun
        yield "retry: 2000\n\n"
        while True:
            text = await asyncio.to_thread(self._read)
            now = loop.time()
            if text:
                yield text
                alive_at, busy_at = now + _KEEP_ALIVE, now
            if now >= ask_at or (self.tail.ended and not self._is_done):
                refused = await self._look()
                if refused:
                    yield _event("cut", {"reason": refused})
                    return
                ask_at = now + _ASK_EVERY
            if not self._is_done:
                done_at = now
            elif not text and (self.tail.ended or now - done_at > _SETTLED):
                yield _event("session_end", self._ending())
                return
            if self._is_too_far_behind():
                yield _event("cut", {"reason": TOO_SLOW})
                return
            if now >= alive_at:
                yield ": still here\n\n"
                alive_at = now + _KEEP_ALIVE
            if now >= end:
                return
            if not text:
                await asyncio.sleep(_LOOK_EVERY if now - busy_at < _QUIET_AFTER else _LOOK_SELDOM)

    @property
    def _is_done(self) -> bool:
        return self._session.status is SessionStatus.DONE

    def _read(self) -> str:
        moments = self.tail.read(settled=self._is_done)
        texts = []
        for place, moment in with_positions(moments, RecordedPosition(-1, 0)):
            if place.micros == self._base.micros:  # continues with those of the last read
                place = RecordedPosition(place.micros, place.nth + self._base.nth)
            last = place
            if place > self._after:
                kind = "size" if moment.kind == SIZE else "event"
                data: dict[str, Any] = {"time": moment.micros / 1000, "type": moment.kind}
                data["payload"] = base64.b64encode(moment.content).decode()
                texts.append(f"id: {place}\nevent: {kind}\ndata: {json.dumps(data)}\n\n")
        if moments:
            self._base = last
        self._caught_up = self._caught_up or not moments
        return "".join(texts)

    def _is_too_far_behind(self) -> bool:
        return self._caught_up and self.tail.behind > _MOST_BEHIND

    async def _look(self) -> str:
        """Return why the watcher is no longer allowed to continue; empty if they are. The session is read again."""
        token: Secret = self._request.state.token
        try:
            caller = await self._services.authentication.caller(token, address=address_of(self._request))
            self._session = await self._services.sessions.get(caller.principal, self._session.id)
        except (Unauthenticated, Denied, NotFound, Unavailable) as error:
            return error.message
        return ""

    def _ending(self) -> dict[str, Any]:
        metadata = self._session.metadata
        return {
            "reason": metadata.get("end_reason"),
            "detail": metadata.get("end_detail"),
            "exit_code": self._session.exit_code,
        }


def _event(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
