"""Login by an LDAP directory: the gateway asks for the password, and the directory decides about it.

The directory is asked again about each login, every RECHECK: its groups are taken over, and logins of users that are
gone or disabled end. While the directory does not answer, such a login is not accepted.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Protocol
from uuid import UUID

from postern.domain.identity.auth_config import LdapConfig
from postern.domain.identity.identity import Identity
from postern.domain.identity.login import Login, LoginMethod, Provided
from postern.domain.identity.principal import Account, Principal
from postern.domain.secret import Secret
from postern.errors import Denied, Unauthenticated, Unavailable
from postern.services.identity.logins.sign_in import SignIn
from postern.services.server.auth_configs import AuthConfigs
from postern.store.ports.common_ports import Clock

RECHECK = timedelta(minutes=15)
UNCHECKED_LIFE = timedelta(hours=1)  # of a login about which the directory cannot be asked again


class Ldap(Protocol):
    """The client of directories."""

    async def authenticate(self, config: LdapConfig, user: str, password: Secret) -> Identity:
        """Return the user with this name and password. Raises Unauthenticated, TooMany, Unavailable."""

    async def verify(self, config: LdapConfig, subject: str, password: Secret) -> None:
        """Check the password of a known user. Raises as `authenticate`."""

    async def find(self, config: LdapConfig, subject: str) -> Identity:
        """Return a user as the directory has them now. Raises Unauthenticated if they are gone or disabled, TooMany,
        Unavailable."""


class LdapLogin:
    """Checks passwords at the organisation's directory. `ldap` is missing where this server has no client for it."""

    def __init__(self, ldap: Ldap | None, configs: AuthConfigs, sign_in: SignIn, now: Clock) -> None:
        self._ldap = ldap
        self._configs = configs
        self._sign_in = sign_in
        self._now = now

    async def authenticate(self, org_id: UUID, user: str, password: Secret) -> Account:
        """Return the account of a user, created at the first login. Raises Unauthenticated, Denied, TooMany,
        Unavailable."""
        config = await self._config(org_id)
        return await self._sign_in.account_of(org_id, await self._client().authenticate(config, user, password))

    async def require_password(self, principal: Principal, password: Secret) -> None:
        """Check the password of a known user. Raises Denied when it is wrong, TooMany, Unavailable."""
        config = await self._config(principal.org_id)
        if config.issuer != principal.issuer or not config.bind_dn:
            raise Denied("your password cannot be checked again here: log out, and log in again")
        try:
            await self._client().verify(config, principal.subject, password)
        except Unauthenticated:
            raise Denied("current_password: is wrong", field="current_password") from None

    async def confirmation(self, account: Account) -> Provided:
        """Return until when a new login is valid without asking the directory again."""
        config = await self._config(account.org_id)
        if not config.bind_dn:
            return Provided(self._now() + UNCHECKED_LIFE)
        return Provided(self._now() + RECHECK, Secret(account.principal.subject))

    async def renew(self, login: Login, account: Account) -> Provided:
        """Ask the directory about the user of a login. Raises Unauthenticated, Unavailable."""
        config = await self._config(login.org_id)
        if config.issuer != account.principal.issuer:
            raise Unauthenticated("the login settings were changed; log in again")
        try:
            await self._sign_in.reconfirm(account, await self._client().find(config, account.principal.subject))
        except Denied as refused:
            raise Unauthenticated(refused.message) from None
        return await self.confirmation(account)

    async def _config(self, org_id: UUID) -> LdapConfig:
        config = await self._configs.of(org_id)
        if config.method is not LoginMethod.LDAP or config.ldap is None:
            raise Unauthenticated("the login settings were changed; log in again")
        return config.ldap

    def _client(self) -> Ldap:
        if self._ldap is None:
            raise Unavailable("this process cannot log users in with LDAP; ask the operator of the gateway")
        return self._ldap
