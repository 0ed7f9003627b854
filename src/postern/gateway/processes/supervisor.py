"""Starts the processes of one machine, replaces one that crashes or hangs, and stops all of them.

The supervisor does nothing else: no client data and no API request passes through it, so little can make it crash.
Children die with it, even by `kill -9` (postern.process).
"""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import time
from collections.abc import Awaitable, Callable, Mapping

from postern.errors import Unavailable
from postern.gateway.processes.children import Child, ChildSpec
from postern.gateway.processes.forked_processes import ForkServer

log = logging.getLogger(__name__)

FIRST_DELAY, LONGEST_DELAY = 0.4, 30.0  # seconds before a crashed child is restarted
STEADY_AFTER = 60.0  # seconds after which a child counts as healthy: it is restarted at once
# How a process ends that was attacked through a memory error. The next one must not have the memory layout of the last.
_MEMORY_ERRORS = frozenset({-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGILL, -signal.SIGABRT, -signal.SIGTRAP})
PATIENCE = 5.0  # seconds that children have to stop; those that outlive others have almost the same again


class Supervisor:
    """Use inside `run`, which handles signals and the end. A child that sends no heartbeat for `watchdog_timeout`
    seconds is replaced; 0 means never. `fork_server` starts children with a `preload`; its owner stops it."""

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        watchdog_timeout: float = 0.0,
        fork_server: ForkServer | None = None,
    ) -> None:
        self._environment = environment
        self._fork_server = fork_server
        self._watchdog_timeout = watchdog_timeout
        self._children: dict[str, Child] = {}
        self._watchers: list[asyncio.Task[None]] = []

    async def start(self, *specs: ChildSpec) -> None:
        """Start children in parallel and return when all are ready. Raises Unavailable when one fails; the others stay,
        for `stop`."""
        spawning = [asyncio.create_task(self._spawn(spec)) for spec in specs]
        try:
            await asyncio.gather(*spawning)
        except BaseException:
            for task in spawning:
                task.cancel()
            await asyncio.gather(*spawning, return_exceptions=True)
            raise
        for spec in specs:
            self._watchers.append(asyncio.create_task(self._watch(spec), name=f"watch {spec.name}"))

    async def run_once(self, spec: ChildSpec) -> None:
        """Run a child that does one thing and ends. Raises Unavailable unless its exit code is 0."""
        child = self._children[spec.name] = await Child.spawn(spec, self._environment, self._fork_server)
        await child.process.wait()
        del self._children[spec.name]
        if child.process.returncode != 0:
            raise Unavailable(f"{spec.name} {child.ending()}; see its output above")

    async def wait(self) -> None:
        """Wait until cancelled. Raises errors of the supervision itself."""
        await asyncio.gather(*self._watchers)

    async def stop(self) -> None:
        """Stop all children: those that outlive others come last."""
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)
        children = list(self._children.values())
        for outliving, patience in ((False, PATIENCE), (True, PATIENCE - 1)):
            await asyncio.gather(
                *(self._end(child, patience) for child in children if child.spec.outlives == outliving)
            )

    def kill(self) -> None:
        """Kill all children at once."""
        for child in self._children.values():
            child.kill()

    async def _end(self, child: Child, patience: float) -> None:
        if not await child.stop(patience):
            log.warning("%s did not stop within %g s and was killed", child.spec.name, patience)

    async def _spawn(self, spec: ChildSpec) -> Child:
        child = await Child.spawn(spec, self._environment, self._fork_server)
        self._children[spec.name] = child
        await child.wait_ready()
        return child

    async def _watch(self, spec: ChildSpec) -> None:
        crashes = 0
        ready_at: float | None = time.monotonic()
        while True:
            child = self._children[spec.name]
            await child.wait_end(self._watchdog_timeout)
            if self._fork_server is not None and child.process.returncode in _MEMORY_ERRORS:
                self._fork_server.stop()
            if ready_at is not None and time.monotonic() - ready_at > STEADY_AFTER:
                crashes = 0
            delay = back_off(crashes)
            crashes += 1
            when = f"in {delay:.1f} s" if delay else "now"
            log.error("%s %s; restarting it %s", spec.name, child.ending(), when)
            await asyncio.sleep(delay)
            ready_at = None
            try:
                await self._spawn(spec)
            except Unavailable as error:
                log.error("%s", error.message)
                await self._children[spec.name].stop(PATIENCE)
            else:
                ready_at = time.monotonic()
                log.info("%s has restarted", spec.name)


def back_off(crashes: int) -> float:
    """Return the seconds to wait after `crashes` earlier ones in a row.

    None after the first. Then they double, with jitter so that children do not restart in step, up to LONGEST_DELAY.
    """
    if not crashes:
        return 0.0
    longest = min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(crashes - 1, 20))
    return float(longest * random.uniform(0.5, 1.0))  # noqa: S311


async def run(supervisor: Supervisor, body: Callable[[Supervisor], Awaitable[None]]) -> None:
    """Run `body` until it ends or SIGINT or SIGTERM arrives, then stop all children; a second signal kills them."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(body(supervisor))
    signalled = 0

    def on_signal() -> None:
        nonlocal signalled
        signalled += 1
        if signalled == 1:
            log.info("stopping; press Ctrl-C again to stop at once")
            task.cancel()
        else:
            supervisor.kill()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)
    try:
        await task
    except asyncio.CancelledError:
        if not signalled:
            raise
    finally:
        await supervisor.stop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
