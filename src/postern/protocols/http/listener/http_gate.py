"""HTTP clients at the gateway's port, and at the local ports of command lines.

    native port ─▶ TLS, ALPN ─┬─ h2 ──────────▶ http2_serving.py ─┐
                              └─ http/1.1 ────▶ http1_serving.py ─┤─▶ http_front.py for each request
    local port  ─▶ HTTP/1.1, or HTTP/2 by its preface ───────────┘

A connection counts as a login until its first request with a valid credential, and must send that within the time of
logins. Then it stays until it is unused, or either side closes it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Final, Protocol

from postern.errors import PosternError, Unauthenticated
from postern.gateway.clients.session_setup import SessionSetup, log_rejection
from postern.gateway.clients.tunnel_request import TunnelRequest
from postern.gateway.gateway_protocols import GateParts
from postern.protocols.http.http1.http1_request_reader import Http1RequestReader
from postern.protocols.http.http1.http1_writer import response_head_bytes
from postern.protocols.http.http_heads import RequestHead
from postern.protocols.http.http_syntax import HttpSyntaxError
from postern.protocols.http.listener.credential_scheme import CredentialScheme, HeaderCredentials
from postern.protocols.http.listener.http1_serving import KEEP_ALIVE, Http1Client
from postern.protocols.http.listener.http2_serving import Http2Client
from postern.protocols.http.listener.http_authentication import HttpAuthentication, TunnelIdentity
from postern.protocols.http.listener.http_client_exchange import (
    GatewayResponse,
    HttpLoginPages,
    HttpVisitor,
    ServeExchange,
)
from postern.protocols.http.listener.http_front import HttpFront
from postern.protocols.http.listener.http_pages import error_response, response_of, status_for
from postern.protocols.http.listener.http_sessions import HttpSessions
from postern.protocols.http.listener.http_stream import HttpStream
from postern.relay.relay_handshake import StreamHandshake

log = logging.getLogger(__name__)

_HTTP2_PREFACE: Final = b"PRI"  # no method begins with these bytes, and no valid request is shorter
_TLS_RECORD: Final = b"\x16"  # the first byte of a TLS handshake
_HTTPS_NEEDED: Final = (
    "this port requires TLS beyond the gateway's own machine, as the request has a password; use https:// instead"
)


class HttpConnection(Protocol):
    """A client's connection of either version."""

    async def run(self) -> None:
        """Serve until either side closes."""

    def close(self) -> None:
        """Close it: now, or after what is being sent."""


class _UndecidedClient:
    """A client without TLS: its first bytes tell its version."""

    def __init__(self, stream: HttpStream, client: HttpVisitor, serve: ServeExchange) -> None:
        self._stream = stream
        self._stream.serves_half_closed = True
        self._client = client
        self._serve = serve
        self._chosen: HttpConnection | None = None
        self._task: asyncio.Task[object] | None = None

    async def run(self) -> None:
        """Serve until either side closes."""
        self._task = asyncio.current_task()
        try:
            async with asyncio.timeout(KEEP_ALIVE):
                begin = await self._stream.peek(len(_HTTP2_PREFACE))
        except (TimeoutError, ConnectionError):
            self._stream.close()
            return
        chosen = Http2Client if begin == _HTTP2_PREFACE else Http1Client
        if chosen is Http2Client:
            self._stream.require_both_directions()
        self._chosen = chosen(self._stream, self._client, self._serve)
        await self._chosen.run()

    def close(self) -> None:
        """Close the connection: now, or after what is being sent."""
        if self._chosen is not None:
            self._chosen.close()
        elif self._task is not None:
            self._stream.abort()


class HttpConnections:
    """Open connections of clients."""

    def __init__(self, front: HttpFront) -> None:
        self._front = front
        self._open: set[HttpConnection] = set()

    def start(self, handshake: StreamHandshake, client: HttpVisitor) -> asyncio.Task[None]:
        """Serve a client from now on. Raises ConnectionError if it has gone."""
        connection = self._connection(handshake, client)
        return asyncio.get_running_loop().create_task(self._run(connection))

    def _connection(self, handshake: StreamHandshake, client: HttpVisitor) -> HttpConnection:
        assert handshake.transport is not None
        tls = handshake.transport.get_extra_info("ssl_object")
        stream = HttpStream(handshake)
        if tls is None:
            return _UndecidedClient(stream, client, self._front.serve)
        is_http2 = tls.selected_alpn_protocol() == "h2"
        return (Http2Client if is_http2 else Http1Client)(stream, client, self._front.serve)

    async def _run(self, connection: HttpConnection) -> None:
        self._open.add(connection)
        try:
            await connection.run()
        finally:
            self._open.discard(connection)

    def close(self) -> None:
        for connection in list(self._open):
            connection.close()


class HttpGate:
    """Serves the clients of the native port of one protocol. `scheme` is how they prove themselves."""

    def __init__(
        self,
        parts: GateParts,
        protocol: str,
        *,
        browser_login: HttpLoginPages | None = None,
        scheme: CredentialScheme | None = None,
    ) -> None:
        self._certificate = parts.certificate
        self._fronts = parts.fronts
        self._scheme = scheme or HeaderCredentials()
        authentication = HttpAuthentication(parts.fronts, parts.decoy_secret)
        sessions = HttpSessions(parts.fronts, protocol)
        self._connections = HttpConnections(
            HttpFront(parts.fronts.engine, sessions, authentication, browser_login, self._scheme)
        )

    async def native(self, stream: StreamHandshake, *, require_tls: bool) -> Awaitable[None] | None:
        """Serve a client on the protocol's port, which sends a credential with each request."""
        stream.half_open = True  # a client can close its direction after its request
        tls = await stream.peek(1) == _TLS_RECORD
        if tls:
            try:
                await stream.start_tls(self._certificate.web_context())
            except PosternError as error:
                self._fronts.engine.turned_away(error)
                log_rejection(stream, error)
                return None
        elif require_tls:
            await _ask_for_tls(stream)
            return None
        authenticated: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def handle_authenticated() -> None:
            if not authenticated.done():
                authenticated.set_result(None)

        client = HttpVisitor(stream.peer, tls, handle_authenticated)
        task = self._connections.start(stream, client)
        try:
            await asyncio.wait((task, authenticated), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:  # the deadline of logins
            task.cancel()
            raise
        if not authenticated.done():
            await task
            return None
        stream.on_known()
        stream.on_held()
        return _stay(task)

    async def reject(self, stream: StreamHandshake, error: PosternError) -> None:
        """Tell a client why it cannot be served now. The listener has already logged the error."""
        self._fronts.engine.turned_away(error)
        if await stream.peek(1) == _TLS_RECORD:
            await stream.start_tls(self._certificate.current.context)  # without ALPN, clients choose HTTP/1.1
        head = await _read_head(stream)
        own = None if head is None else self._scheme.answer(head, error)
        if own is None:
            _respond(stream, error_response(status_for(error), error.message, retry_after=5))
        else:
            stream.write(response_head_bytes(own[0], keep_alive=False) + own[1])

    def close(self, reason: str) -> None:
        """Close all connections, after their sessions have ended."""
        self._connections.close()


class HttpLocalPort:
    """Serves clients of the command line's local ports, whose user is known."""

    def __init__(self, fronts: SessionSetup, protocol: str, *, scheme: CredentialScheme | None = None) -> None:
        self._fronts = fronts
        self._connections = HttpConnections(HttpFront(fronts.engine, HttpSessions(fronts, protocol), scheme=scheme))

    async def serve_tunnel(self, stream: StreamHandshake, request: TunnelRequest) -> Awaitable[None] | None:
        """Serve a client of a tunnel."""
        stream.on_known()
        stream.on_held()
        identity = TunnelIdentity(self._fronts, request, stream.peer)
        return _stay(self._connections.start(stream, HttpVisitor(stream.peer, tls=False, identity=identity)))

    async def reject(self, stream: StreamHandshake, error: PosternError) -> None:
        """Tell a client why it cannot be served. The listener has already logged the error."""
        self._fronts.engine.turned_away(error)
        log_rejection(stream, error, level=logging.DEBUG)
        _respond(stream, error_response(status_for(error), error.message))


async def _stay(task: asyncio.Task[None]) -> None:
    try:
        await task
    except asyncio.CancelledError:
        task.cancel()
        raise


async def _ask_for_tls(stream: StreamHandshake) -> None:
    """Answer a request without TLS that must have it: with the address that has."""
    head = await _read_head(stream)
    if head is not None and head.method in ("GET", "HEAD"):
        location = f"https://{head.authority}{head.target}".encode()
        _respond(stream, GatewayResponse(307, f"{_HTTPS_NEEDED}\n".encode(), ((b"location", location),)))
    else:
        _respond(stream, error_response(400, _HTTPS_NEEDED))
    log_rejection(stream, Unauthenticated("it did not use TLS"))


async def _read_head(stream: StreamHandshake) -> RequestHead | None:
    """Read the head of one request; None for one that is not valid."""
    reader = Http1RequestReader()
    try:
        while (event := reader.next_event()) is None:
            reader.feed(await stream.read(max(1, stream.buffered)))
    except HttpSyntaxError:
        return None
    return event if isinstance(event, RequestHead) else None


def _respond(stream: StreamHandshake, response: GatewayResponse) -> None:
    head, body = response_of(response, "GET")
    stream.write(response_head_bytes(head, keep_alive=False) + body)
