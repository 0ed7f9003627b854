"""Local accounts: e-mail and password, and the first administrator."""

from __future__ import annotations

import secrets
from uuid import UUID, uuid4

from postern.domain.identity.login import PASSWORD_METHODS, LoginMethod, Provided, TokenPurpose
from postern.domain.identity.principal import Account, Principal
from postern.domain.secret import Secret
from postern.errors import Denied, Unauthenticated
from postern.services.identity.ldap_login import LdapLogin
from postern.services.identity.logins.login_throttle import LoginThrottle
from postern.services.identity.logins.logins import Logins
from postern.services.identity.logins.one_time_tokens import OneTimeTokens
from postern.services.identity.logins.passwords import Passwords, check_strength
from postern.services.server.audit_context import record_change
from postern.services.server.auth_configs import AuthConfigs
from postern.store.ports.common_ports import Clock
from postern.store.ports.identity_ports import PrincipalStore
from postern.store.ports.server_ports import OrganisationStore

FIRST_ADMIN = "admin@localhost"


class Accounts:
    def __init__(
        self,
        *,
        store: PrincipalStore,
        organisations: OrganisationStore,
        auth_configs: AuthConfigs,
        logins: Logins,
        one_time_tokens: OneTimeTokens,
        now: Clock,
        passwords: Passwords,
        ldap: LdapLogin,
    ) -> None:
        self._store = store
        self._organisations = organisations
        self._auth_configs = auth_configs
        self._logins = logins
        self._one_time_tokens = one_time_tokens
        self._now = now
        self._passwords = passwords
        self._ldap = ldap
        self._tries = LoginThrottle(now)

    async def ensure_first_admin(self) -> tuple[str, Secret] | None:
        """Create the first admin while there is no user; return (e-mail, password to show once), else None."""
        organisation = await self._organisations.default()
        if await self._store.count(organisation.id):
            return None
        password = Secret(secrets.token_urlsafe(18))
        key = uuid4()
        roles = organisation.role_groups
        admin = Principal(key, organisation.id, str(key), FIRST_ADMIN, "Administrator", frozenset({roles.admin}))
        account = Account(admin, password_hash=await self._passwords.hash(password))
        return (FIRST_ADMIN, password) if await self._store.add_first(account, self._now()) else None

    async def is_setup_required(self) -> bool:
        """Whether the default organisation has no user yet."""
        return not await self._store.count((await self._organisations.default()).id)

    async def authenticate(
        self, email: str, password: Secret, address: str, *, organisation: str | None = None
    ) -> Account:
        """Return the account with this password; `email` is a name of the LDAP directory if that has the passwords.

        Raises Unauthenticated, the same and after the same work for unknown, inactive and wrong; TooMany; Denied where
        users log in at an identity provider; Unavailable if the directory does not answer.
        """
        org_id = await self._org_id(organisation)
        method = LoginMethod.LOCAL if org_id is None else await self.password_method(org_id)
        with self._tries.attempt(email, address):
            if org_id is not None and method is LoginMethod.LDAP:
                return await self._ldap.authenticate(org_id, email, password)
            account = None if org_id is None else await self._store.by_email(org_id, email)
            matches = await self._passwords.matches(password, account.password_hash if account else None)
            if account is None or not matches or not account.principal.is_active:
                raise Unauthenticated("e-mail or password is wrong")
            return account

    async def password_method(self, org_id: UUID) -> LoginMethod:
        """Return how users log in by password: LOCAL or LDAP. Raises Denied where they log in at an identity
        provider."""
        method = (await self._auth_configs.of(org_id)).method
        if method not in PASSWORD_METHODS:
            raise Denied(
                f"this organisation logs in with its identity provider ({method}); GET /api/login returns the URL"
            )
        return method

    async def require_method(self, org_id: UUID, method: LoginMethod) -> None:
        """Check that users still log in like this, so that an older way does not bypass the present one. Raises
        Denied."""
        current = await self.password_method(org_id)
        if current is LoginMethod.LDAP and method is LoginMethod.LOCAL:
            raise Denied("the passwords of this organisation are in its LDAP directory; change them there")
        if current is not method:
            raise Denied("the login settings were changed meanwhile; log in again")

    async def require_local(self, org_id: UUID) -> None:
        """Check that local login is enabled, so that an old password does not bypass the identity provider. Raises
        Denied."""
        await self.require_method(org_id, LoginMethod.LOCAL)

    async def confirmation(self, account: Account, method: LoginMethod) -> Provided | None:
        """Return until when a login is valid without asking the directory again; None for a local account."""
        return await self._ldap.confirmation(account) if method is LoginMethod.LDAP else None

    async def require_password(self, principal: Principal, current: Secret, address: str) -> None:
        """Check the principal's password. Raises Denied when it is wrong; TooMany."""
        with self._tries.attempt(principal.email, address):
            method = (await self._auth_configs.of(principal.org_id)).method
            if (
                method is LoginMethod.LDAP and principal.issuer
            ):  # a local account has logged in from the server's machine
                await self._ldap.require_password(principal, current)
                return
            account = await self._store.get(principal.org_id, principal.id)
            if account is None or not await self._passwords.matches(current, account.password_hash):
                raise Denied("current_password: is wrong", field="current_password")

    async def change_password(self, principal: Principal, current: Secret, new: Secret, address: str) -> Account:
        """Change the password and end all logins; the caller opens a new one. Raises Denied when `current` is wrong,
        Invalid, TooMany."""
        await self.require_local(principal.org_id)
        await self.require_password(principal, current, address)
        await self.set_password(principal, new, "new_password")
        account = await self._store.get(principal.org_id, principal.id)
        if account is None:
            raise Unauthenticated("this account was deleted")
        return account

    async def set_password(self, principal: Principal, password: Secret, field: str) -> None:
        """Set the password, and end all logins and pending logins of the user. Raises Invalid, TooMany."""
        await self.store_password(principal, await self.hash_password(principal, password, field))

    async def hash_password(self, principal: Principal, password: Secret, field: str) -> str:
        """Check the strength of a password and return its hash. Raises Invalid, TooMany."""
        check_strength(password, field, whose=(principal.email, principal.email.partition("@")[0], principal.name))
        return await self._passwords.hash(password)

    async def store_password(self, principal: Principal, password_hash: str) -> None:
        """Store a hash that `hash_password` returned, as `set_password` does."""
        await self._store.set_password(principal.id, password_hash, self._now())
        await self._logins.end_all(principal.id)
        await self._one_time_tokens.forget(TokenPurpose.SETUP, principal.id)
        record_change(None, {"id": principal.id, "email": principal.email, "changed": "how to log in"})

    async def _org_id(self, name: str | None) -> UUID | None:
        organisation = await self._organisations.default() if name is None else await self._organisations.by_name(name)
        return organisation.id if organisation else None
