"""Two muxes, joined by transports that pass bytes on in chunks of a chosen size."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from postern.errors import Unavailable
from postern.transport.lane import HIGH_WATER, WINDOW
from postern.transport.mux import Incoming, Mux, Refused

CHUNKS = (1, 7, 64, 4096, 1 << 20)


class Wire(asyncio.Transport):
    """One direction and its end: what is written here is read there, unless it is frozen."""

    def __init__(self, chunk: int) -> None:
        super().__init__()
        self.chunk = chunk
        self.reader: asyncio.Protocol | None = None
        self.closed = False
        self.frozen = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self.frozen:
            asyncio.get_running_loop().call_soon(self._pass_on, bytes(data))

    def _pass_on(self, data: bytes) -> None:
        assert self.reader is not None
        for start in range(0, len(data), self.chunk):
            self.reader.data_received(data[start : start + self.chunk])

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("192.0.2.1", 5) if name == "peername" else default

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            assert self.reader is not None
            asyncio.get_running_loop().call_soon(self.reader.connection_lost, None)

    abort = close


class Sink(asyncio.Protocol):
    """Keeps all it hears."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.heard = bytearray()
        self.eof = False
        self.paused = 0
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.heard += data

    def eof_received(self) -> bool:
        self.eof = True
        return True

    def pause_writing(self) -> None:
        self.paused += 1

    def resume_writing(self) -> None:
        self.paused -= 1

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.set_result(error)


class Pair:
    """`agent` dials, `gateway` listens; `opened` are what the gateway's side got."""

    def __init__(self, chunk: int = 4096, on_open: Callable[[Incoming], None] | None = None) -> None:
        self.opened: list[Sink] = []
        self.agent = Mux(dialler=True, hello={"who": "agent"}, on_open=on_open or self._accept)
        self.gateway = Mux(dialler=False, hello={"who": "gateway"}, on_open=on_open or self._accept)
        self.up, self.down = Wire(chunk), Wire(chunk)
        self.up.reader, self.down.reader = self.gateway, self.agent
        self.agent.connection_made(self.up)
        self.gateway.connection_made(self.down)

    def _accept(self, incoming: Incoming) -> None:
        sink = Sink()
        self.opened.append(sink)
        incoming.accept({"got": incoming.request}, sink)

    def close(self) -> None:
        self.agent.close("the test is over")


async def settle(rounds: int = 50) -> None:
    for _ in range(rounds):
        await asyncio.sleep(0)


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await work()

    asyncio.run(bounded())


@pytest.mark.parametrize("chunk", CHUNKS)
def test_a_stream_carries_bytes_both_ways(chunk: int) -> None:
    async def work() -> None:
        pair = Pair(chunk)
        near = Sink()
        stream, answer = await pair.agent.open({"kind": "echo"}, near)
        assert answer == {"got": {"kind": "echo"}}
        far = pair.opened[0]
        assert far.transport is not None
        stream.write(b"a" * 100_000)
        stream.write_eof()
        far.transport.write(b"hello")
        await settle()
        assert far.heard == b"a" * 100_000
        assert far.eof
        far.transport.close()
        assert await near.lost is None
        assert near.heard == b"hello"
        assert pair.agent.streams == pair.gateway.streams == 0
        pair.close()

    run(work)


def test_each_side_hears_who_the_other_is() -> None:
    async def work() -> None:
        pair = Pair()
        assert await pair.agent.greeting == {"who": "gateway"}
        assert await pair.gateway.greeting == {"who": "agent"}
        pair.close()

    run(work)


def test_a_refusal_carries_its_reason() -> None:
    async def work() -> None:
        pair = Pair(on_open=lambda incoming: incoming.refuse("NotFound", "there is no such target"))
        with pytest.raises(Refused, match="no such target") as refused:
            await pair.gateway.open({}, Sink())
        assert refused.value.code == "NotFound"
        assert pair.agent.streams == pair.gateway.streams == 0
        pair.close()

    run(work)


def test_a_stalled_stream_holds_up_nobody_and_holds_no_more_than_its_window() -> None:
    async def work() -> None:
        pair = Pair(1 << 20)
        stalled, _ = await pair.agent.open({}, sink := Sink())
        lively, _ = await pair.agent.open({}, Sink())
        slow, fast = pair.opened
        assert slow.transport is not None
        slow.transport.pause_reading()
        written = 0
        while not sink.paused:
            stalled.write(b"x" * 10_000)
            written += 10_000
            await settle(5)
        assert written <= WINDOW + HIGH_WATER + 20_000
        lively.write(b"I live")
        await settle()
        assert fast.heard == b"I live"
        assert not slow.heard
        slow.transport.resume_reading()
        await settle()
        assert len(slow.heard) == written
        assert not sink.paused
        pair.close()

    run(work)


def test_a_lost_tunnel_ends_its_streams_and_those_being_opened() -> None:
    async def work() -> None:
        pair = Pair(on_open=lambda incoming: None)
        opening = asyncio.ensure_future(pair.agent.open({}, Sink()))
        await settle()
        pair.gateway.connection_lost(None)
        pair.agent.connection_lost(ConnectionResetError("gone"))
        with pytest.raises(Unavailable, match="gone"):
            await opening
        assert await pair.agent.lost == "gone"
        with pytest.raises(Unavailable):
            await pair.agent.open({}, Sink())

    run(work)


def test_a_wish_taken_back_cancels_the_work_for_it() -> None:
    async def work() -> None:
        cancelled = asyncio.Event()

        async def serve() -> None:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                cancelled.set()
                raise

        pair = Pair(on_open=lambda incoming: incoming.serve(serve()))
        opening = asyncio.ensure_future(pair.gateway.open({}, Sink()))
        await settle()
        opening.cancel()
        await cancelled.wait()
        await settle()
        assert pair.agent.streams == pair.gateway.streams == 0
        pair.close()

    run(work)


@pytest.mark.parametrize(
    "bytes_of_a_stranger",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x04\x00\x00\x01\x00\x00\x00\x63x",  # DATA for a stream that never was
        b"\x01\x00\x00\x02\x00\x00\x00\x01{}" * 2,  # the same number twice
        b"\x01\x00\x00\x02\x00\x00\x00\x02{}",  # a number of ours
        b"\x0b\xff\xff\xff\x00\x00\x00\x00",  # a greeting of 16 MiB
        b"\x01\x00\x00\x02\x00\x00\x00\x01[]",
        b"\x05\x00\x00\x04\x00\x00\x00\x00\xff\xff\xff\xff",  # credit for no stream
    ],
)
def test_what_no_peer_sends_ends_the_tunnel(bytes_of_a_stranger: bytes) -> None:
    async def work() -> None:
        pair = Pair()
        pair.gateway.data_received(bytes_of_a_stranger)
        assert pair.gateway.lost.done()
        assert pair.down.closed

    run(work)
