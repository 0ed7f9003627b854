"""A target that has been dialled and logged in to, and who can do that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol
from uuid import UUID

from postern.domain.permit import Permit
from postern.domain.target_schema import TargetSchema
from postern.relay.handshake import StreamHandshake


@dataclass(frozen=True, slots=True)
class Terminal:
    """A terminal that somebody sits at. `name` is its type, as in TERM."""

    columns: int = 80
    rows: int = 24
    name: str = "xterm-256color"


@dataclass(frozen=True, slots=True)
class Start:
    """What a client wants of a target when it starts.

    Of a database: `database` and `parameters`. Of a command: `arguments` behind the connection's own, `environment`
    beside its secrets, and the `terminal`, or None for plain pipes.
    """

    database: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    terminal: Terminal | None = None


@dataclass(slots=True)
class Target:
    """`stream` still holds the transport; `parameters` are what the target tells its clients at login.

    `process` and `key` cancel what runs on it, in the way of its protocol. `schema` is what its catalogue says, where
    the session's rules ask for it and it could be read. `release` gives back what the session held
    at the target's side, such as files with secrets; it is called once, when the stream has been closed.
    """

    stream: StreamHandshake
    parameters: dict[str, str] = field(default_factory=dict)
    process: int = 0
    key: bytes = b""
    schema: TargetSchema | None = None
    release: Callable[[], None] = lambda: None


class Dialer(Protocol):
    """The agent, wherever it runs."""

    async def dial(self, permit: Permit, start: Start, session_id: UUID) -> Target:
        """Dials and logs in. Raises Unavailable, or what the protocol's login raises."""

    async def cancel(self, permit: Permit, target: Target) -> None:
        """Asks the target to stop what runs on it. Never raises."""
