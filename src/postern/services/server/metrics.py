"""Metrics of this machine, for who runs the server."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable

from postern.domain.identity.organisation import DEFAULT
from postern.domain.identity.principal import Principal
from postern.domain.secret import Secret
from postern.errors import Denied, Misconfigured
from postern.services.server.operators import Operators

SHORTEST = 20  # characters of a token
NO_TOKEN = Secret("")
Gather = Callable[[], Awaitable[bytes]]


async def nothing() -> bytes:
    """Where nothing is counted."""
    return b""


class ServerMetrics:
    """`gather` gives them in Prometheus's text format. `token` may read them and nothing else: what watches a server
    need not be able to read its recordings. Raises Misconfigured when it is so short that it could be guessed."""

    def __init__(self, gather: Gather, operators: Operators, token: Secret = NO_TOKEN) -> None:
        if token and len(token.reveal()) < SHORTEST:
            raise Misconfigured(
                f"POSTERN_METRICS_TOKEN: has fewer than {SHORTEST} characters; make one by `openssl rand -hex 32`",
                field="metrics_token",
            )
        self._gather = gather
        self._operators = operators
        self._token = token

    def is_token(self, given: str) -> bool:
        """Whether this is the token; never where there is none."""
        own = self._token.reveal().encode()
        return bool(own) and hmac.compare_digest(given.encode("utf-8", "replace"), own)

    async def read_authorised(self) -> bytes:
        """For who has the token."""
        return await self._gather()

    async def text(self, principal: Principal) -> bytes:
        """For administrators and auditors of the default organisation. Raises Denied."""
        if not await self._operators.include_reader(principal):
            raise Denied(f"only administrators and auditors of the organisation {DEFAULT!r} may read metrics")
        return await self._gather()
