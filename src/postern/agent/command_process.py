"""A running command as an asyncio transport of `protocols.terminal` frames.

write(START) ─▶ the program begins      STDOUT, STDERR ─▶ protocol.data_received, unless paused
write(STDIN) ─▶ its standard input      it ends        ─▶ its remaining output, EXIT, connection_lost
                (full: pause_writing)   close()        ─▶ all of its processes are ended, connection_lost
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import logging
import os
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from postern.agent import process_cleanup
from postern.agent.stdin_writer import StdinWriter
from postern.descriptors import inherited_limit
from postern.errors import ProtocolViolation
from postern.protocols.terminal import terminal_frames as m
from postern.protocols.terminal.terminal_target import FramedTransport
from postern.relay.relay_target import Terminal

log = logging.getLogger(__name__)

_PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
_DEFAULTS = {"PATH": DEFAULT_PATH, "LANG": "C.UTF-8"}

_LAUNCHER = Path(__file__).with_name("launcher.py")
_END_OF_TYPING = b"\x04"
_MOST_IN_PIPE = 1 << 20  # bytes: more unread output than a program can have
_HIGH_WATER, _LOW_WATER = 64 * 1024, 16 * 1024  # bytes of input that the program has not read


def base_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the agent's own environment that every program needs."""
    return _DEFAULTS | {name: environ[name] for name in _PASSED_ON if environ.get(name)}


@dataclass(frozen=True, slots=True)
class CommandProgram:
    """The program to run. `mark` is the variable (`NAME=value`) that identifies its processes."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    terminal: Terminal | None
    mark: bytes


class CommandTransport(FramedTransport):
    def __init__(self, program: CommandProgram) -> None:
        super().__init__("a command")
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None
        self._input: StdinWriter | None = None
        self._outputs: dict[int, int] = {}  # open file descriptors, and the kind of their frames
        self._watched: set[int] = set()
        self._throttled = False
        self._input_ended = False
        self._exit: m.Exit | None = None
        self._is_exit_reported = False  # EXIT was sent
        self._ending: asyncio.Task[None] | None = None
        self._exit_fd = -1
        self._left: dict[int, int] = {}  # bytes that may still be read of each output once the program has ended

    # asyncio.Transport

    def get_write_buffer_size(self) -> int:
        return 0 if self._input is None else self._input.waiting

    def pause_reading(self) -> None:
        self._paused = True
        for fd in list(self._watched):
            self._loop.remove_reader(fd)
        self._watched.clear()

    def resume_reading(self) -> None:
        if self._paused:
            self._paused = False
            self._loop.call_soon(self._watch)

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._end()

    def abort(self) -> None:
        self._closing = True
        if self._process is not None and self._ending is not None and not self._ending.done():
            process_cleanup.end_now(self._process.pid, self._program.mark)
        self._end()

    # Frames

    def _take(self, kind: int, payload: bytes) -> None:
        if kind == m.START:
            self._start()
        elif self._process is None:
            raise ProtocolViolation("input was sent before the command was started")
        elif kind == m.STDIN:
            self._feed(payload)
        elif kind == m.STDIN_END:
            if self._program.terminal is not None:
                self._feed(_END_OF_TYPING)
            elif self._input is not None:
                self._input_ended = True
                self._input.close_when_taken()
        elif kind == m.RESIZE:
            self._resize(*m.read_resize(payload))
        elif kind == m.SIGNAL:
            self._signal(m.read_signal(payload))
        else:
            raise ProtocolViolation(f"a command received a frame of unknown kind {kind}")

    def _start(self) -> None:
        if self._process is not None or self._is_exit_reported:
            raise ProtocolViolation("a command was started a second time")
        try:
            self._process = self._with_terminal() if self._program.terminal else self._with_pipes()
        except (OSError, ValueError) as error:
            # ValueError for an unsuitable text does not quote it.
            reason = (
                error.strerror
                if isinstance(error, OSError)
                else "its arguments or variables contain invalid characters"
            )
            self._give(m.STDERR, f"postern: the command cannot be run: {reason}\n".encode())
            self._exit = m.Exit(m.NOT_RUN, "")
            self._loop.call_soon(self._report_exit)
            return
        for fd in self._outputs:
            os.set_blocking(fd, False)
        self._watch_exit(self._process)
        self._watch()

    def _argv(self) -> list[str]:
        terminal = "1" if self._program.terminal else "0"
        return [
            sys.executable,
            "-I",
            "-S",
            str(_LAUNCHER),
            str(os.getpid()),
            terminal,
            str(inherited_limit()),
            *self._program.argv,
        ]

    def _with_pipes(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            self._argv(),
            env=dict(self._program.environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._input = StdinWriter(os.dup(process.stdin.fileno()), self._input_taken)
        self._outputs = {os.dup(process.stdout.fileno()): m.STDOUT, os.dup(process.stderr.fileno()): m.STDERR}
        for pipe in (process.stdin, process.stdout, process.stderr):
            pipe.close()
        return process

    def _with_terminal(self) -> subprocess.Popen[bytes]:
        assert self._program.terminal is not None
        ours, terminal_side = os.openpty()
        try:
            self._outputs = {ours: m.STDOUT}
            self._input = StdinWriter(os.dup(ours), self._input_taken)
            self._resize(self._program.terminal.columns, self._program.terminal.rows)
            return subprocess.Popen(
                self._argv(),
                env=dict(self._program.environment),
                stdin=terminal_side,
                stdout=terminal_side,
                stderr=terminal_side,
                start_new_session=True,
            )
        finally:
            os.close(terminal_side)

    def _resize(self, columns: int, rows: int) -> None:
        if self._program.terminal is not None and self._input is not None:
            fcntl.ioctl(self._input.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _signal(self, name: str) -> None:
        """Send the signal to the terminal's foreground programs, or to the whole group."""
        if self._process is None or self._exit is not None:
            return
        group = self._process.pid
        if self._program.terminal is not None and self._input is not None:
            with suppress(OSError):
                group = os.tcgetpgrp(self._input.fd) or group
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.Signals[f"SIG{name}"])

    # Input

    def _feed(self, data: bytes) -> None:
        if self._input is None or self._input_ended:
            return
        self._input.write(data)
        if self._input.waiting > _HIGH_WATER and not self._throttled and self._protocol is not None:
            self._throttled = True
            self._protocol.pause_writing()

    def _input_taken(self) -> None:
        if (
            self._throttled
            and self._protocol is not None
            and (self._input is None or self._input.waiting <= _LOW_WATER)
        ):
            self._throttled = False
            self._protocol.resume_writing()

    def _close_input(self) -> None:
        source, self._input = self._input, None
        if source is not None:
            source.close()
        self._input_taken()

    # Output

    def _watch(self) -> None:
        if self._paused or self._is_exit_reported:
            return
        if self._exit is not None:
            self._drain()
            return
        for fd in self._outputs:
            if fd not in self._watched:
                self._watched.add(fd)
                self._loop.add_reader(fd, self._readable, fd)

    def _readable(self, fd: int) -> None:
        if not self._read(fd):
            self._forget(fd)

    def _read(self, fd: int) -> bool | None:
        """Forward available output. Return False at its end, None if there is nothing now."""
        try:
            data = os.read(fd, m.MAX_PAYLOAD)
        except BlockingIOError:
            return None if self._exit is not None else True
        except OSError as error:
            if error.errno != errno.EIO:  # the last program has closed the terminal
                log.warning("the output of a command cannot be read: %s", error.strerror)
            return False
        if data:
            if fd in self._left:
                self._left[fd] -= len(data)
            self._give(self._outputs[fd], data)
        return bool(data)

    def _give(self, kind: int, data: bytes) -> None:
        if self._protocol is not None and not self._closing:
            self._protocol.data_received(m.frame(kind, data))

    def _forget(self, fd: int) -> None:
        if fd in self._watched:
            self._watched.discard(fd)
            self._loop.remove_reader(fd)
        if self._outputs.pop(fd, None) is not None:
            os.close(fd)

    # The end

    def _watch_exit(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for the exit status without collecting it: until then the process id cannot be reused."""
        if hasattr(os, "pidfd_open"):
            self._exit_fd = os.pidfd_open(process.pid)
            self._loop.add_reader(self._exit_fd, self._handle_exit)
            return

        def wait() -> None:
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._handle_exit)

        threading.Thread(target=wait, name="command", daemon=True).start()

    def _handle_exit(self) -> None:
        assert self._process is not None
        if self._exit_fd >= 0:
            self._loop.remove_reader(self._exit_fd)
            os.close(self._exit_fd)
            self._exit_fd = -1
        if self._exit is not None:
            return
        status = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        assert status is not None
        if status.si_code == os.CLD_EXITED:
            self._exit = m.Exit(status.si_status, "")
        else:
            name = signal.Signals(status.si_status).name.removeprefix("SIG")
            self._exit = m.Exit(m.SIGNALLED + status.si_status, name)
        self._close_input()
        if not self._closing:
            self._watch()

    def _drain(self) -> None:
        """Read the program's remaining output from the pipes. Processes that still hold them open are not waited for,
        nor is all of their further output read."""
        for fd in list(self._outputs):
            while not self._paused and not self._closing:
                if self._left.setdefault(fd, _MOST_IN_PIPE) <= 0 or not self._read(fd):
                    self._forget(fd)
                    break
        if not self._outputs and not self._paused:
            self._report_exit()

    def _report_exit(self) -> None:
        if self._is_exit_reported or self._closing or self._exit is None:
            return
        self._is_exit_reported = True
        if self._protocol is not None:
            self._protocol.data_received(m.exit_frame(self._exit.code, self._exit.signal))
        self.close()

    def _end(self) -> None:
        if self._ending is not None:
            return
        self._close_input()
        for fd in list(self._outputs):
            self._forget(fd)
        self._ending = self._loop.create_task(self._end_all())

    async def _end_all(self) -> None:
        try:
            process = self._process
            if process is not None:
                await process_cleanup.end_all(process.pid, self._program.mark)
                await asyncio.to_thread(_collect, process)
        except Exception:
            log.exception("the processes of a command could not all be ended")
        finally:
            if self._exit_fd >= 0:
                self._loop.remove_reader(self._exit_fd)
                os.close(self._exit_fd)
                self._exit_fd = -1
            if self._protocol is not None:
                self._protocol.connection_lost(None)


def _collect(process: subprocess.Popen[bytes]) -> None:
    with suppress(subprocess.TimeoutExpired):
        process.wait(process_cleanup.GIVE_UP)
