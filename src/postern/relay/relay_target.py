"""A target that has been dialled and logged in to, and who can do that."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from postern.domain.rules.permit import Permit
from postern.domain.targets.target_schema import TargetSchema
from postern.relay.relay_handshake import StreamHandshake

_TERMINAL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")


@dataclass(frozen=True, slots=True)
class Terminal:
    """A terminal that somebody sits at. `name` is its type, as its client says."""

    columns: int = 80
    rows: int = 24
    name: str = "xterm-256color"

    @property
    def kind(self) -> str:
        """The value of TERM at the target: the name, if it can be the name of a terminal."""
        return self.name if _TERMINAL_NAME.fullmatch(self.name) else "dumb"


class ChannelKind(StrEnum):
    """What runs at the other end of a channel of an SSH connection (RFC 4254, 6.5 and 7). LISTEN waits for connections
    to a port of the target, or to the client's agent that is lent there; ACCEPT takes one of those."""

    SHELL = "shell"
    EXEC = "exec"
    SUBSYSTEM = "subsystem"
    FORWARD = "forward"
    LISTEN = "listen"
    ACCEPT = "accept"

    @property
    def is_program(self) -> bool:
        """Something runs at the target; otherwise somebody's TCP connections are carried."""
        return self in (ChannelKind.SHELL, ChannelKind.EXEC, ChannelKind.SUBSYSTEM)


@dataclass(frozen=True, slots=True)
class ChannelRequest:
    """`what` is the command's text, the subsystem's name, or `host:port` as seen from the target; nothing for a shell.
    Where it listens, the host may be empty and the port 0, and `ssh-agent` is the client's agent, which is lent to what
    runs by the same login; who is accepted is `NUMBER ORIGIN LISTENER`, with the number
    that the listener told, and the last two for people. `login` is a UUID's text: channels with the same one share one
    connection to the target."""

    kind: ChannelKind
    what: str
    login: str


@dataclass(frozen=True, slots=True)
class Start:
    """What a client wants of a target when it starts.

    Of a database: `database` and `parameters`. Of a command: `arguments` behind the connection's own, `environment`
    beside its secrets, and the `terminal`, or None for plain pipes. Of a server: the `channel`, with `environment` and
    `terminal`; and `host_keys`, the public keys in OpenSSH's form that the server must have one of. () is a
    server whose keys are not known yet: the one that is met is told in `Target.parameters["host_key"]`.
    """

    database: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    terminal: Terminal | None = None
    channel: ChannelRequest | None = None
    host_keys: tuple[str, ...] | None = None


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
