"""A loop whose time passes at once, and wires that are long and narrow in it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from tests.support.muxes import HIGH, LOW, Pair, Wire


class QuickLoop(asyncio.SelectorEventLoop):
    """Nobody waits for a timer: when nothing else is left to do, it is as late as the next one says."""

    _at = 1_000.0

    def time(self) -> float:
        return self._at

    def _run_once(self) -> None:
        ready, timers = cast("Any", self)._ready, cast("Any", self)._scheduled
        if not ready and timers:
            self._at = max(self._at, timers[0].when())
        cast("Any", super())._run_once()


class LongWire(Wire):
    """Bytes arrive `delay` seconds after they have left, `rate` of them in a second."""

    def __init__(self, delay: float, rate: float) -> None:
        super().__init__(1 << 20)
        self._delay, self._rate = delay, rate
        self._free_at = 0.0  # when all that was written has left
        self._full = False
        self._loop = asyncio.get_running_loop()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.closed:
            return
        now = self._loop.time()
        self._free_at = max(now, self._free_at) + len(data) / self._rate
        self._loop.call_at(self._free_at + self._delay, self._arrive, bytes(data))
        if not self._full and self._free_at - now > HIGH / self._rate:
            self._full = True
            cast("asyncio.Protocol", self.writer).pause_writing()
            self._loop.call_at(self._free_at - LOW / self._rate, self._room)

    def _arrive(self, data: bytes) -> None:
        if not self.closed:
            cast("asyncio.Protocol", self.reader).data_received(data)

    def _room(self) -> None:
        if (left := self._free_at - LOW / self._rate - self._loop.time()) > 1e-9:
            self._loop.call_later(left, self._room)
            return
        self._full = False
        if not self.closed:
            cast("asyncio.Protocol", self.writer).resume_writing()


def far_pair(trip: float, rate: float = 1e9, **options: Any) -> Pair:
    """A round trip takes `trip` seconds; `rate` is in bytes a second."""
    pair = Pair(wires=(LongWire(trip / 2, rate), LongWire(trip / 2, rate)), **options)
    for mux in (pair.agent, pair.gateway):
        mux._windows.now = asyncio.get_running_loop().time
    return pair


def run_quickly(work: Callable[[], Awaitable[None]]) -> None:
    """As `muxes.run`, in a loop whose time passes at once."""
    failures: list[dict[str, Any]] = []

    async def watched() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: failures.append(context))
        await work()

    with asyncio.Runner(loop_factory=QuickLoop) as runner:
        runner.run(watched())
    assert not failures
