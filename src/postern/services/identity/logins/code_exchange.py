"""The end of a login at a provider.

A browser gets its login at once. A command line gets a one-time code, which only the holder of its code verifier can
exchange for a token (as in RFC 7636).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from postern.domain.identity.login import ClientKind, Login, LoginMethod, Provided, TokenPurpose
from postern.domain.identity.principal import Account
from postern.domain.secret import Secret
from postern.errors import Unauthenticated
from postern.services.identity.logins.logins import TOKEN_LIFE, ClientFacts, Logins, OpenedLogin
from postern.services.identity.logins.one_time_tokens import OneTimeTokens
from postern.services.identity.logins.redirect_targets import RedirectTarget
from postern.store.ports.identity_ports import PrincipalStore

CODE_LIFE = timedelta(minutes=2)
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")  # RFC 7636 section 4.1


@dataclass(frozen=True, slots=True)
class LoginRedirect:
    """Where the browser goes next. `opened` becomes a browser's cookie; a command line has none yet."""

    url: str
    account: Account | None = None
    opened: OpenedLogin | None = None


class CodeExchange:
    def __init__(self, principals: PrincipalStore, logins: Logins, one_time_tokens: OneTimeTokens) -> None:
        self._principals = principals
        self._logins = logins
        self._one_time_tokens = one_time_tokens

    async def finish_login(
        self,
        redirect_target: RedirectTarget,
        account: Account,
        method: LoginMethod,
        client: ClientFacts,
        provided: Provided | None,
    ) -> LoginRedirect:
        """Finish a login; `client` is the returning browser. Raises Unauthenticated for an inactive user, TooMany."""
        if redirect_target.client is ClientKind.WEB:
            facts = ClientFacts(ClientKind.WEB, client.source, client.user_agent)
            return LoginRedirect(
                redirect_target.url, account, await self._logins.open(account, method, facts, provided)
            )
        payload = {
            "org_id": str(account.principal.org_id),
            "user_id": str(account.principal.id),
            "method": method,
            "code_challenge": redirect_target.code_challenge,
            "provided": provided_to_json(provided),
        }
        code = await self._one_time_tokens.issue(TokenPurpose.EXCHANGE, payload, CODE_LIFE)
        return LoginRedirect(redirect_target.with_query(code=code.reveal()), account)

    async def exchange(self, code: Secret, code_verifier: Secret, client: ClientFacts) -> tuple[Account, OpenedLogin]:
        """Exchange a code for a login. A wrong verifier uses the code up. Raises Unauthenticated."""
        payload = await self._one_time_tokens.take(TokenPurpose.EXCHANGE, code)
        if not _proves(code_verifier, payload["code_challenge"]):
            raise Unauthenticated("code_verifier: does not belong to this code; log in again")
        return await self.redeem(payload, client)

    async def redeem(
        self, payload: Mapping[str, Any], client: ClientFacts, kind: ClientKind = ClientKind.CLI
    ) -> tuple[Account, OpenedLogin]:
        """Log in a client that is not a browser, by the payload of a one-time token that was taken.

        The payload names the user who proved their identity in a browser: `org_id`, `user_id`, `method` and what was
        `provided`. Raises Unauthenticated.
        """
        account = await self._principals.get(UUID(payload["org_id"]), UUID(payload["user_id"]))
        if account is None:
            raise Unauthenticated("this account was deleted")
        facts = ClientFacts(kind, client.source, client.user_agent)
        method = LoginMethod(payload["method"])
        return account, await self._logins.open(account, method, facts, provided_from_json(payload["provided"]))


def provided_until_expiry(login: Login, now: datetime) -> Provided | None:
    """Return what another login can inherit of this one. A refresh token may work for one holder only, so it stays; an
    LDAP directory can be asked about any login."""
    provided = login.provided
    if provided is None or login.method is LoginMethod.LDAP:
        return provided
    return Provided(min(login.ends_at, now + TOKEN_LIFE) if provided.refresh else provided.expires_at)


def provided_to_json(provided: Provided | None) -> dict[str, Any] | None:
    """Return it as JSON, for the payload of a one-time token."""
    if provided is None:
        return None
    refresh = provided.refresh.reveal() if provided.refresh else None
    return {"expires_at": provided.expires_at.isoformat(), "refresh": refresh}


def provided_from_json(data: Mapping[str, Any] | None) -> Provided | None:
    if data is None:
        return None
    refresh = data["refresh"]
    return Provided(datetime.fromisoformat(data["expires_at"]), Secret(refresh) if refresh else None)


def _proves(verifier: Secret, challenge: str) -> bool:
    text = verifier.reveal()
    if not _VERIFIER.fullmatch(text):
        return False
    digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
    return hmac.compare_digest(digest, challenge.encode())
