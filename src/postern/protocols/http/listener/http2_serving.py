"""A client's connection with HTTP/2: many requests at the same time, each in a task of its own.

    the client's frames ─▶ run ─▶ Http2ServerConnection ─▶ events ─▶ the exchange of the stream ─▶ its task
    a task's response ─▶ as much as the client's windows allow ─▶ frames

A body is acknowledged as it is passed on, so a client sends no further ahead than its windows.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Final

from postern.protocols.http.http1.http1_events import BodyData, BodyEnd
from postern.protocols.http.http2.http2_events import (
    CONNECTION,
    Http2Code,
    Http2Data,
    Http2End,
    Http2Event,
    Http2Failed,
    Http2GoingAway,
    Http2Request,
    Http2RequestRefused,
    Http2Reset,
    Http2WindowOpened,
)
from postern.protocols.http.http2.http2_server import Http2ServerConnection
from postern.protocols.http.http_heads import Headers, ResponseHead
from postern.protocols.http.http_syntax import HttpSyntaxError
from postern.protocols.http.listener.http1_serving import KEEP_ALIVE, LONGEST_SILENCE
from postern.protocols.http.listener.http_client_exchange import HttpVisitor, ServeExchange
from postern.protocols.http.listener.http_pages import error_response, response_of
from postern.protocols.http.listener.http_stream import LONGEST_STALL, HttpStream

log = logging.getLogger(__name__)

_LAST_WORDS: Final = 5.0  # seconds in which exchanges can end after the gateway has announced its end


class Http2Client:
    """Serves one connection."""

    def __init__(self, stream: HttpStream, client: HttpVisitor, serve: ServeExchange) -> None:
        self._stream = stream
        self._client = client
        self._serve = serve
        self.connection = Http2ServerConnection()
        self._exchanges: dict[int, Http2Exchange] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._is_closing = False
        self._task: asyncio.Task[object] | None = None

    async def run(self) -> None:
        """Serve until either side closes."""
        self._task = asyncio.current_task()
        self._stream.on_lost = self._cancel
        try:
            self.flush()
            await self._receive()
        except asyncio.CancelledError:
            if not self._stream.is_lost and not self._is_closing:
                raise  # cancelled from outside
        except (ConnectionError, TimeoutError) as error:
            log.debug("client %s disconnected: %s", self._client.peer, error)
        finally:
            self._stream.on_lost = lambda: None
            for task in list(self._tasks.values()):
                task.cancel()
            self._stream.close()

    def close(self) -> None:
        """Accept no more requests, and close the connection after the responses that are being sent."""
        self._is_closing = True
        self.go_away()
        if not self._tasks:
            self._cancel()
        else:
            asyncio.get_running_loop().call_later(_LAST_WORDS, self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _receive(self) -> None:
        loop = asyncio.get_running_loop()
        while not self.connection.has_failed:
            if self.connection.is_going_away and not self._tasks:
                return
            try:
                async with asyncio.timeout(None if self._tasks else KEEP_ALIVE):
                    data = await self._stream.read()
            except TimeoutError:
                self.go_away()
                return
            for event in self.connection.receive(data, loop.time()):
                self._handle(event)
            self.flush()  # without a wait: a client that is blocked in sending would never read

    def _handle(self, event: Http2Event) -> None:
        if isinstance(event, Http2Request):
            self._start(event)
        elif isinstance(event, Http2RequestRefused):
            self._refuse(event)
        elif isinstance(event, Http2Data | Http2End):
            exchange = self._exchanges.get(event.stream_id)
            if exchange is not None:
                exchange.receive(event)
        elif isinstance(event, Http2Reset):
            task = self._tasks.get(event.stream_id)
            if task is not None:
                task.cancel()
        elif isinstance(event, Http2WindowOpened):
            for stream_id, exchange in self._exchanges.items():
                if event.stream_id in (CONNECTION, stream_id):
                    exchange.window_opened.set()
        elif isinstance(event, Http2Failed):
            log.info("client %s broke HTTP/2: %s", self._client.peer, event.message)
        elif isinstance(event, Http2GoingAway):
            log.debug("client %s ends its HTTP/2 connection", self._client.peer)

    def _start(self, request: Http2Request) -> None:
        exchange = Http2Exchange(self, self._stream, request)
        exchange.is_last = self._is_closing
        self._exchanges[request.stream_id] = exchange
        task = asyncio.get_running_loop().create_task(self._run(exchange))
        self._tasks[request.stream_id] = task
        task.add_done_callback(lambda _: self._forget(request.stream_id))

    async def _run(self, exchange: Http2Exchange) -> None:
        try:
            await self._serve(exchange, self._client)
        except ConnectionError as error:
            log.debug("a request of client %s ended: %s", self._client.peer, error)
        finally:
            exchange.conclude()

    def _forget(self, stream_id: int) -> None:
        self._exchanges.pop(stream_id, None)
        self._tasks.pop(stream_id, None)
        if self.connection.is_going_away and not self._tasks:
            self._is_closing = True
            self._cancel()

    def _refuse(self, refused: Http2RequestRefused) -> None:
        head, body = response_of(error_response(refused.status, refused.message), "GET")
        self.connection.send_response(refused.stream_id, head)
        self.connection.send_data(refused.stream_id, body[: self.connection.sendable(refused.stream_id)], end=True)
        self.connection.reset(refused.stream_id, Http2Code.NO_ERROR)

    def go_away(self) -> None:
        self.connection.go_away()
        self.flush()

    def flush(self) -> None:
        """Send what the connection has to send."""
        data = self.connection.data_to_send()
        if data:
            self._stream.write(data)


class Http2Exchange:
    """A request and its response on one stream; a `ClientExchange`. `is_last`: the connection ends after it."""

    def __init__(self, owner: Http2Client, stream: HttpStream, request: Http2Request) -> None:
        self.head = request.head
        self.is_last = False
        self.has_begun = False
        self.window_opened = asyncio.Event()
        self._owner = owner
        self._connection = owner.connection
        self._stream = stream
        self._id = request.stream_id
        self._waits_for_continue = request.expects_continue
        self._parts: deque[Http2Data | Http2End] = deque()
        self._arrived = asyncio.Event()
        self._passed_on = 0  # bytes of the part that was returned last
        self._has_read_end = False
        self._is_finished = False
        self._left: int | None = 0  # bytes of the response's body; None if its length is unknown
        self._withheld: ResponseHead | None = None  # of an empty response, until it is known whether trailers follow

    def receive(self, part: Http2Data | Http2End) -> None:
        self._parts.append(part)
        self._arrived.set()

    async def read(self) -> BodyData | BodyEnd:
        if self._passed_on:
            self._connection.acknowledge(self._id, self._passed_on)
            self._passed_on = 0
            self._owner.flush()
        if not self._parts:
            await self._wait_for_part()
        part = self._parts.popleft()
        if isinstance(part, Http2End):
            self._has_read_end = True
            return BodyEnd(part.trailers)
        self._passed_on = part.size
        return BodyData(part.data)

    async def _wait_for_part(self) -> None:
        if self._waits_for_continue and not self.has_begun:
            self._connection.send_continue(self._id)
            self._owner.flush()
        self._waits_for_continue = False
        try:
            async with asyncio.timeout(LONGEST_SILENCE):
                while not self._parts:
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            raise HttpSyntaxError(408, f"no more of the body arrived for {LONGEST_SILENCE:g} seconds") from None

    def reassure(self) -> None:
        """Do nothing: clients of HTTP/2 have pings."""

    async def respond(self, head: ResponseHead) -> None:
        """Begin the response. Raises ValueError for a head that cannot be sent."""
        if head.status == 101:
            raise ValueError("HTTP/2 does not change to another protocol")
        if head.has_body and head.length == 0:
            self._left, self._withheld = 0, head
            return
        self._withheld = None
        self._connection.send_response(self._id, head, end=not head.has_body)
        self.has_begun = True
        self._left = head.length if head.has_body else 0
        self._is_finished = not head.has_body
        self._owner.flush()
        await self._stream.drain()

    async def write(self, data: bytes) -> None:
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                self.abort()
                raise ConnectionAbortedError("the response is longer than its head says")
        view = memoryview(data)
        while view:
            size = min(self._connection.sendable(self._id), len(view))
            if not size:
                await self._wait_for_window()
                continue
            self._connection.send_data(self._id, bytes(view[:size]))
            view = view[size:]
            self._owner.flush()
            await self._stream.drain()

    async def _wait_for_window(self) -> None:
        self.window_opened.clear()
        try:
            async with asyncio.timeout(LONGEST_STALL):
                await self.window_opened.wait()
        except TimeoutError:
            self.abort()
            raise ConnectionResetError("the client reads nothing of a response") from None

    async def finish(self, trailers: Headers = ()) -> None:
        if self._is_finished:
            return
        if self._left:
            self.abort()
            raise ConnectionAbortedError("the response is shorter than its head says")
        self._send_end(trailers)
        self._is_finished = True
        self._owner.flush()
        await self._stream.drain()

    def _send_end(self, trailers: Headers) -> None:
        head, self._withheld = self._withheld, None
        if head is not None:
            # Without trailers the head is the end. Clients of gRPC read a status in it only then.
            self._connection.send_response(self._id, head, end=not trailers)
            self.has_begun = True
        if head is None or trailers:
            self._connection.send_end(self._id, trailers)

    def abort(self) -> None:
        self._connection.reset(self._id, Http2Code.INTERNAL_ERROR)
        self._is_finished = True
        self._owner.flush()

    def conclude(self) -> None:
        """End the stream completely. The unread rest of the request is discarded."""
        if not self._is_finished:
            self.abort()
        elif not self._has_read_end:
            self._connection.reset(self._id, Http2Code.NO_ERROR)
        self._owner.flush()
        if self.is_last:
            self._owner.go_away()
