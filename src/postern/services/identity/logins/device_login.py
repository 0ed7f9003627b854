"""Login for a command line without a browser (as RFC 8628).

The command line shows a short code, and a logged-in user confirms it in a browser elsewhere. Two one-time tokens make
one login: the device's, which cannot be guessed, and the user's short one, which only logged-in users can try, a few
times.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta

from postern.domain.durations import duration_text
from postern.domain.identity.login import Login, TokenPurpose
from postern.domain.identity.principal import Account, Principal
from postern.domain.secret import Secret
from postern.errors import Conflict, Denied, TooMany, Unauthenticated
from postern.services.identity.logins import codes
from postern.services.identity.logins.code_exchange import CodeExchange, provided_to_json, provided_until_expiry
from postern.services.identity.logins.login_throttle import neighbourhood
from postern.services.identity.logins.logins import ClientFacts, OpenedLogin
from postern.services.identity.logins.one_time_tokens import OneTimeTokens
from postern.services.identity.logins.passwords import Throttle
from postern.services.server.audit_context import record_change
from postern.store.ports.common_ports import Clock

LIFE = timedelta(minutes=10)
INTERVAL = 5  # seconds between two polls of a device
_SOONEST = timedelta(seconds=INTERVAL - 1)  # networks are not even
_WINDOW = timedelta(minutes=15)
_DEVICES = 10_000
_MAX_AGENT = 255


@dataclass(frozen=True, slots=True)
class DeviceCodes:
    """The codes of one login. `user_code` is shown as two halves."""

    device_code: Secret
    user_code: str
    expires_in: timedelta


@dataclass(frozen=True, slots=True)
class DeviceLoginRequest:
    """The client that waits for a code to be confirmed."""

    user_code: str
    source: str
    user_agent: str
    since: datetime


class DeviceLogin:
    def __init__(self, code_exchange: CodeExchange, one_time_tokens: OneTimeTokens, now: Clock) -> None:
        self._code_exchange = code_exchange
        self._one_time_tokens = one_time_tokens
        self._now = now
        self._asked: OrderedDict[bytes, datetime] = OrderedDict()
        self._begun = Throttle(now, failures=30, window=_WINDOW)  # for each network
        self._tries = Throttle(now, failures=10, window=_WINDOW)  # for each user

    async def begin(self, client: ClientFacts) -> DeviceCodes:
        """Start a login. Raises TooMany."""
        network = neighbourhood(client.source)
        self._begun.check(network)
        self._begun.fail(network)
        device_code = Secret(secrets.token_urlsafe(32))
        user_code = await self._user_code(device_code, client)
        waiting = {"answer": ""}
        await self._one_time_tokens.issue(
            TokenPurpose.DEVICE, waiting, LIFE, secret=_device(device_code), source=client.source
        )
        return DeviceCodes(device_code, codes.format_code(user_code), LIFE)

    async def look(self, principal: Principal, user_code: str) -> DeviceLoginRequest:
        """Return the waiting client. Raises NotFound, TooMany."""
        payload = await self._peek(principal, user_code)
        return DeviceLoginRequest(
            payload["user_code"], payload["source"], payload["user_agent"], datetime.fromisoformat(payload["since"])
        )

    async def answer(self, account: Account, login: Login, user_code: str, *, allow: bool) -> DeviceLoginRequest:
        """Allow or deny the login, once.

        The device gets a login of its own, which ends no later than the provider's confirmation of the present one.
        Raises NotFound, TooMany.
        """
        asking = await self.look(account.principal, user_code)
        try:
            payload = await self._one_time_tokens.take(TokenPurpose.DEVICE, _person(codes.plain(user_code)))
            payload_update = {
                "answer": "allow" if allow else "deny",
                "org_id": str(account.principal.org_id),
                "user_id": str(account.principal.id),
                "method": login.method,
                "provided": provided_to_json(provided_until_expiry(login, self._now())),
            }
            await self._one_time_tokens.change(
                TokenPurpose.DEVICE, _device(Secret(payload["device_code"])), payload_update
            )
        except Unauthenticated:
            raise codes.no_such_code() from None
        record_change(None, {"user_code": asking.user_code, "address": asking.source, "allowed": allow})
        return asking

    async def poll(self, device_code: Secret, client: ClientFacts) -> tuple[Account, OpenedLogin] | None:
        """Return the new login; None while the user has not answered.

        Raises TooMany when polled too often, Denied when the user denied it, Unauthenticated when it has expired, was
        used or never existed.
        """
        payload = await self._one_time_tokens.peek(TokenPurpose.DEVICE, _device(device_code))
        self._check_pace(device_code)
        if not payload["answer"]:
            return None
        payload = await self._one_time_tokens.take(TokenPurpose.DEVICE, _device(device_code))
        if payload["answer"] != "allow":
            raise Denied("access_denied: this login was denied in the browser")
        return await self._code_exchange.redeem(payload, client)

    async def _user_code(self, device_code: Secret, client: ClientFacts) -> str:
        for _ in range(5):
            code = codes.new_code()
            payload = {
                "device_code": device_code.reveal(),
                "user_code": codes.format_code(code),
                "source": client.source,
                "user_agent": client.user_agent[:_MAX_AGENT],
                "since": self._now().isoformat(),
            }
            try:
                await self._one_time_tokens.issue(
                    TokenPurpose.DEVICE, payload, LIFE, secret=_person(code), source=client.source
                )
            except Conflict:
                continue
            return code
        raise TooMany("too many logins are in progress; try again in a few minutes")

    async def _peek(self, principal: Principal, user_code: str) -> dict[str, str]:
        key = str(principal.id)
        self._tries.check(key)
        self._tries.fail(key)
        try:
            payload = await self._one_time_tokens.peek(TokenPurpose.DEVICE, _person(codes.plain(user_code)))
        except Unauthenticated:
            raise codes.no_such_code() from None
        self._tries.undo(key)
        return dict(payload)

    def _check_pace(self, device_code: Secret) -> None:
        digest, now = hashlib.sha256(device_code.reveal().encode()).digest(), self._now()
        last = self._asked.get(digest)
        self._asked[digest] = now
        self._asked.move_to_end(digest)
        while len(self._asked) > _DEVICES:
            self._asked.popitem(last=False)
        if last is not None and now - last < _SOONEST:
            raise TooMany(f"slow_down: poll at most every {duration_text(INTERVAL)}")


def _device(code: Secret) -> Secret:
    """Return the token's secret for a device code. The prefix keeps the two kinds of codes apart."""
    return Secret(f"device code {code.reveal()}")


def _person(code: str) -> Secret:
    return Secret(f"user code {code}")
