"""A channel of a client's SSH connection as an asyncio transport of `protocols.terminal` frames, for use as a link's
client.

    its request    ─▶ protocol.data_received(START)      write(STDOUT, STDERR) ─▶ data, extended data
    data           ─▶ STDIN, unless paused                (full: protocol.pause_writing)
    window, signal ─▶ RESIZE, SIGNAL                      write(OUTPUT_END)     ─▶ EOF
    EOF            ─▶ STDIN_END                           write(EXIT)           ─▶ exit status or signal, CLOSE
    CLOSE, lost    ─▶ connection_lost; if forwarded,      close()               ─▶ CLOSE, after what was written
                      after buffered data, within DRAIN seconds

Pausing uses the channel's window: data that has arrived waits here, one window at most. asyncssh resumes a channel by
itself when its request was accepted, and reports EOF even if it is paused; both are handled here.
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

# Errors that asyncssh raises for what a client has sent. Most disconnects by the client itself are other classes.
_OFFENCES = (
    asyncssh.ProtocolError,
    asyncssh.MACError,
    asyncssh.CompressionError,
    asyncssh.KeyExchangeFailed,
    asyncssh.ProtocolNotSupported,
)
WINDOW = 1 << 20  # bytes that a client can send on one channel while it is not read
DRAIN = 30.0  # seconds to deliver the buffered data of a forwarded connection that has ended
_MOST_WAITING = 1_000  # frames; beyond that, changes of size and signals are dropped
_STDERR = asyncssh.EXTENDED_DATA_STDERR


def _nothing() -> None: ...


def carrier_error(error: Exception | None) -> CarrierBroke | None:
    """Return the error of an SSH connection that ended by a protocol error, for the log; None for any other end."""
    if isinstance(error, _OFFENCES):
        return CarrierBroke(f"its SSH connection ended by a protocol error: {one_line(error.reason)[:200]}")
    return None


class ClientChannel(ChannelFrames):
    """The transport. `forward`: it is a forwarded TCP connection, without exit status and messages. Its channel exists
    after `attach_channel`."""

    def __init__(self, channel: Any, peer: str, *, forward: bool = False) -> None:
        super().__init__("a channel of an SSH client")
        self._channel = channel
        self._peer = peer
        self._forward = forward
        self._waiting: deque[bytes] = deque()  # frames that are not read yet
        self._input_ended = False
        self._below_full = False
        self._exited = False  # no more output is sent
        self._closed = False  # by the client; buffered data may still be delivered
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
            if self._forward:  # a program may still send output, and its EXIT implies the end
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
        """Close after everything written was sent."""
        if self._closing:
            return
        self._closing = True
        self._waiting.clear()
        if not self._exited:
            self._exited = True
            self._channel.close()
        self._loop.call_soon(self._report_loss)

    def abort(self) -> None:
        self.close()
        self._channel.abort()

    def _report_loss(self) -> None:
        self._tell_gone(self._error)
        self._on_gone()

    # Callbacks of asyncssh

    def attach_channel(self, channel: Any) -> None:
        self._channel = channel

    def receive_data(self, data: bytes) -> None:
        if not self._input_ended:
            self._give(m.frames(m.STDIN, data))

    def receive_eof(self) -> None:
        if not self._input_ended:
            self._input_ended = True
            self._give(m.STDIN_END_FRAME)

    def queue_resize(self, columns: int, rows: int) -> None:
        """Queue a new terminal size; of several queued sizes only the last one counts."""
        frame = m.resize(columns, rows)
        if self._waiting and self._waiting[-1][0] == m.RESIZE:
            self._waiting[-1] = frame
        elif len(self._waiting) < _MOST_WAITING:
            self._give(frame)

    def queue_signal(self, name: str) -> None:
        if name in m.SIGNALS and len(self._waiting) < _MOST_WAITING:
            self._give(m.signal(name))

    def below_filled(self, full: bool) -> None:
        """Handle a full or drained connection, which all its channels share."""
        self._below_full = full
        self.throttle()

    def handle_close(self, on_gone: Callable[[], None] = _nothing, error: Exception | None = None) -> None:
        """Handle the channel's end. A program ends at once. A forwarded connection delivers its buffered data first,
        and then calls `on_gone`. `error` is the SSH connection's error, if any."""
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
        self._loop.call_soon(self._report_loss)

    def throttle(self) -> None:
        self._hold_writer(not self._closed and (self._channel_full or self._below_full))

    def start(self) -> None:
        """Deliver the first frame, after `set_protocol`."""
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
