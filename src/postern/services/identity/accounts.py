"""Local accounts: e-mail and password, and the first administrator."""

from __future__ import annotations

import secrets
from datetime import timedelta
from uuid import uuid4

from postern.domain.login import LoginMethod
from postern.domain.principal import Account, Principal
from postern.domain.secret import Secret
from postern.errors import Denied, Unauthenticated
from postern.services.identity.logins import ClientFacts, Logins, Opened
from postern.services.identity.passwords import Passwords, Throttle, check_strength
from postern.services.server.trail import changed
from postern.store.ports import Clock, OrganisationStore, PrincipalStore

FIRST_ADMIN = "admin@localhost"
_WINDOW = timedelta(minutes=15)


class Accounts:
    def __init__(
        self,
        store: PrincipalStore,
        organisations: OrganisationStore,
        logins: Logins,
        now: Clock,
        passwords: Passwords,
    ) -> None:
        self._store = store
        self._organisations = organisations
        self._logins = logins
        self._now = now
        self._passwords = passwords
        # Few tries for one account from one address; more for all accounts from one address, and for one
        # account from everywhere, so that a stranger does not easily lock somebody out.
        self._throttles = (
            Throttle(now, failures=10, window=_WINDOW),
            Throttle(now, failures=50, window=_WINDOW),
            Throttle(now, failures=100, window=_WINDOW),
        )

    async def ensure_first_admin(self) -> tuple[str, Secret] | None:
        """Makes the first admin while there is no user at all: (e-mail, password to show once); else None."""
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

    async def login(
        self, email: str, password: Secret, client: ClientFacts, *, organisation: str | None = None
    ) -> Opened:
        """Raises Unauthenticated, the same for unknown, inactive and wrong; TooMany."""
        tries = self._count_try(email, client.source)
        account = await self._find(email, organisation)
        matches = await self._passwords.matches(password, account.password_hash if account else None)
        if account is None or not matches or not account.principal.is_active:
            raise Unauthenticated("e-mail or password is wrong")
        for throttle, key in tries:
            throttle.undo(key)
        await self._store.touch(account.principal.id, self._now())
        return await self._logins.open(account, LoginMethod.LOCAL, client)

    async def change_password(self, principal: Principal, current: Secret, new: Secret, client: ClientFacts) -> Opened:
        """Ends all logins, and opens a new one. Raises Denied when `current` is wrong, Invalid, TooMany."""
        tries = self._count_try(principal.email, client.source)
        account = await self._store.get(principal.org_id, principal.id)
        if account is None or not await self._passwords.matches(current, account.password_hash):
            raise Denied("current_password: is wrong", field="current_password")
        for throttle, key in tries:
            throttle.undo(key)
        await self.set_password(principal, new, "new_password")
        return await self._logins.open(account, LoginMethod.LOCAL, client)

    async def set_password(self, principal: Principal, password: Secret, field: str) -> None:
        """Ends all their logins. Raises Invalid."""
        check_strength(password, field)
        await self._store.set_password(principal.id, await self._passwords.hash(password), self._now())
        await self._logins.end_all(principal.id)
        changed(None, {"id": principal.id, "email": principal.email, "changed": "how to log in"})

    async def _find(self, email: str, organisation: str | None) -> Account | None:
        if organisation is None:
            found = await self._organisations.default()
        else:
            named = await self._organisations.by_name(organisation)
            if named is None:
                return None
            found = named
        return await self._store.by_email(found.id, email)

    def _count_try(self, email: str, address: str) -> list[tuple[Throttle, str]]:
        """Counted as a failure before the work is done, so that many tries at once are not all let through."""
        account = email.lower()[:320]
        tries = list(zip(self._throttles, (f"{account} {address}", address, account), strict=True))
        for throttle, key in tries:
            throttle.check(key)
        for throttle, key in tries:
            throttle.fail(key)
        return tries
