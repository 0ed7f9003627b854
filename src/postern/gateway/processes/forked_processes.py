"""The supervisor's side of the fork server: it starts the server, and adopts the processes that this forks."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence

from postern.gateway.processes.fork_server import ANSWER
from postern.process import PARENT_PID, adopt_orphans, can_adopt

log = logging.getLogger(__name__)

_PATIENCE = 90.0  # seconds: a busy machine can take long to load the program


class ForkFailed(Exception):
    """The fork server has started no process."""


class ForkedProcess:
    """A child of this process that we did not start ourselves. Like `asyncio.subprocess.Process`."""

    def __init__(self, pid: int) -> None:
        """Raises ForkFailed if it is not our child."""
        try:
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            self._descriptor = os.pidfd_open(pid)
        except OSError as error:
            raise ForkFailed(f"process {pid} cannot be adopted: {error.strerror}") from None
        self.pid = pid
        self.returncode: int | None = None
        self._ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(self._descriptor, self._reap)

    async def wait(self) -> int:
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Does nothing if it has ended."""
        if self.returncode is None:
            signal.pidfd_send_signal(self._descriptor, number)

    def _reap(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
        self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self._ended.set()


class ForkServer:
    """The fork server of this process. `command` starts it with Python; it gets a descriptor and `modules`, those to
    load ahead. `prefix` is what the arguments of processes begin with that it can fork."""

    def __init__(
        self, command: Sequence[str], prefix: Sequence[str], environment: Mapping[str, str], modules: Sequence[str]
    ) -> None:
        self._command = [sys.executable, *command]
        self._prefix = prefix
        self._environment = environment
        self._modules = modules
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._turn = asyncio.Lock()

    @staticmethod
    def is_supported() -> bool:
        """Return whether this system can do it: Linux 5.3 or later."""
        try:
            os.close(os.pidfd_open(os.getpid()))
        except (AttributeError, OSError):
            return False
        return can_adopt()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start it, without waiting for it. Call it from the main thread, with which it ends."""
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        self._channel = ours
        with its:
            self._process = subprocess.Popen(
                [*self._command, str(its.fileno()), *self._modules],
                stdin=subprocess.DEVNULL,
                env={**self._environment, PARENT_PID: str(os.getpid())},
                pass_fds=[its.fileno()],
                start_new_session=True,
            )

    async def fork(
        self, modules: Sequence[str], arguments: Sequence[str], environment: Mapping[str, str], ready: int
    ) -> ForkedProcess:
        """Start a process that has loaded `modules`; `ready` is its end of the readiness pipe. A server that has ended
        is replaced. Raises ForkFailed."""
        order = {
            "arguments": list(arguments[len(self._prefix) :]),
            "command_line": [sys.executable, *arguments],
            "environment": {**environment, PARENT_PID: str(os.getpid())},
        }
        ours, its = socket.socketpair()
        # The new process ends by itself if `ours` is closed before it has its order.
        with ours, its:
            process = await self._adopt(modules, its.fileno(), ready)
            its.close()
            ours.setblocking(False)
            try:
                await asyncio.get_running_loop().sock_sendall(ours, json.dumps(order).encode())
            except OSError:
                log.debug("process %d has ended before it got its order", process.pid)
        return process

    async def _adopt(self, modules: Sequence[str], start: int, ready: int) -> ForkedProcess:
        async with self._turn:
            if self._process is None or self._process.poll() is not None:
                self.start()
            assert self._channel is not None
            adopt_orphans(True)
            try:
                async with asyncio.timeout(_PATIENCE):
                    socket.send_fds(self._channel, [" ".join(modules).encode()], [start, ready])
                    answer = await asyncio.get_running_loop().sock_recv(self._channel, ANSWER.size)
            except BaseException as error:
                self.stop()  # an answer that comes late must not be taken for that of the next request
                if isinstance(error, OSError):  # a timeout is one, too
                    raise ForkFailed(f"the fork server does not answer: {error or 'timeout'}") from None
                raise
            finally:
                adopt_orphans(False)
            if not answer:
                self.stop()
                raise ForkFailed("the fork server has ended")
            pid = ANSWER.unpack(answer)[0]
            if not pid:
                raise ForkFailed("the system refused to fork a process")
            return ForkedProcess(pid)

    def stop(self) -> None:
        """End it. The processes that it has forked continue."""
        if self._channel is not None:
            self._channel.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = self._channel = None
