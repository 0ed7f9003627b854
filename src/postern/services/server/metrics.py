"""Metrics of this machine, for who runs the server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from postern.domain.organisation import DEFAULT
from postern.domain.principal import Principal
from postern.errors import Denied
from postern.services.server.operators import Operators

Gather = Callable[[], Awaitable[bytes]]


async def nothing() -> bytes:
    """Where nothing is counted."""
    return b""


class ServerMetrics:
    """`gather` gives them in Prometheus's text format."""

    def __init__(self, gather: Gather, operators: Operators) -> None:
        self._gather = gather
        self._operators = operators

    async def text(self, principal: Principal) -> bytes:
        """For administrators and auditors of the default organisation. Raises Denied."""
        if not await self._operators.include_reader(principal):
            raise Denied(f"only administrators and auditors of the organisation {DEFAULT!r} may read metrics")
        return await self._gather()
