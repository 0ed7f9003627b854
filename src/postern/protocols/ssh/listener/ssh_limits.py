"""Limits that asyncssh does not have on a client's connection.

    a user name                                  LONGEST_NAME; its normal form (SASLprep) must be the same name
    a password                                   LONGEST_PASSWORD; SASLprep takes seconds for a long one
    key exchanges before authentication          MOST_EARLY; they cost the client much less than us (CVE-2002-20001)
    a key exchange that the client never ends    its channels are told to stop, and it has EXCHANGE seconds
    packets that wait for the end of one         MAX_DEFERRED, which only responses to its requests can reach
    global requests after one that takes time    MAX_REQUESTS; the same for each channel's requests
    unread data of a closed channel              UNREAD seconds; while it waits, asyncssh does not report the end
    variables of a session                       MOST_VARIABLES, LONGEST_VARIABLE; more are refused, as OpenSSH does
    a forwarded agent                            its session decides; asyncssh would listen at a socket of this machine
    channel packets, and buffered data           ssh_transport.py

A client that exceeds a limit is disconnected. The checked attributes are private to asyncssh; tests fail when they
move.
"""

from __future__ import annotations

import asyncio
import logging
import unicodedata
from collections.abc import Callable
from typing import Any

import asyncssh
from asyncssh.constants import MSG_CHANNEL_CLOSE, MSG_USERAUTH_REQUEST
from asyncssh.packet import SSHPacket
from asyncssh.saslprep import SASLPrepError, saslprep

from postern.protocols.ssh import ssh_transport
from postern.protocols.ssh.ssh_transport import MAX_REQUESTS, ExchangeTimer, check_packet_size

log = logging.getLogger(__name__)

LONGEST_NAME = 1_000  # bytes
LONGEST_PASSWORD = 1_000
MOST_EARLY = 10  # clients that wait for a browser may need some
UNREAD = 30.0  # seconds
MOST_VARIABLES, LONGEST_VARIABLE = 128, 2_000  # bytes of name and value


class LimitedSshConnection(asyncssh.SSHServerConnection):
    """A connection with limits. `on_exchange` is called when a key exchange begins, and when it has ended."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        options: asyncssh.SSHServerConnectionOptions,
        on_exchange: Callable[[bool], None],
    ) -> None:
        super().__init__(loop, options)
        self._on_exchange = on_exchange
        self._exchange = ExchangeTimer(self._give_up)
        self._exchanges = 0

    def process_packet(self, pkttype: int, pktid: int, packet: Any) -> Any:
        check_packet_size(pkttype, packet)
        if pkttype == MSG_USERAUTH_REQUEST:
            _check_user_name(packet)
        return super().process_packet(pkttype, pktid, packet)

    async def _finish_userauth(self, begin_auth: bool, method: bytes, packet: Any) -> None:
        if method == b"password" and len(packet.get_remaining_payload()) > LONGEST_PASSWORD:
            raise asyncssh.DisconnectError(asyncssh.DISC_PROTOCOL_ERROR, "the password is too long")
        await super()._finish_userauth(begin_auth, method, packet)

    def _send_kexinit(self) -> None:
        self._exchanges += 1
        if self._exchanges > MOST_EARLY and not self._auth_complete:
            raise asyncssh.ProtocolError("too many key exchanges before authentication")
        self._exchange.start()
        super()._send_kexinit()
        self._on_exchange(True)

    def send_newkeys(self, k: bytes, h: bytes) -> None:
        super().send_newkeys(k, h)
        if self._kex_complete:  # the waiting packets may have begun the next one
            self._exchange.stop()
            self._on_exchange(False)

    def _cleanup(self, exc: Exception | None) -> None:
        self._exchange.stop()
        super()._cleanup(exc)

    def _give_up(self) -> None:
        log.info("the connection to an SSH client was aborted: its key exchange took over %g s", ssh_transport.EXCHANGE)
        self.abort()

    async def create_agent_listener(self) -> bool:
        return False  # the channel accepts no more packets

    def create_bounded_channel(self, window: int) -> BoundedChannel:
        """Create a channel for bytes, as `create_server_channel` does."""
        self._update_recv_pktlen(self._max_pktsize)
        return BoundedChannel(
            self, self._loop, self._allow_pty, False, False, 0, 0, None, "strict", window, self._max_pktsize
        )


def _check_user_name(packet: Any) -> None:
    """Check a user name. asyncssh normalises names (SASLprep): full-width letters become plain ones, and invisible
    characters disappear. Refuse a name that would change."""
    raw = SSHPacket(packet.get_remaining_payload()).get_string()
    if len(raw) > LONGEST_NAME:
        raise asyncssh.IllegalUserName("the user name is too long")
    try:
        name = raw.decode()
        is_same = saslprep(name) == unicodedata.normalize("NFC", name)
    except (UnicodeDecodeError, SASLPrepError):
        return  # asyncssh refuses it by itself
    if not is_same:
        raise asyncssh.IllegalUserName("the user name contains characters that look like others; use plain letters")


def end_in_time(channel: Any) -> None:
    """End a program when its client's channel closes, even if it has unread input."""
    process = channel.process_packet

    def process_and_discard(kind: int, number: int, packet: Any) -> Any:
        result = process(kind, number, packet)
        if kind == MSG_CHANNEL_CLOSE and channel._recv_buf:
            channel.get_loop().call_later(UNREAD, channel._discard_recv)
        return result

    channel.process_packet = process_and_discard


class BoundedChannel(asyncssh.SSHServerChannel[bytes]):
    def process_packet(self, pkttype: int, pktid: int, packet: Any) -> Any:
        if len(self._request_queue) > MAX_REQUESTS:
            raise asyncssh.ProtocolError("too many requests on one channel")
        return super().process_packet(pkttype, pktid, packet)

    def _process_env_request(self, packet: Any) -> bool:
        if (
            self._session_started
            or len(self._env) >= MOST_VARIABLES
            or len(packet.get_remaining_payload()) > LONGEST_VARIABLE
        ):
            return False
        return super()._process_env_request(packet)

    def _process_auth_agent_req_at_openssh_dot_com_request(self, packet: Any) -> Any:
        packet.check_end()
        callback = getattr(self._session, "agent_requested", None)
        return not self._session_started and callback is not None and callback()
