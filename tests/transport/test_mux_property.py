"""Whatever two sides of a tunnel do, in any order: bytes arrive once, in order and on their stream; all streams end;
and buffers stay within their bounds."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples
from tests.support.muxes import Pair, Sink, run, settle

from postern.errors import Unavailable
from postern.transport.mux import Incoming, Refused
from postern.transport.send_queue import MAX_UNSENT
from postern.transport.stream import Stream
from postern.transport.stream_state import PeerEnd, StreamState
from postern.transport.stream_windows import SLOW, TUNNEL, WIDEST, WINDOW

pytestmark = pytest.mark.slow

_PATTERN = bytes(range(251)) * 160_000  # no period of a frame


class End(Sink):
    """One end of a stream: knows what it wrote, and what became of it."""

    def __init__(self, habit: str = "") -> None:
        super().__init__()
        self.written = 0
        self.ended = self.closed = self.aborted = False
        self.other: End | None = None
        self.habit = habit  # what it does in the middle of a callback

    @property
    def made(self) -> bool:
        return self.transport is not None

    def write(self, size: int) -> None:
        size = min(size, len(_PATTERN) - self.written)
        if self.made and not (self.ended or self.closed or self.aborted or self.stream.is_closing()):
            self.stream.write(_PATTERN[self.written : self.written + size])
            self.written += size

    def write_eof(self) -> None:
        if self.made:
            self.ended = True
            self.stream.write_eof()

    def close(self) -> None:
        if self.made:
            self.closed = True
            self.stream.close()

    def abort(self) -> None:
        if self.made:
            self.aborted = True
            self.stream.abort()

    def pause(self) -> None:
        if self.made:
            self.stream.pause_reading()

    def resume(self) -> None:
        if self.made:
            self.stream.resume_reading()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self.habit == "greets":
            self.write(70_000)
        if self.habit == "never reads":
            self.stream.pause_reading()
        if self.habit == "leaves":
            self.close()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.habit == "echoes":
            self.write(len(data))
        if self.habit == "halts":
            self.stream.pause_reading()
        if self.habit == "closes":
            self.close()
        if self.habit == "aborts":
            self.abort()
        if self.habit == "fails":
            self.aborted = True
            raise RuntimeError("this protocol fails")
        if self.habit == "swaps":
            self.stream.set_protocol(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.habit == "echoes":
            self.stream.pause_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.habit == "echoes":
            self.stream.resume_reading()
        if self.habit == "halts":
            self.write_eof()

    def eof_received(self) -> bool:
        super().eof_received()
        if self.habit == "closes":
            self.closed = True
            return False
        return True

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        if self.habit == "leaves":
            self.abort()


_HABITS = ("", "", "greets", "never reads", "leaves", "echoes", "halts", "closes", "aborts", "fails", "swaps")


class Play:
    """`chance` decides all that happens. `most` bytes are written at once."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.ends: list[End] = []
        self.openings: list[asyncio.Task[tuple[Stream, Any]]] = []
        self.asked: list[Incoming] = []
        self.is_lost = False
        chunk = chance.choice([1, 7, 64, 4096, 4096, 1 << 20, 1 << 20])
        # A byte at a time is slow: it is for what is small.
        self.most = 3_000 if chunk < 64 else 1 << 24
        self.pair = Pair(chunk, on_open=self.asked.append)
        self.now = 1_000.0
        self.far = chance.random() < 0.5  # a path that looks long, so that windows grow

    async def run(self, steps: int) -> None:
        await settle(30)
        if self.far:
            for mux in (self.pair.agent, self.pair.gateway):
                mux._windows.trip = 1.0
                mux._windows.now = self.clock
        actions = [self.open] * 3 + [self.answer] * 4 + [self.write] * 8 + [self.act] * 6 + [self.freeze] * 2
        actions += [self.trickle, self.trickle, self.take_back, self.drain]
        for number in range(steps):
            self.chance.choice(actions)()
            if number == steps - 5 and self.chance.random() < 0.2:
                self.lose()
            await settle(self.chance.choice([0, 0, 1, 3, 30]))
            self.check()
        await self._end()

    def open(self) -> None:
        mux = self.chance.choice([self.pair.agent, self.pair.gateway])
        end = End(self.chance.choice(_HABITS))
        self.ends.append(end)

        async def opening(index: int) -> tuple[Stream, Any]:
            try:
                return await mux.open({"index": index}, end)
            except asyncio.CancelledError:
                end.aborted = True
                raise

        self.openings.append(asyncio.get_running_loop().create_task(opening(len(self.ends) - 1)))

    def answer(self) -> None:
        if not self.asked:
            return
        incoming = self.asked.pop(self.chance.randrange(len(self.asked)))
        if self.chance.random() < 0.15:
            incoming.refuse("NotFound", "no")
            return
        near = self.ends[incoming.request["index"]]
        far = End(self.chance.choice(_HABITS))
        far.other, near.other = near, far
        try:
            incoming.accept({}, far)
        except ConnectionError:
            return
        self.ends.append(far)

    def take_back(self) -> None:
        if self.openings:
            self.chance.choice(self.openings[-3:]).cancel()

    def write(self) -> None:
        size = self.chance.choice([0, 1, 200, 5_000, 65_536, 65_537, 200_000, WINDOW + 1, 2 * WINDOW])
        if end := self._some_end():
            end.write(min(size, self.most))

    def act(self) -> None:
        """On one end; sometimes on both at once."""
        if end := self._some_end():
            for each in (end, end.other) if self.chance.random() < 0.3 else (end,):
                if each is not None:
                    self.chance.choice([each.pause, each.pause, each.resume, each.resume, each.write_eof, each.close,
                                        each.abort])()  # fmt: skip

    def freeze(self) -> None:
        """A wire stops, as a connection does whose peer does not read, or goes on."""
        wire = self.chance.choice([self.pair.up, self.pair.down])
        if wire.frozen:
            wire.thaw()
        else:
            wire.frozen = True

    def trickle(self) -> None:
        wire = self.chance.choice([self.pair.up, self.pair.down])
        wire.pass_on(min(self.chance.randrange(1, 200_000), self.most))

    def drain(self) -> None:
        if len(self.ends) > 20 and self.chance.random() < 0.1:
            self.chance.choice([self.pair.agent, self.pair.gateway]).drain()

    def lose(self) -> None:
        mux, wire = self.chance.choice([(self.pair.agent, self.pair.up), (self.pair.gateway, self.pair.down)])
        self.is_lost = True
        how = self.chance.randrange(3)
        if how == 0:
            mux.close("it is enough")
        else:
            if how == 1:
                mux.connection_lost(ConnectionResetError("cut off"))
            wire.abort()

    def check(self) -> None:
        for end in self.ends:
            if end.other is not None:
                assert len(end.heard) <= end.other.written
                assert end.heard == _PATTERN[: len(end.heard)]
        for mux in (self.pair.agent, self.pair.gateway):
            assert mux._outbox.unsent <= MAX_UNSENT
            wider = sum(lane._window.size - WINDOW for lane in mux._lanes.values())
            assert wider <= TUNNEL - mux._windows.reserve.free <= TUNNEL  # some are closed, and hold a rest
            for lane in mux._lanes.values():
                self.check_window(lane)
                assert lane.queued_bytes() == sum(map(len, lane._queue)) - lane._sent
                if lane.queued_bytes() > lane.limits()[1] and lane.protocol() is not None:
                    assert lane._throttled

    def clock(self) -> float:
        self.now += self.chance.choice([0.001, 0.001, 0.01, 2 * SLOW])
        return self.now

    def check_window(self, lane: StreamState) -> None:
        held = sum(map(len, lane._held))
        assert WINDOW <= lane._window.size <= WIDEST
        assert held <= lane._window.size
        if lane._allowance and lane._peer is PeerEnd.SENDS and not lane.is_closing():
            assert lane._allowance + held + lane._taken == lane._window.size

    def _some_end(self) -> End | None:
        made = [end for end in self.ends if end.made and not end.lost.done()]
        return self.chance.choice(made) if made else None

    async def _end(self) -> None:
        pair = self.pair
        for end in self.ends:
            end.habit = "" if end.habit == "echoes" else end.habit  # two of them would never come to rest
        pair.up.thaw()
        pair.down.thaw()
        await self._until_quiet()
        for incoming in self.asked:
            incoming.refuse("Denied", "too late")
        # Everybody reads, then everybody goes: what was written must arrive first.
        for _ in range(3):
            for end in self.ends:
                end.habit = ""
                end.resume()
            await self._until_quiet()
        if not self.is_lost:
            self._all_arrived()
        for end in self.ends:
            end.close()
        await self._until_quiet()
        for opening in self.openings:
            assert opening.done()
            if not opening.cancelled() and opening.exception() is not None:
                assert isinstance(opening.exception(), Refused | Unavailable)
        for end in self.ends:
            assert end.lost.done() == end.made
        assert pair.streams == (0, 0)
        for mux in (pair.agent, pair.gateway):
            assert mux._windows.reserve.free == TUNNEL
        if not self.is_lost:
            assert not pair.agent.lost.done()
            pair.close()
            await self._until_quiet()
        assert pair.agent.lost.done()
        assert pair.gateway.lost.done()
        assert pair.agent.greeting.done()

    def _all_arrived(self) -> None:
        for end in self.ends:
            other = end.other
            if other is None or not other.made or not end.made:
                continue
            if not (end.aborted or end.closed or other.aborted or _was_reset(end) or _was_reset(other)):
                assert len(end.heard) == other.written
                assert end.eof == (1 if other.ended and not other.closed else end.eof)

    async def _until_quiet(self) -> None:
        for _ in range(3_000):
            await settle(5)
            if not self.pair.up.waiting and not self.pair.down.waiting:
                break
        await settle(20)


def _was_reset(end: End) -> bool:
    return end.lost.done() and end.lost.result() is not None


@settings(max_examples=examples(240), deadline=None)
@given(st.integers(0, 1 << 32))
def test_any_actions_of_two_sides_keep_order_bounds_and_ends(seed: int) -> None:
    async def work() -> None:
        await Play(Random(seed)).run(100)

    run(work)
