"""Authentication and admission of an SSH client: first its connection, then each of its channels.

proof ─▶ a user ─▶ admitted to one connection ─▶ permitted, for each channel ─▶ starts: session_setup.py
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from postern.domain.identity.credential import Grant
from postern.domain.identity.ssh_certificate import SshCertificate
from postern.domain.rules.permit import Permit
from postern.errors import Denied, PosternError, Unauthenticated
from postern.gateway.clients.listener import HandshakeRunner
from postern.gateway.clients.session_setup import ClientSession, SessionSetup
from postern.gateway.clients.tunnel_request import TunnelRequest
from postern.protocols.ssh.listener.ssh_browser_login import LONGEST, BrowserLogins, PendingBrowserLogin
from postern.protocols.ssh.listener.ssh_client_channel import ClientChannel
from postern.protocols.ssh.listener.ssh_clients import ChannelClient
from postern.protocols.ssh.listener.ssh_permit_cache import CachedPermit
from postern.protocols.ssh.listener.ssh_users import Proved, SshAuthenticators, SshUser, by_certificate, by_key
from postern.protocols.ssh.listener.ssh_visit import SshClientState
from postern.relay.relay_handshake import StreamHandshake
from postern.services.admission import REFUSED_LOGIN
from postern.services.identity.logins.ssh_logins import SshClaim as WantedInBrowser

log = logging.getLogger(__name__)


class Admission:
    """Authenticates clients and admits their channels. `decoy_secret` makes unknown user names look like wrong
    passwords."""

    def __init__(
        self, fronts: SessionSetup, logins: HandshakeRunner, proofs: SshAuthenticators, *, decoy_secret: bytes
    ) -> None:
        self.fronts = fronts
        self.decoy_secret = decoy_secret
        self.browsers = BrowserLogins(proofs.logins)
        self._logins = logins
        self._proofs = proofs
        self._tasks: set[asyncio.Task[None]] = set()

    async def person_by_key(self, user: str, fingerprint: str) -> SshUser:
        return await by_key(self._proofs.keys, user, fingerprint)

    async def person_by_certificate(self, user: str, certificate: SshCertificate, address: str) -> SshUser:
        return await by_certificate(self._proofs.authorities, user, certificate, address)

    async def invite(
        self, visit: SshClientState, abort: Callable[[], None], claim: WantedInBrowser
    ) -> PendingBrowserLogin:
        """Start a browser login, which has no short login deadline and takes one of the slots for these. Raises
        TooMany, Unavailable."""
        assert visit.stream is not None
        self.browsers.enter(visit.peer)
        visit.over = asyncio.get_running_loop().call_later(LONGEST, abort)
        visit.stream.on_known()
        visit.stream.on_held()
        return await self.browsers.invite(visit.peer, claim)

    def record_user(self, visit: SshClientState, proved: Proved) -> None:
        """Record the authenticated user. The permit is requested with the first channel."""
        admit = partial(self._admit_grant, proved) if isinstance(proved, Grant) else partial(self._admit, visit, proved)
        visit.right = CachedPermit(self.fronts.engine.links, admit, visit.since)
        if isinstance(proved, SshUser) and visit.outer_user is None:
            self._later(self.quietly(proved.used()))

    async def _admit_grant(self, grant: Grant, client: ClientSession, *, again: bool) -> Permit:
        if again:
            now = await self.fronts.find_grant(grant.username)
            if now is None or now.credential_id != grant.credential_id:
                raise Unauthenticated(REFUSED_LOGIN)
            grant = now
        return await self.fronts.permit_of(client, grant)

    async def _admit(self, visit: SshClientState, person: SshUser, client: ClientSession, *, again: bool) -> Permit:
        if not visit.target:
            raise Denied("no connection was named; use ssh USER#CONNECTION@GATEWAY, or ssh -J USER@GATEWAY CONNECTION")
        if person.expires_at is not None:
            again = True  # no signal reports its expiry
        principal = await person.standing() if again else person.principal
        request = TunnelRequest(
            principal, person.means, visit.target, visit.since, person.standing, expires_at=person.expires_at
        )
        return await self.fronts.permit_for(client, request)

    async def request_permit(self, visit: SshClientState, client: ChannelClient) -> Permit:
        assert visit.right is not None
        permit = await visit.right.permit(client)
        client.fits(permit.connection)
        extra, person = client.extra, visit.person
        if extra is not None and person is not None and not person.allows(extra):
            raise Denied("the SSH certificate of this login does not permit that; request one that does")
        return self.fronts.narrow(permit, client.modes, extra)

    def stream(self, transport: ClientChannel, stream: StreamHandshake | None = None) -> StreamHandshake:
        """Return the client's end of the future link, with its first frame in it."""
        stream = stream or StreamHandshake()
        transport.set_protocol(stream)
        stream.connection_made(transport)
        transport.start()
        return stream

    def begin(self, client: ChannelClient, permitted: Coroutine[Any, Any, Permit]) -> None:
        async def let_in(stream: StreamHandshake) -> Awaitable[None] | None:
            stream.on_known()  # it is authenticated; its connection has its own limit
            stream.on_held()
            return await self.fronts.let_in(client, permitted)

        async def reject(_stream: StreamHandshake, error: PosternError) -> None:
            permitted.close()
            self.fronts.turned_away(client, error)

        self._logins.start(client.stream, let_in, reject)

    async def quietly(self, work: Coroutine[Any, Any, None]) -> None:
        """Run the work of recording a login's use; its failure does not end the login."""
        try:
            await work
        except PosternError as error:
            log.warning("recording the use of an SSH login failed: %s", error.message)

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
