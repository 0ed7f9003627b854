"""Users: local login, who is behind a token, and what admins change."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from uuid import uuid4

from postern.domain.principal import ADMIN_GROUP, Principal, PrincipalStatus
from postern.domain.secret import Secret
from postern.errors import Conflict, Denied, Invalid, NotFound, Unauthenticated
from postern.services.passwords import Passwords, Throttle, check_strength
from postern.services.tokens import Tokens
from postern.store.ports import Account, Clock, PrincipalStore, Signals, Topic

FIRST_ADMIN = "admin@localhost"
_EMAIL = re.compile(r"[^@\s\x00-\x1f]+@[^@\s\x00-\x1f]+")
_GROUP = re.compile(r"[^\x00-\x1f\x7f]{1,128}")
_WINDOW = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class UserFields:
    """What an admin sets of a user. None leaves as it is, where there is something already."""

    email: str | None = None
    name: str | None = None
    status: PrincipalStatus | None = None
    groups: tuple[str, ...] | None = None
    password: Secret | None = None


class Principals:
    def __init__(
        self, store: PrincipalStore, tokens: Tokens, signals: Signals, now: Clock, passwords: Passwords | None = None
    ) -> None:
        self._store = store
        self._tokens = tokens
        self._signals = signals
        self._now = now
        self._passwords = passwords or Passwords()
        # Few tries for one account from one address; more for all accounts from one address, and for one
        # account from everywhere, so that a stranger does not easily lock somebody out.
        self._throttles = (
            Throttle(now, failures=10, window=_WINDOW),
            Throttle(now, failures=50, window=_WINDOW),
            Throttle(now, failures=100, window=_WINDOW),
        )

    async def ensure_first_admin(self) -> tuple[str, Secret] | None:
        """Makes the first admin while there is no user at all: (e-mail, password to show once); else None."""
        org_id = await self._store.default_org()
        if await self._store.count(org_id):
            return None
        password = Secret(secrets.token_urlsafe(18))
        key = uuid4()
        admin = Principal(key, org_id, str(key), FIRST_ADMIN, "Administrator", frozenset({ADMIN_GROUP}))
        try:
            await self._store.add(admin, await self._passwords.hash(password), self._now())
        except Conflict:
            return None  # another process was first
        return FIRST_ADMIN, password

    async def login(self, email: str, password: Secret, *, address: str) -> Secret:
        """A token. Raises Unauthenticated, the same for unknown, inactive and wrong; TooMany."""
        tries = self._count_try(email, address)
        account = await self._store.by_email(await self._store.default_org(), email)
        matches = await self._passwords.matches(password, account.password_hash if account else None)
        if account is None or not matches or not account.principal.is_active:
            raise Unauthenticated("e-mail or password is wrong")
        for throttle, key in tries:
            throttle.undo(key)
        return await self._tokens.issue(account.principal.id, account.token_generation)

    def _count_try(self, email: str, address: str) -> list[tuple[Throttle, str]]:
        """Counted as a failure before the work is done, so that many tries at once are not all let through."""
        account = email.lower()[:320]
        tries = list(zip(self._throttles, (f"{account} {address}", address, account), strict=True))
        for throttle, key in tries:
            throttle.check(key)
        for throttle, key in tries:
            throttle.fail(key)
        return tries

    async def authenticate(self, token: Secret) -> Principal:
        """Who is behind the token, as the store knows them now. Raises Unauthenticated."""
        claims = await self._tokens.verify(token)
        account = await self._store.get(claims.user_id)
        if account is None or not account.principal.is_active or account.token_generation != claims.generation:
            raise Unauthenticated("this user is not active any more, or the password was changed; log in again")
        return account.principal

    async def all(self, principal: Principal) -> list[Principal]:
        """For admins and auditors; others find only themselves."""
        if not (principal.is_admin or principal.is_auditor):
            return [principal]
        return await self._store.all(principal.org_id)

    async def get(self, principal: Principal, key: str) -> Principal:
        """By subject or e-mail. Raises NotFound."""
        return (await self._account(principal, key)).principal

    async def create(self, principal: Principal, fields: UserFields) -> Principal:
        """Raises Denied, Invalid, Conflict."""
        _require_admin(principal)
        email = (fields.email or "").lower()
        if len(email) > 320 or not _EMAIL.fullmatch(email):
            raise Invalid(f"email: {email!r} is not an e-mail address", field="email")
        key = uuid4()
        user = Principal(
            id=key,
            org_id=principal.org_id,
            subject=str(key),
            email=email,
            name=_name(fields.name or email),
            groups=_groups(fields.groups or ()),
            status=fields.status or PrincipalStatus.ACTIVE,
        )
        hashed = None
        if fields.password is not None:
            check_strength(fields.password, "password")
            hashed = await self._passwords.hash(fields.password)
        await self._store.add(user, hashed, self._now())
        return user

    async def update(self, principal: Principal, key: str, fields: UserFields) -> Principal:
        """Raises Denied, NotFound, Invalid. A changed password ends the user's tokens."""
        _require_admin(principal)
        current = (await self._account(principal, key)).principal
        if fields.email is not None and fields.email.lower() != current.email:
            raise Invalid("email: cannot be changed", field="email")
        changed = replace(
            current,
            name=current.name if fields.name is None else _name(fields.name),
            status=fields.status or current.status,
            groups=current.groups if fields.groups is None else _groups(fields.groups),
        )
        if current.id == principal.id and not changed.is_active:
            raise Invalid("status: you cannot deactivate yourself", field="status")
        if current.id == principal.id and not changed.is_admin:
            raise Invalid(f"groups: you cannot leave the group {ADMIN_GROUP!r} yourself", field="groups")
        if fields.password is not None:
            await self._set_password(current, fields.password, "password")
        await self._store.update(changed, self._now())
        await self._signals.publish(Topic.PRINCIPAL_CHANGED, principal_id=str(changed.id))
        return changed

    async def change_own_password(self, principal: Principal, current: Secret, new: Secret, *, address: str) -> Secret:
        """Answers a new token, since all others end. Raises Denied when `current` is wrong, Invalid, TooMany."""
        tries = self._count_try(principal.email, address)
        account = await self._store.get(principal.id)
        if account is None or not await self._passwords.matches(current, account.password_hash):
            raise Denied("current_password: is wrong", field="current_password")
        for throttle, key in tries:
            throttle.undo(key)
        await self._set_password(principal, new, "new_password")
        renewed = await self._store.get(principal.id)
        if renewed is None:
            raise NotFound("this user was deleted")
        return await self._tokens.issue(principal.id, renewed.token_generation)

    async def _set_password(self, user: Principal, password: Secret, field: str) -> None:
        check_strength(password, field)
        await self._store.set_password(user.id, await self._passwords.hash(password), self._now())

    async def _account(self, principal: Principal, key: str) -> Account:
        account = await self._store.by_subject_or_email(principal.org_id, key)
        sees = principal.is_admin or principal.is_auditor
        if account is None or not (sees or account.principal.id == principal.id):
            raise NotFound(f"there is no user {key!r}")
        return account


def _require_admin(principal: Principal) -> None:
    if not principal.is_admin:
        raise Denied("only administrators may change users")


def _name(name: str) -> str:
    if not 1 <= len(name) <= 255 or any(ord(character) < 32 for character in name):
        raise Invalid("name: must have 1 to 255 characters and no control characters", field="name")
    return name


def _groups(names: Iterable[str]) -> frozenset[str]:
    for name in names:
        if not _GROUP.fullmatch(name) or name != name.strip():
            raise Invalid(
                f"groups: {name!r} must have 1 to 128 characters, no control characters, and no blanks around it",
                field="groups",
            )
    return frozenset(names)
