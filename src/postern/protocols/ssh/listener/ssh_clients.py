"""A channel as a client of `gateway.fronts`: what it wants of its connection, and what its target is told."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace

from postern.domain.rules.permit import Permit
from postern.domain.targets.command import check_arguments, is_variable
from postern.domain.targets.connection import SSH, TERMINAL, Connection
from postern.errors import Denied, Invalid
from postern.protocols.ssh.listener.ssh_rule_text import extra_of, modes_of
from postern.protocols.terminal.terminal_listener import ProgramClient
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import ChannelKind, ChannelRequest, Start, Target, Terminal

_LANGUAGE = re.compile(r"[A-Za-z0-9_.@:-]{0,64}")


class ChannelClient(ProgramClient):
    """One channel. `terminal` is None where nobody sits at one; `environment` is what its client sent."""

    def __init__(
        self,
        stream: StreamHandshake,
        channel: ChannelRequest,
        terminal: Terminal | None,
        environment: dict[str, str],
        client: str,
    ) -> None:
        super().__init__(stream, 0, Start(terminal=terminal), None, channel=channel.kind, ssh_client=client)
        self._channel = channel
        self._environment = environment
        self.extra = extra_of(channel)
        self.modes = modes_of(channel, terminal=terminal is not None)

    def by(self, login: str) -> None:
        """By another login than was thought."""
        self._channel = replace(self._channel, login=login)

    def fits(self, connection: Connection) -> None:
        if connection.protocol not in (SSH, TERMINAL):
            raise Denied(f"connection {connection.name!r} is of subtype {connection.subtype!r}, not 'ssh'")
        if connection.protocol == TERMINAL and self._channel.kind not in (ChannelKind.SHELL, ChannelKind.EXEC):
            raise Denied(f"connection {connection.name!r} runs a command, and has neither files nor ports")

    def start(self, permit: Permit) -> Start:
        super().start(permit)
        terminal = self._start.terminal
        if permit.connection.protocol == SSH:
            told = {name: value for name, value in self._environment.items() if _is_language(name, value)}
            return Start(environment=told, terminal=terminal, channel=self._channel)
        try:
            arguments = check_arguments(shlex.split(self._channel.what), "arguments")
        except ValueError as error:
            raise Invalid(f"the arguments cannot be read: {error}") from None
        told = {name: value for name, value in self._environment.items() if is_variable(name)}
        return Start(arguments=arguments, environment=told, terminal=terminal)

    def welcome(self, target: Target) -> bytes:
        return b""


class ForwardClient(ChannelClient):
    """Nobody reads what is said there."""

    def tell(self, text: str, hint: str) -> None:
        """It waits, and its client with it."""


def _is_language(name: str, value: str) -> bool:
    """A value that says more than a language could hold what is run, which no rule and no recording would see."""
    return (name == "LANG" or name.startswith("LC_")) and _LANGUAGE.fullmatch(value) is not None
