"""Idempotent writes: repeated requests with the same key run once."""

from __future__ import annotations

import hashlib
from datetime import timedelta

from postern.domain.identity.principal import Principal
from postern.errors import Conflict, Invalid
from postern.store.ports.common_ports import Clock
from postern.store.ports.server_ports import IdempotencyStore, StoredAnswer

__all__ = ["Idempotency", "IdempotencyTicket", "StoredAnswer"]

KEPT_FOR = timedelta(hours=24)
RETRY_AFTER = 2  # seconds
MAX_BODY = 256 * 1024  # bytes of a response that is stored


class IdempotencyTicket:
    """The right to carry out a request, and the duty to report its result."""

    __slots__ = ("digest", "fingerprint", "principal")

    def __init__(self, principal: Principal, digest: bytes, fingerprint: bytes) -> None:
        self.principal = principal
        self.digest = digest
        self.fingerprint = fingerprint


class Idempotency:
    def __init__(self, store: IdempotencyStore, now: Clock) -> None:
        self._store = store
        self._now = now

    async def begin(
        self, principal: Principal, key: str, method: str, target: str, body: bytes
    ) -> IdempotencyTicket | StoredAnswer:
        """Return a ticket for the first request, the stored answer for all others. `target` is path and query.

        Raises Conflict while the first is running, Invalid when the key belongs to a different request, TooMany.
        """
        digest = hashlib.sha256(key.encode()).digest()
        fingerprint = hashlib.sha256(b"\0".join((method.encode(), target.encode(), body))).digest()
        answer = await self._store.begin(principal, digest, fingerprint, self._now(), KEPT_FOR)
        if answer is None:
            return IdempotencyTicket(principal, digest, fingerprint)
        if answer.fingerprint != fingerprint:
            raise Invalid(
                "Idempotency-Key: was used for a different request; use a new key for each request",
                field="Idempotency-Key",
            )
        if answer.status == 0:
            raise Conflict("the same request is in progress; try again in a few seconds", retry_after=RETRY_AFTER)
        return answer

    async def finish(self, ticket: IdempotencyTicket, status: int, headers: dict[str, str], body: bytes) -> None:
        """Store the answer. One that is too large is replaced by a note that the request was carried out."""
        if len(body) > MAX_BODY:
            status, headers = 409, {"content-type": "application/json"}
            body = (
                b'{"message":"the request was carried out, but its response was too large to store; read the result"}'
            )
        answer = StoredAnswer(ticket.fingerprint, status, headers, body)
        await self._store.finish(ticket.principal, ticket.digest, answer)

    async def prune(self) -> None:
        """Delete expired answers."""
        await self._store.prune(self._now() - KEPT_FOR)

    async def forget(self, ticket: IdempotencyTicket) -> None:
        """Drop a failed request, so that it can be retried with the same key."""
        await self._store.forget(ticket.principal, ticket.digest)
