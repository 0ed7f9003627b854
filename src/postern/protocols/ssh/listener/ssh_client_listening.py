"""Remote port forwarding: ports of the target on which connections are accepted for a client (`ssh -R`, RFC 4254
section 7.1).

    tcpip-forward ─▶ permitted? ─▶ a session of kind LISTEN with this client ─▶ `listens PORT` ─▶ success to the client
                                     `came N …` ─▶ permitted? ─▶ a channel to the client ─▶ accepted: a session of kind
                                                                 ACCEPT, dialled by N, with the same target login
                                                              └▶ not accepted or not permitted: `refuse N`
    cancel-tcpip-forward, connection ends ─▶ the session and its listener end; accepted connections stay
    the session ends: killed, revoked, idle, lost ─▶ logged. SSH has no message for it, so the client is not told

Agent forwarding (`ssh -A`, auth-agent-req@openssh.com) works alike. A program of the client requests it, the session is
of kind LISTEN at `ssh-agent`, and each use of the agent opens a channel to the client's agent.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import asyncssh

from postern.domain.text import one_line
from postern.errors import PosternError, ProtocolViolation
from postern.protocols.ssh import ssh_listening as told
from postern.protocols.ssh.listener.ssh_admission import Admission
from postern.protocols.ssh.listener.ssh_channel_sessions import ForwardedChannel, return_permit
from postern.protocols.ssh.listener.ssh_client_channel import WINDOW, ClientChannel
from postern.protocols.ssh.listener.ssh_clients import ForwardClient
from postern.protocols.ssh.listener.ssh_limits import LimitedSshConnection
from postern.protocols.ssh.listener.ssh_visit import SshClientState
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import ChannelKind, ChannelRequest

log = logging.getLogger(__name__)

MOST_LISTENERS = 20  # per connection


class AcceptedConnection(ForwardedChannel):
    """A connection that a listener accepted. It ends the wait for its acceptance when it is over."""

    def __init__(self, listener: ClientListener, number: str, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._listener = listener
        self._number = number

    def release_channel(self) -> None:
        super().release_channel()
        self._listener.refuse(self._number)


class ClientListener(asyncssh.SSHListener):
    """The listener object for asyncssh, and the channel of a `ClientChannel`: data written here are the agent's
    messages."""

    _use = "listen at the target"

    def __init__(
        self, admission: Admission, visit: SshClientState, conn: LimitedSshConnection, host: str, port: int, client: str
    ) -> None:
        super().__init__()
        self._admission = admission
        self._visit = visit
        self._conn = conn
        self._place = (host, port)
        self._client = client
        self._transport = ClientChannel(self, visit.peer)
        self._stream = StreamHandshake()
        self._stream.peer = visit.peer
        request = ChannelRequest(ChannelKind.LISTEN, self._what, self._login)
        self._wanted = ForwardClient(self._stream, request, None, {}, client)
        self._listens: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._words = b""
        self._taking: set[asyncio.Task[None]] = set()
        self._over = False
        visit.listeners.add(self)

    @property
    def _what(self) -> str:
        return told.place(*self._place)

    @property
    def _login(self) -> str:
        return self._visit.login

    async def start_listening(self) -> ClientListener | bool:
        """Return itself once it listens; False if it cannot, which was logged."""
        try:
            told.read_what(self._what)
            permit = await self._admission.request_permit(self._visit, self._wanted)
        except PosternError as error:
            self._admission.fronts.engine.turned_away(error)
            log.info("client %s was not allowed to %s: %s", self._visit.peer, self._use, error.message)
            self.close()
            return False
        except ValueError:
            self.close()
            return False
        if self._over:
            return False
        self._admission.stream(self._transport, self._stream)
        self._admission.begin(self._wanted, return_permit(permit))
        return self if await self._listens else False

    # asyncssh.SSHListener

    def get_port(self) -> int:
        return self._place[1]

    def close(self) -> None:
        if self._over:
            return
        self._over = True
        self._visit.listeners.discard(self)
        self._settle(False)
        self._transport.handle_close()

    async def wait_closed(self) -> None:
        """Return at once: there is nothing to wait for."""

    # The channel of the transport

    def write(self, data: bytes, datatype: int | None = None) -> None:
        if datatype is not None:
            self._words = (self._words + data)[:1_000]
            return
        try:
            message = told.read_message(data)
        except ProtocolViolation as error:
            log.error("%s", error.message)
            self.close()
            return
        if isinstance(message, told.ListeningMessage):
            self._place = (self._place[0], message.port)
            self._settle(True)  # the client gets this response in the next step, before any accepted connection
        else:
            task = asyncio.get_running_loop().create_task(self._take(message))
            self._taking.add(task)
            task.add_done_callback(self._taking.discard)

    def exit(self, status: int) -> None:
        if self._over:
            return
        words = one_line(self._words.decode("utf-8", "replace").removeprefix("postern: ").strip())[:500]
        log.info("port forwarding of client %s at %s of the target ended: %s", self._visit.peer, self._what, words)
        self.close()

    def exit_with_signal(self, name: str) -> None:
        self.exit(1)

    def is_closing(self) -> bool:
        return self._over

    def abort(self) -> None:
        self.close()

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        """Ignore: the messages to the agent are a few words per connection."""

    def resume_reading(self) -> None:
        """Ignore, as `pause_reading`."""

    # Accepted connections

    async def _take(self, came: told.WaitingConnection) -> None:
        """Offer a connection to the client. It has no deadline to respond except its own connection's; the offer counts
        as a channel."""
        place, origin = self._what, told.place(came.host, came.port)
        request = ChannelRequest(ChannelKind.ACCEPT, f"{came.number} {origin} {place}", self._login)
        if self._over or not self._visit.has_room:
            self.refuse(came.number)
            return
        session = AcceptedConnection(self, came.number, self._admission, self._visit, request, self._client)
        try:
            await session.admit_connection()
            await self._open(session, came)
        except (asyncssh.Error, OSError) as error:
            reason = one_line(getattr(error, "reason", "") or "it did not respond")[:200]
            log.info("client %s did not accept a connection from %s to %s: %s", self._visit.peer, origin, place, reason)
            session.release_channel()

    async def _open(self, session: Any, came: told.WaitingConnection) -> None:
        channel = self._conn.create_tcp_channel(window=WINDOW)
        await channel.accept(lambda: session, *self._place, came.host, came.port)

    def refuse(self, number: str) -> None:
        """Refuse a connection, unless it was accepted already."""
        self._transport.receive_data(told.refuse(number))

    def _settle(self, listens: bool) -> None:
        if not self._listens.done():
            self._listens.set_result(listens)


class AgentForwarder(ClientListener):
    """Agent forwarding for programs of the client that requested it. They share a separate target login, because a
    server may offer a forwarded agent to all programs of one login."""

    _use = "forward its agent"

    def __init__(self, admission: Admission, visit: SshClientState, conn: LimitedSshConnection, client: str) -> None:
        super().__init__(admission, visit, conn, "", 0, client)

    @property
    def _what(self) -> str:
        return told.AGENT

    @property
    def _login(self) -> str:
        return self._visit.lending

    @property
    def is_over(self) -> bool:
        return self._over

    async def lends(self) -> bool:
        """Return True if the agent is forwarded. It handles requests that arrive while the first is pending, even if
        that one's program has ended."""
        await asyncio.wait((self._listens,))
        return not self._listens.cancelled() and self._listens.result()

    async def _open(self, session: Any, came: told.WaitingConnection) -> None:
        await self._conn.create_agent_channel(window=WINDOW).open(lambda: session)
