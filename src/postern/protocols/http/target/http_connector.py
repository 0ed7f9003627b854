"""Connecting to an application: TCP, TLS, the choice of the version, and connections of HTTP/2 that links share.

The links of a session share connections of HTTP/2, each link with a stream: they have the same credential, and an
application sees one connection as from any other client, without a TLS handshake for each request that runs at the same
time. Sessions never share one: applications may bind what they know of a client to its connection. A connection closes
with its last link. Links of HTTP/1.1 have a connection each.

Until it is known which version the application speaks, the links of a session connect one after another, so that the
first connection can serve all of them.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import cast

from postern.agent.dialling import notice_death
from postern.domain.text import one_line
from postern.domain.tracing import SpanKind, part
from postern.errors import Unavailable
from postern.protocols.http.http_heads import RequestHead
from postern.protocols.http.target.http1_upstream import Http1Upstream
from postern.protocols.http.target.http2_target_connection import Http2TargetConnection
from postern.protocols.http.target.http_access import H2, HTTP1, HttpAccess
from postern.protocols.http.target.http_upstream import Upstream


@dataclass(slots=True)
class SharedConnections:
    """The connections that the links of one session share."""

    links: int = 0
    is_http1: bool = False  # the application speaks no HTTP/2: nothing can be shared
    connecting: asyncio.Lock = field(default_factory=asyncio.Lock)
    connections: list[Http2TargetConnection] = field(default_factory=list)

    def stream(self) -> Upstream | None:
        """Return a stream of a connection that has room for another link."""
        self.connections = [connection for connection in self.connections if not connection.is_closed]
        for connection in self.connections:
            if connection.has_room:
                return connection.upstream()
        return None


class HttpConnector:
    """Makes the connections of one link. `close` is called once, after the link was closed."""

    def __init__(self, access: HttpAccess, pool: dict[Hashable, SharedConnections], session: Hashable) -> None:
        self._access = access
        self._pool = pool
        self._key = (session, access)
        self._shared = pool.setdefault(self._key, SharedConnections())
        self._shared.links += 1

    async def connect_for(self, head: RequestHead) -> Upstream:
        """Connect for this request. A change of protocols needs HTTP/1.1. Raises Unavailable."""
        return await self.connect(http1=bool(head.upgrade))

    async def connect(self, *, http1: bool = False) -> Upstream:
        """Connect, or join a connection of HTTP/2. Raises Unavailable."""
        shared = self._shared
        if http1 or shared.is_http1 or H2 not in self._access.versions:
            return await self._open_http1()
        async with shared.connecting:
            upstream = shared.stream()
            if upstream is not None:
                return upstream
            if not shared.is_http1:  # not found out meanwhile by another request
                opened = await self._open(self._access.versions)
                if isinstance(opened, Http1Upstream):
                    shared.is_http1 = True
                    return opened
                return await self._share(opened)
        return await self._open_http1()

    def close(self) -> None:
        self._shared.links -= 1
        if not self._shared.links:
            self._pool.pop(self._key, None)
            for connection in self._shared.connections:
                connection.close()

    async def _open_http1(self) -> Upstream:
        opened = await self._open((HTTP1,))
        assert isinstance(opened, Http1Upstream)
        return opened

    async def _share(self, opened: Http2TargetConnection) -> Upstream:
        """Wait for the settings of a connection, which say how many links it has room for. Raises Unavailable."""
        try:
            await opened.wait_for_settings()
        except BaseException:
            opened.close()
            raise
        self._shared.connections.append(opened)
        return opened.upstream()

    async def _open(self, versions: tuple[str, ...]) -> Http1Upstream | Http2TargetConnection:
        """Return a connection that speaks one of these versions. Raises Unavailable."""
        access = self._access
        with part("target.connect", SpanKind.CLIENT):
            transport, early = await self._open_transport(versions)
        tls = transport.get_extra_info("ssl_object")
        chosen = versions[0] if tls is None else tls.selected_alpn_protocol() or HTTP1
        if chosen not in versions:
            transport.abort()
            raise Unavailable(
                f"the target at {access.address} does not speak HTTP/2; remove the connection's secret HTTP_VERSION"
            )
        connection: Http1Upstream | Http2TargetConnection
        connection = Http2TargetConnection(access.scheme, access.address) if chosen == H2 else Http1Upstream()
        early.hand_over(cast("asyncio.Protocol", connection))
        return connection

    async def _open_transport(self, versions: tuple[str, ...]) -> tuple[asyncio.Transport, _EarlyBytes]:
        """Connect and, for https, verify the certificate. Raises Unavailable."""
        access = self._access
        try:
            context = access.tls(versions)
        except ssl.SSLError:
            raise Unavailable("the connection's secret SSLROOTCERT does not contain certificates (PEM)") from None
        try:
            transport, early = await asyncio.get_running_loop().create_connection(
                _EarlyBytes,
                access.host,
                access.port,
                ssl=context,
                server_hostname=access.host if context is not None else None,
            )
        except ssl.SSLCertVerificationError as error:
            raise Unavailable(_describe_verification(access, error)) from error
        except ssl.SSLError as error:
            raise Unavailable(_describe_handshake(access, error)) from error
        except (OSError, UnicodeError) as error:
            raise Unavailable(f"the target at {access.address} cannot be reached: {_words(error)}") from error
        connected = transport.get_extra_info("socket")
        if connected is not None and connected.family in (socket.AF_INET, socket.AF_INET6):
            notice_death(connected)
        return transport, early


class _EarlyBytes(asyncio.Protocol):
    """Keeps what the application sends until it is known which version it speaks: servers of HTTP/2 send first."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._data: list[bytes] = []
        self._has_ended = False
        self._lost: list[Exception | None] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._data.append(data)

    def eof_received(self) -> bool:
        self._has_ended = True
        return True

    def connection_lost(self, error: Exception | None) -> None:
        self._lost.append(error)

    def hand_over(self, successor: asyncio.Protocol) -> None:
        """Give the transport to `successor`, with everything that happened so far."""
        assert self._transport is not None
        self._transport.set_protocol(successor)
        successor.connection_made(self._transport)
        if self._data:
            successor.data_received(b"".join(self._data))
        if self._has_ended and not successor.eof_received():
            self._transport.close()
        if self._lost:
            successor.connection_lost(self._lost[0])


def _describe_verification(access: HttpAccess, error: ssl.SSLCertVerificationError) -> str:
    return (
        f"the certificate of the target at {access.address} is not accepted: {one_line(error.verify_message)}. Set the "
        "connection's secret SSLROOTCERT to the certificate of its authority, or INSECURE to true for no verification"
    )


def _describe_handshake(access: HttpAccess, error: ssl.SSLError) -> str:
    reason = (error.reason or str(error)).replace("_", " ").lower()
    hint = "; it seems to speak http, not https: change REMOTE_URL" if "wrong version number" in reason else ""
    return f"the TLS handshake with the target at {access.address} failed: {one_line(reason)}{hint}"


def _words(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return one_line(text)[:200]
