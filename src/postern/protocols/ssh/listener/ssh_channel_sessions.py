"""Channels of a client: their requests, and the start of their sessions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import asyncssh

from postern.domain.rules.permit import Permit
from postern.domain.targets.command import is_variable
from postern.domain.targets.connection import SSH, Extra
from postern.errors import PosternError
from postern.protocols.ssh.listener.ssh_admission import Admission
from postern.protocols.ssh.listener.ssh_client_channel import ClientChannel
from postern.protocols.ssh.listener.ssh_clients import ChannelClient, ForwardClient
from postern.protocols.ssh.listener.ssh_limits import end_in_time
from postern.protocols.ssh.listener.ssh_visit import SshClientState
from postern.protocols.ssh.ssh_transport import bound_channel
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import ChannelKind, ChannelRequest, Terminal

log = logging.getLogger(__name__)

SFTP = "sftp"
NOTHING_ASKED = 60.0  # seconds that a session channel can be open before its request
_MOST_COLUMNS = 10_000
_MOST_VARIABLES, _LONGEST_VALUE = 100, 1_000  # characters


class ChannelSession(asyncssh.SSHServerSession[bytes]):
    """A shell, a command or a subsystem. `client` is the client program's name; `lends` asks whether its agent may be
    forwarded."""

    def __init__(
        self,
        admission: Admission,
        visit: SshClientState,
        channel: Any,
        client: str,
        lends: Callable[[], Awaitable[bool]],
    ) -> None:
        self._admission = admission
        self._visit = visit
        self._channel = channel
        self._client = client
        self._terminal: Terminal | None = None
        self._wanted: ChannelRequest | None = None
        self._transport = ClientChannel(channel, visit.peer)
        visit.opens(self._transport)
        self._began = False
        self._lends = lends
        self._asks_agent = False

    def connection_made(self, chan: Any) -> None:
        bound_channel(chan)
        end_in_time(chan)
        self._late = asyncio.get_running_loop().call_later(NOTHING_ASKED, self._give_up)

    def _give_up(self) -> None:
        log.info("client %s opened a channel and sent no request within %g seconds", self._visit.peer, NOTHING_ASKED)
        self._channel.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._late.cancel()
        self._visit.channels.discard(self._transport)
        self._transport.handle_close(error=exc)

    def pty_requested(self, term_type: str, term_size: tuple[int, int, int, int], term_modes: Any) -> bool:
        person = self._visit.person
        if person is not None and not person.terminal:
            return False  # the certificate forbids it
        self._terminal = _terminal(term_type, term_size[0], term_size[1])
        return True

    def terminal_size_changed(self, width: int, height: int, pixwidth: int, pixheight: int) -> None:
        if self._terminal is None:
            return
        self._terminal = _terminal(self._terminal.name, width, height)
        if self._began:
            self._transport.queue_resize(self._terminal.columns, self._terminal.rows)

    def agent_requested(self) -> bool:
        """Accept an agent request, unless the certificate forbids it. The decision is made when the program is
        admitted, which may need an approval."""
        self._asks_agent = True
        person = self._visit.person
        return person is None or person.allows(Extra.FORWARD_AGENT)

    def shell_requested(self) -> bool:
        return self._want(ChannelKind.SHELL, "")

    def exec_requested(self, command: str) -> bool:
        return bool(command) and "\0" not in command and self._want(ChannelKind.EXEC, command)

    def subsystem_requested(self, subsystem: str) -> bool:
        return subsystem == SFTP and self._want(ChannelKind.SUBSYSTEM, subsystem)

    def _want(self, kind: ChannelKind, what: str) -> bool:
        self._wanted = ChannelRequest(kind, what, self._visit.login)
        return True

    def session_started(self) -> None:
        assert self._wanted is not None
        self._began = True
        self._late.cancel()
        stream = self._admission.stream(self._transport)
        client = ChannelClient(stream, self._wanted, self._terminal, _environment(self._channel), self._client)
        self._admission.begin(client, self._request_permit(client))

    async def _request_permit(self, client: ChannelClient) -> Permit:
        permit = await self._admission.request_permit(self._visit, client)
        if self._asks_agent and permit.connection.protocol == SSH and await self._lends():
            client.by(self._visit.lending)
        return permit

    def data_received(self, data: bytes, datatype: int | None) -> None:
        self._transport.receive_data(data)

    def eof_received(self) -> bool:
        self._transport.receive_eof()
        return True  # the other direction stays open

    def signal_received(self, signal: str) -> None:
        self._transport.queue_signal(signal)

    def break_received(self, msec: int) -> bool:
        return False

    def pause_writing(self) -> None:
        self._transport.set_channel_full(True)

    def resume_writing(self) -> None:
        self._transport.set_channel_full(False)


class ForwardedChannel(asyncssh.SSHTCPSession[bytes]):
    """A forwarded TCP connection, from the client to the target's side or in reverse."""

    def __init__(self, admission: Admission, visit: SshClientState, request: ChannelRequest, client: str) -> None:
        self._admission = admission
        self._visit = visit
        self._transport = ClientChannel(None, visit.peer, forward=True)
        visit.opens(self._transport)
        self._stream = StreamHandshake()
        self._stream.peer = visit.peer
        self._wanted = ForwardClient(self._stream, request, None, {}, client)
        self._permit: Permit | None = None

    async def admit_connection(self) -> ForwardedChannel:
        """Admit the connection before its channel is opened, so that a denied client gets the reason."""
        try:
            self._permit = await self._admission.request_permit(self._visit, self._wanted)
        except PosternError as error:
            self._admission.fronts.engine.turned_away(error)
            log.info("client %s was denied a forwarded connection: %s", self._visit.peer, error.message)
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, error.message) from None
        finally:
            if self._permit is None:
                self.release_channel()
        return self

    def connection_made(self, chan: Any) -> None:
        bound_channel(chan)
        end_in_time(chan)
        self._transport.attach_channel(chan)

    def session_started(self) -> None:
        assert self._permit is not None
        self._admission.stream(self._transport, self._stream)
        self._admission.begin(self._wanted, return_permit(self._permit))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport.handle_close(self.release_channel, exc)

    def release_channel(self) -> None:
        self._visit.channels.discard(self._transport)

    def data_received(self, data: bytes, datatype: int | None) -> None:
        self._transport.receive_data(data)

    def eof_received(self) -> bool:
        self._transport.receive_eof()
        return True

    def pause_writing(self) -> None:
        self._transport.set_channel_full(True)

    def resume_writing(self) -> None:
        self._transport.set_channel_full(False)


async def return_permit(permit: Permit) -> Permit:
    return permit


def _terminal(name: str, columns: int, rows: int) -> Terminal:
    """Return the terminal. A client that does not know its size sends 0."""
    terminal = Terminal()
    return Terminal(
        min(columns, _MOST_COLUMNS) or terminal.columns,
        min(rows, _MOST_COLUMNS) or terminal.rows,
        name[:64] or terminal.name,
    )


def _environment(channel: Any) -> dict[str, str]:
    """Return the client's variables that may be forwarded."""
    variables = {}
    for name, value in list(channel.get_environment_bytes().items())[:_MOST_VARIABLES]:
        try:
            text = value.decode()
            if len(text) <= _LONGEST_VALUE and "\0" not in text and is_variable(name.decode()):
                variables[name.decode()] = text
        except UnicodeDecodeError:
            continue
    return variables
