"""Limits for slow HTTP clients, which uvicorn leaves to a reverse proxy that may not exist.

A client has time limits for the head of a request, for its body, and for reading a response. Connections with an
incomplete request are counted, in total and per address. One more pushes out the oldest, so that thousands of half-open
connections (slow loris) do not block other clients: honest requests are complete within moments.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

log = logging.getLogger(__name__)

_LATE = (
    b"HTTP/1.1 408 Request Timeout\r\nContent-Type: application/json\r\nContent-Length: 62\r\nConnection: close\r\n\r\n"
    b'{"message":"the request was not whole in time; send it anew"}\n'
)


_NO_ROOM_BODY = b'{"message":"the gateway is at its limit of open files; try again later"}\n'
_NO_ROOM = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 10\r\n"
    b"Content-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(_NO_ROOM_BODY), _NO_ROOM_BODY)
)


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Seconds for head, body and reading the response; and the number of connections with an incomplete request."""

    head: float = 30.0
    body: float = 60.0
    reading: float = 60.0
    most: int = 1_000
    most_per_address: int = 200
    has_room: Callable[[], bool] = lambda: True  # for one more connection; without it the response is 503


class _Missing(Enum):
    HEAD = "head"
    BODY = "body"


class _Unfinished:
    """The connections of one server with an incomplete request, oldest first."""

    def __init__(self, limits: HttpLimits) -> None:
        self.limits = limits
        self._all: OrderedDict[BoundedHttp, None] = OrderedDict()
        self._by_address: dict[str, OrderedDict[BoundedHttp, None]] = {}

    def enter(self, connection: BoundedHttp) -> None:
        same = self._by_address.setdefault(connection.address, OrderedDict())
        self._all[connection] = same[connection] = None
        if len(same) > self.limits.most_per_address:
            next(iter(same)).push_out()
        elif len(self._all) > self.limits.most:
            next(iter(self._all)).push_out()

    def leave(self, connection: BoundedHttp) -> None:
        if connection not in self._all:
            return
        del self._all[connection]
        same = self._by_address[connection.address]
        del same[connection]
        if not same:
            del self._by_address[connection.address]


class BoundedHttp(H11Protocol):
    """HTTP/1.1 of uvicorn with limits. Make a class for a server with `bounded_http`."""

    unfinished: ClassVar[_Unfinished]
    address = ""
    _missing: _Missing | None = None
    _late: asyncio.TimerHandle | None = None
    _stuck: asyncio.TimerHandle | None = None
    _rejected = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self._rejected = not self.unfinished.limits.has_room()
        self._wait_for(_Missing.HEAD)

    def data_received(self, data: bytes) -> None:
        if self._rejected:  # only now: closing a connection before its request is read resets it
            if not self.transport.is_closing():
                self._wait_for(None)
                self.transport.write(_NO_ROOM)
                self.transport.close()
            return
        super().data_received(data)
        self._look()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._wait_for(None)  # transport/websocket_bounds.py takes over
        self._unstick()
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._look()  # the next request may have begun already

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stuck is None:
            self._stuck = self.loop.call_later(self.unfinished.limits.reading, self._on_stuck)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unstick()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_for(None)
        self._unstick()
        super().connection_lost(exc)

    def push_out(self) -> None:
        """Drop this connection to make room for another."""
        log.info("too many incomplete requests; the one from %s is dropped", self.address)
        self._wait_for(None)
        self.transport.abort()

    def _look(self) -> None:
        """Find the missing part of the current request. Between two requests, uvicorn closes an idle connection."""
        missing: _Missing | None = None
        if self.conn.their_state is h11.SEND_BODY:
            missing = _Missing.BODY
        elif self.conn.their_state is h11.IDLE and (self.cycle is None or self.conn.trailing_data[0]):
            missing = _Missing.HEAD
        if self.transport.is_closing():
            missing = None
        if missing is not self._missing:
            self._wait_for(missing)

    def _wait_for(self, missing: _Missing | None) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
        self._missing = missing
        self.unfinished.leave(self)
        if missing is not None:
            limits = self.unfinished.limits
            seconds = limits.head if missing is _Missing.HEAD else limits.body
            self._late = self.loop.call_later(seconds, self._on_late)
            self.unfinished.enter(self)

    def _on_late(self) -> None:
        log.info("client %s did not send the %s of a request in time", self.address, self._missing)
        is_answered = self._missing is _Missing.BODY and self.cycle.response_started
        self._wait_for(None)
        if not is_answered:
            self.transport.write(_LATE)
        self.transport.close()

    def _on_stuck(self) -> None:
        log.info("client %s does not read its response and was disconnected", self.address)
        self.transport.abort()

    def _unstick(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None


def bounded_http(limits: HttpLimits) -> type[BoundedHttp]:
    """Return the class for one server, whose connections are counted together."""

    class Bounded(BoundedHttp):
        unfinished = _Unfinished(limits)

    return Bounded
