"""A running session as it is recorded, as server-sent events.

A watcher that falls too far behind is notified and disconnected.
"""

from __future__ import annotations

import base64
import json
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from fastapi.responses import StreamingResponse

from postern.api.authentication_of_requests import Caller, Use
from postern.api.event_streams import EVENT_STREAM, RETRY, STREAM, LiveResponse, format_event
from postern.api.responses import errors
from postern.api.route import Route
from postern.api.sessions.following import RecordingFollower, follow
from postern.domain.sessions.recorded import SIZE, RecordedPosition, with_positions
from postern.domain.sessions.session import Session, require_recording
from postern.services.bundle import Services

router = APIRouter(prefix="/sessions", tags=["Sessions"], route_class=Route)

_MOST_BEHIND = 8 << 20  # bytes of recording that a watcher can fall behind after it had caught up
TOO_SLOW = "the client read too slowly; reconnect with the id of the last event, as Last-Event-ID"


@router.get(
    "/{session_id}/stream", response_class=StreamingResponse, responses={**errors(403, 404, 410, 429), 200: STREAM}
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
    texts = follow(services, caller, lambda: _Watcher(request, services, session, after))
    return LiveResponse(texts, media_type=EVENT_STREAM)


class _Watcher(RecordingFollower):
    first = RETRY
    keep_alive = ": still here\n\n"

    def __init__(self, request: Request, services: Services, session: Session, after: RecordedPosition) -> None:
        super().__init__(request, services, session, services.sessions.recordings.tail(session, after.micros))
        self._after = after
        self._base = RecordedPosition()  # from the tail, which can begin before `after`
        self._caught_up = False

    def read(self) -> str:
        moments = self.tail.read(settled=self.is_done)
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

    def excess(self) -> str:
        return TOO_SLOW if self._caught_up and self.tail.behind > _MOST_BEHIND else ""

    def end(self) -> str:
        metadata = self.session.metadata
        ending = {"reason": metadata.get("end_reason"), "detail": metadata.get("end_detail")}
        return format_event("session_end", ending | {"exit_code": self.session.exit_code})

    def cut(self, reason: str) -> str:
        return format_event("cut", {"reason": reason})
