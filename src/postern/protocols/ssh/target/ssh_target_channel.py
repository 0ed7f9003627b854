"""A channel of a target's SSH connection as an asyncio transport of `protocols.terminal` frames.

    write(START) ─▶ the channel is opened      data       ─▶ protocol.data_received(STDOUT, STDERR), unless paused
    write(STDIN) ─▶ its data                   its EOF    ─▶ OUTPUT_END
                    (full: pause_writing)      it ends    ─▶ EXIT, connection_lost
    write(STDIN_END) ─▶ EOF                    close()    ─▶ a running program gets a hang-up, connection_lost

Pausing uses the channel's window: data that has arrived waits in asyncssh, one window at most. asyncssh reports an end
at once, paused or not, and discards waiting data when the connection is lost; so ends wait here, after the data.
"""

from __future__ import annotations

import asyncio
import logging
import re
import signal
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import asyncssh

from postern.domain.durations import duration_text
from postern.domain.text import one_line
from postern.errors import PosternError, ProtocolViolation
from postern.protocols.ssh.ssh_transport import ChannelFrames, bound_channel
from postern.protocols.ssh.target.ssh_target_login import ConnectionUser, Environment, SshTargetLogin
from postern.protocols.terminal import terminal_frames as m
from postern.relay.relay_target import ChannelRequest, Terminal

log = logging.getLogger(__name__)

_FLUSH = 30.0  # seconds to send what was written once the channel is closed
_STDERR = asyncssh.EXTENDED_DATA_STDERR
_NAME = re.compile(r"[A-Za-z0-9@._-]{1,20}")


class TargetChannel(ChannelFrames, ConnectionUser):
    """The transport. `timeout` is in seconds, for the server to open the channel. `another` returns the next connection
    of the same login, for a server that accepts no more sessions on this one; None if there is none."""

    def __init__(
        self,
        login: SshTargetLogin,
        another: Callable[[], Awaitable[SshTargetLogin | None]],
        channel: ChannelRequest,
        terminal: Terminal | None,
        environment: Environment,
        timeout: float,
    ) -> None:
        super().__init__("a channel of SSH")
        self._login = login
        self._another = another
        self._wanted = channel
        self.is_program = channel.kind.is_program
        self._terminal = terminal
        self._environment = environment
        self._timeout = timeout
        self._opening: asyncio.Task[None] | None = None
        self._session = _Session(self)
        self._channel: Any = None
        self._is_open = False
        self._early: list[tuple[int, bytes]] = []  # frames that arrived before it was open
        self._ends: deque[bytes] = deque()  # frames that wait while paused
        self._input_ended = False
        self._output_ended = False
        self._over = False  # EXIT was delivered, or waits
        self._exit: m.Exit | None = None
        login.channels.add(self)

    # asyncio.Transport

    def get_write_buffer_size(self) -> int:
        return 0 if self._channel is None else int(self._channel.get_write_buffer_size())

    def pause_reading(self) -> None:
        self._paused = True
        if self._channel is not None:
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
        self._login.leave(self)
        if self._is_open and not self._over:
            self._leave()
        self._loop.call_soon(self._tell_gone)

    def abort(self) -> None:
        self.close()
        if self._channel is not None:
            self._channel.abort()

    def _leave(self) -> None:
        """Hang up on a running program. A forwarded connection's peer notices by itself."""
        channel = self._channel
        if self.is_program and not channel.is_closing():
            channel.send_signal("HUP")
        channel.close()
        self._loop.call_later(_FLUSH, channel.abort)

    # Frames

    def _take(self, kind: int, payload: bytes) -> None:
        if kind == m.START:
            if self._opening is not None:
                raise ProtocolViolation("a channel was started a second time")
            self._opening = self._loop.create_task(self._open())
            self.throttle()
        elif self._opening is None:
            raise ProtocolViolation("input was sent before the channel was started")
        elif not self._is_open:
            self._early.append((kind, payload))
        else:
            self._pass(kind, payload)

    def _pass(self, kind: int, payload: bytes) -> None:
        channel = self._channel
        if kind == m.STDIN:
            if not self._input_ended and not channel.is_closing():
                channel.write(payload)
        elif kind == m.STDIN_END:
            self._input_ended = True
            channel.write_eof()
            self._end_forward()
        elif kind == m.RESIZE:
            columns, rows = m.read_resize(payload)
            if self._terminal is not None and not self._over:
                channel.change_terminal_size(columns, rows)
        elif kind == m.SIGNAL:
            name = m.read_signal(payload)
            if self.is_program and not self._over:
                channel.send_signal(name)
        else:
            raise ProtocolViolation(f"unexpected frame of kind {kind} for a channel")

    async def _open(self) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                while not await self._is_taken():
                    pass
        except PosternError as error:
            self._fail(error.message)
        except TimeoutError:
            self._fail(f"the target did not open this channel within {duration_text(self._timeout)}")
        except asyncssh.Error as error:
            self._fail(f"the target did not open this channel: {one_line(error.reason)[:200]}")
        except Exception as error:
            log.warning("opening an SSH channel failed: %s", type(error).__name__)
            self._fail("the connection to the target was lost")
        else:
            self._handle_open()

    async def _is_taken(self) -> bool:
        """Open the channel. Return False when there is another connection to try. Raises the errors of opening and
        logging in."""
        login = self._login
        try:
            await login.open(self._wanted, self._terminal, self._environment, self._session)
        except asyncssh.ChannelOpenError as error:
            another = await self._another() if self.is_program and login.handle_refusal(self, error) else None
            if another is None:
                raise
            login.channels.discard(self)
            self._login = another
            if not self._closing:
                another.channels.add(self)
            return False
        return True

    def _handle_open(self) -> None:
        self._is_open = True
        if self._closing:
            self._leave()
            return
        if self._paused:  # asyncssh resumes a channel by itself once it is open
            self._channel.pause_reading()
        early, self._early = self._early, []
        try:
            for kind, payload in early:
                self._pass(kind, payload)
        except ProtocolViolation as error:
            log.warning("an SSH channel was ended: %s", error.message)
            self.close()
        self.throttle()

    def _fail(self, why: str) -> None:
        self._early.clear()
        if self._channel is not None:
            self._channel.close()
        if not self._over:
            self._end(why, m.Exit(m.NOT_RUN, ""))

    # Input: the channel or the connection can be full

    def throttle(self) -> None:
        if self._opening is not None:
            self._hold_writer(not self._over and (self._channel_full or self._login.is_full or not self._is_open))

    # Callbacks of the asyncssh session

    def attach_channel(self, channel: Any) -> None:
        """Set up the opened channel. A program requests agent forwarding first, as `ssh -A` does, if its login
        has it."""
        bound_channel(channel)
        self._channel = channel
        if self.is_program and self._login.lending.came is not None:
            channel._send_request(b"auth-agent-req@openssh.com")
        if self._paused:
            channel.pause_reading()

    def receive_data(self, data: bytes, datatype: int | None) -> None:
        if not self._closing:
            self._hand_over(m.frames(m.STDERR if datatype == _STDERR else m.STDOUT, data))

    def receive_eof(self) -> None:
        self._output_ended = True
        self._give(m.OUTPUT_END_FRAME)
        self._end_forward()

    def record_exit(self, status: m.Exit) -> None:
        self._exit = status

    def handle_close(self, error: Exception | None) -> None:
        if self._over:
            return
        # Private to asyncssh: it now discards this data, which is the output of a server that hung up right after the
        # end of a program, as some switches and routers do.
        for data, datatype in self._channel._recv_buf:
            self._ends.append(m.frames(m.STDERR if datatype == _STDERR else m.STDOUT, bytes(data)))
        state = self._channel._recv_state
        if state in ("closed", "close_pending") or (state != "open" and self._exit is not None):
            ended = m.Exit(m.ENDED if self.is_program else 0, "")
            self._end("", self._exit or ended)
            return
        reason = one_line(getattr(error, "reason", "") or "the server hung up")[:200]
        self._end(f"the connection to the target was lost: {reason}", m.Exit(m.ENDED, ""))

    def _end_forward(self) -> None:
        """End a forwarded connection once both directions have ended."""
        if not self.is_program and self._input_ended and self._output_ended:
            self._channel.close()

    def _end(self, words: str, ended: m.Exit) -> None:
        self._over = True
        self.throttle()
        if words:
            self._ends.append(m.frame(m.STDERR, f"postern: {words}\n".encode("utf-8", "replace")))
        self._ends.append(m.exit_frame(ended.code, ended.signal))
        self._give()

    # Output

    def _give(self, *frames: bytes) -> None:
        """Deliver ends after all data, once not paused."""
        self._ends.extend(frames)
        while self._ends and not self._paused and not self._closing:
            self._hand_over(self._ends.popleft())
        if self._over and not self._ends:
            self.close()

    def _hand_over(self, frames: bytes) -> None:
        """Deliver frames. An exception of the protocol must not reach asyncssh, which would end the connection that
        others share."""
        assert self._protocol is not None
        try:
            self._protocol.data_received(frames)
        except Exception:
            log.exception("an SSH channel was ended")
            self.abort()

    def _go_on(self) -> None:
        if self._paused or self._closing:
            return
        if self._channel is not None:
            self._channel.resume_reading()
        self._give()


class _Session(asyncssh.SSHClientSession[bytes]):
    """The asyncssh session of a program or a forwarded connection."""

    def __init__(self, transport: TargetChannel) -> None:
        self._transport = transport
        self.started: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, chan: Any) -> None:
        self._transport.attach_channel(chan)

    def session_started(self) -> None:
        if not self.started.done():
            self.started.set_result(None)

    def data_received(self, data: bytes, datatype: int | None) -> None:
        self._transport.receive_data(data, datatype)

    def eof_received(self) -> bool:
        self._transport.receive_eof()
        return True  # the other direction stays open

    def exit_status_received(self, status: int) -> None:
        self._transport.record_exit(m.Exit(status, ""))

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
        self._transport.record_exit(m.Exit(_code(signal), signal if _NAME.fullmatch(signal) else "unknown"))

    def pause_writing(self) -> None:
        self._transport.set_channel_full(True)

    def resume_writing(self) -> None:
        self._transport.set_channel_full(False)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport.handle_close(exc)


def _code(name: str) -> int:
    """Return the exit code of a shell for a program that this signal ended."""
    signals = signal.Signals.__members__.get(f"SIG{name}")
    return m.ENDED if signals is None else m.SIGNALLED + signals
