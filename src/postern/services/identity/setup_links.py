"""Set-up links: the holder sets the password of an account, once. For first logins and for lost passwords."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from postern.domain.identity.login import TokenPurpose
from postern.domain.identity.principal import Account, Principal, PrincipalKind, PrincipalStatus
from postern.domain.secret import Secret
from postern.errors import Denied, Invalid, NotFound
from postern.services.identity.logins.one_time_tokens import OneTimeTokens
from postern.services.server.audit_context import record_change
from postern.services.server.server_configs import ServerConfigs
from postern.store.ports.common_ports import Clock
from postern.store.ports.identity_ports import NewOneTimeToken, PrincipalStore

SETUP_LIFE = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class SetupLink:
    """A link. `url` has the token in its fragment, which browsers do not send."""

    email: str
    token: Secret
    url: Secret
    expires_at: datetime


class SetupLinks:
    def __init__(
        self, store: PrincipalStore, one_time_tokens: OneTimeTokens, server_configs: ServerConfigs, now: Clock
    ) -> None:
        self._store = store
        self._one_time_tokens = one_time_tokens
        self._server_configs = server_configs
        self._now = now

    async def issue(self, principal: Principal, key: str) -> SetupLink:
        """Issue a link for a user of the administrator's organisation. Raises Denied, NotFound, Invalid, TooMany."""
        if not principal.is_admin or principal.kind is not PrincipalKind.USER:
            raise Denied("only administrators, logged in themselves, can create set-up links")
        account = await self._store.by_subject_or_email(principal.org_id, PrincipalKind.USER, key)
        if account is None:
            raise NotFound(f"there is no user {key!r}")
        return await self.issue_for(account)

    async def issue_for(self, account: Account, *, from_host: bool = False) -> SetupLink:
        """Issue a link; older ones become invalid.

        `from_host`: issued by a command on this machine, and valid even where users log in at an identity provider, in
        case it does not answer. Raises Invalid, TooMany.
        """
        principal = account.principal
        if principal.status is PrincipalStatus.INACTIVE:
            raise Invalid(f"{principal.email} is inactive, and a set-up link does not change that", field="status")
        await self._one_time_tokens.forget(TokenPurpose.SETUP, principal.id)
        token = await self._one_time_tokens.issue(TokenPurpose.SETUP, _payload(principal, from_host), SETUP_LIFE)
        record_change(None, {"email": principal.email, "changed": "a set-up link was created"})
        return await self._link(principal, token)

    async def prepare_for(self, principal: Principal) -> tuple[SetupLink, NewOneTimeToken]:
        """Return a link for an account that is stored together with its one-time token; it is valid only then."""
        token, one_time_token = self._one_time_tokens.prepare(TokenPurpose.SETUP, _payload(principal), SETUP_LIFE)
        return await self._link(principal, token), one_time_token

    async def _link(self, principal: Principal, token: Secret) -> SetupLink:
        api_url = (await self._server_configs.current()).api_url
        url = Secret(f"{api_url}/setup#token={token.reveal()}")
        return SetupLink(principal.email, token, url, self._now() + SETUP_LIFE)


def _payload(principal: Principal, from_host: bool = False) -> dict[str, Any]:
    return {"user_id": str(principal.id), "org_id": str(principal.org_id), "from_host": from_host}
