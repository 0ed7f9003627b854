"""A target that has been dialled and logged in to, and who can do that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from postern.domain.permit import Permit
from postern.relay.handshake import StreamHandshake


@dataclass(slots=True)
class Target:
    """`stream` still holds the transport; `parameters` are what the target tells its clients at login.

    `process` and `key` cancel what runs on it, in the way of its protocol.
    """

    stream: StreamHandshake
    parameters: dict[str, str] = field(default_factory=dict)
    process: int = 0
    key: bytes = b""


class Dialer(Protocol):
    """The agent, wherever it runs."""

    async def dial(self, permit: Permit, database: str | None, parameters: Mapping[str, str]) -> Target:
        """Dials and logs in. Raises Unavailable, or what the protocol's login raises."""

    async def cancel(self, permit: Permit, target: Target) -> None:
        """Asks the target to stop what runs on it. Never raises."""
