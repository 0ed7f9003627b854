"""One request after its head has arrived: authenticate it, find its session, run it on a link, or say why not.

/.postern/ ─▶ the gateway's own pages
no valid credential ─▶ browsers: the gateway's login; programs: 401
a credential ─▶ its session (maybe after a review) ─▶ a free link ─▶ http_relay.py
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Final

from postern.domain.secret import Secret
from postern.domain.sessions.session import EndReason
from postern.errors import Denied, PosternError, Unauthenticated
from postern.gateway.clients.failed_logins import TooManyFailedLogins
from postern.gateway.engine import Engine
from postern.gateway.session_opening import SessionAborted
from postern.protocols.gateway_queries import TargetRefused
from postern.protocols.http.http1.http1_events import BodyData
from postern.protocols.http.http_heads import RequestHead, ResponseHead, first_value
from postern.protocols.http.http_rewriting import HttpRewriting
from postern.protocols.http.http_syntax import HttpSyntaxError
from postern.protocols.http.listener.credential_scheme import CredentialScheme, HeaderCredentials
from postern.protocols.http.listener.http_authentication import HttpAuthentication
from postern.protocols.http.listener.http_client_exchange import (
    ClientExchange,
    GatewayResponse,
    HttpIdentity,
    HttpLoginPages,
    HttpVisitor,
    KnownLogin,
    ReadExchange,
    is_browser,
)
from postern.protocols.http.listener.http_credentials import PresentedCredential
from postern.protocols.http.listener.http_link import HttpLink
from postern.protocols.http.listener.http_pages import (
    error_response,
    for_reader,
    response_of,
    status_for,
    waiting_response,
)
from postern.protocols.http.listener.http_relay import ExchangeFailed, HttpRelay
from postern.protocols.http.listener.http_sessions import HttpSession, HttpSessions, ReviewPending

log = logging.getLogger(__name__)

OWN_PATHS: Final = "/.postern/"
BROWSER_PATIENCE: Final = 5.0  # seconds that a browser waits for a review before it is told so
MOST_FAILURES: Final = 10  # requests of one connection without a valid credential
_MOST_FORM: Final = 64 * 1024  # bytes of a body for the gateway's own pages
NO_CREDENTIAL: Final = (
    "the request has no credential of the gateway; send user name and password of one as Basic authentication, or in "
    "the header Postern-Authorization"
)


class HttpFront:
    """Serves the requests of one gate. Without `authentication` every client has its identity already."""

    def __init__(
        self,
        engine: Engine,
        sessions: HttpSessions,
        authentication: HttpAuthentication | None = None,
        browser_login: HttpLoginPages | None = None,
        scheme: CredentialScheme | None = None,
    ) -> None:
        self._engine = engine
        self._sessions = sessions
        self._authentication = authentication
        self._browser_login = browser_login
        self._scheme = scheme or HeaderCredentials()

    async def serve(self, exchange: ClientExchange, client: HttpVisitor) -> None:
        """Answer a request. Raises ConnectionError when the client has disconnected."""
        try:
            await self._serve(exchange, client)
        except PosternError as error:
            await self._answer_error(exchange, client, error)
        except ConnectionError:
            raise
        except Exception:
            log.exception("a request of client %s failed", client.peer)
            failed = PosternError("the gateway could not handle this request")
            await self._answer_error(exchange, client, failed, error_response(500, failed.message))

    async def _serve(self, exchange: ClientExchange, client: HttpVisitor) -> None:
        head = exchange.head
        if client.identity is not None:
            _require_local(head.authority)
            await self._forward(exchange, client, client.identity, None)
            return
        if self._browser_login is not None and head.target.startswith(OWN_PATHS):
            form = await _read_body(exchange, _MOST_FORM)
            response = await self._browser_login.handle(head, form, client)
            await self._answer(exchange, response or error_response(404, "there is no such page of the gateway"))
            return
        digest = self._scheme.login_digest(head)
        known = client.login
        if known is None or not digest or known.digest != digest or known.since != self._engine.links.changes:
            presented = self._scheme.read(head, tls=client.tls)
            known = await self._identify(exchange, client, presented, digest)
        elif self._browser_login is not None:
            known = await self._identify(exchange, client, known.presented, digest, known)
        if known is not None:
            client.on_authenticated()
            await self._forward(exchange, client, known.identity, known.presented)

    async def _identify(
        self,
        exchange: ClientExchange,
        client: HttpVisitor,
        presented: PresentedCredential | None,
        digest: bytes,
        known: KnownLogin | None = None,
    ) -> KnownLogin | None:
        """Return whose request it is, which can be `known`; None if it was answered. Raises Unauthenticated,
        TooManyFailedLogins."""
        error: PosternError = Unauthenticated(NO_CREDENTIAL)
        if presented is not None:
            try:
                login = known or await self._check(client, presented, digest)
                if self._browser_login is not None:
                    self._browser_login.require_usable(exchange.head, presented.source, login.grant)
                return login
            except (Unauthenticated, TooManyFailedLogins) as wrong:
                log.info("a request of client %s was rejected: %s", client.peer, wrong.message)
                error = wrong
        client.failures += 1
        if presented is not None or client.failures >= MOST_FAILURES:
            exchange.is_last = True  # a wrong password costs a connection, as with other protocols
        if self._browser_login is not None and is_browser(exchange.head):
            response = await self._browser_login.handle(exchange.head, b"", client)
            if response is not None:
                await self._answer(exchange, response)
                return None
        raise error

    async def _check(self, client: HttpVisitor, presented: PresentedCredential, digest: bytes) -> KnownLogin:
        """Check a password, unless that was done on this connection. Raises Unauthenticated, TooManyFailedLogins."""
        assert self._authentication is not None
        identity = await self._authentication.identify(presented, client)
        without_password = presented._replace(password=Secret(""))
        client.login = KnownLogin(digest, identity.since, without_password, identity, identity.grant)
        return client.login

    async def _forward(
        self,
        exchange: ClientExchange,
        client: HttpVisitor,
        identity: HttpIdentity,
        presented: PresentedCredential | None,
    ) -> None:
        if self._scheme.max_body is None:
            head = self._scheme.accept(exchange.head, presented, b"")
        else:
            exchange, head = await self._read_and_accept(exchange, presented, self._scheme.max_body)
        patience = self._scheme.patience_of(exchange.head)
        if patience is None:
            await self._run_in_session(exchange, client, identity, head)
            return
        with _signs_of_life(exchange, patience):
            await self._run_in_session(exchange, client, identity, head)

    async def _run_in_session(
        self, exchange: ClientExchange, client: HttpVisitor, identity: HttpIdentity, head: RequestHead
    ) -> None:
        for is_last_attempt in (False, True):
            try:
                session = self._sessions.find(identity) or await self._open_session(exchange, client, identity, head)
                await self._run(exchange, client, session, head)
                return
            except ReviewPending as pending:
                await self._answer(exchange, waiting_response(pending.message))
                return
            except SessionAborted as ended:
                # it became idle just now, and nothing was sent
                if is_last_attempt or ended.reason is not EndReason.IDLE or exchange.has_begun:
                    raise

    async def _open_session(
        self, exchange: ClientExchange, client: HttpVisitor, identity: HttpIdentity, head: RequestHead
    ) -> HttpSession:
        metadata = {
            "client_address": client.peer,
            "client_tls": "yes" if client.tls else "no",
            "application_name": first_value(head.headers, b"user-agent").decode("latin-1"),
        }
        patience = BROWSER_PATIENCE if is_browser(exchange.head) else None
        return await self._sessions.session_of(identity, client.peer, metadata, patience=patience)

    async def _read_and_accept(
        self, exchange: ClientExchange, presented: PresentedCredential | None, most: int
    ) -> tuple[ClientExchange, RequestHead]:
        """Return the request to forward, and the exchange with its body, which was read. Raises PosternError."""
        body = await _read_body(exchange, most)
        head = replace(self._scheme.accept(exchange.head, presented, body), length=len(body))
        return ReadExchange(exchange, body), head

    async def _run(
        self, exchange: ClientExchange, client: HttpVisitor, session: HttpSession, head: RequestHead
    ) -> None:
        shared = session.shared
        shared.begin_exchange()
        try:
            await self._run_on(await session.lease(), exchange, client, session, head)
        except ExchangeFailed as failed:
            if failed.message:
                raise
            shared_text = shared.end_text or "the connection to the application ended before it answered"
            raise ExchangeFailed(failed.status, shared_text) from None
        finally:
            shared.end_exchange()

    async def _run_on(
        self, link: HttpLink, exchange: ClientExchange, client: HttpVisitor, session: HttpSession, head: RequestHead
    ) -> None:
        reusable = False
        try:
            number = session.shared.next_number()  # only now: numbers must rise on each link
            origin = f"{client.scheme}://{exchange.head.authority}"
            rewriting = _rewriting(origin, link.origin, client.peer)
            reusable = await HttpRelay(exchange, link, head, rewriting, number).run()
        finally:
            session.release(link, reusable=reusable)

    async def _answer_error(
        self,
        exchange: ClientExchange,
        client: HttpVisitor,
        error: PosternError,
        usual: GatewayResponse | None = None,
    ) -> None:
        if exchange.has_begun:
            log.debug("a response to client %s is incomplete: %s", client.peer, error.message)
            exchange.abort()
            return
        if isinstance(error, HttpSyntaxError):
            exchange.is_last = True
        if isinstance(error, Unauthenticated | TooManyFailedLogins):
            self._engine.turned_away(error)
        own = self._scheme.answer(exchange.head, error)
        if own is None:
            await self._answer(exchange, usual or _response_to(error))
        else:
            await _send(exchange, *own)

    async def _answer(self, exchange: ClientExchange, response: GatewayResponse) -> None:
        if exchange.has_begun:
            exchange.abort()
            return
        await _send(exchange, *response_of(for_reader(response, exchange.head), exchange.head.method))


@contextmanager
def _signs_of_life(exchange: ClientExchange, patience: float) -> Iterator[None]:
    """Reassure a client every `patience` seconds until its response begins: a review can take longer than it waits."""
    task = asyncio.get_running_loop().create_task(_reassure(exchange, patience))
    try:
        yield
    finally:
        task.cancel()


async def _reassure(exchange: ClientExchange, patience: float) -> None:
    while not exchange.has_begun:
        await asyncio.sleep(patience)
        exchange.reassure()


async def _send(exchange: ClientExchange, head: ResponseHead, body: bytes) -> None:
    await exchange.respond(head)
    if body and head.has_body:
        await exchange.write(body)
    await exchange.finish()


def _response_to(error: PosternError) -> GatewayResponse:
    status = error.status if isinstance(error, ExchangeFailed) else status_for(error)
    if isinstance(error, TargetRefused) and error.refuses_login:
        text = "the application did not accept the gateway's own login; an administrator must check the secret"
        return error_response(502, text)
    retry_after = error.retry_after or (5 if status == 503 else None)
    return error_response(status, error.message, retry_after=retry_after)


@lru_cache(maxsize=1024)
def _rewriting(client_origin: str, target_origin: str, address: str) -> HttpRewriting:
    try:
        return HttpRewriting(client_origin, target_origin, client_address=address)
    except ValueError as error:
        raise HttpSyntaxError(400, f"the request's host cannot be used: {error}") from None


async def _read_body(exchange: ClientExchange, most: int) -> bytes:
    """Return a whole body. Raises HttpSyntaxError for a long one."""
    parts: list[bytes] = []
    size = 0
    while isinstance(event := await exchange.read(), BodyData):
        size += len(event.data)
        if size > most:
            raise HttpSyntaxError(413, f"the body is longer than {most} bytes")
        parts.append(event.data)
    return b"".join(parts)


def _require_local(authority: str) -> None:
    """Refuse names of the Internet at a local port, whose clients need no credential: a web site can give such a name
    the address 127.0.0.1, and its scripts would then be in (DNS rebinding). Raises Denied."""
    host = authority.rpartition(":")[0] if not authority.endswith("]") and ":" in authority else authority
    is_address = host.startswith("[") or host.replace(".", "").isdigit()
    if is_address or "." not in host or host.endswith((".localhost", ".internal", ".local")):
        return
    raise Denied(f"a local port does not serve the host name {host!r}; use localhost, or an address")
