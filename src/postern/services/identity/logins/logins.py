"""Logins: opened when a user has proved their identity, checked at every request, and ended at once when necessary.

A token lasts TOKEN_LIFE and can be refreshed until the login is LOGIN_LIFE old. A login by an identity provider also
needs the provider's confirmation. When that expires, the gateway asks the provider again, and ends the login if the
provider no longer confirms it.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Protocol
from uuid import UUID, uuid4

from postern.domain.identity.federation import FederatedLogin
from postern.domain.identity.login import ClientKind, Login, LoginMethod, Provided
from postern.domain.identity.principal import Account, Principal
from postern.domain.secret import Secret
from postern.errors import Denied, NotFound, TooMany, Unauthenticated, Unavailable
from postern.services.identity.logins.tokens import Tokens
from postern.services.rules.network_control import NetworkControl
from postern.services.server.audit_context import record_change
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.identity_ports import LoginStore

log = logging.getLogger(__name__)

TOKEN_LIFE = timedelta(hours=12)
LOGIN_LIFE = timedelta(days=7)
FRESH = timedelta(minutes=10)  # after a proof of who the user is
_MAX_AGENT = 255
_MOST_DUE = 5_000  # logins that one round of a background job renews
_WITH_SESSIONS = frozenset({ClientKind.SSH, ClientKind.WEB})  # clients whose sessions end with their login


def _has_sessions(login: Login) -> bool:
    """Return whether the login's sessions end with it."""
    return login.client in _WITH_SESSIONS or login.federation is not None


@dataclass(frozen=True, slots=True)
class ClientFacts:
    """Where a login comes from: the kind of client, its address, and its user agent."""

    kind: ClientKind
    source: str
    user_agent: str = ""


@dataclass(frozen=True, slots=True)
class OpenedLogin:
    """A login with its token. `account` is None where only the token is new."""

    login: Login
    token: Secret
    account: Account | None = None


class Renewal(Protocol):
    """Asks the identity provider again."""

    async def renew(self, login: Login, account: Account) -> Provided:
        """Return the new confirmation, with the account's groups as the provider gives them now.

        Raises Unauthenticated when the provider no longer confirms the account, Unavailable when it does not answer.
        """


class Logins:
    """Opens, checks and ends logins. `renewal` is missing where no identity provider is set up.

    `signals` report changed logins to the clients that follow changes, and ended ones to workers, for sessions that end
    with theirs: those of SSH clients that log in by a browser, and terminals in a browser.
    """

    def __init__(
        self,
        store: LoginStore,
        tokens: Tokens,
        networks: NetworkControl,
        signals: Signals,
        now: Clock,
        renewal: Renewal | None = None,
    ) -> None:
        self._store = store
        self._tokens = tokens
        self._networks = networks
        self._signals = signals
        self._now = now
        self._renewal = renewal
        self._renewing: dict[UUID, asyncio.Lock] = {}

    async def open(
        self,
        account: Account,
        method: LoginMethod,
        client: ClientFacts,
        provided: Provided | None = None,
        *,
        federation: FederatedLogin | None = None,
        life: timedelta = LOGIN_LIFE,
    ) -> OpenedLogin:
        """Open a login for an account that the caller has authenticated.

        `federation`: the token of an external issuer that a program logs in with; it proves no presence of a user.
        Raises Unauthenticated for an inactive account, and Denied from an address that a network rule does not allow.
        """
        require_active(account.principal)
        reason = await self._networks.find_denial(account.principal, None, client.source)
        if reason is not None:
            raise Denied(reason)
        now = self._now()
        ends_at = now + life
        if provided is not None and provided.refresh is None:
            ends_at = min(ends_at, provided.expires_at)
        login = Login(
            id=uuid4(),
            org_id=account.principal.org_id,
            user_id=account.principal.id,
            method=method,
            client=client.kind,
            source=client.source,
            user_agent=client.user_agent[:_MAX_AGENT],
            created_at=now,
            expires_at=min(now + TOKEN_LIFE, ends_at),
            ends_at=ends_at,
            provided=provided,
            fresh_until=now + FRESH if federation is None else None,
            federation=federation,
        )
        await self._store.add(login)
        await self._signal_login(login.user_id, "started", login.id)
        return OpenedLogin(login, await self._tokens.issue(login.user_id, login.id, login.expires_at), account)

    async def authenticate(self, token: Secret) -> tuple[Login, Account]:
        """Return the login and account of the token, as currently stored. Raises Unauthenticated, Unavailable. One
        statement."""
        claims = await self._tokens.verify(token)
        return await self.current(claims.login_id, claims.principal_id)

    async def current(self, login_id: UUID, user_id: UUID) -> tuple[Login, Account]:
        """Return the login and its account while it is valid. Raises as `authenticate`."""
        login, account = await self._standing(login_id)
        if account.principal.id != user_id:
            raise _ended_error()
        if login.provided is not None and self._now() >= login.provided.expires_at:
            return await self._renew(login.id)
        return login, account

    async def refresh(self, login: Login) -> OpenedLogin:
        """Return a longer-lived token for the same login, until the login's own end."""
        expires_at = min(self._now() + TOKEN_LIFE, login.ends_at)
        await self._store.extend(login.id, expires_at)
        return OpenedLogin(
            replace(login, expires_at=expires_at), await self._tokens.issue(login.user_id, login.id, expires_at)
        )

    async def confirm(self, login: Login) -> Login:
        """Record that the user has just proved again who they are. The caller has checked the proof."""
        fresh_until = self._now() + FRESH
        await self._store.confirm(login.id, fresh_until)
        return replace(login, fresh_until=fresh_until)

    async def live(self, principal: Principal) -> list[Login]:
        return await self._store.live(principal.id, self._now())

    async def end(self, principal: Principal, login_id: UUID) -> None:
        """End an own login, or for administrators any of their organisation. Can be repeated. Raises NotFound."""
        row = await self._store.standing(login_id)
        if row is None or row[0].org_id != principal.org_id:
            raise NotFound(f"there is no login {login_id}")
        login = row[0]
        if login.user_id != principal.id and not principal.is_admin:
            raise NotFound(f"there is no login {login_id}")
        if await self._store.end(login_id, self._now()):
            record_change({"id": login.id, "user_id": login.user_id, "ended": False}, {"id": login.id, "ended": True})
            await self._signal_login(login.user_id, "ended", login.id)
        if _has_sessions(login):
            await self._signal_change(login.user_id)

    async def end_all(self, user_id: UUID, *, but: UUID | None = None) -> int:
        """End all logins of a user, after a password change or a deactivation; return how many.

        Pending logins (an approved device, a code on its way to a command line, a second step) become invalid, too.
        """
        live = await self._store.live(user_id, self._now())
        ended = await self._store.end_all(user_id, self._now(), but=but)
        if any(map(_has_sessions, live)):
            await self._signal_change(user_id)
        if ended:
            await self._signal_login(user_id, "ended")
        return ended

    async def end_of_rule(self, rule_id: UUID) -> None:
        """End the logins that a federation rule allowed, with their sessions."""
        for user_id in await self._store.end_of_rule(rule_id, self._now()):
            await self._signal_change(user_id)
            await self._signal_login(user_id, "ended")

    async def check_due(self, method: LoginMethod) -> int:
        """Renew the logins by this method whose confirmation has expired. End all logins of users that are no longer
        confirmed, with their sessions. Return how many were due.

        Where a directory does not answer, the others are asked all the same.
        """
        due = await self._store.due(method, self._now(), _MOST_DUE)
        silent: set[UUID] = set()
        for login in due:
            if login.org_id in silent:
                continue
            try:
                await self._renew(login.id)
            except (TooMany, Unavailable) as error:
                log.warning("logins could not be checked: org=%s method=%s error=%s", login.org_id, method, error)
                silent.add(login.org_id)
            except Unauthenticated as error:
                log.warning("login is no longer confirmed: user=%s method=%s error=%s", login.user_id, method, error)
                await self.end_all(login.user_id)
                await self._signal_change(login.user_id)
        return len(due)

    async def prune(self) -> None:
        await self._store.prune(self._now() - LOGIN_LIFE)

    async def _signal_change(self, user_id: UUID) -> None:
        await self._signals.publish(Topic.PRINCIPAL_CHANGED, principal_id=str(user_id))

    async def _signal_login(self, user_id: UUID, change: str, login_id: UUID | None = None) -> None:
        which = {} if login_id is None else {"login_id": str(login_id)}
        await self._signals.publish(Topic.LOGIN_CHANGED, principal_id=str(user_id), change=change, **which)

    async def _standing(self, login_id: UUID) -> tuple[Login, Account]:
        row = await self._store.standing(login_id)
        if row is None or not row[0].is_live(self._now()):
            raise _ended_error()
        require_active(row[1].principal)
        return row

    async def _renew(self, login_id: UUID) -> tuple[Login, Account]:
        """Renew a login once for all concurrent requests: a provider may accept a refresh token only once."""
        lock = self._renewing.setdefault(login_id, asyncio.Lock())
        try:
            async with lock:
                login, account = await self._standing(login_id)
                provided = login.provided
                if provided is None or self._now() < provided.expires_at:
                    return login, account
                if self._renewal is None or provided.refresh is None:
                    raise _ended_error()
                try:
                    renewed = await self._renewal.renew(login, account)
                except Unauthenticated:
                    await self._store.end(login_id, self._now())
                    raise
                await self._store.store_renewal(login_id, renewed)
                return await self._standing(login_id)
        finally:
            if not lock.locked():
                self._renewing.pop(login_id, None)


def require_active(principal: Principal) -> None:
    """Raise Unauthenticated for an inactive principal."""
    if not principal.is_active:
        raise Unauthenticated("this account is not active; ask an administrator")


def _ended_error() -> Unauthenticated:
    return Unauthenticated("this login has ended; log in again")
