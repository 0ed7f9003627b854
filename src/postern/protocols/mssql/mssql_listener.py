"""SQL Server clients: login, authentication and errors. `gateway/clients/session_setup.py` does the rest."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from postern.domain.rules.permit import Permit
from postern.errors import Denied, PosternError, ProtocolViolation, TooMany, Unauthenticated, Unavailable
from postern.gateway.clients.database_client import DatabaseClient
from postern.gateway.clients.session_setup import SessionSetup, log_rejection
from postern.gateway.clients.tunnel_request import TunnelRequest
from postern.gateway.gateway_protocols import OpenWire, WireParts
from postern.gateway.session_opening import SessionAborted
from postern.protocols.gateway_queries import TargetRefused
from postern.protocols.mssql.login import mssql_login as login
from postern.protocols.mssql.login.mssql_login7 import MssqlStartup
from postern.protocols.mssql.wire import mssql_tokens as k
from postern.protocols.mssql.wire.mssql_wire import MssqlWire
from postern.protocols.tls_cipher import TlsCipher
from postern.protocols.wire_base import Wire
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import Start, Target
from postern.transport.served_certificate import ServedCertificate

SUBTYPE: Final = "mssql"

Wrap = Callable[[bytes], bytes]
Read = Callable[[], Awaitable[bytes]]


def wires(parts: WireParts) -> OpenWire:
    """Return the factory of wires."""

    def open_wire(permit: Permit, start: Start, parameters: Mapping[str, str]) -> Wire:
        most = parts.settings.max_statement
        return MssqlWire(max_message=most, parameters=parameters, database=_other_database(start, parameters))

    return open_wire


def _other_database(start: Start, parameters: Mapping[str, str]) -> str:
    """Return the database that the client logs in to, if it is not the connection's own: it counts as a USE."""
    name = start.database or ""
    return "" if name == parameters.get("own_database", "") else name


def limit_to_framed_tls(context: ssl.SSLContext) -> None:
    """Limit TLS to what ends with its handshake: TLS 1.3 and tickets send messages after it, which nothing frames."""
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_TICKET


def offer_strict(context: ssl.SSLContext) -> None:
    context.set_alpn_protocols([login.ALPN])


class MssqlGate:
    """Serves SQL Server clients. `decoy_secret` makes unknown user names look like wrong passwords."""

    def __init__(self, fronts: SessionSetup, certificate: ServedCertificate, *, decoy_secret: bytes) -> None:
        self._fronts = fronts
        self._certificate = certificate
        self._decoy_secret = decoy_secret

    async def native(self, stream: StreamHandshake, *, require_tls: bool) -> Awaitable[None] | None:
        """Serve a client on the SQL Server port, which logs in with a connection credential."""
        client = self._login(stream)
        try:
            startup = await client.greet(require_tls=require_tls)
            since = self._fronts.engine.links.changes
            grant = await self._fronts.find_grant(startup.user)
            verifier = grant.verifier if grant else login.decoy(startup.user, self._decoy_secret)
            await client.authenticate(verifier)
        except PosternError as error:
            self._turned_away(stream, client, error)
            return None
        return await self._fronts.by_credential(_Client(stream, client, startup, since), grant)

    async def reject(self, stream: StreamHandshake, error: PosternError) -> None:
        """Tell a client on the SQL Server port why it cannot log in, once it can read it: in place of the answer to its
        login. The listener has already logged the error."""
        client = self._login(stream)
        await client.greet(require_tls=False)
        self._fronts.engine.turned_away(error)
        _turn_away(stream, client, error, level=logging.DEBUG)

    async def serve_tunnel(self, stream: StreamHandshake, request: TunnelRequest) -> Awaitable[None] | None:
        """Serve a tunnel client, which needs no password."""
        client = login.MssqlClientLogin(stream)
        try:
            startup = await client.greet(require_tls=False)
        except PosternError as error:
            self._turned_away(stream, client, error)
            return None
        return await self._fronts.by_tunnel(_Client(stream, client, startup, request.since, request), request)

    def _login(self, stream: StreamHandshake) -> login.MssqlClientLogin:
        def start_framed(wrap: Wrap, read: Read) -> Awaitable[TlsCipher]:
            context = self._certificate.adapted_context("framed TLS", limit_to_framed_tls)
            return stream.framed_tls_handshake(wrap, read, context)

        def start_strict() -> Awaitable[None]:
            return stream.start_tls(self._certificate.adapted_context("TDS 8.0", offer_strict))

        return login.MssqlClientLogin(stream, framed=start_framed, strict=start_strict)

    def _turned_away(self, stream: StreamHandshake, client: login.MssqlClientLogin, error: PosternError) -> None:
        self._fronts.engine.turned_away(error)
        _turn_away(stream, client, error)


class _Client(DatabaseClient):
    subtype = SUBTYPE

    def __init__(
        self,
        stream: StreamHandshake,
        client: login.MssqlClientLogin,
        startup: MssqlStartup,
        since: int,
        request: TunnelRequest | None = None,
    ) -> None:
        super().__init__(stream, since, _metadata(startup, stream.peer, client.encrypted), request)
        self._client = client
        self._startup = startup

    def start(self, permit: Permit) -> Start:
        startup = self._startup
        return Start(startup.database or None, startup.options.texts())

    def welcome(self, target: Target) -> bytes:
        self._client.welcome(bytes.fromhex(target.parameters.get("login_tokens", "")))
        return b""

    def turn_away(self, error: PosternError) -> None:
        _turn_away(self.stream, self._client, error)


def _metadata(startup: MssqlStartup, peer: str, encrypted: bool) -> Mapping[str, str]:
    options = startup.options
    return {
        "client_address": peer,
        "client_tls": "yes" if encrypted else "no",
        "application_name": options.application,
        "client_host": options.host,
        "database": startup.database,
    }


# Number and severity of SQL Server's errors for such reasons ("Database Engine events and errors").
_CODES: Final[Mapping[type[PosternError], tuple[int, int]]] = {
    SessionAborted: (596, 21),
    Unauthenticated: (login.LOGIN_FAILED, 14),
    Denied: (login.LOGIN_FAILED, 14),
    TooMany: (17809, 20),
    ProtocolViolation: (17836, 20),
    Unavailable: (40613, 17),
}


def _turn_away(
    stream: StreamHandshake, client: login.MssqlClientLogin, error: PosternError, *, level: int = logging.INFO
) -> None:
    """Send the client an error in its own protocol, and log it in one line."""
    text, hint = log_rejection(stream, error, level=level)
    number, severity = next((codes for kind, codes in _CODES.items() if isinstance(error, kind)), (k.UNKNOWN_ERROR, 16))
    if isinstance(error, TargetRefused):
        own = error.code.partition("/")[2]
        number, severity = int(own) if own.isdecimal() else number, 14
    client.turn_away(number, text, hint, severity)
