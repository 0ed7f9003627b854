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

from postern.domain.features import Feature
from postern.domain.identity.principal import Principal
from postern.domain.secret import Secret
from postern.domain.sessions.session import Session, require_recording
from postern.errors import Unauthenticated
from postern.services.identity.api_keys import ApiKeys
from postern.services.identity.logins.authentication import Caller
from postern.services.identity.logins.logins import Logins, require_active
from postern.services.identity.logins.tokens import Tokens
from postern.services.recordings.concurrency_limit import ConcurrencyLimit
from postern.services.server.server_features import Features
from postern.services.sessions import Sessions
from postern.store.ports.common_ports import Clock
from postern.store.ports.identity_ports import PrincipalStore

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
        principals: PrincipalStore,
        tokens: Tokens,
        logins: Logins,
        api_keys: ApiKeys,
        features: Features,
        now: Clock,
    ) -> None:
        self.places = ConcurrencyLimit("download sessions", each=EACH, most=MOST)
        self._sessions = sessions
        self._principals = principals
        self._tokens = tokens
        self._logins = logins
        self._api_keys = api_keys
        self._features = features
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
            owner, org = UUID(str(claims["sub"])), UUID(str(claims["org"]))
            key, form = UUID(str(claims["ses"])), claims["form"]
            login = UUID(str(claims[_LOGIN])) if _LOGIN in claims else None
            api_key = UUID(str(claims[_KEY])) if _KEY in claims else None
        except (KeyError, ValueError):
            raise _invalid() from None
        if str(key) != session_id.lower() or not isinstance(form, dict):
            raise _invalid()
        principal = await self._holder(owner, org, login, api_key, address)
        session = await self._sessions.get(principal, key)
        await self._sessions.require_download(principal)
        return OpenedDownload(session, principal, form)

    async def _holder(
        self, owner: UUID, org_id: UUID, login: UUID | None, api_key: UUID | None, address: str
    ) -> Principal:
        if login is not None:
            principal = (await self._logins.standing(login, owner)).principal
        elif api_key is not None:
            if not await self._features.is_enabled(org_id, Feature.API_KEYS):
                raise Unauthenticated("API keys are switched off in this organisation; ask an administrator")
            principal = await self._api_keys.standing(org_id, api_key, address)
        else:
            account = await self._principals.get(org_id, owner)
            if account is None:
                raise _invalid()
            principal = account.principal
        require_active(principal)
        if principal.id != owner or principal.org_id != org_id:
            raise _invalid()
        return principal


def _invalid() -> Unauthenticated:
    return Unauthenticated("this link is not valid for this session; create a new one")
