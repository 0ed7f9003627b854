"""One exchange on a link: the request as frames to the agent, the response from frames to the client."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace
from typing import Final

from postern.errors import ProtocolViolation
from postern.protocols.http.http1.http1_events import BodyData, BodyEnd
from postern.protocols.http.http_frames import (
    FAILED,
    REQUEST_DATA,
    REQUEST_END,
    RESPONSE,
    RESPONSE_DATA,
    RESPONSE_END,
    HttpFrame,
    data_frames,
    end_frame,
    read_failure,
    read_trailers,
    request_frame,
)
from postern.protocols.http.http_heads import RequestHead, ResponseHead
from postern.protocols.http.http_rewriting import HttpRewriting
from postern.protocols.http.http_syntax import HttpSyntaxError
from postern.protocols.http.listener.http_client_exchange import ClientExchange
from postern.protocols.http.listener.http_credentials import without_own_cookies
from postern.protocols.http.listener.http_link import HttpLink

log = logging.getLogger(__name__)

_LATE_END: Final = 0.1  # seconds that the end of a request can come after its response


class ExchangeFailed(ProtocolViolation):
    """There is no response to a request, with the status to answer instead. If a response has begun, it is broken
    off."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class HttpRelay:
    """Carries one exchange. `head` is the request's without the credential; `number` is unique in the session."""

    def __init__(
        self, exchange: ClientExchange, link: HttpLink, head: RequestHead, rewriting: HttpRewriting, number: int
    ) -> None:
        self._exchange = exchange
        self._link = link
        self._head = rewriting.request(head)
        self._rewriting = rewriting
        self._number = number
        self._answered: asyncio.Future[bool] | None = None  # True: by 101; only if the request has more than a head

    async def run(self) -> bool:
        """Run the exchange. Return whether the link can carry another. Raises ExchangeFailed, HttpSyntaxError for an
        invalid body, and ConnectionError when the client has disconnected."""
        head, link = self._head, self._link
        if head.upgrade and head.length != 0:
            head = replace(head, upgrade="")  # a body and a new protocol: only one of them
        if not head.upgrade and head.length == 0:
            end = await self._exchange.read()
            assert isinstance(end, BodyEnd)
            await self._send(request_frame(self._number, head) + end_frame(REQUEST_END, self._number))
            await self._receive()
            return not link.has_ended
        await self._send(request_frame(self._number, head))
        return await self._run_both(is_upgrade=bool(head.upgrade))

    async def _run_both(self, *, is_upgrade: bool) -> bool:
        self._answered = asyncio.get_running_loop().create_future()
        upload = asyncio.get_running_loop().create_task(self._upload(is_upgrade=is_upgrade))
        download = asyncio.get_running_loop().create_task(self._receive())
        try:
            await asyncio.wait((upload, download), return_when=asyncio.FIRST_COMPLETED)
            if upload.done() and upload.exception() is not None and not download.done():
                self._link.close()  # the target must not take the request for complete
                upload.result()
            await download
            if not upload.done():
                await asyncio.wait((upload,), timeout=None if self._is_raw() else _LATE_END)
            return upload.done() and upload.exception() is None and not self._link.has_ended and not self._is_raw()
        finally:
            for task in (upload, download):
                task.cancel()
            await asyncio.gather(upload, download, return_exceptions=True)

    def _is_raw(self) -> bool:
        return self._answered is not None and self._answered.done() and self._answered.result()

    async def _send(self, data: bytes) -> None:
        with suppress(ConnectionResetError):  # the response, or its absence, tells why
            await self._link.send(data)

    async def _upload(self, *, is_upgrade: bool) -> None:
        """Send the body. The end of a request to upgrade depends on the response: it comes with the end of the new
        protocol, if there is one."""
        exchange, number = self._exchange, self._number
        if is_upgrade:
            await exchange.read()
            assert self._answered is not None
            if not await asyncio.shield(self._answered):
                await self._send(end_frame(REQUEST_END, number))
                return
        while True:
            event = await exchange.read()
            if isinstance(event, BodyData):
                await self._send(data_frames(REQUEST_DATA, number, event.data))
            else:
                await self._send(end_frame(REQUEST_END, number, event.trailers))
                return
            if self._link.has_ended:
                return

    async def _receive(self) -> None:
        """Pass the response on. Raises ExchangeFailed."""
        exchange = self._exchange
        try:
            head = self._first(await self._next())
            await exchange.respond(without_own_cookies(self._rewriting.response(head)))
            self._answer(is_raw=head.status == 101)
            while True:
                frame = await self._next()
                if frame.kind == RESPONSE_DATA:
                    await exchange.write(frame.payload)
                elif frame.kind == RESPONSE_END:
                    await exchange.finish(read_trailers(frame.payload))
                    return
                elif frame.kind == FAILED:
                    raise ExchangeFailed(502, read_failure(frame.payload).message)
                else:
                    raise ExchangeFailed(502, "the gateway could not read the response")
        except HttpSyntaxError:
            raise
        except ProtocolViolation as error:
            raise error if isinstance(error, ExchangeFailed) else ExchangeFailed(502, error.message) from error
        except ValueError as error:
            raise ExchangeFailed(502, f"the application's response cannot be sent: {error}") from error
        finally:
            self._answer(is_raw=False)

    def _answer(self, *, is_raw: bool) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(is_raw)

    def _first(self, frame: HttpFrame) -> ResponseHead:
        head = self._link.response
        if frame.kind == FAILED:
            failure = read_failure(frame.payload)
            raise ExchangeFailed(504 if failure.code == "timeout" else 502, failure.message)
        if frame.kind != RESPONSE or head is None:
            raise ExchangeFailed(502, "the gateway could not read the response")
        return head

    async def _next(self) -> HttpFrame:
        frame = await self._link.next_frame()
        if frame is None:
            raise ExchangeFailed(503, "")
        if frame.exchange != self._number:
            raise ExchangeFailed(502, "the gateway could not read the response")
        return frame
