"""One authenticated connection to a server, over TCP with a bounded key exchange.

Nothing secret is sent before the server's host key is verified: asyncssh begins with authentication when the key
exchange is done, and that ends with the check of the key.

While keys are exchanged asyncssh buffers all that is written. So channels are told to stop for that long, and the
target has EXCHANGE seconds. asyncssh makes the connection itself, so this module wraps two methods that are private to
it. A test fails when they move.
"""

from __future__ import annotations

import asyncio
import getpass
import logging
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import asyncssh
from asyncssh.constants import MSG_IGNORE
from asyncssh.listener import SSHTCPClientListener

from postern.agent.dialling import notice_death
from postern.domain.durations import duration_text
from postern.domain.text import one_line
from postern.errors import Unavailable
from postern.protocols.gateway_queries import TargetRefused
from postern.protocols.ssh import ssh_transport
from postern.protocols.ssh.ssh_listening import read_place
from postern.protocols.ssh.ssh_transport import CIPHERS, KEX, MACS, ExchangeTimer, SshStream, check_packet_size
from postern.protocols.ssh.target import ssh_access as settings
from postern.protocols.ssh.target.ssh_access import SshTargetAccess
from postern.protocols.ssh.target.ssh_target_host_keys import PLAIN, AcceptedHostKeys
from postern.relay.relay_target import ChannelKind, ChannelRequest, Terminal


class TargetStream(SshStream):
    """The stream below the connection. `on_full` is also called when a key exchange begins and ends."""

    def __init__(self, inner: Any, on_full: Callable[[bool], None]) -> None:
        super().__init__(inner, on_full, "an SSH server", logging.WARNING)
        self._exchange = ExchangeTimer(self._expire)
        self._send_kexinit, inner._send_kexinit = inner._send_kexinit, self._begin_exchange
        self._send_newkeys, inner.send_newkeys = inner.send_newkeys, self._end_exchange

    def _begin_exchange(self) -> None:
        self._exchange.start()
        self._send_kexinit()
        self._report_full()

    def _end_exchange(self, k: bytes, h: bytes) -> None:
        self._send_newkeys(k, h)
        if self._inner._kex_complete:  # the waiting packets may have begun the next one
            self._exchange.stop()
            self._report_full()

    def _expire(self) -> None:
        self.give_up(f"its key exchange took over {duration_text(ssh_transport.EXCHANGE)}")

    def _report_full(self) -> None:
        self._on_full(self._full or self._exchange.is_running)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        connected = transport.get_extra_info("socket")
        if connected is not None and connected.family in (socket.AF_INET, socket.AF_INET6):
            notice_death(connected)

    def connection_lost(self, exc: Exception | None) -> None:
        self._exchange.stop()
        super().connection_lost(exc)


class SshDialling:
    """The tunnel object for asyncssh: it makes the TCP connection for SSH."""

    def __init__(self, on_full: Callable[[bool], None]) -> None:
        self._on_full = on_full

    async def create_connection(self, factory: Callable[[], Any], host: str, port: int) -> tuple[Any, Any]:
        """Connect. Raises OSError."""
        inner = factory()
        inner.send_packet = partial(_send_packet, inner.send_packet)
        inner.process_packet = partial(_process_packet, inner.process_packet)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(lambda: TargetStream(inner, self._on_full), host, port)
        return transport, inner

    def close(self) -> None:
        """Do nothing: the connection closes itself."""


def _send_packet(send: Callable[..., None], kind: int, *parts: bytes, handler: Any = None) -> None:
    """Drop the empty packet that asyncssh sends before each one as a CBC countermeasure; CBC is not offered here."""
    if kind != MSG_IGNORE:
        send(kind, *parts, handler=handler)


def _process_packet(process: Callable[..., Any], kind: int, number: int, packet: Any) -> Any:
    check_packet_size(kind, packet)
    return process(kind, number, packet)


asyncssh.set_log_level(logging.WARNING)  # below that it logs commands and environments

SIGNATURES = (*PLAIN, "sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com")
KEEPALIVE, KEEPALIVES = 15, 3  # seconds, and the number of unanswered ones before the connection is closed
WINDOW = 2 << 20  # unread bytes of a channel
PACKET = 32 * 1024  # bytes; the maximum that OpenSSH sends
_TOO_MANY = (asyncssh.OPEN_CONNECT_FAILED, asyncssh.OPEN_RESOURCE_SHORTAGE)  # OpenSSH uses the first of them

Environment = dict[bytes | str, bytes | str]


class _Client(asyncssh.SSHClient):
    """The asyncssh client, which is asked about unknown host keys."""

    def __init__(self, host_keys: AcceptedHostKeys, on_lost: Callable[[Exception | None], None]) -> None:
        self._host_keys = host_keys
        self._on_lost = on_lost
        self.refused: asyncssh.SSHKey | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_lost(exc)

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        if self._host_keys.first_use:
            return True
        self.refused = key
        return False

    def validate_host_ca_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        self.refused = key
        return False


@dataclass(eq=False)
class ForwardedAgent:
    """Agent forwarding to programs of one login at the server. `came` is called for each use of the agent there and
    returns its session; None: it is not allowed."""

    came: Callable[[str, int], Any] | None = None


class SshTargetLogin:
    """One connection. Its channels are throttled while it is full. `lending` is that of the client's previous
    connection."""

    def __init__(
        self, access: SshTargetAccess, host_keys: AcceptedHostKeys, lending: ForwardedAgent | None = None
    ) -> None:
        self.access = access
        self.lending = lending or ForwardedAgent()
        self._host_keys = host_keys
        self._connection: asyncssh.SSHClientConnection | None = None
        self.is_full = False
        self.is_crowded = False  # it was refused a session, and none has ended since
        self.channels: set[ConnectionUser] = set()
        # connections that came to a listener and wait for a session
        self.newcomers: dict[str, asyncio.Future[Any]] = {}
        self._newest = 0

    async def connect(self) -> None:
        """Connect and authenticate. Raises Unavailable, TargetRefused."""
        access, client = self.access, _Client(self._host_keys, self._handle_loss)
        key = await settings.private_key(access)
        agent = None
        try:
            if access.agent:
                agent = await _agent(access)
            keys: list[Any] = [key] if key is not None else []
            if agent is not None:
                keys += await settings.agent_keys(access, agent)
            self._connection = await self._connect(client, keys)
            cast("Any", self._connection)._process_auth_agent_at_openssh_dot_com_open = self._agent_asked
        except asyncssh.HostKeyNotVerifiable as error:
            if client.refused is not None:
                raise self._host_keys.refusal(access, client.refused) from None
            raise self._make_unavailable(error) from None
        except asyncssh.PermissionDenied:
            raise TargetRefused(
                f"the target at {access.place} rejected the login of connection {access.connection!r}",
                "28000",
                "An administrator must check the connection's secrets: USER, and PASS, PRIVATE_KEY or SSH_AUTH_SOCK.",
            ) from None
        except asyncssh.Error as error:
            raise self._make_unavailable(error) from None
        except OSError as error:
            reason = error.strerror or str(error)
            raise Unavailable(f"the target at {access.place} cannot be reached: {reason}") from error
        except ValueError as error:  # a name or a password that cannot be encoded, which the error may quote
            raise Unavailable(f"connection {access.connection!r}: its login cannot be encoded for SSH") from error
        finally:
            if agent is not None:
                agent.close()

    def _make_unavailable(self, error: asyncssh.Error) -> Unavailable:
        reason = one_line(error.reason)[:200]
        return Unavailable(f"the SSH login to the target at {self.access.place} failed: {reason}")

    async def _connect(self, client: _Client, keys: list[Any]) -> asyncssh.SSHClientConnection:
        access, host_keys = self.access, self._host_keys
        _need_a_name()
        return await asyncssh.connect(
            access.host,
            access.port,
            tunnel=SshDialling(self._set_full),
            client_factory=lambda: client,
            config=None,
            known_hosts=([*host_keys.keys], [*host_keys.authorities], [*host_keys.revoked]),
            server_host_key_algs=host_keys.algorithms,
            x509_trusted_certs=None,
            x509_trusted_cert_paths=[],
            username=access.user,
            password=access.password.reveal() or None,
            client_keys=keys or None,
            client_host_keys=None,
            agent_path=None,
            agent_forwarding=False,
            gss_kex=False,
            gss_auth=False,
            host_based_auth=False,
            kex_algs=KEX,
            encryption_algs=CIPHERS,
            mac_algs=MACS,
            compression_algs=["none"],
            signature_algs=SIGNATURES,
            login_timeout=0,
            keepalive_interval=KEEPALIVE,
            keepalive_count_max=KEEPALIVES,
        )

    @property
    def host_key(self) -> asyncssh.SSHKey:
        assert self._connection is not None
        key = self._connection.get_server_host_key()
        assert key is not None
        return key

    @property
    def is_over(self) -> bool:
        return self._connection is None or self._connection.is_closed()

    async def open(
        self, channel: ChannelRequest, terminal: Terminal | None, environment: Environment, session: Any
    ) -> None:
        """Open a channel. Raises asyncssh.Error, OSError."""
        connection = self._connection
        assert connection is not None
        how: dict[str, Any] = {"encoding": None, "window": WINDOW, "max_pktsize": PACKET}
        if channel.kind is ChannelKind.FORWARD:
            host, port = address(channel.what)
            await connection.create_connection(lambda: session, host, port, **how)
            return
        if channel.kind is ChannelKind.ACCEPT:
            future = self.newcomers.pop(channel.what.partition(" ")[0], None)
            if future is None or future.done():
                raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, "the waiting connection was closed")
            future.set_result(session)
            await session.started
            return
        what = cast("Any", channel.what.encode("utf-8", "surrogateescape"))
        await connection.create_session(
            lambda: session,
            what if channel.kind is ChannelKind.EXEC else None,
            subsystem=what if channel.kind is ChannelKind.SUBSYSTEM else None,
            env=environment,
            send_env=None,
            request_pty="force" if terminal else False,
            term_type=terminal.kind if terminal else None,
            term_size=(terminal.columns, terminal.rows) if terminal else None,
            x11_forwarding=False,
            **how,
        )

    async def listen(self, came: Callable[[str, int], Any], host: str, port: int) -> asyncssh.SSHListener:
        """Listen at a port of the server. `came` is called with the origin of each connection and returns its session.
        Raises asyncssh.Error."""
        connection, key = self._connection, (host.lower(), port)
        assert connection is not None
        # Private to asyncssh: it registers its listener a step after the server's response, and refuses connections
        # that arrive together with that.
        listeners: dict[Any, Any] = connection._remote_listeners
        is_new = port != 0 and key not in listeners
        if is_new:
            listeners[key] = SSHTCPClientListener(connection, came, *key, None, "strict", WINDOW, PACKET)
        try:
            return await connection.create_server(came, *key, encoding=None, window=WINDOW, max_pktsize=PACKET)
        except BaseException:
            if is_new:
                listeners.pop(key, None)
            raise

    def _agent_asked(self, packet: Any) -> Any:
        """Handle a use of the client's agent at the server. It replaces asyncssh's handler, which would open an agent
        of this machine. Raises ChannelOpenError."""
        packet.check_end()
        if self._connection is None or self.lending.came is None:
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, "no agent is forwarded here")
        channel = self._connection.create_unix_channel(window=WINDOW, max_pktsize=PACKET)
        return channel, self.lending.came("", 0)

    def newcomer(self) -> tuple[str, asyncio.Future[Any]]:
        """Return a number for a waiting connection, and the future of its session."""
        self._newest += 1
        number = str(self._newest)
        self.newcomers[number] = asyncio.get_running_loop().create_future()
        return number, self.newcomers[number]

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def handle_refusal(self, channel: ConnectionUser, error: asyncssh.ChannelOpenError) -> bool:
        """Return True if the refusal can mean that there are too many sessions on this connection."""
        has_more = any(other.is_program for other in self.channels if other is not channel)
        if has_more and not self.is_over and error.code in _TOO_MANY:
            self.is_crowded = True
        return self.is_crowded

    def leave(self, channel: ConnectionUser) -> None:
        self.channels.discard(channel)
        self.is_crowded = False

    def _set_full(self, full: bool) -> None:
        self.is_full = full
        for channel in list(self.channels):
            channel.throttle()

    def _handle_loss(self, error: Exception | None) -> None:
        for channel in list(self.channels):
            channel.handle_loss(error)


class ConnectionUser:
    """A user of a login's channels: `throttle` is called when `SshTargetLogin.is_full` has changed, `handle_loss` when
    its connection has ended. `is_program`: it is one of the server's sessions."""

    is_program = False

    def throttle(self) -> None:
        raise NotImplementedError

    def handle_loss(self, error: Exception | None) -> None:
        """Do nothing: a channel of asyncssh learns it from asyncssh."""


def address(what: str) -> tuple[str, int]:
    """Parse `host:port`, with the host in brackets if it contains colons. Raises ValueError."""
    host, port = read_place(what)
    if not host or not port:
        raise ValueError("no host:port")
    return host, port


async def _agent(access: SshTargetAccess) -> asyncssh.SSHAgentClient:
    try:
        return await asyncssh.connect_agent(access.agent)
    except OSError as error:
        raise Unavailable(
            f"connection {access.connection!r}: the ssh-agent of its secret SSH_AUTH_SOCK cannot be reached: "
            f"{error.strerror or error}"
        ) from None


def _need_a_name() -> None:
    """Set a user name if this process has none, as in some containers; asyncssh asks for it and fails without."""
    try:
        getpass.getuser()
    except (KeyError, OSError):
        os.environ["LOGNAME"] = "postern"
