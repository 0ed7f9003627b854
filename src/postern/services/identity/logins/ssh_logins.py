"""Login of an SSH client by a browser.

The client shows a URL and a number. The user opens the URL, logs in there, sees which client asks, and types the
number. The URL alone is worth nothing if it is passed on: the number is only in the terminal, a wrong number ends the
login, and only the user whom the client named can allow it. A remaining attack is to talk a user into typing the
number; the page shows the client's address, and what allowing it would mean.

    begin ──▶ waiting ──▶ allowed ──▶ logged in (once, by `wait`)
                 ├──────▶ denied      by a user, or a wrong number
                 └──────▶ gone        after LIFE, or with its client (`give_up`)
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from postern.domain.identity.login import ClientKind, Login, TokenPurpose
from postern.domain.identity.principal import Account, Principal
from postern.domain.page_addresses import ssh_login_address
from postern.domain.rules.permit import Permit
from postern.domain.secret import Secret
from postern.errors import Conflict, Denied, TooMany, Unauthenticated
from postern.services.completion_signals import CompletionSignals, poll_times
from postern.services.identity.logins import codes
from postern.services.identity.logins.code_exchange import CodeExchange, provided_to_json, provided_until_expiry
from postern.services.identity.logins.login_throttle import neighbourhood
from postern.services.identity.logins.logins import ClientFacts, Logins
from postern.services.identity.logins.one_time_tokens import OneTimeTokens
from postern.services.identity.logins.passwords import Throttle
from postern.services.identity.ssh_keys import is_called
from postern.services.server.audit_context import record_change
from postern.services.server.server_configs import ServerConfigs
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.identity_ports import LoginStore

MEANS = "ssh-login"
LIFE = timedelta(minutes=5)
_PURPOSE = TokenPurpose.SSH_LOGIN
_WINDOW = timedelta(minutes=15)
_LOOK_AGAIN = 5.0  # seconds
_MAX_TEXT = 255


@dataclass(frozen=True, slots=True)
class SshClaim:
    """What an SSH client claims: the user, the connection, and its own name and version."""

    user: str
    connection: str
    client: str = ""


@dataclass(frozen=True, slots=True)
class WaitingSshLogin:
    """A waiting login. `url` and `number` are for the user; the waiting process keeps the rest."""

    id: UUID
    secret: Secret
    url: str
    number: str
    address: str
    wanted: SshClaim
    code: str


@dataclass(frozen=True, slots=True)
class SshLoginRequest:
    """The client that waits for a code, as shown to the user at the browser."""

    code: str
    wanted: SshClaim
    address: str
    since: datetime


@dataclass(frozen=True, slots=True)
class BrowserLogin:
    """A login that was allowed. A Permit takes over `means`, the auth method, and `until`, its expiry."""

    principal: Principal
    login: Login

    @property
    def means(self) -> str:
        return f"{MEANS}:{self.login.id}"

    @property
    def until(self) -> datetime:
        """When the login expires; it is not refreshed."""
        return self.login.expires_at


class LoginProof:
    """Checks that the login behind a permit is still valid. `reason` is for the user whose login has ended."""

    def __init__(self, store: LoginStore, now: Clock, reason: str) -> None:
        self._store = store
        self._now = now
        self._reason = reason

    async def find_end_reason(self, permit: Permit) -> str | None:
        row = await self._store.standing(UUID(permit.means.partition(":")[2]))
        if row is None or not row[0].is_live(self._now()) or row[0].user_id != permit.principal.id:
            return self._reason
        return None


class SshLogins:
    """Logins of SSH clients: the user decides in the API's process, the client waits in a worker."""

    def __init__(
        self,
        code_exchange: CodeExchange,
        one_time_tokens: OneTimeTokens,
        logins: Logins,
        server: ServerConfigs,
        signals: Signals,
        now: Clock,
    ) -> None:
        self._code_exchange = code_exchange
        self._one_time_tokens = one_time_tokens
        self._logins = logins
        self._server = server
        self._signals = signals
        self._now = now
        self._done = CompletionSignals(signals, Topic.SSH_LOGIN_SETTLED, "ssh_login_id")
        self._begun = Throttle(now, failures=30, window=_WINDOW, what="logins begun")  # for each network
        self._tries = Throttle(now, failures=10, window=_WINDOW, what="wrong codes")  # for each user

    async def begin(self, address: str, claim: SshClaim) -> WaitingSshLogin:
        """Start a login for a client at `address`. Raises TooMany."""
        network = neighbourhood(address)
        self._begun.check(network)
        self._begun.fail(network)
        claim = SshClaim(claim.user[:_MAX_TEXT], claim.connection[:_MAX_TEXT], claim.client[:_MAX_TEXT])
        secret, number = Secret(secrets.token_urlsafe(32)), f"{secrets.randbelow(100):02}"
        key = uuid4()
        payload = {
            "id": str(key),
            "secret": secret.reveal(),
            "number": number,
            "wanted": [claim.user, claim.connection, claim.client],
            "address": address,
            "since": self._now().isoformat(),
        }
        code = await self._code(payload, address)
        await self._one_time_tokens.issue(_PURPOSE, {"answer": ""}, LIFE, secret=_client(secret), source=address)
        url = ssh_login_address((await self._server.current()).api_url, codes.format_code(code))
        return WaitingSshLogin(key, secret, url, number, address, claim, code)

    async def wait(self, waiting: WaitingSshLogin) -> BrowserLogin:
        """Wait until the user has decided.

        Raises Denied when it was denied, Unauthenticated once it has expired or for an inactive user, Unavailable.
        """
        async with self._done.subscribe(waiting.id) as event:
            login = await self._take_decision(waiting)
            if login is not None:
                return login
            async for _ in poll_times(event, LIFE.total_seconds() + _LOOK_AGAIN, _LOOK_AGAIN):
                login = await self._take_decision(waiting)
                if login is not None:
                    return login
        raise Unauthenticated("this login was not confirmed in time; connect again")

    async def give_up(self, waiting: WaitingSshLogin) -> None:
        """Drop a login whose client has gone, so that it cannot be allowed any more."""
        for secret in (_client(waiting.secret), _person(waiting.code)):
            try:
                await self._one_time_tokens.take(_PURPOSE, secret)
            except Unauthenticated:
                continue

    async def look(self, principal: Principal, code: str) -> SshLoginRequest:
        """Return the waiting client. Raises NotFound, TooMany."""
        return _asking(await self._peek(principal, code))

    async def decide(
        self, account: Account, login: Login, code: str, *, allow: bool, number: str = ""
    ) -> SshLoginRequest:
        """Allow or deny the login, once; a wrong number denies it.

        The client gets a login of its own, which ends no later than the provider's confirmation of the present one.
        Raises NotFound, TooMany; Denied when it could not be allowed.
        """
        payload = await self._peek(account.principal, code)
        asking = _asking(payload)
        problem = None
        if allow and not is_called(account, asking.wanted.user):
            problem = "this login is for a different user; start it with your own name before the connection"
        elif allow and not hmac.compare_digest(number.strip().encode(), payload["number"].encode()):
            problem = "this is not the number that the terminal shows, so this login is denied; connect again there"
        decision: dict[str, Any] = {"answer": "deny"}
        if allow and problem is None:
            decision = {
                "answer": "allow",
                "org_id": str(account.principal.org_id),
                "user_id": str(account.principal.id),
                "method": login.method,
                "provided": provided_to_json(provided_until_expiry(login, self._now())),
            }
        try:
            await self._one_time_tokens.take(_PURPOSE, _person(codes.plain(code)))
            await self._one_time_tokens.change(_PURPOSE, _client(Secret(payload["secret"])), decision)
        except Unauthenticated:
            raise codes.no_such_code() from None
        await self._signals.publish(Topic.SSH_LOGIN_SETTLED, ssh_login_id=payload["id"])
        audit_fields = {"user": asking.wanted.user, "connection": asking.wanted.connection, "address": asking.address}
        record_change(None, {**audit_fields, "allowed": decision["answer"] == "allow"})
        if problem is not None:
            raise Denied(problem)
        return asking

    async def standing(self, browser_login: BrowserLogin) -> BrowserLogin:
        """Return the login's current state, for one that was allowed earlier. Raises Unauthenticated, Unavailable."""
        _, account = await self._logins.current(browser_login.login.id, browser_login.principal.id)
        return BrowserLogin(account.principal, browser_login.login)

    async def end(self, browser_login: BrowserLogin) -> None:
        """End the login, with the client's connection."""
        await self._logins.end(browser_login.principal, browser_login.login.id)

    async def _take_decision(self, waiting: WaitingSshLogin) -> BrowserLogin | None:
        payload = await self._one_time_tokens.peek(_PURPOSE, _client(waiting.secret))
        if not payload["answer"]:
            return None
        payload = await self._one_time_tokens.take(_PURPOSE, _client(waiting.secret))
        if payload["answer"] != "allow":
            raise Denied("this login was denied in the browser")
        facts = ClientFacts(ClientKind.SSH, waiting.address, waiting.wanted.client)
        account, opened = await self._code_exchange.redeem(payload, facts, ClientKind.SSH)
        return BrowserLogin(account.principal, opened.login)

    async def _code(self, request: dict[str, Any], address: str) -> str:
        for _ in range(5):
            code = codes.new_code()
            payload = {**request, "code": codes.format_code(code)}
            try:
                await self._one_time_tokens.issue(_PURPOSE, payload, LIFE, secret=_person(code), source=address)
            except Conflict:
                continue
            return code
        raise TooMany("too many logins are in progress; try again in a few minutes")

    async def _peek(self, principal: Principal, code: str) -> dict[str, Any]:
        key = str(principal.id)
        self._tries.check(key)
        self._tries.fail(key)
        try:
            payload = await self._one_time_tokens.peek(_PURPOSE, _person(codes.plain(code)))
        except Unauthenticated:
            raise codes.no_such_code() from None
        self._tries.undo(key)
        return dict(payload)


def _asking(payload: dict[str, Any]) -> SshLoginRequest:
    return SshLoginRequest(
        payload["code"], SshClaim(*payload["wanted"]), payload["address"], datetime.fromisoformat(payload["since"])
    )


def _client(secret: Secret) -> Secret:
    """Return the token's secret for a client. The prefix keeps it apart from codes and from devices."""
    return Secret(f"ssh client {secret.reveal()}")


def _person(code: str) -> Secret:
    return Secret(f"ssh code {code}")
