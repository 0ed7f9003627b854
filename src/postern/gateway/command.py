"""Clients of commands: from the stream that a command line opened to a running link.

OPEN {"connect": name, "terminal": {"columns", "rows", "name"} or null, "arguments": […], "environment": {…}}
      ─▶ who? the tunnel's token ─▶ may they? services.access → Permit ─▶ session row, recording ─▶ link
From there on frames of protocols.terminal; also a client that is turned away is told so in them.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import TypeGuard

from postern.domain.command import check_arguments, check_variables
from postern.domain.connection import TERMINAL
from postern.domain.principal import Principal
from postern.domain.session import Verb
from postern.errors import Denied, PosternError, ProtocolViolation
from postern.gateway.engine import Engine
from postern.gateway.traces import decided, session_span
from postern.protocols.terminal import messages as m
from postern.protocols.terminal.output import said
from postern.relay.handshake import StreamHandshake
from postern.relay.target import Start, Terminal
from postern.services.access import Access
from postern.transport.mux import Message

log = logging.getLogger(__name__)

_MOST = 10_000  # columns, and rows


class CommandGate:
    def __init__(self, access: Access, engine: Engine) -> None:
        self._access = access
        self._engine = engine

    async def carried(
        self, stream: StreamHandshake, principal: Principal, connection: str, start: Start, *, since: int
    ) -> Awaitable[None] | None:
        """A client behind the tunnel, whose principal is known. `since` as `PostgresGate.carried`."""
        try:
            with session_span(self._engine.tracer, Verb.CONNECT):
                return await self._open(stream, principal, connection, start, since=since)
        except PosternError as error:
            self._engine.turned_away(error)
            log.info("client %s was turned away: %s", stream.peer, error.message)
            stream.write(said(error.message, terminal=start.terminal is not None) + m.exit_frame(m.ENDED))
            return None

    async def _open(
        self, stream: StreamHandshake, principal: Principal, name: str, start: Start, *, since: int
    ) -> Awaitable[None]:
        asking = self._access.admit_principal(principal, name, verb=Verb.CONNECT, source=stream.peer)
        permit = await decided(asking)
        if permit.connection.protocol != TERMINAL:
            raise Denied(f"connection {permit.connection.name!r} has no command; reach it with its own client")
        metadata = {"client_address": stream.peer, "terminal": "yes" if start.terminal else "no"}
        stream.on_known()
        session, target = await self._engine.open(permit, start, metadata, since=since)
        return self._engine.run(session, stream, target, since=since)


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
