"""A client's connection with HTTP/1.1 or 1.0: one request after another, also when it pipelines."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Final

from postern.protocols.http.http1.http1_events import BodyData, BodyEnd
from postern.protocols.http.http1.http1_request_reader import Http1RequestReader
from postern.protocols.http.http1.http1_writer import (
    CONTINUE,
    chunk,
    ends_with_connection,
    is_chunked,
    last_chunk,
    response_head_bytes,
)
from postern.protocols.http.http_heads import Headers, RequestHead, ResponseHead
from postern.protocols.http.http_syntax import HttpSyntaxError
from postern.protocols.http.listener.http_client_exchange import HttpVisitor, ServeExchange
from postern.protocols.http.listener.http_pages import error_response, response_of
from postern.protocols.http.listener.http_stream import HttpStream

log = logging.getLogger(__name__)

KEEP_ALIVE: Final = 120.0  # seconds that a connection can be without a request
HEAD_TIME: Final = 30.0  # seconds from the first byte of a head to its last
LONGEST_SILENCE: Final = 120.0  # seconds in the middle of a body
# How much of an unwanted body is read, so that the connection can be used again.
_MOST_UNWANTED: Final = 256 * 1024
_UNWANTED_TIME: Final = 2.0


class Http1Client:
    """Serves one connection."""

    def __init__(self, stream: HttpStream, client: HttpVisitor, serve: ServeExchange) -> None:
        self._stream = stream
        self._client = client
        self._serve = serve
        self._reader = Http1RequestReader()
        self._loop = asyncio.get_running_loop()
        self._is_idle = True
        self._is_closing = False
        self._task: asyncio.Task[object] | None = None

    async def run(self) -> None:
        """Serve until either side closes."""
        self._task = asyncio.current_task()
        self._stream.on_lost = self._cancel
        try:
            if self._stream.is_lost:
                return
            while await self._serve_next() and not self._is_closing:
                self._reader.next_request()
        except asyncio.CancelledError:
            if not self._stream.is_lost and not self._is_closing:
                raise  # cancelled from outside
        except (ConnectionError, TimeoutError) as error:
            log.debug("client %s disconnected: %s", self._client.peer, error)
        finally:
            self._stream.on_lost = lambda: None
            self._stream.close()

    def close(self) -> None:
        """Close the connection: now, or after the response that is being sent."""
        self._is_closing = True
        if self._is_idle:
            self._cancel()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _serve_next(self) -> bool:
        """Serve one request. Return whether another can follow."""
        try:
            head = await self._next_head()
        except HttpSyntaxError as error:
            await self._refuse(error)
            return False
        if head is None:
            return False
        self._is_idle = False
        exchange = Http1Exchange(self._stream, self._reader, head)
        exchange.is_last = self._is_closing
        await self._serve(exchange, self._client)
        follows = await exchange.conclude()
        self._is_idle = True
        return follows

    async def _next_head(self) -> RequestHead | None:
        """Return the next head; None if the client sends none in time. Raises HttpSyntaxError."""
        reader, loop = self._reader, self._loop
        deadline = 0.0
        has_begun = False
        while (event := reader.next_event()) is None:
            if not has_begun:
                has_begun = reader.waiting > 0
                deadline = loop.time() + (HEAD_TIME if has_begun else KEEP_ALIVE)
            try:
                data = await self._stream.read(deadline)
            except TimeoutError:
                if not has_begun:
                    return None
                raise HttpSyntaxError(408, f"the request's head did not arrive within {HEAD_TIME:g} seconds") from None
            if not data:  # a client that has closed its direction after its last request
                return None
            reader.feed(data)
        assert isinstance(event, RequestHead)
        return event

    async def _refuse(self, error: HttpSyntaxError) -> None:
        log.info("client %s sent a request that is not valid: %s", self._client.peer, error.message)
        response = error_response(error.status, error.message)
        head, body = response_of(response, method="GET")
        self._stream.write(response_head_bytes(head, keep_alive=False) + body)
        await _linger(self._stream)


class Http1Exchange:
    """A request and its response; a `ClientExchange`. `is_last`: the connection is closed after it."""

    def __init__(self, stream: HttpStream, reader: Http1RequestReader, head: RequestHead) -> None:
        self.head = head
        self.is_last = False
        self.has_begun = False
        self._stream = stream
        self._reader = reader
        self._waits_for_continue = reader.expects_continue
        self._minor_version = reader.minor_version
        self._rest = b""  # the first bytes of a new protocol
        self._is_chunked = False
        self._is_finished = False
        self._left: int | None = 0  # bytes of the response's body; None if its length is unknown

    async def read(self) -> BodyData | BodyEnd:
        if self._stream.is_raw:
            return await self._read_raw()
        reader = self._reader
        while (event := reader.next_event()) is None:
            if self._waits_for_continue and not self.has_begun:
                self._stream.write(CONTINUE)
            self._waits_for_continue = False
            try:
                data = await self._stream.read(asyncio.get_running_loop().time() + LONGEST_SILENCE)
            except TimeoutError:
                raise HttpSyntaxError(408, f"no more of the body arrived for {LONGEST_SILENCE:g} seconds") from None
            if not data:
                raise ConnectionResetError("the client has closed its direction within a body")
            reader.feed(data)
        assert not isinstance(event, RequestHead)
        return event

    async def _read_raw(self) -> BodyData | BodyEnd:
        data, self._rest = self._rest, b""
        data = data or await self._stream.read()
        return BodyData(data) if data else BodyEnd()

    def reassure(self) -> None:
        if self._minor_version and not self.has_begun and self._reader.is_done:
            self._stream.write(CONTINUE)

    async def respond(self, head: ResponseHead) -> None:
        """Begin the response. Raises ValueError for a head that cannot be sent."""
        if self._waits_for_continue:
            self.is_last = True  # it is not known whether the client sends the body
        keep_alive = self._reader.keep_alive and not self.is_last
        version = self._minor_version
        data = response_head_bytes(
            head, keep_alive=keep_alive, minor_version=version, upgrade=self.head.upgrade if head.status == 101 else ""
        )
        self.has_begun = True
        if head.status == 101:
            self._stream.is_raw = True
            self._rest = self._reader.take_rest()
            self._left = None
        else:
            self._is_chunked = is_chunked(head, version)
            self._left = head.length if head.has_body else 0
            self.is_last = not keep_alive or ends_with_connection(head, version)
        self._stream.write_soon(data)
        await self._stream.drain()

    async def write(self, data: bytes) -> None:
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0:  # the rest would be taken for the next response
                self.abort()
                raise ConnectionAbortedError("the response is longer than its head says")
        self._stream.write_soon(chunk(data) if self._is_chunked else data)
        await self._stream.drain()

    async def finish(self, trailers: Headers = ()) -> None:
        if self._stream.is_raw:
            self._stream.end_writing()
        elif self._left:
            self.abort()
            raise ConnectionAbortedError("the response is shorter than its head says")
        elif self._is_chunked:
            self._stream.write(last_chunk(trailers))
        else:
            self._stream.write(b"")
        self._is_finished = True
        await self._stream.drain()

    def abort(self) -> None:
        self.is_last = True
        self._stream.abort()

    async def conclude(self) -> bool:
        """End the exchange. Return whether the connection can be used for another."""
        if not self._is_finished or self._stream.is_raw or self._stream.is_lost:
            return False
        if self.is_last:
            if not self._reader.is_done:
                await _linger(self._stream)
            return False
        if not self._reader.is_done and not await self._discard_rest():
            await _linger(self._stream)
            return False
        return True

    async def _discard_rest(self) -> bool:
        """Read the rest of an unwanted body. Return False if that is too long."""
        size = 0
        try:
            async with asyncio.timeout(_UNWANTED_TIME):
                while isinstance(event := await self.read(), BodyData):
                    size += len(event.data)
                    if size > _MOST_UNWANTED:
                        return False
        except (TimeoutError, HttpSyntaxError):
            return False
        return True


async def _linger(stream: HttpStream) -> None:
    """Close this direction, and wait a little for the client to close its own: a close while it still sends would be a
    reset, and it could lose the response."""
    stream.end_writing()
    with suppress(TimeoutError, ConnectionError):
        async with asyncio.timeout(_UNWANTED_TIME):
            while await stream.read():
                pass
