"""PostgreSQL clients: from their first byte to a running link.

greet ─▶ who? SCRAM against a credential, or a bearer token that the tunnel checked
      ─▶ may they? services.access → Permit, at once or once colleagues agreed: gateway/held_logins.py
      ─▶ the agent dials the target and logs in
      ─▶ session row, recording ─▶ the client is welcomed ─▶ link
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping

from postern.domain.connection import Connection
from postern.domain.permit import Permit
from postern.domain.principal import Principal
from postern.domain.session import Verb
from postern.errors import Denied, Invalid, PosternError, ProtocolViolation, TooMany, Unauthenticated, Unavailable
from postern.gateway.engine import Engine
from postern.gateway.held_logins import Asked, HeldLogins
from postern.gateway.opening import EndedEarly
from postern.gateway.traces import decided, session_span
from postern.gateway.wanted import Wanted
from postern.protocols.postgres import login
from postern.protocols.postgres.messages import PROTOCOL_3_2
from postern.relay.handshake import StreamHandshake
from postern.relay.target import Start
from postern.services.access import REFUSED_LOGIN, Access
from postern.services.issues.opening import NO_FIELDS
from postern.services.reviews.asking import ReviewRequired
from postern.store.ports import Signals, Topic

log = logging.getLogger(__name__)

SUBTYPE = "postgres"


class PostgresGate:
    """`decoy_secret` makes unknown user names look like wrong passwords, the same after a restart."""

    def __init__(
        self, access: Access, engine: Engine, held: HeldLogins, signals: Signals, *, decoy_secret: bytes
    ) -> None:
        self._access = access
        self._engine = engine
        self._held = held
        self._signals = signals
        self._decoy_secret = decoy_secret

    async def native(self, stream: StreamHandshake, *, require_tls: bool) -> Awaitable[None] | None:
        """A client on the PostgreSQL port: it logs in with a connection credential."""
        try:
            startup = await self._greet(stream, require_tls)
            if startup is None:
                return None
            since = self._engine.links.changes
            grant = await self._access.find_grant(startup.user)
            verifier = grant.verifier if grant else login.decoy(startup.user, self._decoy_secret)
            await login.authenticate(stream, verifier)
            if grant is None:
                raise Unauthenticated(REFUSED_LOGIN)
            with session_span(self._engine.tracer, Verb.CONNECT):

                async def admit() -> Permit:
                    """Each time by the credential as it is then."""
                    now = await self._access.find_grant(startup.user)
                    if now is None or now.credential_id != grant.credential_id:
                        raise Unauthenticated(REFUSED_LOGIN)
                    return await self._access.admit(now, source=stream.peer)

                first = self._access.admit(grant, source=stream.peer)
                client = _Client(stream, startup, grant.username, since)
                return await self._let_in(client, first, admit)
        except PosternError as error:
            self._engine.turned_away(error)
            _turn_away(stream, error)
            return None

    async def carried(self, stream: StreamHandshake, wanted: Wanted) -> Awaitable[None] | None:
        """A client behind the tunnel, whose principal is known: no password is asked for. It may take its time with its
        first message."""
        try:
            startup = await self._greet(stream, False)
            if startup is None:
                return None
            with session_span(self._engine.tracer, Verb.CONNECT):

                def admit(who: Principal) -> Awaitable[Permit]:
                    return self._access.admit_principal(
                        who, wanted.connection, verb=Verb.CONNECT, source=stream.peer, means=wanted.means
                    )

                async def again() -> Permit:
                    return await admit(await wanted.standing())

                client = _Client(stream, startup, startup.user, wanted.since, wanted)
                return await self._let_in(client, admit(wanted.principal), again)
        except PosternError as error:
            self._engine.turned_away(error)
            _turn_away(stream, error)
            return None

    async def _greet(self, stream: StreamHandshake, require_tls: bool) -> login.Startup | None:
        """None: it was a cancel request, and it is dealt with."""
        opening = await login.greet(stream, require_tls=require_tls)
        if isinstance(opening, login.Startup):
            return opening
        key = opening.pid.to_bytes(4, "big") + opening.key
        if not self._engine.links.cancel(key):
            await self._signals.publish(Topic.CANCEL, key=key.hex(), address=stream.peer)
        return None

    async def _let_in(
        self, client: _Client, admission: Awaitable[Permit], again: Callable[[], Awaitable[Permit]]
    ) -> Awaitable[None]:
        try:
            permit = await decided(admission)
        except ReviewRequired as required:
            await self._engine.check_issue(required.wish.connection, client.tracker_fields)
            asked = Asked(client.metadata, client.reason, client.duration)
            permit = await self._held.wait(required, client, asked, again, _check)
        return await self._open(client, permit)

    async def _open(self, client: _Client, permit: Permit) -> Awaitable[None]:
        _check(permit.connection)
        stream, startup = client.stream, client.startup
        parameters = {"application_name": f"postern {permit.principal.email}", **startup.parameters}
        stream.on_known()
        start = Start(client.database, parameters)
        session, target = await self._engine.open(
            permit, start, client.metadata, since=client.since, tracker_fields=client.tracker_fields
        )
        key = secrets.token_bytes(36 if startup.protocol >= PROTOCOL_3_2 else 8)
        # The process id of a cancel key is a signed number for some drivers: keep it positive.
        key = bytes((key[0] & 0x7F,)) + key[1:]
        pid = int.from_bytes(key[:4], "big")
        login.welcome(stream, target.parameters, pid, key[4:], kept_waiting=client.was_told)
        return self._engine.run(session, stream, target, since=client.since, cancel_key=key)


class _Client:
    """One client that has said what it wants; `wanted` is what its owner told the tunnel. `since` is
    `LiveLinks.changes` before it was known who it is."""

    def __init__(
        self,
        stream: StreamHandshake,
        startup: login.Startup,
        own_name: str,
        since: int,
        wanted: Wanted | None = None,
    ) -> None:
        self.stream = stream
        self.startup = startup
        self.since = since
        self.reason = wanted.reason if wanted else ""
        self.duration = wanted.duration if wanted else None
        self.tracker_fields = wanted.tracker_fields if wanted else NO_FIELDS
        # libpq sends the user name as the database when none was given.
        self.database = None if startup.database == own_name else startup.database
        self.metadata = _metadata(startup, stream.peer, self.database)
        self.was_told = False

    # gateway.held_logins.HeldClient

    def tell(self, text: str, hint: str) -> None:
        login.keep_waiting(self.stream, text, hint, first=not self.was_told)
        self.was_told = True

    def check(self) -> None:
        if self.stream.unread()[:1] == b"X":
            raise ConnectionResetError("the client gave it up")
        if self.stream.is_full:
            raise ProtocolViolation("the client sends requests before it was let in")


def _check(connection: Connection) -> None:
    if connection.subtype != SUBTYPE:
        raise Denied(f"connection {connection.name!r} is of subtype {connection.subtype!r}, not {SUBTYPE!r}")


def _metadata(startup: login.Startup, peer: str, database: str | None) -> Mapping[str, str]:
    found = {
        "client_address": peer,
        "client_tls": "yes" if startup.encrypted else "no",
        "application_name": startup.parameters.get("application_name", ""),
        "database": database or "",
    }
    # What is no UTF-8 came as surrogates, which no store takes.
    return {name: value[:200].encode("utf-8", "replace").decode() for name, value in found.items() if value}


def _turn_away(stream: StreamHandshake, error: PosternError) -> None:
    """Tells the client why, in its own protocol, and the log in one line."""
    code, text, hint = "58000", error.message, ""
    if isinstance(error, login.TargetRefused):
        code, text, hint = error.report.code, error.report.text, error.report.hint
        if code.startswith("28"):
            code, text = "08006", "the target did not accept the gateway's own login"
            hint = "An administrator must check the connection's secret."
    elif isinstance(error, EndedEarly):
        code = "57P01"
    elif isinstance(error, Unauthenticated):
        code = "28P01"
    elif isinstance(error, Denied):
        code = "28000"
    elif isinstance(error, Invalid):
        code = "22023"
    elif isinstance(error, Unavailable):
        code = "08006"
    elif isinstance(error, TooMany):
        code = "53300"
    elif isinstance(error, ProtocolViolation):
        code = "08P01"
    log.info("client %s was turned away: %s", stream.peer, error.message)
    login.turn_away(stream, code, text, hint)
