"""A channel of a client's SSH connection as an asyncio transport: frames of `protocols.terminal` come from it, and are
written to it. So a link's client is made of it, like any other.

its request    ─▶ protocol.data_received(START)      write(STDOUT, STDERR) ─▶ data, extended data
data           ─▶ STDIN, while nobody paused          (full: protocol.pause_writing)
window, signal ─▶ RESIZE, SIGNAL                      write(OUTPUT_END)     ─▶ EOF
EOF            ─▶ STDIN_END                           write(EXIT)           ─▶ exit status or signal, CLOSE
CLOSE, lost    ─▶ connection_lost; forwarded: behind  close()               ─▶ CLOSE, behind what was written
                  what waits, within DRAIN seconds

Pausing is the channel's window: what has come by then waits here, at most a window. asyncssh resumes a channel by
itself when its request was taken, and tells of EOF whether it is paused or not; both are waited for here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import asyncssh

from postern.domain.text import one_line
from postern.errors import CarrierBroke
from postern.protocols.ssh.ssh_transport import ChannelFrames
from postern.protocols.terminal import terminal_frames as m

# What asyncssh raises for what a client has sent. Most ends with a reason of the client's own are other classes.
_OFFENCES = (
    asyncssh.ProtocolError,
    asyncssh.MACError,
    asyncssh.CompressionError,
    asyncssh.KeyExchangeFailed,
    asyncssh.ProtocolNotSupported,
)
WINDOW = 1 << 20  # bytes that a client may send of one channel while nobody reads
DRAIN = 30.0  # seconds that what a forwarded connection has sent before its end may take
_MOST_WAITING = 1_000  # frames, beyond which changes of size and signals are dropped
_STDERR = asyncssh.EXTENDED_DATA_STDERR


def _nothing() -> None: ...


def carrier_error(error: Exception | None) -> CarrierBroke | None:
    """What the log says of an SSH connection that ended by a protocol error; None for any other end."""
    if isinstance(error, _OFFENCES):
        return CarrierBroke(f"its SSH connection ended by a protocol error: {one_line(error.reason)[:200]}")
    return None


class ClientChannel(ChannelFrames):
    """`forward`: it carries somebody's TCP connection, so there is no exit status and nobody to tell anything. Its
    channel is there once it was opened: `made`."""

    def __init__(self, channel: Any, peer: str, *, forward: bool = False) -> None:
        super().__init__("a channel of an SSH client")
        self._channel = channel
        self._peer = peer
        self._forward = forward
        self._waiting: deque[bytes] = deque()  # frames that nobody reads yet
        self._input_ended = False
        self._below_full = False
        self._exited = False  # nothing more is shown
        self._closed = False  # by the client; what it has brought may yet be passed on
        self._on_gone = _nothing
        self._error: Exception | None = None

    # asyncio.Transport

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        super().set_protocol(protocol)
        self._throttled = False
        self.throttle()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (self._peer, 0) if name == "peername" else default

    def _take(self, kind: int, payload: bytes) -> None:
        if self._exited:
            return
        if kind in (m.STDOUT, m.STDERR):
            if self._channel.is_closing() or (self._forward and kind == m.STDERR):
                return
            self._channel.write(payload, None if kind == m.STDOUT else _STDERR)
        elif kind == m.OUTPUT_END:
            if self._forward:  # a program may have something to say yet, and its EXIT says the same
                self._channel.write_eof()
        elif kind == m.EXIT:
            self._exit(m.read_exit(payload))

    def _exit(self, ended: m.Exit) -> None:
        self._exited = True
        if self._forward:
            self._channel.close()
        elif ended.signal:
            self._channel.exit_with_signal(ended.signal)
        else:
            self._channel.exit(ended.code)

    def get_write_buffer_size(self) -> int:
        return int(self._channel.get_write_buffer_size())

    def pause_reading(self) -> None:
        if not self._paused:
            self._paused = True
            self._channel.pause_reading()

    def resume_reading(self) -> None:
        if self._paused:
            self._paused = False
            self._loop.call_soon(self._go_on)

    def close(self) -> None:
        """What was written is yet sent."""
        if self._closing:
            return
        self._closing = True
        self._waiting.clear()
        if not self._exited:
            self._exited = True
            self._channel.close()
        self._loop.call_soon(self._lost)

    def abort(self) -> None:
        self.close()
        self._channel.abort()

    def _lost(self) -> None:
        self._tell_gone(self._error)
        self._on_gone()

    # What asyncssh tells

    def made(self, channel: Any) -> None:
        self._channel = channel

    def received(self, data: bytes) -> None:
        if not self._input_ended:
            self._give(m.frames(m.STDIN, data))

    def ended(self) -> None:
        if not self._input_ended:
            self._input_ended = True
            self._give(m.STDIN_END_FRAME)

    def resized(self, columns: int, rows: int) -> None:
        """Of sizes that wait behind each other only the last one counts."""
        frame = m.resize(columns, rows)
        if self._waiting and self._waiting[-1][0] == m.RESIZE:
            self._waiting[-1] = frame
        elif len(self._waiting) < _MOST_WAITING:
            self._give(frame)

    def signalled(self, name: str) -> None:
        if name in m.SIGNALS and len(self._waiting) < _MOST_WAITING:
            self._give(m.signal(name))

    def below_filled(self, full: bool) -> None:
        """What all channels of this connection share."""
        self._below_full = full
        self.throttle()

    def closed(self, on_gone: Callable[[], None] = _nothing, error: Exception | None = None) -> None:
        """A program goes with its client. What a forwarded connection has brought is yet passed on, and then it is
        gone: `on_gone`. `error` is what ended the SSH connection, if anything did."""
        if self._closed:
            return
        self._error = carrier_error(error)
        self._closed = self._exited = True
        self._on_gone = on_gone
        self.throttle()
        if self._forward and self._waiting:
            self._loop.call_later(DRAIN, self._leave)
        else:
            self._leave()

    def _leave(self) -> None:
        self._closing = True
        self._waiting.clear()
        self._loop.call_soon(self._lost)

    def throttle(self) -> None:
        self._hold_writer(not self._closed and (self._channel_full or self._below_full))

    def start(self) -> None:
        """The first frame; behind `set_protocol`."""
        self._give(m.START_FRAME)

    def _give(self, frame: bytes) -> None:
        if self._closing:
            return
        if self._paused or self._waiting:
            self._waiting.append(frame)
            self._channel.pause_reading()
        elif self._protocol is not None:
            self._protocol.data_received(frame)

    def _go_on(self) -> None:
        while self._waiting and not self._paused and self._protocol is not None:
            self._protocol.data_received(self._waiting.popleft())
        if self._paused or self._closing:
            return
        if self._closed:
            self._leave()
        else:
            self._channel.resume_reading()
