"""A listening port of a server, or the client's forwarded agent there, as a transport of frames with the messages of
`ssh_listening`.

    write(START)  ─▶ tcpip-forward (agent: nothing)  granted        ─▶ STDOUT `listens PORT`; if not, STDERR and EXIT
    a connection waits ─▶ STDOUT `came N …`          ACCEPT of N is dialled (ssh_target_channel.py) ─▶ accepted
    STDIN `refuse N`, PATIENCE seconds, close()      ─▶ refused
    STDIN_END, close() ─▶ cancel-tcpip-forward       the connection is lost ─▶ STDERR, EXIT
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import asyncssh

from postern.domain.durations import duration_text
from postern.domain.text import one_line
from postern.errors import ProtocolViolation
from postern.protocols.ssh import ssh_listening as told
from postern.protocols.ssh.target.ssh_target_login import ConnectionUser, SshTargetLogin
from postern.protocols.terminal import terminal_frames as m
from postern.protocols.terminal.terminal_target import FramedTransport

log = logging.getLogger(__name__)

MOST_WAITING = 50  # waiting connections of one listener
PATIENCE = 60.0  # seconds that a connection waits


class TargetListener(FramedTransport, ConnectionUser):
    """The transport. `what` is `host:port` or the agent. `timeout` is in seconds, for the server to listen. Raises
    ValueError."""

    def __init__(self, login: SshTargetLogin, what: str, timeout: float) -> None:
        super().__init__("a listener of SSH")
        self._login = login
        self._place = told.read_what(what)
        self._timeout = timeout
        self._opening: asyncio.Task[None] | None = None
        self._listener: asyncssh.SSHListener | None = None
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        self._held: list[bytes] = []  # frames that wait while paused
        self._over = False
        login.channels.add(self)

    # asyncio.Transport

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        if self._paused:
            self._paused = False
            self._loop.call_soon(self._give)

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        self._login.leave(self)
        self._stop()
        self._loop.call_soon(self._report_loss)

    def abort(self) -> None:
        self.close()

    def _report_loss(self) -> None:
        assert self._protocol is not None
        self._protocol.connection_lost(None)

    def _stop(self) -> None:
        for number in list(self._waiting):
            self._refuse(number)
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        if self._login.lending.came == self._came:
            self._login.lending.came = None

    # Frames

    def _take(self, kind: int, payload: bytes) -> None:
        if kind == m.START and self._opening is None:
            self._opening = self._loop.create_task(self._open())
        elif kind == m.STDIN:
            self._refuse(told.read_refused(payload))
        elif kind == m.STDIN_END:
            self._end("", 0)
        else:
            raise ProtocolViolation(f"unexpected frame of kind {kind} for a listener")

    async def _open(self) -> None:
        if self._place is None:
            if not self._closing:
                self._login.lending.came = self._came
                self._give(m.frame(m.STDOUT, told.listens(0)))
            return
        host, port = self._place
        try:
            async with asyncio.timeout(self._timeout):
                listener = await self._login.listen(self._came, host, port)
        except TimeoutError:
            self._end(f"the target did not listen at this port within {duration_text(self._timeout)}")
        except (asyncssh.Error, asyncssh.ChannelListenError):
            self._end("the target does not allow listening at this port, or the port is in use there")
        except Exception as error:
            log.warning("opening an SSH listener failed: %s", type(error).__name__)
            self._end("the connection to the target was lost")
        else:
            self._listener = listener
            if self._closing or self._over:
                self._stop()
            else:
                self._give(m.frame(m.STDOUT, told.listens(listener.get_port())))

    # Waiting connections

    async def _came(self, host: str, port: int) -> Any:
        """Return the session of a new connection. Raises ChannelOpenError."""
        if self._closing or self._over or len(self._waiting) >= MOST_WAITING:
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_RESOURCE_SHORTAGE, "too many connections are waiting")
        number, future = self._login.newcomer()
        self._waiting[number] = future
        try:
            self._give(m.frame(m.STDOUT, told.came(number, host, port & 0xFFFF)))
            async with asyncio.timeout(PATIENCE):
                return await future
        except TimeoutError:
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, "the client did not accept it") from None
        finally:
            self._waiting.pop(number, None)
            self._login.newcomers.pop(number, None)

    def _refuse(self, number: str) -> None:
        """Refuse a connection, unless it was accepted already."""
        future = self._waiting.pop(number, None)
        if future is not None and not future.done():
            future.set_exception(asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, "refused"))

    # End

    def throttle(self) -> None:
        """Do nothing: the listener writes no data."""

    def handle_loss(self, error: Exception | None) -> None:
        reason = one_line(getattr(error, "reason", "") or "the server hung up")[:200]
        self._end(f"the connection to the target was lost: {reason}")

    def _end(self, words: str, code: int = m.NOT_RUN) -> None:
        if self._over or self._closing:
            return
        self._over = True
        self._stop()
        data = m.frame(m.STDERR, f"postern: {words}\n".encode("utf-8", "replace")) if words else b""
        self._give(data + m.exit_frame(code))

    def _give(self, frames: bytes = b"") -> None:
        if frames:
            self._held.append(frames)
        while self._held and not self._paused and not self._closing:
            assert self._protocol is not None
            self._protocol.data_received(self._held.pop(0))
        if self._over and not self._held:
            self.close()
