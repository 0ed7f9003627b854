"""Logins as users see, refresh and end them; and the keys that sign all tokens."""

from __future__ import annotations

from uuid import UUID

from postern.domain.identity.login import PASSWORD_METHODS, Login
from postern.domain.identity.principal import Principal, PrincipalKind
from postern.domain.lists import Listed, Page
from postern.errors import Denied, Invalid, NotFound, Unauthenticated
from postern.services.identity.accounts import Accounts
from postern.services.identity.logins.authentication import Caller
from postern.services.identity.logins.logins import Logins, OpenedLogin
from postern.services.identity.logins.tokens import Tokens
from postern.services.server.audit_context import record_change
from postern.store.ports.identity_ports import PrincipalStore
from postern.store.ports.server_ports import OrganisationStore


class OwnLogins:
    def __init__(
        self,
        principals: PrincipalStore,
        organisations: OrganisationStore,
        accounts: Accounts,
        logins: Logins,
        tokens: Tokens,
    ) -> None:
        self._principals = principals
        self._organisations = organisations
        self._accounts = accounts
        self._logins = logins
        self._tokens = tokens

    async def live(self, principal: Principal, page: Page) -> Listed[Login]:
        """Return the caller's own logins, newest first."""
        logins = await self._logins.live(principal)
        return Listed(logins[page.offset : page.offset + page.limit], len(logins))

    async def end_all(self, caller: Caller, *, keep_current: bool = False) -> int:
        """End the caller's logins, also pending ones, except the current one with `keep_current`; return how many were
        live."""
        current_id = caller.login.id if keep_current and caller.login else None
        return await self._end_all(caller.principal, current_id)

    async def end_all_of(self, principal: Principal, key: str) -> int:
        """End a user's logins, as an administrator; return how many were live. Raises Denied, NotFound."""
        if not principal.is_admin:
            raise Denied("only administrators can end the logins of others")
        return await self._end_all(await self._user(principal, key), None)

    async def live_of(self, principal: Principal, key: str, page: Page) -> Listed[Login]:
        """Return a user's logins, for administrators and auditors. Raises Denied, NotFound."""
        if not principal.sees_all:
            raise Denied("only administrators and auditors can see the logins of others")
        return await self.live(await self._user(principal, key), page)

    async def refresh(self, caller: Caller) -> OpenedLogin:
        """Refresh the login. Raises Invalid without one; Unauthenticated for a login by password where users must now
        log in differently."""
        login = _login_of(caller)
        if login.method in PASSWORD_METHODS:
            try:
                await self._accounts.require_method(login.org_id, login.method)
            except Denied as error:
                raise Unauthenticated(error.message) from None
        return await self._logins.refresh(login)

    async def end_this(self, caller: Caller) -> None:
        """End the present login. Raises Invalid without one."""
        await self._logins.end(caller.principal, _login_of(caller).id)

    async def rotate_keys(self, principal: Principal, *, revoke: bool) -> None:
        """Rotate the signing keys, as an administrator of the default organisation, since all organisations share them.

        With `revoke` every token becomes invalid at once, the caller's too. Raises Denied.
        """
        if not principal.is_admin or principal.org_id != (await self._organisations.default()).id:
            raise Denied("only administrators of the default organisation can rotate the token signing keys")
        await self._tokens.rotate(revoke=revoke)
        record_change(None, {"changed": "token signing keys", "revoked": revoke})

    async def _end_all(self, user: Principal, except_id: UUID | None) -> int:
        live = await self._logins.live(user)
        await self._logins.end_all(user.id, but=except_id)
        ended = sum(login.id != except_id for login in live)
        record_change({"email": user.email, "live": len(live)}, {"email": user.email, "live": len(live) - ended})
        return ended

    async def _user(self, principal: Principal, key: str) -> Principal:
        account = await self._principals.by_subject_or_email(principal.org_id, PrincipalKind.USER, key)
        if account is None:
            raise NotFound(f"there is no user {key!r}")
        return account.principal


def _login_of(caller: Caller) -> Login:
    if caller.login is None:
        raise Invalid("this request has no login: it came with an API key or a token of the identity provider")
    return caller.login
