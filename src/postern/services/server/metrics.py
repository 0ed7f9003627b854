"""Metrics of this machine, for operators."""

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
    """Return no metrics, where none are kept."""
    return b""


def check_token(token: Secret) -> None:
    """Raises Misconfigured for a token that is short enough to guess."""
    if token and len(token.reveal()) < SHORTEST:
        raise Misconfigured(
            f"POSTERN_METRICS_TOKEN: has fewer than {SHORTEST} characters; create one with `openssl rand -hex 32`",
            field="metrics_token",
        )


class ServerMetrics:
    """`gather` returns metrics in Prometheus's text format.

    `token` can read them and nothing else: a monitoring system does not need access to recordings. Raises Misconfigured
    when it is short enough to guess.
    """

    def __init__(self, gather: Gather, operators: Operators, token: Secret = NO_TOKEN) -> None:
        check_token(token)
        self._gather = gather
        self._operators = operators
        self._token = token

    def is_token(self, text: str) -> bool:
        """Return whether this is the token; False where none is set."""
        data = self._token.reveal().encode()
        return bool(data) and hmac.compare_digest(text.encode("utf-8", "replace"), data)

    async def read_authorised(self) -> bytes:
        """Return the metrics, for a caller with the metrics token."""
        return await self._gather()

    async def text(self, principal: Principal) -> bytes:
        """Return the metrics, for administrators and auditors of the default organisation. Raises Denied."""
        if not await self._operators.include_reader(principal):
            raise Denied(f"only administrators and auditors of the organisation {DEFAULT!r} can read metrics")
        return await self._gather()
