"""A remote command, at this process's own terminal or between its pipes.

    stdin ─▶ a thread ─▶ STDIN ─▶ stream ─▶ STDOUT, STDERR ─▶ stdout, stderr, written in order by one task
The terminal is put in raw mode for as long as it lasts, and given back as it was, whatever happens.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
import threading
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, cast

import postern.protocols.terminal.terminal_frames as m
from postern.cli.status import Status, status_line
from postern.cli.terminal.forward import PortForward, StreamRequest

_READ = 64 * 1024  # bytes
_MOST_UNWRITTEN = 1 << 20  # bytes
_PASSED_ON = ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2")
_ENDING = frozenset({"INT", "TERM", "HUP", "QUIT"})
LOST = 255  # the exit code if there is none


def run(stream_request: StreamRequest, arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code. Raises PosternError if it could not be stream_request."""
    at_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    with raw(sys.stdin.fileno()) if at_terminal else nullcontext():
        return asyncio.run(_run(stream_request, arguments, at_terminal=at_terminal))


@contextmanager
def raw(fd: int) -> Iterator[None]:
    """Put the terminal in raw mode: every key goes to the command, Ctrl-C too."""
    before = termios.tcgetattr(fd)
    try:
        tty.setraw(fd, termios.TCSADRAIN)  # type-ahead is kept
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


async def _run(stream_request: StreamRequest, arguments: Sequence[str], *, at_terminal: bool) -> int:
    forward = PortForward(stream_request, lambda reason: None)
    ends = Ends(at_terminal=at_terminal)
    request: dict[str, Any] = {"terminal": ends.terminal(), "arguments": list(arguments)}
    try:
        stream = await forward.open(ends, request)
        return await ends.serve(stream)
    finally:
        await forward.stop()


class Ends(asyncio.Protocol):
    """This process's standard input, output and error, as one end of the stream."""

    def __init__(self, *, at_terminal: bool) -> None:
        self._loop = asyncio.get_running_loop()
        self._at_terminal = at_terminal
        self._reader = m.TerminalFrameReader()
        self._stream: asyncio.Transport | None = None
        self._room = threading.Event()  # the stream accepts more input
        self._room.set()
        self._unwritten: asyncio.Queue[tuple[int, bytes | None] | None] = asyncio.Queue()
        self._size = 0
        self._code: int | None = None
        self._waits = False  # messages for people

    def terminal(self) -> dict[str, object] | None:
        if not self._at_terminal:
            return None
        size = _size()
        return {"columns": size.columns, "rows": size.lines, "name": os.environ.get("TERM", "dumb")}

    async def serve(self, stream: asyncio.Transport) -> int:
        """Wait until the command has ended and all its output is written."""
        stream.write(m.START_FRAME)
        names = [name for name in _PASSED_ON if hasattr(signal, f"SIG{name}")]
        for name in names:
            self._loop.add_signal_handler(signal.Signals[f"SIG{name}"], self._handle_signal, name)
        if self._at_terminal:
            self._loop.add_signal_handler(signal.SIGWINCH, self._handle_resize)
        threading.Thread(target=self._read, args=(sys.stdin.fileno(),), daemon=True).start()
        try:
            while (next_one := await self._unwritten.get()) is not None:
                fd, data = next_one
                if data is None:
                    _finish(fd)
                    continue
                try:
                    await asyncio.to_thread(_write, fd, data)
                except BrokenPipeError:
                    return 128 + signal.SIGPIPE
                self._size -= len(data)
                if self._size < _MOST_UNWRITTEN // 2:
                    stream.resume_reading()
        finally:
            for name in names:
                self._loop.remove_signal_handler(signal.Signals[f"SIG{name}"])
            stream.close()
        if self._code is None:
            _write(sys.stderr.fileno(), self._status(Status.ERROR, "the connection to the gateway was lost"))
            return LOST
        return self._code

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._stream = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        for kind, payload in self._reader.feed(data):
            if kind == m.EXIT:
                self._code = m.read_exit(payload).code
                self._unwritten.put_nowait(None)
            elif kind in (m.STDOUT, m.STDERR):
                fd = sys.stdout.fileno() if kind == m.STDOUT else sys.stderr.fileno()
                self._unwritten.put_nowait((fd, payload))
                self._size += len(payload)
            elif kind == m.OUTPUT_END:
                self._unwritten.put_nowait((sys.stdout.fileno(), None))
            elif kind == m.WAITS:
                self._waits = payload != b"\0"
        if self._size > _MOST_UNWRITTEN and self._stream is not None:
            self._stream.pause_reading()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._room.set()
        self._unwritten.put_nowait(None)

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    # own methods

    def _read(self, fd: int) -> None:
        """Read in a thread: standard input can be a file, which no event loop can wait for."""
        with suppress(OSError, RuntimeError):  # the command, or the loop, has ended
            while data := os.read(fd, _READ):
                self._room.wait()
                self._loop.call_soon_threadsafe(self._send, m.frame(m.STDIN, data))
            self._loop.call_soon_threadsafe(self._send, m.STDIN_END_FRAME)

    def _send(self, frame: bytes) -> None:
        if self._stream is not None and not self._stream.is_closing():
            self._stream.write(frame)

    def _handle_signal(self, name: str) -> None:
        if not self._waits or name not in _ENDING or self._stream is None:
            self._send(m.signal(name))
            return
        # Nothing runs that the signal could be for, and it would queue behind all the pending input.
        self._code = 128 + signal.Signals[f"SIG{name}"]
        notice = self._status(Status.INFO, "Stopped waiting. The request is still pending; reconnect to resume it.")
        self._unwritten.put_nowait((sys.stderr.fileno(), notice))
        self._unwritten.put_nowait(None)
        self._stream.abort()

    def _status(self, status: Status, text: str) -> bytes:
        """Return a status message for standard error; a terminal in raw mode needs the carriage return."""
        line = status_line(status, text, is_terminal=sys.stderr.isatty())
        return line.encode() + (b"\r\n" if self._at_terminal else b"\n")

    def _handle_resize(self) -> None:
        size = _size()
        self._send(m.resize(size.columns, size.lines))


def _size() -> os.terminal_size:
    """Return the size of the terminal itself. COLUMNS and LINES are exported once: they do not follow its window."""
    try:
        return os.get_terminal_size(sys.stdin.fileno())
    except OSError:
        return os.terminal_size((80, 24))


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def _finish(fd: int) -> None:
    """Close our pipe, so that its reader sees the end although the command continues."""
    if os.isatty(fd):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, fd)
    os.close(nowhere)
