"""One-time tokens: short-lived secrets for one step of a login.

The store has their SHA-256 and a sealed payload. A token has 256 random bits, too many to guess.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from postern.domain.identity.login import TokenPurpose
from postern.domain.secret import Secret
from postern.errors import Unauthenticated
from postern.services.identity.logins.login_throttle import neighbourhood
from postern.store.ports.common_ports import Clock
from postern.store.ports.identity_ports import NewOneTimeToken, OneTimeTokenStore

_BYTES = 32


class OneTimeTokens:
    def __init__(self, store: OneTimeTokenStore, now: Clock) -> None:
        self._store = store
        self._now = now

    async def issue(
        self,
        purpose: TokenPurpose,
        payload: Mapping[str, Any],
        life: timedelta,
        *,
        secret: Secret | None = None,
        source: str | None = None,
    ) -> Secret:
        """Issue a token and return its secret.

        `payload` is JSON; its `user_id` names the owner, with whom the token is deleted. `secret` is generated unless
        the token must be another text, which must be as hard to guess. `source` is the address of an unauthenticated
        client: the oldest token of the same network makes room. Raises TooMany, Conflict.
        """
        secret, one_time_token = self.prepare(purpose, payload, life, secret=secret, source=source)
        await self._store.add(one_time_token)
        return secret

    def prepare(
        self,
        purpose: TokenPurpose,
        payload: Mapping[str, Any],
        life: timedelta,
        *,
        secret: Secret | None = None,
        source: str | None = None,
    ) -> tuple[Secret, NewOneTimeToken]:
        """Return a token as `issue` does, for a caller that stores it with other rows; it is valid only then."""
        secret = secret or Secret(secrets.token_urlsafe(_BYTES))
        now = self._now()
        network = None if source is None else neighbourhood(source)
        return secret, NewOneTimeToken(purpose, _digest(secret), payload, now, now + life, _owner(payload), network)

    async def take(self, purpose: TokenPurpose, secret: Secret) -> Mapping[str, Any]:
        """Use the token up and return its payload. Raises Unauthenticated when it was used, has expired, or never
        existed."""
        payload = await self._store.take(purpose, _digest(secret), self._now())
        if payload is None:
            raise _gone_error(purpose)
        return payload

    async def peek(self, purpose: TokenPurpose, secret: Secret) -> Mapping[str, Any]:
        """Return the payload without using the token up. Raises Unauthenticated."""
        payload = await self._store.peek(purpose, _digest(secret), self._now())
        if payload is None:
            raise _gone_error(purpose)
        return payload

    async def change(self, purpose: TokenPurpose, secret: Secret, payload: Mapping[str, Any]) -> None:
        """Replace the payload. Raises Unauthenticated when the token is gone."""
        if not await self._store.change(purpose, _digest(secret), payload, _owner(payload)):
            raise _gone_error(purpose)

    async def forget(self, purpose: TokenPurpose, user_id: UUID) -> None:
        """Delete all tokens of a user for this purpose."""
        await self._store.forget(purpose, user_id)

    async def prune(self) -> None:
        await self._store.prune(self._now())


def _owner(payload: Mapping[str, Any]) -> UUID | None:
    return UUID(payload["user_id"]) if "user_id" in payload else None


def _digest(secret: Secret) -> bytes:
    return hashlib.sha256(secret.reveal().encode(errors="surrogatepass")).digest()


def _gone_error(purpose: TokenPurpose) -> Unauthenticated:
    return Unauthenticated(f"this {purpose.replace('-', ' ')} was already used, or has expired; start again")
