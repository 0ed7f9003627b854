"""Login to a local account: the password, then the second factor where there is one; or a set-up link."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from postern.domain.identity.login import LoginMethod, TokenPurpose
from postern.domain.identity.principal import Account, Principal, PrincipalStatus
from postern.domain.identity.second_factor import FactorKind, SecondFactor
from postern.domain.secret import Secret
from postern.errors import Denied, Unauthenticated
from postern.services.identity.accounts import Accounts
from postern.services.identity.logins.authenticators import (
    Authenticators,
    Key,
    challenge_of,
    challenge_text,
    new_challenge,
)
from postern.services.identity.logins.factor_check import FactorAnswer, FactorCheck
from postern.services.identity.logins.logins import ClientFacts, Logins, OpenedLogin
from postern.services.identity.logins.one_time_tokens import OneTimeTokens
from postern.services.identity.logins.passwords import Throttle
from postern.services.identity.users import checked_name
from postern.store.ports.common_ports import Clock
from postern.store.ports.identity_ports import PrincipalStore

TICKET_LIFE = timedelta(minutes=5)
_TRIES = 5  # of one ticket
_TICKETS = 20  # for one account, within the life of one


@dataclass(frozen=True, slots=True)
class SecondStep:
    """The password was right, and a second factor is required.

    `request` is the argument for `navigator.credentials.get`, where there is an authenticator.
    """

    account: Account
    ticket: Secret
    factors: tuple[SecondFactor, ...]
    request: Mapping[str, Any] | None


class LocalLogin:
    def __init__(
        self,
        *,
        store: PrincipalStore,
        accounts: Accounts,
        logins: Logins,
        one_time_tokens: OneTimeTokens,
        check: FactorCheck,
        authenticators: Authenticators,
        now: Clock,
    ) -> None:
        self._store = store
        self._accounts = accounts
        self._logins = logins
        self._one_time_tokens = one_time_tokens
        self._check = check
        self._authenticators = authenticators
        self._now = now
        self._tries = Throttle(now, failures=_TRIES, window=TICKET_LIFE)
        self._tickets = Throttle(now, failures=_TICKETS, window=TICKET_LIFE)

    async def login(
        self, email: str, password: Secret, client: ClientFacts, *, organisation: str | None = None
    ) -> OpenedLogin | SecondStep:
        """Log in by password. Raises Unauthenticated, TooMany, Denied, as Accounts.authenticate."""
        account = await self._accounts.authenticate(email, password, client.source, organisation=organisation)
        method = await self._accounts.password_method(account.org_id)
        return await self._after_password(account, client, method)

    async def change_password(
        self, principal: Principal, current: Secret, new: Secret, client: ClientFacts
    ) -> OpenedLogin:
        """End all logins, and open a new one. Raises Denied, Invalid, TooMany."""
        account = await self._accounts.change_password(principal, current, new, client.source)
        return await self._logins.open(account, LoginMethod.LOCAL, client)

    async def find_account(self, purpose: TokenPurpose, ticket: Secret) -> Account:
        """Return the account of this ticket or set-up link. Raises Unauthenticated."""
        return await self._account(await self._one_time_tokens.peek(purpose, ticket))

    async def second_step(self, ticket: Secret, answer: FactorAnswer, client: ClientFacts) -> OpenedLogin:
        """Finish a login with a second factor. A right answer uses the ticket up. Raises Unauthenticated, TooMany,
        Denied."""
        payload = await self._one_time_tokens.peek(TokenPurpose.SECOND_FACTOR, ticket)
        key = hashlib.sha256(ticket.reveal().encode(errors="replace")).hexdigest()
        self._tries.check(key)
        self._tries.fail(key)
        account = await self._account(payload)
        method = LoginMethod(payload["method"])
        if not payload["from_host"]:
            await self._accounts.require_method(account.org_id, method)
        challenge = challenge_of(payload["challenge"]) if payload["challenge"] else None
        await self._check.require(account.principal.id, answer, challenge)
        await self._one_time_tokens.take(TokenPurpose.SECOND_FACTOR, ticket)
        return await self._open(account, client, method)

    async def set_up(
        self, token: Secret, password: Secret, name: str | None, client: ClientFacts
    ) -> OpenedLogin | SecondStep:
        """Set the password by a set-up link, activate an invited account, and end all its logins.

        The link is used up unless the password is rejected. Raises Unauthenticated, Denied, Invalid, TooMany.
        """
        payload = await self._one_time_tokens.peek(TokenPurpose.SETUP, token)
        account = await self._account(payload)
        from_host = bool(payload.get("from_host"))
        if not from_host:
            await self._accounts.require_local(account.principal.org_id)
        if account.principal.status is PrincipalStatus.INACTIVE:
            raise Denied("this account is inactive; ask an administrator")
        named = checked_name(name) if name is not None else account.principal.name
        password_hash = await self._accounts.hash_password(account.principal, password, "password")
        await self._one_time_tokens.take(TokenPurpose.SETUP, token)
        active = replace(account.principal, name=named, status=PrincipalStatus.ACTIVE)
        await self._store.update(replace(account, principal=active), self._now())
        await self._accounts.store_password(active, password_hash)
        return await self._after_password(await self._account(payload), client, LoginMethod.LOCAL, from_host=from_host)

    async def _after_password(
        self, account: Account, client: ClientFacts, method: LoginMethod, *, from_host: bool = False
    ) -> OpenedLogin | SecondStep:
        factors = await self._check.find_confirmed(account.principal.id)
        if not factors:
            return await self._open(account, client, method)
        self._tickets.check(str(account.principal.id))
        self._tickets.fail(str(account.principal.id))
        keys = [Key.load(factor.material) for factor in factors if factor.kind is FactorKind.WEBAUTHN]
        challenge = new_challenge() if keys else b""
        payload = {
            "user_id": str(account.principal.id),
            "org_id": str(account.principal.org_id),
            "challenge": challenge_text(challenge),
            "from_host": from_host,
            "method": method,
        }
        ticket = await self._one_time_tokens.issue(TokenPurpose.SECOND_FACTOR, payload, TICKET_LIFE)
        request = await self._authenticators.assertion_options(challenge, keys) if keys else None
        return SecondStep(account, ticket, tuple(factors), request)

    async def _open(self, account: Account, client: ClientFacts, method: LoginMethod) -> OpenedLogin:
        provided = await self._accounts.confirmation(account, method)
        opened = await self._logins.open(account, method, client, provided)
        await self._store.touch(account.principal.id, self._now())
        return opened

    async def _account(self, payload: Mapping[str, Any]) -> Account:
        account = await self._store.get(UUID(payload["org_id"]), UUID(payload["user_id"]))
        if account is None:
            raise Unauthenticated("this account was deleted")
        return account
