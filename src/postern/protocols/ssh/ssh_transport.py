"""The common part of both SSH sides below their channels: the listener for clients, and the target.

    algorithms       the offered ones. None of them needs the strict key exchange to be safe (Terrapin,
                     CVE-2023-48795, needs chacha20-poly1305 or CBC), and it is required anyway. No SHA-1, and no RSA in
                     the key exchange, where the server makes a key for each client
    SshStream        the bytes below one connection, with limits
    ExchangeTimer    the time limit of a key exchange
    ChannelFrames    frames of `protocols.terminal` to and from one channel: the common part of both ends
    bound_channel    limits of what one channel (RFC 4254, section 5) makes this end buffer:

    unread data            at most a window. asyncssh grants a whole new window whenever it delivers a packet and less
                           than half is left, whatever else waits: a reader that pauses every few packets would let it
                           buffer more and more. So while something waits, packets are delivered and nothing is granted
    small packets          joined while they wait, since each costs a hundred times its byte; of two kinds in turns, at
                           most MAX_PIECES. asyncssh uses a list, and removing its first item takes its whole length
    allowed packet size    at least SMALLEST_PACKET: asyncssh cuts everything to send into such packets at once

Both ends use names that are private to asyncssh. Tests fail when they move.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Final, cast

import asyncssh
from asyncssh.constants import MSG_CHANNEL_OPEN, MSG_CHANNEL_OPEN_CONFIRMATION

from postern.domain.identity.ssh_wire import SshReader
from postern.protocols.terminal.terminal_target import FramedTransport

log = logging.getLogger(__name__)

COSTLY_KEX: Final = ("diffie-hellman-group18-sha512", "diffie-hellman-group-exchange-sha256")  # 12 ms; others take 1 ms
HYBRID_KEX: Final = ("mlkem768x25519-sha256", "sntrup761x25519-sha512", "sntrup761x25519-sha512@openssh.com")
KEX: Final = (
    "curve25519-sha256",
    "curve25519-sha256@libssh.org",
    "ecdh-sha2-nistp521",
    "ecdh-sha2-nistp384",
    "ecdh-sha2-nistp256",
    "diffie-hellman-group16-sha512",
    "diffie-hellman-group18-sha512",
    "diffie-hellman-group-exchange-sha256",
    "diffie-hellman-group14-sha256",
)
CIPHERS: Final = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "aes192-ctr", "aes256-ctr")
MACS: Final = ("hmac-sha2-256-etm@openssh.com", "hmac-sha2-512-etm@openssh.com", "hmac-sha2-256", "hmac-sha2-512")

EXCHANGE = 30.0  # maximum seconds of a key exchange
MAX_UNSENT = 8 << 20  # bytes that wait for a full transport
MAX_DEFERRED = 5_000  # packets that wait for the end of a key exchange
MAX_REQUESTS = 100  # global requests after one that takes time; the same for one channel

JOINED: Final = 32 * 1024  # bytes of pieces that are joined
MAX_PIECES = 200_000
SMALLEST_PACKET = 256  # bytes; OpenSSH has 32768, small devices a few hundred


class ExchangeTimer:
    """Calls `expire` when a key exchange takes longer than EXCHANGE seconds."""

    def __init__(self, expire: Callable[[], None]) -> None:
        self._expire = expire
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_running(self) -> bool:
        return self._timer is not None

    def start(self) -> None:
        self.stop()
        self._timer = asyncio.get_running_loop().call_later(EXCHANGE, self._expire)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class SshStream(asyncio.Protocol):
    """The bytes below one connection of asyncssh: TCP, or a channel of another SSH connection.

    asyncssh writes without checking whether the transport is full, so this class checks. A peer that grants large
    windows and reads nothing fills the transport. `on_full` tells the connection's channels to stop at the transport's
    high-water mark and to resume below it. What asyncssh still writes, such as replies to requests, aborts the
    connection at MAX_UNSENT; what the peer makes asyncssh queue does so at MAX_DEFERRED and MAX_REQUESTS.
    """

    def __init__(self, inner: Any, on_full: Callable[[bool], None], peer: str, level: int) -> None:
        """`peer` and `level` are used in the log."""
        self._inner = inner
        self._on_full = on_full
        self._peer = peer
        self._level = level
        self._transport: asyncio.Transport | None = None
        self._full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._inner.connection_made(transport)

    def data_received(self, data: bytes, datatype: int | None = None) -> None:
        self._inner.data_received(data)
        if self._transport is None:
            return
        if self._is_flooded() or (self._full and self._transport.get_write_buffer_size() > MAX_UNSENT):
            self.give_up("it sends more than can be buffered for it, or does not read its replies")

    def eof_received(self) -> bool:
        self._inner.eof_received()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        self._full = True
        self._report_full()

    def resume_writing(self) -> None:
        self._full = False
        self._report_full()

    def give_up(self, reason: str) -> None:
        """Abort the connection."""
        log.log(self._level, "the connection to %s was aborted: %s", self._peer, reason)
        if self._transport is not None:
            self._transport.abort()

    def _report_full(self) -> None:
        self._on_full(self._full)

    def _is_flooded(self) -> bool:
        """Return True if the peer has sent more than can be queued for it."""
        inner = self._inner
        return len(inner._deferred_packets) > MAX_DEFERRED or len(inner._global_request_queue) > MAX_REQUESTS


class ChannelFrames(FramedTransport):
    """The common part of both ends of a channel: the writer pauses while the channel is full, and learns once that it
    is gone."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self._channel_full = False
        self._throttled = False  # the protocol was told to pause
        self._gone = False  # the protocol was told that the channel is gone

    def set_channel_full(self, full: bool) -> None:
        self._channel_full = full
        self.throttle()

    def throttle(self) -> None:
        raise NotImplementedError

    def _hold_writer(self, full: bool) -> None:
        """Tell the protocol to pause or resume writing, if that changes."""
        if full == self._throttled or self._protocol is None or self._closing:
            return
        self._throttled = full
        if full:
            self._protocol.pause_writing()
        else:
            self._protocol.resume_writing()

    def _tell_gone(self, error: Exception | None = None) -> None:
        if not self._gone and self._protocol is not None:
            self._gone = True
            self._protocol.connection_lost(error)


class ReceiveBuffer(deque[tuple[bytes, Any]]):
    """Replaces asyncssh's list of received data and its kinds. Raises ProtocolError for too many pieces."""

    def append(self, piece: tuple[bytes, Any], /) -> None:
        data, kind = piece
        if self and self[-1][1] == kind and len(self[-1][0]) + len(data) <= JOINED:
            self[-1] = (self[-1][0] + data, kind)
        elif len(self) >= MAX_PIECES:
            raise asyncssh.ProtocolError("too many small packets on one channel")
        else:
            super().append(piece)

    def pop(self, index: int = 0, /) -> tuple[bytes, Any]:
        """Return the first piece, which is the only use in asyncssh."""
        return self.popleft()


def bound_channel(channel: Any) -> None:
    """Limit what a channel of asyncssh buffers. It carries bytes, and has received nothing yet."""
    deliver = channel._deliver_data

    def deliver_data(data: bytes, datatype: int | None) -> None:
        session = channel._session
        if channel._recv_buf and session is not None:
            session.data_received(data, datatype)
        else:
            deliver(data, datatype)

    channel._deliver_data = deliver_data
    channel._recv_buf = ReceiveBuffer(channel._recv_buf)


def check_packet_size(kind: int, packet: Any) -> None:
    """Check a packet of a connection or channel. Raises ProtocolError if it opens a channel, or confirms one, with too
    small a packet size."""
    if kind not in (MSG_CHANNEL_OPEN, MSG_CHANNEL_OPEN_CONFIRMATION):
        return
    reader = SshReader(packet.get_remaining_payload())
    try:
        reader.string() if kind == MSG_CHANNEL_OPEN else reader.uint32()
        _, _, size = reader.uint32(), reader.uint32(), reader.uint32()
    except ValueError:
        return  # asyncssh reports it
    if size < SMALLEST_PACKET:
        raise asyncssh.ProtocolError(f"a channel with packets of {size} bytes; the minimum is {SMALLEST_PACKET}")
