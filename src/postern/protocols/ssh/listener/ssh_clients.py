"""A channel as a client of `gateway.clients.session_setup`: its verb, and the start parameters of its target."""

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
    """One channel. `terminal` is None without a terminal; `environment` are the client's variables."""

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
        """Switch to another target login."""
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
            variables = {name: value for name, value in self._environment.items() if _is_language(name, value)}
            return Start(environment=variables, terminal=terminal, channel=self._channel)
        try:
            arguments = check_arguments(shlex.split(self._channel.what), "arguments")
        except ValueError as error:
            raise Invalid(f"the arguments are not valid: {error}") from None
        variables = {name: value for name, value in self._environment.items() if is_variable(name)}
        return Start(arguments=arguments, environment=variables, terminal=terminal)

    def welcome(self, target: Target) -> bytes:
        return b""


class ForwardClient(ChannelClient):
    """A forwarded connection, which cannot show messages."""

    def send_notice(self, text: str, hint: str) -> None:
        """Do nothing: the client waits without a message."""


def _is_language(name: str, value: str) -> bool:
    """Return True for a valid language setting. A longer value could contain code, which no rule or recording would
    see."""
    return (name == "LANG" or name.startswith("LC_")) and _LANGUAGE.fullmatch(value) is not None
