"""How windows grow and shrink, and what peers that abuse them can make us hold."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from tests.support.distant import far_pair, run_quickly
from tests.support.muxes import Pair, Sink, run, settle

from postern.transport import frames
from postern.transport.lane import Lane
from postern.transport.mux import Mux
from postern.transport.windows import LONGEST, PROCESS, SLOW, TUNNEL, WIDEST, WINDOW, Reserve, Window, Windows

MB = 1_000_000
_CHUNK = bytes(64 * 1024)


class Clock:
    now = 50.0

    def __call__(self) -> float:
        return self.now


def windows(trip: float, size: int = TUNNEL) -> tuple[Windows, Clock]:
    clock = Clock()
    made = Windows(Reserve(size), clock)
    made.trip = trip
    return made, clock


def take(window: Window, clock: Clock, seconds: float, *, waiting: bool = False) -> int:
    """Half of the window is taken, evenly; how many bytes the peer gets for it."""
    half, given = window.size // 2, 0
    for _ in range(2):
        clock.now += seconds / 2
        given += window.renew(half // 2, waiting)
    return given


def test_a_window_doubles_when_half_of_it_is_taken_within_two_round_trips() -> None:
    shared, clock = windows(0.1)
    window = Window(shared)
    assert take(window, clock, 0.01) == WINDOW // 2  # nothing is known of when it began
    assert take(window, clock, 0.19) == WINDOW // 2 + WINDOW
    assert (window.size, window.part) == (2 * WINDOW, WINDOW // 2)
    assert take(window, clock, 0.21) == WINDOW
    assert window.size == 2 * WINDOW
    for _ in range(10):
        take(window, clock, 0.01)
    assert window.size == WIDEST
    assert shared.reserve.free == TUNNEL - WIDEST + WINDOW


def test_without_a_measured_round_trip_no_window_grows() -> None:
    shared, clock = windows(0.0)
    window = Window(shared)
    for _ in range(10):
        take(window, clock, 1e-9)
    assert window.size == WINDOW


def test_what_waited_for_its_reader_earns_nothing() -> None:
    shared, clock = windows(0.1)
    window = Window(shared)
    for _ in range(10):
        take(window, clock, 0.001, waiting=True)
    assert window.size == WINDOW
    window.waited = True  # in the middle of it
    take(window, clock, 0.001)
    assert window.size == WINDOW
    take(window, clock, 0.001)
    assert window.size == 2 * WINDOW


def test_a_window_that_is_taken_slowly_shrinks_by_what_was_taken() -> None:
    shared, clock = windows(0.1)
    window = Window(shared)
    for _ in range(4):
        take(window, clock, 0.01)
    size = window.size
    granted = take(window, clock, SLOW + 1)
    assert granted == size // 4  # of two quarters
    assert window.size == size - size // 4
    for _ in range(20):
        take(window, clock, SLOW + 1, waiting=True)
    assert window.size == WINDOW
    assert shared.reserve.free == TUNNEL
    assert take(window, clock, 3600) == WINDOW // 2  # never below


def test_nobody_gets_more_of_a_reserve_than_is_left_for_others() -> None:
    reserve = Reserve(64)
    assert reserve.take(15, 15)
    assert reserve.take(15, 15)
    assert reserve.take(15, 15)
    assert not reserve.take(15, 15)
    assert reserve.take(7, 7)
    assert reserve.free == 12
    reserve.give_back(15)
    assert reserve.take(1, 8)
    assert not reserve.take(10, 18)


def test_tunnels_that_share_a_reserve_leave_something_to_each_other() -> None:
    process = Reserve(100)
    greedy, late = Reserve(80, process), Reserve(80, process)
    while greedy.take(1, 1):
        pass
    assert greedy.size - greedy.free == 50
    assert late.take(10, 10)
    assert process.free == 40
    greedy.give_back(50)
    late.give_back(10)
    assert process.free == 100


def test_a_round_trip_is_the_shortest_one_and_no_longer_than_is_believed() -> None:
    shared, clock = windows(0.0)
    for spent, trip in ((60.0, LONGEST), (0.2, 0.2), (0.3, 0.2), (0.1, 0.1)):
        asked = shared.ask()
        clock.now += spent
        assert shared.answered(b"something else") is False
        assert shared.answered(b"") is False
        shared.answered(asked)
        assert shared.trip == pytest.approx(trip)
        assert shared.answered(asked) is False
        assert shared.trip == pytest.approx(trip)


def test_three_round_trips_are_measured_to_begin_with() -> None:
    shared, _ = windows(0.0)
    assert [shared.answered(shared.ask()) for _ in range(4)] == [True, True, False, False]


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


def lanes(mux: Mux) -> list[Lane]:
    return list(mux._lanes.values())


@pytest.mark.parametrize(("trip", "rate", "least"), [(0.02, 1e9, 200), (0.1, 1e9, 80), (0.1, 20e6, 18)])
def test_one_stream_fills_a_long_path(trip: float, rate: float, least: float) -> None:
    """`least` in MB/s, once the window had a second to grow."""

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


def test_a_short_path_needs_no_wide_window() -> None:
    async def work() -> None:
        pair = pairs_of_counts(0.0002, 400e6)
        await asyncio.sleep(1)
        (near,), _ = await opened(pair)
        near.pour()
        await asyncio.sleep(0.5)
        assert lanes(pair.gateway)[0]._window.size == WINDOW
        pair.close()

    run_quickly(work)


def test_a_reader_that_is_slow_earns_no_wide_window() -> None:
    """It takes 5 MB/s of a path of 100 ms, and is paused in between, as a relay whose client is slow."""

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


def test_a_reader_that_takes_all_that_waited_at_once_has_earned_nothing() -> None:
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


def test_a_part_that_waited_spoils_the_half_of_a_window_that_it_is_in() -> None:
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


def test_a_stream_that_is_closed_here_gives_its_share_back_though_its_peer_takes_nothing() -> None:
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


def test_attack_streams_earn_wide_windows_and_then_nobody_reads() -> None:
    """All that the peer may send it sends; what is held stays within the reserve, also once it has closed them."""

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


def test_attack_a_rest_held_by_a_closed_stream_keeps_its_share() -> None:
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
def test_a_stream_that_ends_gives_its_share_back(how: str) -> None:
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


def test_attack_a_stream_of_tiny_frames_costs_what_its_bytes_cost() -> None:
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


def test_attack_answers_to_pings_that_nobody_sent_teach_nothing() -> None:
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


def test_a_wide_window_gets_another_look_at_the_path() -> None:
    """A round trip is measured again where much is taken, though the tunnel is never silent."""

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
