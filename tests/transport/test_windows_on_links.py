"""Stream windows over slow links, and how much peers that abuse them can make a gateway hold."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from tests.support.distant import far_pair, run_quickly
from tests.support.muxes import Pair, Sink, run, settle

from postern.transport import frames
from postern.transport.mux import Mux
from postern.transport.stream_state import StreamState
from postern.transport.stream_windows import LONGEST, PROCESS, TUNNEL, WIDEST, WINDOW, Reserve

MB = 1_000_000
_CHUNK = bytes(64 * 1024)


class Count(asyncio.Protocol):
    """Counts what it takes, and writes as much as it may once it `pours`."""

    def __init__(self) -> None:
        self.got = 0
        self._most: int | None = None
        self.pours = self._full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def pour(self) -> None:
        self.pours = True
        while self.pours and not self._full and not self.transport.is_closing():
            self.transport.write(_CHUNK)

    def data_received(self, data: bytes) -> None:
        self.got += len(data)
        if self._most is not None and self.got >= self._most:
            self.transport.pause_reading()

    def pause_after(self, size: int) -> None:
        self._most = self.got + size
        self.transport.resume_reading()

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        if self.pours:
            asyncio.get_running_loop().call_soon(self.pour)


async def opened(pair: Pair, count: int = 1) -> tuple[list[Count], list[Count]]:
    """Streams of which the agent writes and the gateway reads."""
    near: list[Count] = []
    for _ in range(count):
        near.append(Count())
        await pair.agent.open({}, near[-1])
    return near, cast("list[Count]", pair.opened)


def pairs_of_counts(trip: float, rate: float = 1e9, reserve: Reserve | None = None) -> Pair:
    return far_pair(trip, rate, sink=Count, reserve=reserve)


def lanes(mux: Mux) -> list[StreamState]:
    return list(mux._lanes.values())


@pytest.mark.parametrize(("trip", "rate", "least"), [(0.02, 1e9, 200), (0.1, 1e9, 80), (0.1, 20e6, 18)])
def test_one_stream_uses_the_bandwidth_of_a_long_path(trip: float, rate: float, least: float) -> None:
    """`least` is in MB/s, after the window had a second to grow."""

    async def work() -> None:
        pair = pairs_of_counts(trip, rate)
        await asyncio.sleep(4 * trip)
        (near,), (far,) = await opened(pair)
        near.pour()
        await asyncio.sleep(1.5)
        before = far.got
        await asyncio.sleep(0.5)
        assert (far.got - before) / 0.5 / MB >= least
        (lane,) = lanes(pair.gateway)
        assert lane._window.size <= max(8 * trip * rate, WINDOW)
        pair.close()

    run_quickly(work)


def test_window_does_not_grow_on_a_short_path() -> None:
    async def work() -> None:
        pair = pairs_of_counts(0.0002, 400e6)
        await asyncio.sleep(1)
        (near,), _ = await opened(pair)
        near.pour()
        await asyncio.sleep(0.5)
        assert lanes(pair.gateway)[0]._window.size == WINDOW
        pair.close()

    run_quickly(work)


def test_window_does_not_grow_for_a_slow_reader() -> None:
    """It reads 5 MB/s on a path of 100 ms with pauses, like a relay with a slow client."""

    async def work() -> None:
        pair = pairs_of_counts(0.1)
        await asyncio.sleep(1)
        (near,), (far,) = await opened(pair)
        near.pour()
        for _ in range(100):
            far.pause_after(500_000)
            await asyncio.sleep(0.1)
        assert lanes(pair.gateway)[0]._window.size == WINDOW
        pair.close()

    run_quickly(work)


def test_window_does_not_grow_if_a_reader_takes_all_waiting_data_at_once() -> None:
    async def work() -> None:
        pair = pairs_of_counts(0.1)
        await asyncio.sleep(1)
        (near,), (far,) = await opened(pair)
        far.transport.pause_reading()
        near.pour()
        await asyncio.sleep(0.5)
        (lane,) = lanes(pair.gateway)
        assert lane._allowance == 0
        far.transport.resume_reading()
        await asyncio.sleep(0.01)
        assert far.got == WINDOW
        assert lane._window.size == WINDOW
        pair.close()

    run_quickly(work)


def test_data_that_waited_prevents_growth_for_its_half_of_the_window() -> None:
    async def work() -> None:
        pair = Pair(1 << 20, sink=cast("Any", Count))
        await settle()
        (near,), (far,) = await opened(pair)
        pair.gateway._windows.trip = 1.0
        half = bytes(WINDOW // 2)
        near.transport.write(half)
        await settle()
        far.transport.pause_reading()
        near.transport.write(half[:131_072])
        await settle()
        far.transport.resume_reading()
        near.transport.write(half[131_072:])
        await settle()
        (lane,) = lanes(pair.gateway)
        assert (far.got, lane._window.size) == (WINDOW, WINDOW)
        near.transport.write(half)
        await settle()
        assert lane._window.size == 2 * WINDOW
        pair.close()

    run(work)


def test_locally_closed_stream_returns_its_share_although_its_peer_does_not_read() -> None:
    async def work() -> None:
        pair = pairs_of_counts(0.1)
        await asyncio.sleep(1)
        (near,), (far,) = await opened(pair)
        near.pour()
        await asyncio.sleep(1)
        near.transport.pause_reading()
        far.transport.write(bytes(2 * WINDOW))
        far.transport.close()
        assert pair.gateway._windows.reserve.free == TUNNEL
        await asyncio.sleep(1)
        assert pair.gateway.streams == 1
        pair.close()

    run_quickly(work)


def test_attack_streams_with_grown_windows_that_are_not_read_stay_within_the_reserve() -> None:
    """The peer sends all that it can; this holds also once it has closed the streams."""

    async def work() -> None:
        process = Reserve(PROCESS)
        pair = pairs_of_counts(0.2, 300e6, process)
        await asyncio.sleep(1)
        near, far = await opened(pair, 12)
        for each in near:
            each.pour()
        await asyncio.sleep(2)
        streams = lanes(pair.gateway)
        for reader in far:
            reader.transport.pause_reading()
        await asyncio.sleep(1)
        held = sum(len(data) for lane in streams for data in lane._held)
        assert 12 * WINDOW + TUNNEL // 2 < held <= 12 * WINDOW + TUNNEL
        assert all(sum(map(len, lane._held)) <= lane._window.size <= WIDEST for lane in streams)
        for each in near[:6]:
            each.pours = False
            each.transport.abort()
        for each in near[6:]:
            each.pours = False
            each.transport.close()
        await asyncio.sleep(0.1)
        rest = sum(len(data) for lane in streams for data in lane._held)
        wider = sum(lane._window.size - WINDOW for lane in streams)
        assert rest <= 12 * WINDOW + wider
        assert process.free == PROCESS - wider
        for reader in far:
            reader.transport.abort()
        await asyncio.sleep(1)
        assert pair.gateway._windows.reserve.free == TUNNEL
        assert process.free == PROCESS
        pair.close()

    run_quickly(work)


def test_attack_closed_stream_with_unread_data_keeps_its_share() -> None:
    async def work() -> None:
        pair = pairs_of_counts(0.1)
        await asyncio.sleep(1)
        (near,), (far,) = await opened(pair)
        near.pour()
        await asyncio.sleep(1)
        (lane,) = lanes(pair.gateway)
        far.transport.pause_reading()
        await asyncio.sleep(1)
        near.pours = False
        pair.agent.send(frames.CLOSE, lane.number)
        await asyncio.sleep(1)
        assert pair.gateway.streams == 0
        assert sum(map(len, lane._held)) > 4 * WINDOW
        assert pair.gateway._windows.reserve.free == TUNNEL - lane._window.size + WINDOW
        far.transport.resume_reading()
        await asyncio.sleep(0.1)
        assert not lane._held
        assert pair.gateway._windows.reserve.free == TUNNEL
        pair.close()

    run_quickly(work)


@pytest.mark.parametrize("how", ["tunnel lost", "reset by the peer", "aborted", "closed"])
def test_ended_stream_returns_its_share(how: str) -> None:
    async def work() -> None:
        process = Reserve(PROCESS)
        pair = pairs_of_counts(0.1, reserve=process)
        await asyncio.sleep(1)
        (near,), (far,) = await opened(pair)
        near.pour()
        await asyncio.sleep(1)
        assert process.free <= PROCESS - 4 * WINDOW
        near.pours = False
        if how == "tunnel lost":
            pair.gateway.connection_lost(None)
        else:
            {"reset by the peer": near.transport.abort, "aborted": far.transport.abort, "closed": far.transport.close}[
                how
            ]()
        await asyncio.sleep(1)
        assert process.free == PROCESS
        pair.close()

    run_quickly(work)


def test_attack_tiny_frames_are_buffered_in_few_pieces() -> None:
    async def work() -> None:
        pair = Pair(1 << 20)
        await pair.agent.open({}, Sink())
        far = pair.opened[0]
        far.stream.pause_reading()
        (lane,) = lanes(pair.gateway)
        tiny = frames.header(frames.DATA, lane.number, 2) + b"ab"
        pair.gateway.data_received(tiny * 50_000)
        assert len(lane._held) <= 100_000 / 2_000
        far.stream.resume_reading()
        await settle()
        assert far.heard == b"ab" * 50_000
        pair.close()

    run(work)


def test_attack_unsolicited_pongs_do_not_change_the_round_trip() -> None:
    async def work() -> None:
        pair = Pair(1 << 20)
        await settle()
        trip = pair.gateway._windows.trip
        assert 0 < trip < LONGEST
        for payload in (b"", b"12345678", bytes(8), b"\x7f\xf8" + bytes(6), b"x" * 200):
            pair.gateway.data_received(frames.header(frames.PONG, 0, len(payload)) + payload)
        assert pair.gateway._windows.trip == trip
        assert not pair.gateway.lost.done()
        pair.close()

    run(work)


def test_round_trip_is_measured_again_while_a_wide_window_is_in_use() -> None:
    """The tunnel is never silent, so that no keep-alive would measure it."""

    async def work() -> None:
        pair = pairs_of_counts(0.1, 20e6)
        await asyncio.sleep(1)
        (near,), _ = await opened(pair)
        near.pour()
        pair.gateway._windows.trip = LONGEST
        await asyncio.sleep(12)
        assert pair.gateway._windows.trip < 0.2
        pair.close()

    run_quickly(work)
