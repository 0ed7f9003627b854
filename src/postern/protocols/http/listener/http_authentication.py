"""Who sends a request: the principal of a credential, or of a tunnel."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace
from typing import Final

from postern.domain.identity.credential import Grant
from postern.domain.rules.permit import Permit
from postern.errors import PosternError, Unauthenticated
from postern.gateway.clients.session_setup import ClientSession, SessionSetup
from postern.gateway.clients.tunnel_request import TunnelRequest
from postern.protocols.http.listener.http_client_exchange import HttpVisitor
from postern.protocols.http.listener.http_credentials import MAX_LENGTH, PresentedCredential
from postern.protocols.verifiers import decoy, fits
from postern.services.admission import REFUSED_LOGIN

_MOST_VERIFIED: Final = 16  # credentials of one connection


class CredentialIdentity:
    """A credential whose password was proved."""

    request: TunnelRequest | None = None

    def __init__(self, fronts: SessionSetup, grant: Grant, since: int, address: str) -> None:
        self._fronts = fronts
        self.grant = grant
        self.since = since
        self.key = (grant.credential_id, address)

    async def permit(self, client: ClientSession) -> Permit:
        return await self._fronts.permit_of(client, self.grant)


class TunnelIdentity:
    """The user of a command line, at one of its local ports."""

    def __init__(self, fronts: SessionSetup, request: TunnelRequest, address: str) -> None:
        self._fronts = fronts
        self.request = request
        user = (request.principal.id, request.means, request.connection)
        self.key = (*user, request.reason, request.duration, tuple(sorted(request.tracker_fields.items())), address)
        self._is_new = True

    @property
    def since(self) -> int:
        return self.request.since

    async def permit(self, client: ClientSession) -> Permit:
        if not self._is_new:  # the login may have ended since the tunnel's stream was opened
            since = self._fronts.engine.links.changes
            self.request = replace(self.request, since=since, principal=await self.request.standing())
            client.since = since
        self._is_new = False
        return await self._fronts.permit_for(client, self.request)


class HttpAuthentication:
    """Checks credentials, each once for a connection and as long as no access has changed. `decoy_secret` makes unknown
    user names look like wrong passwords."""

    def __init__(self, fronts: SessionSetup, decoy_secret: bytes) -> None:
        self._fronts = fronts
        self._decoy_secret = decoy_secret

    async def identify(self, presented: PresentedCredential, client: HttpVisitor) -> CredentialIdentity:
        """Return the identity of a credential. Raises Unauthenticated, Unavailable, and TooManyFailedLogins."""
        since = self._fronts.engine.links.changes
        key = _digest(presented)
        known = client.verified.get(key)
        if known is None or known[0] != since:
            if len(client.verified) >= _MOST_VERIFIED:
                client.verified.clear()
            checking = asyncio.get_running_loop().create_task(self._verify(presented, client.peer))
            checking.add_done_callback(_retrieve)
            known = client.verified[key] = since, checking
        try:
            grant = await asyncio.shield(known[1])
        except PosternError:
            client.verified.pop(key, None)
            raise
        return CredentialIdentity(self._fronts, grant, since, client.peer)

    async def _verify(self, presented: PresentedCredential, address: str) -> Grant:
        """Return the credential if the password is right. Raises as `identify`."""
        username, password = presented.username, presented.password
        async with self._fronts.failed_logins.attempt(username, address):
            if len(username) > MAX_LENGTH or len(password.reveal()) > MAX_LENGTH:
                raise Unauthenticated(REFUSED_LOGIN)
            grant = await self._fronts.find_grant(username)
            verifier = grant.verifier if grant else decoy(username, self._decoy_secret)
            is_right = await asyncio.get_running_loop().run_in_executor(None, fits, password, verifier)
            if grant is None or not is_right:
                raise Unauthenticated(REFUSED_LOGIN)
            return grant


def _retrieve(checking: asyncio.Task[Grant]) -> None:
    """Take note of an error, also if the request that waited for it has gone."""
    if not checking.cancelled():
        checking.exception()


def _digest(presented: PresentedCredential) -> bytes:
    """Return what stands for a credential, so that connections do not keep passwords."""
    text = f"{presented.username}\0{presented.password.reveal()}"
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
