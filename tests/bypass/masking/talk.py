"""One client's conversation with one database through a link that masks, without a network on the client's side.

The target is real. Its answers are stored by the complete input before them, so that a conversation that is equal
under a second policy needs no second session.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from postern.domain.rules.policy import Policy
from postern.domain.targets.target_schema import TargetSchema
from postern.interception.pipeline import Pipeline, SessionView
from postern.protocols.wire_base import Side, Wire
from postern.relay.link import Close, Effect, Link, Send
from postern.wiring.processes.worker_process import default_interceptors

SPOKEN_NAME = b"leaks_a"  # what the client calls the database, whichever it is
TIMEOUT = 20.0  # seconds


class Forgotten(Exception):
    """The target has no stored answer to this input."""


History = tuple[bytes, ...]
_RECEIVED = b""


@dataclass
class Far:
    """The target of one conversation: from memory, or live if `connect` is given.

    `name` replaces SPOKEN_NAME in both directions. Both have the same length, so messages keep their lengths.
    """

    name: bytes
    memory: dict[History, bytes]
    connect: Callable[[], socket.socket] | None
    _history: list[bytes] = field(default_factory=list)
    _socket: socket.socket | None = None

    def send(self, data: bytes) -> None:
        self._history.append(data)
        if self.connect is not None:
            if self._socket is None:
                self._socket = self.connect()
                self._socket.settimeout(TIMEOUT)
            self._socket.sendall(data.replace(SPOKEN_NAME, self.name))

    def receive(self) -> bytes:
        """Return the next bytes, empty at the end of the stream. Raises Forgotten."""
        key = tuple(self._history)
        self._history.append(_RECEIVED)
        if self.connect is None:
            if key not in self.memory:
                raise Forgotten
            return self.memory[key]
        assert self._socket is not None
        try:
            data = self._socket.recv(1 << 20)
        except ConnectionError:
            data = b""
        self.memory[key] = data = data.replace(self.name, SPOKEN_NAME)
        return data

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()


@dataclass
class Talk:
    """The client's side: `send` returns all bytes that come back until the target owes no answer."""

    link: Link
    far: Far
    view: SessionView
    is_closed: bool = False

    def send(self, data: bytes) -> bytes:
        shown = self._carry(self.link.receive(Side.CLIENT, data))
        while self.link.awaiting_response and not self.is_closed:
            answer = self.far.receive()
            shown += self._carry(self.link.receive(Side.TARGET, answer) if answer else self.link.target_finished())
        if self.link.has_buffered_output:
            shown += self._carry(self.link.flush())
        return shown

    def _carry(self, effects: list[Effect]) -> bytes:
        shown = b""
        for effect in effects:
            if isinstance(effect, Send) and effect.side is Side.CLIENT:
                shown += effect.data
            elif isinstance(effect, Send):
                self.far.send(effect.data)
            elif isinstance(effect, Close):
                self.is_closed = True
        return shown


def talk(policy: Policy, subtype: str, schema: TargetSchema, wire: Wire, far: Far) -> Talk:
    """Begin a conversation under a policy, with the interceptors that sessions have."""
    view = SessionView(UUID(int=3), "ann@example.com", frozenset(), "leaks", "database", subtype, {}, schema=schema)
    pipeline = Pipeline(default_interceptors(policy, view, subtype), view)
    return Talk(Link(wire, pipeline, clock=lambda: 0), far, view)
