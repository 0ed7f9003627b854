"""Oracle Database clients: login, authentication and errors. `gateway/clients/session_setup.py` does the rest."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Mapping
from typing import Final

from postern.domain.identity.credential import Grant
from postern.domain.rules.permit import Permit
from postern.errors import Denied, PosternError, ProtocolViolation, TooMany, Unauthenticated
from postern.gateway.clients.database_client import DatabaseClient
from postern.gateway.clients.session_setup import SessionSetup, log_rejection
from postern.gateway.clients.tunnel_request import TunnelRequest
from postern.gateway.gateway_protocols import OpenWire, WireParts
from postern.gateway.session_opening import SessionAborted
from postern.protocols.gateway_queries import TargetRefused
from postern.protocols.oracledb.login import oracle_login as login
from postern.protocols.oracledb.login.oracle_auth import OracleVerifier
from postern.protocols.oracledb.login.oracle_start import DatabaseName, OracleStart, read_session_values
from postern.protocols.oracledb.wire import ttc_codes as c
from postern.protocols.oracledb.wire.oracle_wire import OracleWire
from postern.protocols.verifiers import decoy
from postern.protocols.wire_base import Wire
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import Start, Target

SUBTYPE: Final = "oracledb"


def wires(parts: WireParts) -> OpenWire:
    """Return the factory of wires."""

    def open_wire(permit: Permit, start: Start, parameters: Mapping[str, str]) -> Wire:
        begun = OracleStart.read(start.parameters)
        size = parameters.get("sdu", "")
        sdu = min(begun.sdu, int(size)) if size.isdecimal() else begun.sdu
        most = parts.settings.max_statement
        return OracleWire(layout=begun.layout, max_message=most, sdu=sdu, connects=_connects(start, parameters))

    return open_wire


def _connects(start: Start, parameters: Mapping[str, str]) -> str:
    """Return the statement that the login counts as, if it is to another database than the connection's own."""
    named = DatabaseName.read(start.database)
    own = DatabaseName(parameters.get("own_service", ""), parameters.get("own_sid", ""))
    return "" if named == DatabaseName() or named.is_own(own) else named.statement


class OracleGate:
    """Serves clients of Oracle Database. `decoy_secret` makes unknown user names look like wrong passwords."""

    def __init__(self, fronts: SessionSetup, *, decoy_secret: bytes) -> None:
        self._fronts = fronts
        self._decoy_secret = decoy_secret
        self._tunnel_verifier: OracleVerifier | None = None

    async def native(self, stream: StreamHandshake, *, require_tls: bool) -> Awaitable[None] | None:
        """Serve a client on the Oracle port, which logs in with a connection credential."""
        client = login.OracleClientLogin(stream)
        try:
            startup = await client.greet(require_tls=require_tls)
            since = self._fronts.engine.links.changes
            user = plain_user(startup.user)
            grant = await self._fronts.find_grant(user)
            verifier = grant.verifier if grant else decoy(user, self._decoy_secret)
            settings = await client.authenticate(verifier, self._login_key(user, grant))
        except PosternError as error:
            self._turned_away(stream, client, error)
            return None
        return await self._fronts.by_credential(_Client(stream, client, startup, settings, since), grant)

    async def reject(self, stream: StreamHandshake, error: PosternError) -> None:
        """Tell a client on the Oracle port why it cannot log in, once it can read it: in place of the answer to its
        user name. The listener has already logged the error."""
        client = login.OracleClientLogin(stream)
        await client.greet(require_tls=False)
        self._fronts.engine.turned_away(error)
        _turn_away(stream, client, error, level=logging.DEBUG)

    async def serve_tunnel(self, stream: StreamHandshake, request: TunnelRequest) -> Awaitable[None] | None:
        """Serve a tunnel client, which is authenticated already. Its password is a fixed word, as its own login cannot
        do without one."""
        client = login.OracleClientLogin(stream)
        if self._tunnel_verifier is None:
            self._tunnel_verifier = OracleVerifier.make(login.TUNNEL_PASSWORD)
        try:
            startup = await client.greet(require_tls=False)
            settings = await client.let_in(self._tunnel_verifier)
        except PosternError as error:
            self._turned_away(stream, client, error)
            return None
        return await self._fronts.by_tunnel(_Client(stream, client, startup, settings, request.since, request), request)

    def _login_key(self, user: str, grant: Grant | None) -> OracleVerifier:
        """Return the key for the login. A credential has none if it was issued for another protocol."""
        if grant is None or not grant.login_key:
            return OracleVerifier.decoy(user, self._decoy_secret)
        return OracleVerifier.load(grant.login_key)

    def _turned_away(self, stream: StreamHandshake, client: login.OracleClientLogin, error: PosternError) -> None:
        self._fronts.engine.turned_away(error)
        _turn_away(stream, client, error)


def plain_user(user: str) -> str:
    """Return the name of a credential as it was issued: clients can quote it, and some turn it into upper case."""
    if len(user) > 2 and user.startswith('"') and user.endswith('"'):
        user = user[1:-1]
    return user.lower()


class _Client(DatabaseClient):
    subtype = SUBTYPE

    def __init__(
        self,
        stream: StreamHandshake,
        client: login.OracleClientLogin,
        startup: login.OracleStartup,
        settings: login.OracleClientSettings,
        since: int,
        request: TunnelRequest | None = None,
    ) -> None:
        super().__init__(stream, since, _metadata(startup, stream.peer), request)
        self._client = client
        self._startup = startup
        self._settings = settings

    def start(self, permit: Permit) -> Start:
        startup, settings = self._startup, self._settings
        begun = OracleStart(
            startup.types,
            startup.sdu,
            settings.attributes,
            settings.alter_session,
        )
        return Start(DatabaseName(startup.names.service, startup.names.sid).database, begun.texts())

    def welcome(self, target: Target) -> bytes:
        self._client.welcome(read_session_values(target.parameters))
        return b""

    def turn_away(self, error: PosternError) -> None:
        _turn_away(self.stream, self._client, error)


def _metadata(startup: login.OracleStartup, peer: str) -> Mapping[str, str]:
    names = startup.names
    return {
        "client_address": peer,
        "client_tls": "yes" if startup.encrypted else "no",
        "application_name": names.program,
        "client_host": names.host,
        "database": names.database,
    }


# Numbers of Oracle Database's errors for such reasons ("Database Error Messages").
_CODES: Final[Mapping[type[PosternError], int]] = {
    SessionAborted: c.SESSION_KILLED,
    Unauthenticated: c.INVALID_CREDENTIALS,
    Denied: c.INSUFFICIENT_PRIVILEGES,
    TooMany: 18,
    ProtocolViolation: login.INCOMPATIBLE,
}
_UNAVAILABLE: Final = 12_520
_ORA: Final = re.compile(r"ORA-(\d{5})")


def error_number(error: PosternError) -> int:
    """Return the number of Oracle Database's error for an error of the gateway."""
    return next((number for kind, number in _CODES.items() if isinstance(error, kind)), _UNAVAILABLE)


def _turn_away(
    stream: StreamHandshake, client: login.OracleClientLogin, error: PosternError, *, level: int = logging.INFO
) -> None:
    """Send the client an error in its own protocol, and log it in one line."""
    text, hint = log_rejection(stream, error, level=level)
    number = error_number(error)
    if isinstance(error, TargetRefused) and (own := _ORA.fullmatch(error.code)):
        number = int(own[1])
        text = text.removeprefix(f"{own[0]}: ")
    client.turn_away(number, text, hint)
