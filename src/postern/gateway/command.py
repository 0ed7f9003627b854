"""Clients of commands: from the stream that a command line opened to a running link.

OPEN {"connect": name, "terminal": {"columns", "rows", "name"} or null, "arguments": […], "environment": {…}}
      ─▶ who? the tunnel's token ─▶ may they? services.access → Permit, at once or once colleagues agreed
      ─▶ session row, recording ─▶ link
From there on frames of protocols.terminal; also a client that is turned away is told so in them.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeGuard

from postern.domain.command import check_arguments, check_variables
from postern.domain.connection import TERMINAL, Connection
from postern.domain.permit import Permit
from postern.errors import Denied, PosternError, ProtocolViolation
from postern.gateway.fronts import Client, Fronts, told
from postern.gateway.wanted import Wanted
from postern.protocols.terminal import messages as m
from postern.protocols.terminal.output import said
from postern.relay.handshake import StreamHandshake
from postern.relay.target import Start, Target, Terminal
from postern.transport.mux import Message

_MOST = 10_000  # columns, and rows


# What somebody types, or a shell sends, to end what does not run yet.
_KEYS = b"\x03\x04\x1c"  # Ctrl-C, Ctrl-D, Ctrl-\
_SIGNALS = frozenset({"HUP", "INT", "QUIT", "TERM"})


class CommandGate:
    def __init__(self, fronts: Fronts) -> None:
        self._fronts = fronts

    async def carried(self, stream: StreamHandshake, wanted: Wanted, start: Start) -> Awaitable[None] | None:
        """A client behind the tunnel, whose principal is known."""
        return await self._fronts.by_tunnel(CommandClient(stream, wanted.since, start, wanted), wanted)

    async def reject(self, stream: StreamHandshake, error: PosternError, *, start: Start) -> None:
        """Tell a client why its command cannot be started now."""
        self._fronts.turned_away(CommandClient(stream, 0, start), error)


class CommandClient(Client):
    """One that may wait for its command to be started. What it sends is kept for the command; it is looked through for
    what says that nobody waits any more."""

    def __init__(
        self, stream: StreamHandshake, since: int, start: Start, wanted: Wanted | None = None, **metadata: str
    ) -> None:
        metadata |= {"client_address": stream.peer, "terminal": "yes" if start.terminal else "no"}
        super().__init__(stream, since, metadata, wanted)
        self._start = start
        self._is_terminal = start.terminal is not None
        self._waited = False
        self._reader = m.FrameReader()
        self._seen = 0  # bytes

    def tell(self, text: str, hint: str) -> None:
        self.stream.write(said(f"{text}. {hint}", terminal=self._is_terminal) + m.waits(True))
        self._waited = True

    def check(self) -> None:
        data = self.stream.unread(self._seen)
        self._seen += len(data)
        for kind, payload in self._reader.feed(data):
            typed = self._is_terminal and kind == m.STDIN and any(key in payload for key in _KEYS)
            if typed or (kind == m.SIGNAL and m.read_signal(payload) in _SIGNALS):
                raise Denied("you no longer wait; the review stays, and who connects again goes on with it")

    def fits(self, connection: Connection) -> None:
        if connection.protocol != TERMINAL:
            raise Denied(f"connection {connection.name!r} has no command; reach it with its own client")

    def start(self, permit: Permit) -> Start:
        if self._waited:
            self.stream.write(m.waits(False))
        return self._start

    def welcome(self, target: Target) -> bytes:
        return b""

    def turn_away(self, error: PosternError) -> None:
        text, hint = told(self.stream, error)
        self.stream.write(said(f"{text}. {hint}" if hint else text, terminal=self._is_terminal) + m.exit_frame(m.ENDED))


def start_of(request: Message) -> Start | None:
    """What an OPEN wants of a command; None when it wants none, but bytes. Raises ProtocolViolation, Invalid."""
    if "terminal" not in request:
        return None
    arguments, environment = request.get("arguments", []), request.get("environment", {})
    if not isinstance(arguments, list) or not all(isinstance(text, str) for text in arguments):
        raise ProtocolViolation("the arguments of a command are a list of texts")
    if not isinstance(environment, dict) or not all(isinstance(value, str) for value in environment.values()):
        raise ProtocolViolation("the environment of a command is an object of texts")
    variables = check_variables(environment, "environment")
    return Start(
        arguments=check_arguments(arguments, "arguments"),
        environment={name: value.reveal() for name, value in variables.items()},
        terminal=_terminal(request["terminal"]),
    )


def _terminal(given: object) -> Terminal | None:
    if given is None:
        return None
    if isinstance(given, dict):
        columns, rows, name = given.get("columns"), given.get("rows"), given.get("name")
        if _is_size(columns) and _is_size(rows) and isinstance(name, str):
            return Terminal(columns, rows, name[:64])
    raise ProtocolViolation("a terminal is its columns, rows and name")


def _is_size(number: object) -> TypeGuard[int]:
    return isinstance(number, int) and 0 < number <= _MOST
