"""The way from a client's request to a running link, the same for every protocol.

    authenticate: a credential's password, or the tunnel's token
      ─▶ authorise: services.access → Permit, at once or after approval: gateway/clients/pending_logins.py
      ─▶ the agent dials the target and logs in
      ─▶ session row, recording ─▶ the client is welcomed ─▶ link

A protocol's own gate reads its clients' first messages, authenticates them, and encodes their errors: a
`ClientSession`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping

from postern.domain.identity.credential import Grant
from postern.domain.identity.principal import Principal
from postern.domain.rules.permit import Permit
from postern.domain.sessions.session import Verb
from postern.domain.targets.connection import Connection, Extra
from postern.errors import PosternError, Unauthenticated
from postern.gateway.clients.failed_logins import FailedLogins
from postern.gateway.clients.pending_logins import LoginReviewRequest, PendingLogins
from postern.gateway.clients.tunnel_request import TunnelRequest
from postern.gateway.engine import Engine
from postern.gateway.session_traces import session_span, trace_admission
from postern.gateway.shared_session import SharedSession
from postern.protocols.gateway_queries import TargetRefused
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import Start, Target
from postern.services.admission import REFUSED_LOGIN, Access
from postern.services.issues.session_issues import NO_FIELDS
from postern.services.reviews.review_requests import ReviewRequired

log = logging.getLogger(__name__)


class ClientSession:
    """One client, in its own protocol; also a `PendingClient`. `request` is its tunnel request. `since` is
    `LinkRegistry.changes` from before authentication. `modes` are the access modes that it needs."""

    modes: tuple[Verb, ...] = (Verb.CONNECT,)

    def __init__(
        self, stream: StreamHandshake, since: int, metadata: Mapping[str, str], request: TunnelRequest | None = None
    ) -> None:
        self.stream = stream
        self.since = since
        known = {**metadata, **(request.metadata if request else {})}
        self.metadata = {name: value[:200].encode("utf-8", "replace").decode() for name, value in known.items()}
        self.reason = request.reason if request else ""
        self.duration = request.duration if request else None
        self.tracker_fields = request.tracker_fields if request else NO_FIELDS

    def send_notice(self, text: str, hint: str) -> None:
        """Tell the client that it waits, before the welcome."""
        raise NotImplementedError

    def check(self) -> None:
        """Check the client while it waits. Raises ConnectionError when it has disconnected, Denied when it cancels,
        ProtocolViolation."""
        raise NotImplementedError

    def fits(self, connection: Connection) -> None:
        """Check that the client can use the connection. Raises Denied."""
        raise NotImplementedError

    def start(self, permit: Permit) -> Start:
        raise NotImplementedError

    def welcome(self, target: Target) -> bytes:
        """Complete the client's login. Return the key that cancels its requests, or nothing."""
        raise NotImplementedError

    def turn_away(self, error: PosternError) -> None:
        """Send the client the error, and log it in one line."""
        raise NotImplementedError


def log_rejection(stream: StreamHandshake, error: PosternError, *, level: int = logging.INFO) -> tuple[str, str]:
    """Log a rejection in one line, and return its text and hint for the client. Why a target rejects the gateway's
    login is for administrators only."""
    log.log(level, "client %s was rejected: %s", stream.peer, error.message)
    if not isinstance(error, TargetRefused):
        return error.message, ""
    if error.refuses_login:
        return (
            "the target did not accept the gateway's own login",
            "An administrator must check the connection's secret.",
        )
    return error.message, error.hint


class SessionSetup:
    """Starts sessions for clients of every protocol. A rejected client has received its error, and the result is
    None."""

    def __init__(self, access: Access, engine: Engine, pending_logins: PendingLogins) -> None:
        self._access = access
        self._held = pending_logins
        self.engine = engine
        self.failed_logins = FailedLogins()

    async def find_grant(self, username: str) -> Grant | None:
        """Return the credential of that name, or None. One statement."""
        return await self._access.find_grant(username)

    async def by_credential(self, client: ClientSession, grant: Grant | None) -> Awaitable[None] | None:
        """Start a session for a client that has proved the password of `grant`; without a grant it is rejected."""
        if grant is None:
            self.turned_away(client, Unauthenticated(REFUSED_LOGIN))
            return None
        return await self.let_in(client, self.permit_of(client, grant))

    async def by_tunnel(self, client: ClientSession, request: TunnelRequest) -> Awaitable[None] | None:
        """Start a session for a tunnel client, whose principal is known."""
        return await self.let_in(client, self.permit_for(client, request))

    async def permit_of(self, client: ClientSession, grant: Grant) -> Permit:
        """Return the permit for a credential whose password was proved; at once, or after approval. Raises the errors
        of admission."""

        def admit(by: Grant) -> Awaitable[Permit]:
            return self._access.admit(by, source=client.stream.peer, modes=client.modes)

        async def again() -> Permit:
            """Request the permit again, with the credential's current state."""
            now = await self._access.find_grant(grant.username)
            if now is None or now.credential_id != grant.credential_id:
                raise Unauthenticated(REFUSED_LOGIN)
            return await admit(now)

        return await self._await_permit(client, admit(grant), again)

    async def permit_for(self, client: ClientSession, request: TunnelRequest) -> Permit:
        """Return the permit for a known principal."""

        def admit(who: Principal) -> Awaitable[Permit]:
            return self._access.admit_principal(
                who,
                request.connection,
                verb=Verb.CONNECT,
                source=client.stream.peer,
                means=request.means,
                expires_at=request.expires_at,
                modes=client.modes,
                browser=request.browser,
            )

        async def again() -> Permit:
            return await admit(await request.standing())

        return await self._await_permit(client, admit(request.principal), again)

    def narrow(self, permit: Permit, modes: tuple[Verb, ...], extra: Extra | None) -> Permit:
        """Return the permit for one SSH channel. Raises Denied if its access mode or feature is disabled."""
        return self._access.narrow(permit, modes, extra)

    def turned_away(self, client: ClientSession, error: PosternError) -> None:
        self.engine.turned_away(error)
        client.turn_away(error)

    async def let_in(self, client: ClientSession, permitted: Awaitable[Permit]) -> Awaitable[None] | None:
        try:
            with session_span(self.engine.tracer, Verb.CONNECT):
                permit = await permitted
                client.fits(permit.connection)
                client.stream.on_known()
                session, target = await self.engine.open(
                    permit,
                    client.start(permit),
                    client.metadata,
                    since=client.since,
                    tracker_fields=client.tracker_fields,
                )
                key = client.welcome(target)
                return self.engine.run(session, client.stream, target, since=client.since, cancel_key=key)
        except PosternError as error:
            self.turned_away(client, error)
            return None

    async def open_shared(
        self, client: ClientSession, permitted: Awaitable[Permit], *, idle: float
    ) -> tuple[SharedSession, Target]:
        """Open a session of several links, and dial the target for the first one. It ends after `idle` seconds without
        an exchange. Raises the errors of admission and dialling."""
        with session_span(self.engine.tracer, Verb.CONNECT):
            permit = await permitted
            client.fits(permit.connection)
            session, target = await self.engine.open(
                permit,
                client.start(permit),
                client.metadata,
                since=client.since,
                tracker_fields=client.tracker_fields,
            )
            return self.engine.share(session, target.schema, since=client.since, idle=idle), target

    async def _await_permit(
        self, client: ClientSession, admission: Awaitable[Permit], again: Callable[[], Awaitable[Permit]]
    ) -> Permit:
        try:
            return await trace_admission(admission)
        except ReviewRequired as required:
            await self.engine.check_issue(required.requested_access.connection, client.tracker_fields)
            request = LoginReviewRequest(client.metadata, client.reason, client.duration)
            return await self._held.wait(required, client, request, again, client.fits)
