"""Signed links to files of sessions: valid for a few minutes, without a token, for one session, form and user.

A link is a JWT signed with the keys of access tokens, for an audience of its own. Every process of the gateway accepts
it, and rotating those keys with `revoke` ends it. Nothing is stored, so a wrong guess has no effect. Each use checks
again whether the user can have the file, and whether the login or key that created the link is still valid.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from postern.domain.identity.principal import Principal
from postern.domain.secret import Secret
from postern.domain.sessions.session import Session, require_recording
from postern.errors import Unauthenticated
from postern.services.identity.logins.authentication import Authentication, Caller, CallerIds
from postern.services.identity.logins.tokens import Tokens
from postern.services.recordings.concurrency_limit import ConcurrencyLimit
from postern.services.sessions import Sessions
from postern.store.ports.common_ports import Clock

AUDIENCE = "postern-download"
LIFE = timedelta(minutes=5)
EACH, MOST = 4, 32  # downloads at once

# Claim names, by the kind of the caller's credential.
_LOGIN, _KEY = "lid", "key"


@dataclass(frozen=True, slots=True)
class DownloadLink:
    """A link. `form` says which file of the session it is, and cannot be changed."""

    token: Secret
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class OpenedDownload:
    session: Session
    principal: Principal
    form: Mapping[str, str]


class DownloadLinks:
    def __init__(
        self,
        *,
        sessions: Sessions,
        tokens: Tokens,
        authentication: Authentication,
        now: Clock,
    ) -> None:
        self.places = ConcurrencyLimit("download sessions", each=EACH, most=MOST)
        self._sessions = sessions
        self._tokens = tokens
        self._authentication = authentication
        self._now = now

    async def make(self, caller: Caller, session_id: str, form: Mapping[str, str]) -> DownloadLink:
        """Create a link. Raises NotFound, Denied, Gone."""
        session = await self._sessions.get(caller.principal, session_id)
        await self._sessions.require_download(caller.principal)
        require_recording(session)
        expires_at = self._now() + LIFE
        claims: dict[str, object] = {
            "sub": str(caller.principal.id),
            "org": str(caller.principal.org_id),
            "ses": str(session.id),
            "form": dict(form),
        }
        if caller.login is not None:
            claims[_LOGIN] = str(caller.login.id)
        if caller.api_key is not None:
            claims[_KEY] = str(caller.api_key.id)
        return DownloadLink(await self._tokens.sign(AUDIENCE, claims, expires_at), expires_at)

    async def open(self, token: Secret, session_id: str, *, address: str) -> OpenedDownload:
        """Return what the link leads to, if its user can still have it. Raises Unauthenticated, NotFound, Denied."""
        claims = await self._tokens.verify_for(AUDIENCE, token)
        try:
            holder = CallerIds(
                org_id=UUID(str(claims["org"])),
                user_id=UUID(str(claims["sub"])),
                login_id=UUID(str(claims[_LOGIN])) if _LOGIN in claims else None,
                key_id=UUID(str(claims[_KEY])) if _KEY in claims else None,
            )
            key, form = UUID(str(claims["ses"])), claims["form"]
        except (KeyError, ValueError):
            raise _invalid() from None
        if str(key) != session_id.lower() or not isinstance(form, dict):
            raise _invalid()
        principal = await self._authentication.find_holder(holder, address=address)
        session = await self._sessions.get(principal, key)
        await self._sessions.require_download(principal)
        return OpenedDownload(session, principal, form)


def _invalid() -> Unauthenticated:
    return Unauthenticated("this link is not valid for this session; create a new one")
