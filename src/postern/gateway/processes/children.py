"""One child process of the supervisor: its start, its heartbeat, and its stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from postern.errors import Unavailable
from postern.gateway.processes.forked_processes import ForkFailed, ForkServer
from postern.process import DUMP_STACKS, PARENT_PID, READY_FD

log = logging.getLogger(__name__)

DUMP_TIME = 1.0  # seconds that a hung child has to write its stacks before it is killed


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """What to start. `arguments` follow `python`. `outlives`: other children need it until they have stopped. `without`
    are environment variables to remove. `heartbeat`: its event loop sends heartbeats once it is ready. `preload`: the
    modules to load before it is forked; without them, it is a program of its own."""

    name: str
    arguments: tuple[str, ...]
    ready_timeout: float = 90.0  # seconds; generous, because programs start slowly on a machine that boots or is busy
    outlives: bool = False
    without: frozenset[str] = frozenset()
    heartbeat: bool = False
    preload: tuple[str, ...] = ()


class ChildProcess(Protocol):
    """What the supervisor needs of a process, however that was started."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    async def wait(self) -> int: ...

    def send_signal(self, number: int) -> None: ...


class Child:
    """A running process. Make one with `Child.spawn`."""

    def __init__(self, spec: ChildSpec, process: ChildProcess, ready: asyncio.StreamReader) -> None:
        self.spec = spec
        self.process = process
        self._ready = ready
        self._heartbeats = 0

    @classmethod
    async def spawn(
        cls, spec: ChildSpec, environment: Mapping[str, str], fork_server: ForkServer | None = None
    ) -> Child:
        """Start a process in a session of its own, so that Ctrl-C in a terminal reaches only the supervisor, which then
        decides."""
        child_environment = {name: value for name, value in environment.items() if name not in spec.without}
        reading, writing = os.pipe()
        try:
            process = await _start(spec, child_environment, writing, fork_server)
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        ready = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(ready), os.fdopen(reading, "rb", 0)
        )
        return cls(spec, process, ready)

    async def wait_ready(self) -> None:
        """Wait until it is ready. Raises Unavailable when it ends or times out before."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.spec.ready_timeout):
                # The pipe ends when the child does, so this wait is enough.
                if await self._ready.readline() == b"ready\n":
                    return
                await self.process.wait()
                raise Unavailable(f"{self.spec.name} {self.ending()} before it was ready; see its output above")
        raise Unavailable(f"{self.spec.name} was not ready after {self.spec.ready_timeout:g} s")

    async def wait_end(self, watchdog_timeout: float) -> None:
        """Return once the process has ended. Kill it when its event loop sends no heartbeat for that many seconds.

        0 means never. The time is the supervisor's own running time, so that a machine that was suspended, or a process
        group that was stopped and continued, causes no kill.
        """
        if not self.spec.heartbeat or not watchdog_timeout:
            await self.process.wait()
            return
        counting = asyncio.create_task(self._count_heartbeats())
        ended = asyncio.ensure_future(self.process.wait())
        tick, silent = min(1.0, watchdog_timeout / 4), 0.0
        try:
            while True:
                before = self._heartbeats
                if (await asyncio.wait((ended,), timeout=tick))[0]:
                    return
                silent = silent + tick if self._heartbeats == before else 0.0
                if silent >= watchdog_timeout:
                    await self._kill_hung(silent)
                    await ended
        finally:
            counting.cancel()
            ended.cancel()

    async def _count_heartbeats(self) -> None:
        while beats := await self._ready.read(1024):
            self._heartbeats += len(beats)

    async def _kill_hung(self, silent: float) -> None:
        log.error(
            "%s (pid %d) hangs: its event loop has sent no heartbeat for %.0f s; it is killed after it has "
            "written its stack traces below, if it still can",
            self.spec.name,
            self.process.pid,
            silent,
        )
        self._send(DUMP_STACKS)
        await asyncio.sleep(DUMP_TIME)
        self.kill()

    def ending(self) -> str:
        """Return how it ended, as text; call it only afterwards."""
        code = self.process.returncode or 0
        if code < 0:
            return f"was ended by signal {signal.Signals(-code).name}"
        return f"ended with exit code {code}"

    async def stop(self, patience: float) -> bool:
        """Send SIGTERM, and SIGKILL after `patience` seconds. Return False when it had to be killed."""
        if self.process.returncode is not None:
            return True
        self._send(signal.SIGTERM)
        try:
            await asyncio.wait_for(self.process.wait(), patience)
        except TimeoutError:
            self.kill()
            await self.process.wait()
            return False
        return True

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)


async def _start(
    spec: ChildSpec, environment: Mapping[str, str], ready: int, fork_server: ForkServer | None
) -> ChildProcess:
    """Fork it from the fork server if there is one, and it is made for that; else execute the program."""
    if fork_server is not None and spec.preload:
        try:
            return await fork_server.fork(spec.preload, spec.arguments, environment, ready)
        except ForkFailed as error:
            log.warning("%s is started without the fork server, which takes longer: %s", spec.name, error)
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *spec.arguments,
        stdin=asyncio.subprocess.DEVNULL,
        env={**environment, READY_FD: str(ready), PARENT_PID: str(os.getpid())},
        pass_fds=[ready],
        start_new_session=True,
    )
