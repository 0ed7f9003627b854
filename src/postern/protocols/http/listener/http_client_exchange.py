"""One request of a client and its response, the same for every version of HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Protocol

from postern.domain.identity.credential import Grant
from postern.domain.rules.permit import Permit
from postern.gateway.clients.session_setup import ClientSession
from postern.gateway.clients.tunnel_request import TunnelRequest
from postern.protocols.http.http1.http1_events import BodyData, BodyEnd
from postern.protocols.http.http_heads import Headers, RequestHead, ResponseHead
from postern.protocols.http.listener.http_credentials import PresentedCredential


class ClientExchange(Protocol):
    """A request whose head has arrived. Waits raise ConnectionError when the client has disconnected."""

    is_last: bool
    """The connection is closed after it."""

    @property
    def head(self) -> RequestHead: ...

    @property
    def has_begun(self) -> bool:
        """Return whether a response was begun."""

    async def read(self) -> BodyData | BodyEnd:
        """Return more of the body; after a response 101, bytes of the new protocol. Raises HttpSyntaxError."""

    def reassure(self) -> None:
        """Send the client a sign of life before the response begins, if its version of HTTP has one."""

    async def respond(self, head: ResponseHead) -> None:
        """Begin the response."""

    async def write(self, data: bytes) -> None:
        """Write more of its body. Waits while the client does not read."""

    async def finish(self, trailers: Headers = ()) -> None:
        """End the response."""

    def abort(self) -> None:
        """Break off, so that the client does not take what it has for the whole response."""


class ReadExchange:
    """An exchange whose body was read before."""

    def __init__(self, exchange: ClientExchange, body: bytes) -> None:
        self._parts: list[BodyData | BodyEnd] = [BodyData(body), BodyEnd()] if body else [BodyEnd()]
        self._exchange = exchange
        self.head = exchange.head
        self.reassure = exchange.reassure
        self.respond = exchange.respond
        self.write = exchange.write
        self.finish = exchange.finish
        self.abort = exchange.abort

    @property
    def has_begun(self) -> bool:
        return self._exchange.has_begun

    @property
    def is_last(self) -> bool:
        return self._exchange.is_last

    @is_last.setter
    def is_last(self, value: bool) -> None:
        self._exchange.is_last = value

    async def read(self) -> BodyData | BodyEnd:
        return self._parts.pop(0)


@dataclass(frozen=True, slots=True)
class GatewayResponse:
    """A response of the gateway itself."""

    status: int
    body: bytes = b""
    headers: Headers = ()
    content_type: str = "text/plain; charset=utf-8"


class HttpIdentity(Protocol):
    """Whose request it is. Requests with the same `key` belong to one session. `since` is `LinkRegistry.changes` from
    before authentication."""

    @property
    def key(self) -> Hashable: ...

    @property
    def since(self) -> int: ...

    @property
    def request(self) -> TunnelRequest | None: ...

    async def permit(self, client: ClientSession) -> Permit:
        """Return the permit, at once or after approval. Raises the errors of admission."""


@dataclass(frozen=True, slots=True)
class KnownLogin:
    """The credential of a connection's last request, after its check.

    - `digest`: `CredentialScheme.login_digest` of that request.
    - `since`: `LinkRegistry.changes` from before the check.
    - `presented`: without its password.
    """

    digest: bytes
    since: int
    presented: PresentedCredential
    identity: HttpIdentity
    grant: Grant


@dataclass(slots=True)
class HttpVisitor:
    """The client of one connection, whatever the version.

    - `on_authenticated` is called for each request with a valid credential.
    - `failures` counts the others.
    - `identity` is that of a local port's client, which needs no credential.
    - `login` is that of the last request with a credential.
    - `verified` are the checks of the credentials that it sent, each with `LinkRegistry.changes` from before it.
    """

    peer: str
    tls: bool
    on_authenticated: Callable[[], None] = lambda: None
    failures: int = 0
    identity: HttpIdentity | None = None
    login: KnownLogin | None = None
    verified: dict[bytes, tuple[int, asyncio.Task[Grant]]] = field(default_factory=dict)

    @property
    def scheme(self) -> str:
        return "https" if self.tls else "http"


ServeExchange = Callable[[ClientExchange, HttpVisitor], Awaitable[None]]


class HttpLoginPages(Protocol):
    """The gateway's own login pages, for browsers without a credential."""

    async def handle(self, head: RequestHead, body: bytes, client: HttpVisitor) -> GatewayResponse | None:
        """Return the response to a request below `/.postern/`, or to a browser's request without a valid credential;
        None for one that it does not know."""

    def require_usable(self, head: RequestHead, source: bytes, grant: Grant) -> None:
        """Raises Unauthenticated for a credential that cannot be used at this host, and for one of a cookie that is no
        longer valid, so that its browser is led to the login. `source`: the header with the credential."""


def is_browser(head: RequestHead) -> bool:
    """Return whether a person looks at the response: a browser opens a page."""
    if head.method not in ("GET", "HEAD"):
        return False
    headers = dict(head.headers)
    mode = headers.get(b"sec-fetch-mode")
    return b"text/html" in headers.get(b"accept", b"") and mode in (None, b"navigate")
