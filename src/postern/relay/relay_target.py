"""A target that has been dialled and logged in to, and the interface of dialers."""

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
    """The client's terminal. `name` is its type, as the client reports it."""

    columns: int = 80
    rows: int = 24
    name: str = "xterm-256color"

    @property
    def kind(self) -> str:
        """Return the value of TERM at the target: the name if it is a valid terminal name, else `dumb`."""
        return self.name if _TERMINAL_NAME.fullmatch(self.name) else "dumb"


class ChannelKind(StrEnum):
    """What runs at the other end of a channel of an SSH connection (RFC 4254, 6.5 and 7).

    LISTEN waits for connections to a port of the target, or to the client's forwarded agent. ACCEPT takes one of those.
    """

    SHELL = "shell"
    EXEC = "exec"
    SUBSYSTEM = "subsystem"
    FORWARD = "forward"
    LISTEN = "listen"
    ACCEPT = "accept"

    @property
    def is_program(self) -> bool:
        """True if a program runs at the target; False if TCP connections are forwarded."""
        return self in (ChannelKind.SHELL, ChannelKind.EXEC, ChannelKind.SUBSYSTEM)


@dataclass(frozen=True, slots=True)
class ChannelRequest:
    """A request for one channel of an SSH connection.

    `what` is the command's text, the subsystem's name, or `host:port` as seen from the target; it is empty for a shell.
    For LISTEN the host may be empty and the port 0; `ssh-agent` is the client's agent, forwarded to programs of the
    same login. For ACCEPT it is `NUMBER ORIGIN LISTENER`: the number comes from the listener, the other two are for
    people to read. `login` is a UUID's text: channels with the same `login` share one connection to the target.
    """

    kind: ChannelKind
    what: str
    login: str


@dataclass(frozen=True, slots=True)
class Start:
    """The client's parameters for a target.

    Databases use `database` and `parameters`. Commands use `arguments` (appended to the connection's own),
    `environment` (besides its secrets) and `terminal` (None for plain pipes). Servers use `channel`, `environment`,
    `terminal` and `host_keys`: public keys in OpenSSH's form, of which the server must have one. () means that the
    server's keys are not known yet; `Target.parameters["host_key"]` then returns the key that was presented.
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
    """A target that was reached. `stream` still holds the transport; `parameters` are what the target reports at login.

    `process` and `key` cancel what runs on it, as its protocol requires. `schema` is its catalogue, if the session's
    rules need it and it could be read. `release` frees the session's resources at the target's side, such as files with
    secrets. It is called once, after the stream was closed.
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
        """Dial the target and log in. Raises Unavailable, or an error of the protocol's login."""

    async def cancel(self, permit: Permit, target: Target) -> None:
        """Ask the target to stop what runs on it. Never raises."""
