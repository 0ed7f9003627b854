"""Whatever two sides do on a tunnel, in whatever order: bytes arrive once, in order, where they belong, everything
ends, and nobody holds more than the bounds allow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.support.muxes import Pair, Sink, settle

from postern.errors import Unavailable
from postern.transport.lane import WINDOW
from postern.transport.mux import Incoming, Refused
from postern.transport.outbox import MAX_UNSENT
from postern.transport.stream import Stream

_PATTERN = bytes(range(251)) * 12_000  # no period of a frame


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
        if self.made and not (self.ended or self.closed or self.aborted or self.stream.is_closing()):
            start = self.written % 251
            self.stream.write(_PATTERN[start : start + size])
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
_SIZES = st.one_of(st.integers(0, 300), st.integers(0, 100_000), st.sampled_from([65_536, 65_537, WINDOW, WINDOW * 2]))


class TwoSides(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.failures: list[dict[str, Any]] = []
        self.loop.set_exception_handler(lambda _loop, context: self.failures.append(context))
        self.ends: list[End] = []
        self.openings: list[asyncio.Task[tuple[Stream, Any]]] = []
        self.asked: list[Incoming] = []
        self.by_number: dict[tuple[bool, int], End] = {}
        self.is_lost = False

    def do(self, work: Callable[[], object], rounds: int = 3) -> None:
        async def in_loop() -> None:
            work()
            await settle(rounds)

        self.loop.run_until_complete(in_loop())

    @initialize(chunk=st.sampled_from([1, 7, 64, 4096, 1 << 20]))
    def join(self, chunk: int) -> None:
        # A byte at a time is slow: it is for what is small.
        self.most = 3_000 if chunk < 64 else len(_PATTERN)

        def join() -> None:
            self.pair = Pair(chunk, on_open=self.asked.append)

        self.do(join, 10)

    @rule(dialler=st.booleans(), habit=st.sampled_from(_HABITS))
    def open(self, dialler: bool, habit: str) -> None:
        mux = self.pair.agent if dialler else self.pair.gateway
        async def opening() -> tuple[Stream, Any]:
            end = End(habit)
            self.ends.append(end)
            return await mux.open({"index": len(self.ends) - 1}, end)

        self.do(lambda: self.openings.append(self.loop.create_task(opening())))

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), accepted=st.booleans(), habit=st.sampled_from(_HABITS))
    def answer(self, data: st.DataObject, accepted: bool, habit: str) -> None:
        incoming = self.asked.pop(data.draw(st.integers(0, len(self.asked) - 1)))
        self.do(lambda: self._answer(incoming, accepted, habit))

    def _answer(self, incoming: Incoming, accepted: bool, habit: str) -> None:
        if not accepted:
            incoming.refuse("NotFound", "no")
            return
        near = self.ends[incoming.request["index"]]
        far = End(habit)
        far.other, near.other = near, far
        try:
            incoming.accept({}, far)
        except ConnectionError:
            return
        self.ends.append(far)

    @precondition(lambda self: self.openings)
    @rule(data=st.data())
    def take_back(self, data: st.DataObject) -> None:
        opening = data.draw(st.sampled_from(self.openings))
        self.do(opening.cancel, 0)

    @precondition(lambda self: self.ends)
    @rule(data=st.data(), size=_SIZES)
    def write(self, data: st.DataObject, size: int) -> None:
        end = data.draw(st.sampled_from(self.ends))
        self.do(lambda: end.write(min(size, self.most)))

    @precondition(lambda self: self.ends)
    @rule(data=st.data(), what=st.sampled_from(["pause", "resume", "eof", "close", "abort", "resume", "pause"]))
    def act(self, data: st.DataObject, what: str) -> None:
        end = data.draw(st.sampled_from(self.ends))
        if end.made:
            actions: dict[str, Callable[[], None]] = {
                "pause": end.stream.pause_reading,
                "resume": end.resume,
                "eof": end.write_eof,
                "close": end.close,
                "abort": end.abort,
            }
            self.do(actions[what], 1)

    @rule(up=st.booleans(), frozen=st.booleans())
    def freeze(self, up: bool, frozen: bool) -> None:
        """A wire stops, as a connection does whose peer does not read."""
        wire = self.pair.up if up else self.pair.down
        if frozen:
            wire.frozen = True
        else:
            self.do(wire.thaw)

    @rule(up=st.booleans(), size=st.integers(1, 200_000))
    def trickle(self, up: bool, size: int) -> None:
        wire = self.pair.up if up else self.pair.down
        self.do(lambda: wire.pass_on(min(size, self.most)))

    @rule(dialler=st.booleans())
    def drain(self, dialler: bool) -> None:
        if len(self.ends) > 6:
            self.do((self.pair.agent if dialler else self.pair.gateway).drain)

    @rule()
    def pass_time(self) -> None:
        self.do(lambda: None, 30)

    @precondition(lambda self: len(self.ends) > 5)
    @rule(how=st.sampled_from(["close", "cut", "reset"]), dialler=st.booleans())
    def lose(self, how: str, dialler: bool) -> None:
        mux = self.pair.agent if dialler else self.pair.gateway
        wire = self.pair.up if dialler else self.pair.down
        self.is_lost = True
        if how == "close":
            self.do(lambda: mux.close("it is enough"))
        elif how == "cut":
            self.do(wire.abort)
        else:
            self.do(lambda: mux.connection_lost(ConnectionResetError("cut off")))
            self.do(wire.abort)

    @invariant()
    def bytes_are_in_order(self) -> None:
        for end in self.ends:
            if end.other is not None:
                heard = len(end.heard)
                assert heard <= end.other.written
                assert end.heard == _expected(heard)

    @invariant()
    def bounds_hold(self) -> None:
        if hasattr(self, "pair"):
            for mux in (self.pair.agent, self.pair.gateway):
                assert mux._outbox.unsent <= MAX_UNSENT
                for lane in mux._lanes.values():
                    assert held(lane) <= WINDOW

    @invariant()
    def nothing_failed(self) -> None:
        assert not self.failures

    def teardown(self) -> None:
        try:
            if hasattr(self, "pair"):
                self.loop.run_until_complete(self._end())
        finally:
            self.loop.run_until_complete(settle())
            self.loop.close()
        assert not self.failures

    async def _end(self) -> None:
        pair = self.pair
        pair.up.thaw()
        pair.down.thaw()
        await self._until_quiet()
        for incoming in self.asked:
            incoming.refuse("Denied", "too late")
        # Everybody reads, then everybody goes: what was written must arrive first.
        for _ in range(3):
            for end in self.ends:
                end.habit = "" if end.habit != "echoes" else end.habit
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
            if other is None or not other.made:
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


def _expected(size: int) -> bytes:
    whole = -(-size // 251)
    return (bytes(range(251)) * whole)[:size]


def held(lane: Any) -> int:
    return sum(map(len, lane._held))


TwoSides.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestTwoSides = TwoSides.TestCase
