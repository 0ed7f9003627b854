"""Clients of commands: from the stream that a command line opened to a running link.

OPEN {"connect": name, "terminal": {"columns", "rows", "name"} or null, "arguments": […], "environment": {…}}
      ─▶ who? the tunnel's token ─▶ may they? services.access → Permit, at once or once colleagues agreed
      ─▶ session row, recording ─▶ link
From there on frames of protocols.terminal; also a client that is turned away is told so in them.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import TypeGuard

from postern.domain.command import check_arguments, check_variables
from postern.domain.connection import TERMINAL, Connection
from postern.domain.permit import Permit
from postern.domain.principal import Principal
from postern.domain.session import Verb
from postern.errors import Denied, PosternError, ProtocolViolation
from postern.gateway.engine import Engine
from postern.gateway.held_logins import Asked, HeldLogins
from postern.gateway.traces import decided, session_span
from postern.gateway.wanted import Wanted
from postern.protocols.terminal import messages as m
from postern.protocols.terminal.output import said
from postern.relay.handshake import StreamHandshake
from postern.relay.target import Start, Terminal
from postern.services.access import Access
from postern.services.reviews.asking import ReviewRequired
from postern.transport.mux import Message

log = logging.getLogger(__name__)

_MOST = 10_000  # columns, and rows


# What somebody types, or a shell sends, to end what does not run yet.
_KEYS = b"\x03\x04\x1c"  # Ctrl-C, Ctrl-D, Ctrl-\
_SIGNALS = frozenset({"HUP", "INT", "QUIT", "TERM"})


class CommandGate:
    def __init__(self, access: Access, engine: Engine, held: HeldLogins) -> None:
        self._access = access
        self._engine = engine
        self._held = held

    async def carried(self, stream: StreamHandshake, wanted: Wanted, start: Start) -> Awaitable[None] | None:
        """A client behind the tunnel, whose principal is known."""
        try:
            with session_span(self._engine.tracer, Verb.CONNECT):
                return await self._open(stream, wanted, start)
        except PosternError as error:
            self._engine.turned_away(error)
            log.info("client %s was turned away: %s", stream.peer, error.message)
            stream.write(said(error.message, terminal=start.terminal is not None) + m.exit_frame(m.ENDED))
            return None

    async def _open(self, stream: StreamHandshake, wanted: Wanted, start: Start) -> Awaitable[None]:
        def admit(who: Principal) -> Awaitable[Permit]:
            return self._access.admit_principal(
                who, wanted.connection, verb=Verb.CONNECT, source=stream.peer, means=wanted.means
            )

        async def again() -> Permit:
            return await admit(await wanted.standing())

        metadata = {"client_address": stream.peer, "terminal": "yes" if start.terminal else "no"}
        try:
            permit = await decided(admit(wanted.principal))
        except ReviewRequired as required:
            await self._engine.check_issue(required.wish.connection, wanted.tracker_fields)
            asked = Asked(metadata, wanted.reason, wanted.duration)
            client = _Client(stream, is_terminal=start.terminal is not None)
            permit = await self._held.wait(required, client, asked, again, _check)
            stream.write(m.waits(False))
        _check(permit.connection)
        stream.on_known()
        session, target = await self._engine.open(
            permit, start, metadata, since=wanted.since, tracker_fields=wanted.tracker_fields
        )
        return self._engine.run(session, stream, target, since=wanted.since)


class _Client:
    """One that waits for its command to be started. What it sends is kept for the command; it is looked through for
    what says that nobody waits any more."""

    def __init__(self, stream: StreamHandshake, *, is_terminal: bool) -> None:
        self.stream = stream
        self._is_terminal = is_terminal
        self._reader = m.FrameReader()
        self._seen = 0  # bytes

    def tell(self, text: str, hint: str) -> None:
        self.stream.write(said(f"{text}. {hint}", terminal=self._is_terminal) + m.waits(True))

    def check(self) -> None:
        data = self.stream.unread(self._seen)
        self._seen += len(data)
        for kind, payload in self._reader.feed(data):
            typed = self._is_terminal and kind == m.STDIN and any(key in payload for key in _KEYS)
            if typed or (kind == m.SIGNAL and m.read_signal(payload) in _SIGNALS):
                raise Denied("you no longer wait; the review stays, and who connects again goes on with it")


def _check(connection: Connection) -> None:
    if connection.protocol != TERMINAL:
        raise Denied(f"connection {connection.name!r} has no command; reach it with its own client")


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
