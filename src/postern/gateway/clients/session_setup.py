"""From a client that has said what it wants to a running link: the same for every protocol.

who? a credential's password, or what a tunnel was opened with
      ─▶ may they? services.access → Permit, at once or once colleagues agreed: gateway/clients/pending_logins.py
      ─▶ the agent dials the target and logs in
      ─▶ session row, recording ─▶ the client is welcomed ─▶ link

A protocol's own gate reads what its clients say first, proves who they are, and says what they hear: a `ClientSession`.
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
from postern.gateway.clients.pending_logins import LoginReviewRequest, PendingLogins
from postern.gateway.clients.tunnel_request import TunnelRequest
from postern.gateway.engine import Engine
from postern.gateway.session_traces import decided, session_span
from postern.protocols.gateway_queries import TargetRefused
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import Start, Target
from postern.services.admission import REFUSED_LOGIN, Access
from postern.services.issues.session_issues import NO_FIELDS
from postern.services.reviews.review_requests import ReviewRequired

log = logging.getLogger(__name__)


class ClientSession:
    """One client, in its own protocol; a `gateway.held_logins.HeldClient` too. `wanted` is what its owner told the
    tunnel. `since` is `LinkRegistry.changes` from before it was known who it is. `modes` are the access modes that
    it needs."""

    modes: tuple[Verb, ...] = (Verb.CONNECT,)

    def __init__(
        self, stream: StreamHandshake, since: int, metadata: Mapping[str, str], wanted: TunnelRequest | None = None
    ) -> None:
        self.stream = stream
        self.since = since
        self.metadata = {name: value[:200].encode("utf-8", "replace").decode() for name, value in metadata.items()}
        self.reason = wanted.reason if wanted else ""
        self.duration = wanted.duration if wanted else None
        self.tracker_fields = wanted.tracker_fields if wanted else NO_FIELDS

    def tell(self, text: str, hint: str) -> None:
        """That it waits, before it is welcomed."""
        raise NotImplementedError

    def check(self) -> None:
        """While it waits. Raises when it has gone or gives up: ConnectionError, Denied, ProtocolViolation."""
        raise NotImplementedError

    def fits(self, connection: Connection) -> None:
        """Raises Denied for a connection that this client cannot use."""
        raise NotImplementedError

    def start(self, permit: Permit) -> Start:
        raise NotImplementedError

    def welcome(self, target: Target) -> bytes:
        """Tells it that it is in; answers the key that cancels what it runs, or nothing."""
        raise NotImplementedError

    def turn_away(self, error: PosternError) -> None:
        """Tells it why not, and the log in one line."""
        raise NotImplementedError


def told(stream: StreamHandshake, error: PosternError, *, level: int = logging.INFO) -> tuple[str, str]:
    """Text and hint that a client hears when it is turned away, which the log has in one line. Why a target does not
    believe the gateway is its administrators' business."""
    log.log(level, "client %s was turned away: %s", stream.peer, error.message)
    if not isinstance(error, TargetRefused):
        return error.message, ""
    if error.refuses_login:
        return (
            "the target did not accept the gateway's own login",
            "An administrator must check the connection's secret.",
        )
    return error.message, error.hint


class SessionSetup:
    """Lets clients of every protocol in. Whoever is not let in has been told, and None is answered."""

    def __init__(self, access: Access, engine: Engine, held: PendingLogins) -> None:
        self._access = access
        self._held = held
        self.engine = engine

    async def find_grant(self, username: str) -> Grant | None:
        """The credential of that name; None when there is none. One statement."""
        return await self._access.find_grant(username)

    async def by_credential(self, client: ClientSession, grant: Grant | None) -> Awaitable[None] | None:
        """A client that has proved to have the password of `grant`; without one it cannot have."""
        if grant is None:
            self.turned_away(client, Unauthenticated(REFUSED_LOGIN))
            return None
        return await self.let_in(client, self.permit_of(client, grant))

    async def by_tunnel(self, client: ClientSession, wanted: TunnelRequest) -> Awaitable[None] | None:
        """A client whose principal is known: no password is asked for."""
        return await self.let_in(client, self.permit_for(client, wanted))

    async def permit_of(self, client: ClientSession, grant: Grant) -> Permit:
        """For who has proved to have its password; at once, or once colleagues agreed. Raises what admission does."""

        def admit(by: Grant) -> Awaitable[Permit]:
            return self._access.admit(by, source=client.stream.peer, modes=client.modes)

        async def again() -> Permit:
            """By the credential as it is then."""
            now = await self._access.find_grant(grant.username)
            if now is None or now.credential_id != grant.credential_id:
                raise Unauthenticated(REFUSED_LOGIN)
            return await admit(now)

        return await self._permitted(client, admit(grant), again)

    async def permit_for(self, client: ClientSession, wanted: TunnelRequest) -> Permit:
        """The same for a principal who is known."""

        def admit(who: Principal) -> Awaitable[Permit]:
            return self._access.admit_principal(
                who,
                wanted.connection,
                verb=Verb.CONNECT,
                source=client.stream.peer,
                means=wanted.means,
                expires_at=wanted.expires_at,
                modes=client.modes,
            )

        async def again() -> Permit:
            return await admit(await wanted.standing())

        return await self._permitted(client, admit(wanted.principal), again)

    def narrow(self, permit: Permit, modes: tuple[Verb, ...], extra: Extra | None) -> Permit:
        """Return the permit for one SSH channel. Raises Denied where its access mode or extra is disabled."""
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

    async def _permitted(
        self, client: ClientSession, admission: Awaitable[Permit], again: Callable[[], Awaitable[Permit]]
    ) -> Permit:
        try:
            return await decided(admission)
        except ReviewRequired as required:
            await self.engine.check_issue(required.requested_access.connection, client.tracker_fields)
            asked = LoginReviewRequest(client.metadata, client.reason, client.duration)
            return await self._held.wait(required, client, asked, again, client.fits)
