"""MySQL clients: login, authentication and errors. `gateway/clients/session_setup.py` does the rest."""

from __future__ import annotations

import asyncio
import functools
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Final
from uuid import UUID

from postern.domain.rules.permit import Permit
from postern.errors import Denied, Invalid, PosternError, ProtocolViolation, TooMany, Unauthenticated, Unavailable
from postern.gateway.clients.database_client import DatabaseClient
from postern.gateway.clients.session_setup import SessionSetup, log_rejection
from postern.gateway.clients.tunnel_request import TunnelRequest
from postern.gateway.gateway_protocols import OpenWire, WireParts
from postern.gateway.link_registry import LinkRegistry
from postern.gateway.session_opening import SessionAborted
from postern.protocols.gateway_queries import TargetRefused
from postern.protocols.mysql.login import mysql_auth as auth
from postern.protocols.mysql.login import mysql_login as login
from postern.protocols.mysql.login.mysql_client_options import ClientOptions
from postern.protocols.mysql.wire.mysql_wire import MysqlWire, ignore_kill
from postern.protocols.wire_base import Wire
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import Start, Target
from postern.store.ports.common_ports import Signals, Topic

SUBTYPE = "mysql"

# Prefix of a connection id in a cancel key; no other protocol has keys this short.
_MARK: Final = b"m"


def wires(parts: WireParts) -> OpenWire:
    """Return the factory of wires, which takes the client's login options."""
    kills = None if parts.links is None else KillRequests(parts.links, parts.signals)

    def open_wire(permit: Permit, start: Start, parameters: Mapping[str, str]) -> Wire:
        chosen = ClientOptions.read(start.parameters)
        return MysqlWire(
            max_message=parts.settings.max_statement,
            capabilities=chosen.capabilities,
            collation=chosen.collation,
            user=chosen.user,
            parameters=parameters,
            local_files=parts.settings.mysql_local_files,
            kill=ignore_kill if kills is None else kills.of(permit),
        )

    return open_wire


class MysqlGate:
    """Serves MySQL clients. `version` is the server version in the greeting, because the connection is not known yet.
    `decoy_secret` makes unknown user names look like wrong passwords."""

    def __init__(self, fronts: SessionSetup, *, version: str, decoy_secret: bytes) -> None:
        self._version = version
        self._fronts = fronts
        self._decoy_secret = decoy_secret
        self._digests = auth.PasswordDigests()
        self._exchange_key = functools.cache(auth.ExchangeKey)

    async def native(self, stream: StreamHandshake, *, require_tls: bool) -> Awaitable[None] | None:
        """Serve a client on the MySQL port, which logs in with a connection credential."""
        thread, client = self._login(stream)
        try:
            startup = await client.greet(require_tls=require_tls)
            since = self._fronts.engine.links.changes
            grant = await self._fronts.find_grant(startup.user)
            verifier = grant.verifier if grant else login.decoy(startup.user, self._decoy_secret)
            await client.authenticate(verifier, self._digests, None if require_tls else self._exchange_key)
        except PosternError as error:
            self._turned_away(stream, client, error)
            return None
        return await self._fronts.by_credential(_Client(stream, client, thread, startup, since), grant)

    async def reject(self, stream: StreamHandshake, error: PosternError) -> None:
        """Tell a client on the MySQL port why it cannot log in, instead of the greeting. The listener has already
        logged the error."""
        self._fronts.engine.turned_away(error)
        text, hint = log_rejection(stream, error, level=logging.DEBUG)
        login.reject(stream, _CODES[TooMany][0], f"{text}. {hint}" if hint else text)

    async def serve_tunnel(self, stream: StreamHandshake, request: TunnelRequest) -> Awaitable[None] | None:
        """Serve a tunnel client, which needs no password."""
        thread, client = self._login(stream)
        try:
            startup = await client.greet(require_tls=False)
            client.let_in()
        except PosternError as error:
            self._turned_away(stream, client, error)
            return None
        return await self._fronts.by_tunnel(_Client(stream, client, thread, startup, request.since, request), request)

    def _login(self, stream: StreamHandshake) -> tuple[int, login.ClientLogin]:
        thread = login.FIRST_OWN + secrets.randbelow(1 << 31)
        return thread, login.ClientLogin(stream, thread, version=self._version)

    def _turned_away(self, stream: StreamHandshake, client: login.ClientLogin, error: PosternError) -> None:
        self._fronts.engine.turned_away(error)
        _turn_away(stream, client, error)


class _Client(DatabaseClient):
    subtype = SUBTYPE

    def __init__(
        self,
        stream: StreamHandshake,
        client: login.ClientLogin,
        thread: int,
        startup: login.MysqlStartup,
        since: int,
        request: TunnelRequest | None = None,
    ) -> None:
        super().__init__(stream, since, _metadata(startup, stream.peer), request)
        self._client = client
        self._thread = thread
        self._startup = startup

    def start(self, permit: Permit) -> Start:
        startup = self._startup
        attributes = {b"program_name": f"postern {permit.principal.email}".encode(), **startup.attributes}
        return Start(
            startup.database, ClientOptions(startup.user, startup.capabilities, startup.collation, attributes).texts()
        )

    def welcome(self, target: Target) -> bytes:
        status = target.parameters.get("status", "")
        self._client.welcome(int(status) if status.isdecimal() else 0)
        return _key(self._thread)

    def turn_away(self, error: PosternError) -> None:
        _turn_away(self.stream, self._client, error)


def _metadata(startup: login.MysqlStartup, peer: str) -> Mapping[str, str]:
    attributes = startup.attributes
    name = attributes.get(b"program_name") or attributes.get(b"_client_name") or b""
    return {
        "client_address": peer,
        "client_tls": "yes" if startup.encrypted else "no",
        "application_name": name.decode("utf-8", "replace"),
        "database": startup.database or "",
    }


def _key(thread: int) -> bytes:
    return _MARK + thread.to_bytes(4, "big")


class KillRequests:
    """KILL of the gateway's own connection ids: by the same principal only, because ids can be guessed."""

    def __init__(self, links: LinkRegistry, signals: Signals) -> None:
        self._links = links
        self._signals = signals

    def of(self, permit: Permit) -> Callable[[int, bool], None]:
        """Return the function with which links of that permit kill: (connection id, only the running statement). It
        acts after it has returned, because a link calls it in the middle of its work."""

        def kill(thread: int, query: bool) -> None:
            asyncio.get_running_loop().call_soon(self._kill, _key(thread), permit.principal.id, query)

        return kill

    def _kill(self, key: bytes, by: UUID, query: bool) -> None:
        if not self._links.kill(key, by, query=query):
            log_rejection = {"key": key.hex(), "by": str(by), "query": "yes" if query else ""}
            self._links.cancelling(self._signals.publish(Topic.CANCEL, **log_rejection))


# Number and SQLSTATE of MySQL's server for such errors (Server Error Message Reference).
_CODES: Final[Mapping[type[PosternError], tuple[int, str]]] = {
    SessionAborted: (1317, "70100"),
    Unauthenticated: (1045, "28000"),
    Denied: (1045, "28000"),
    Invalid: (1210, "HY000"),
    TooMany: (1040, "08004"),
    ProtocolViolation: (1043, "08S01"),
    Unavailable: (1105, "08S01"),
}


def _turn_away(stream: StreamHandshake, client: login.ClientLogin, error: PosternError) -> None:
    """Send the client an error in its own protocol, and log it in one line."""
    text, hint = log_rejection(stream, error)
    number, state = next((codes for kind, codes in _CODES.items() if isinstance(error, kind)), (1105, "HY000"))
    if isinstance(error, TargetRefused) and not error.refuses_login:
        state_text, _, number_text = error.code.partition("/")
        number, state = int(number_text) if number_text.isdecimal() else number, state_text or state
    client.turn_away(number, state, text, hint)
