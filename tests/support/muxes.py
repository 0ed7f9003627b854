"""Two muxes, joined by wires that pass bytes on in chunks of a chosen size, and take no more than they should."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from postern.transport.mux import Incoming, Mux
from postern.transport.stream_windows import Reserve

HIGH, LOW = 64 * 1024, 16 * 1024  # of a wire, in bytes


class Wire(asyncio.Transport):
    """One direction and its end: what is written here is read there, in chunks, unless it is frozen.

    As a socket's transport does, it takes all that is written, and asks `writer` to pause above HIGH.
    """

    def __init__(self, chunk: int) -> None:
        super().__init__()
        self.chunk = chunk
        self.reader: asyncio.Protocol | None = None
        self.writer: asyncio.Protocol | None = None
        self.closed = False
        self.frozen = False
        self.waiting = bytearray()
        self._paused = False
        self._passing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.closed:
            return
        self.waiting += data
        if not self._paused and len(self.waiting) > HIGH:
            self._paused = True
            cast("asyncio.Protocol", self.writer).pause_writing()
        self._pass_later()

    def thaw(self) -> None:
        self.frozen = False
        self._pass_later()

    def pass_on(self, most: int) -> None:
        """Up to `most` bytes are read at the other end, now."""
        data = bytes(self.waiting[:most])
        del self.waiting[:most]
        for start in range(0, len(data), self.chunk):
            cast("asyncio.Protocol", self.reader).data_received(data[start : start + self.chunk])
        if self._paused and len(self.waiting) <= LOW:
            self._paused = False
            cast("asyncio.Protocol", self.writer).resume_writing()

    def _pass_later(self) -> None:
        if not self._passing and not self.frozen:
            self._passing = True
            asyncio.get_running_loop().call_soon(self._pass)

    def _pass(self) -> None:
        self._passing = False
        if not self.frozen:
            self.pass_on(HIGH)
            if self.waiting:
                self._pass_later()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("192.0.2.1", 5) if name == "peername" else default

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            asyncio.get_running_loop().call_soon(self._lost)

    abort = close

    def _lost(self) -> None:
        if self.waiting and not self.frozen:
            self.pass_on(len(self.waiting))
        cast("asyncio.Protocol", self.writer).connection_lost(None)
        cast("asyncio.Protocol", self.reader).connection_lost(None)


class Sink(asyncio.Protocol):
    """Keeps all it hears, and can do something while it is called: `on_data`, `on_made`, …, with itself."""

    def __init__(self, **actions: Callable[[Sink], None]) -> None:
        self.transport: asyncio.Transport | None = None
        self.heard = bytearray()
        self.eof = 0
        self.paused = 0
        self.stays = True  # after the peer's end
        self.actions = actions
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    @property
    def stream(self) -> asyncio.Transport:
        assert self.transport is not None
        return self.transport

    def _do(self, name: str) -> None:
        if name in self.actions:
            self.actions[name](self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._do("made")

    def data_received(self, data: bytes) -> None:
        self.heard += data
        self._do("data")

    def eof_received(self) -> bool:
        self.eof += 1
        self._do("eof")
        return self.stays

    def pause_writing(self) -> None:
        self.paused += 1
        self._do("pause")

    def resume_writing(self) -> None:
        self.paused -= 1
        self._do("resume")

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.set_result(error)  # raises when it is told twice
        self._do("lost")


class Pair:
    """`agent` dials, `gateway` listens. A side that is asked to open a stream accepts it, unless `on_open` says
    otherwise; `opened` are the sinks that it got, made by `sink`. The gateway's windows grow out of `reserve`."""

    def __init__(
        self,
        chunk: int = 4096,
        on_open: Callable[[Incoming], None] | None = None,
        *,
        sink: Callable[[], Sink] = Sink,
        most: int = 10_000,
        reserve: Reserve | None = None,
        wires: tuple[Wire, Wire] | None = None,
    ) -> None:
        self.opened: list[Sink] = []
        self._sink = sink
        take = on_open or self._accept
        self.agent = Mux(dialler=True, hello={"who": "agent"}, on_open=take, most=most)
        self.gateway = Mux(dialler=False, hello={"who": "gateway"}, on_open=take, most=most, reserve=reserve)
        self.up, self.down = wires or (Wire(chunk), Wire(chunk))
        self.up.reader = self.down.writer = self.gateway
        self.up.writer = self.down.reader = self.agent
        self.agent.connection_made(self.up)
        self.gateway.connection_made(self.down)

    def _accept(self, incoming: Incoming) -> None:
        sink = self._sink()
        self.opened.append(sink)
        incoming.accept({"got": incoming.request}, sink)

    async def open(self, sink: Sink | None = None) -> tuple[Sink, Sink]:
        """A stream from the agent's side: its sink, and the gateway's."""
        near = sink or Sink()
        await self.agent.open({}, near)
        return near, self.opened[-1]

    @property
    def streams(self) -> tuple[int, int]:
        return self.agent.streams, self.gateway.streams

    def close(self) -> None:
        self.agent.close("the test is over")


async def settle(rounds: int = 50) -> None:
    for _ in range(rounds):
        await asyncio.sleep(0)


def run(work: Callable[[], Awaitable[None]]) -> None:
    """In a loop of its own. Raises what the loop's callbacks raised, and what nobody waited for."""
    failures: list[dict[str, Any]] = []

    async def bounded() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: failures.append(context))
        async with asyncio.timeout(120):
            await work()
            await settle(3)

    asyncio.run(bounded())
    assert not failures
