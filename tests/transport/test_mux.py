"""Two multiplexers, joined by transports that pass bytes on in chunks of a chosen size."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.support.muxes import Pair, Sink, run, settle
from tests.support.promises import within

from postern.errors import Unavailable
from postern.transport import frames, mux
from postern.transport.frames import header
from postern.transport.mux import Incoming, Mux, Refused
from postern.transport.send_queue import MAX_UNSENT
from postern.transport.stream_state import HIGH_WATER, LINGER
from postern.transport.stream_windows import WINDOW

CHUNKS = (1, 7, 64, 4096, 1 << 20)


def frame(kind: int, stream: int, payload: bytes = b"") -> bytes:
    return header(kind, stream, len(payload)) + payload


HELLO = frame(frames.HELLO, 0, b"{}")
OPEN = HELLO + frame(frames.OPEN, 1, b"{}")


@pytest.mark.parametrize("chunk", CHUNKS)
def test_stream_carries_bytes_in_both_directions(chunk: int) -> None:
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


def test_each_side_receives_the_greeting_of_the_other() -> None:
    async def work() -> None:
        pair = Pair()
        assert await pair.agent.greeting == {"who": "gateway"}
        assert await pair.gateway.greeting == {"who": "agent"}
        pair.close()

    run(work)


def test_rejected_stream_has_a_code_and_a_reason() -> None:
    async def work() -> None:
        pair = Pair(on_open=lambda incoming: incoming.refuse("NotFound", "there is no such target"))
        with pytest.raises(Refused, match="no such target") as refused:
            await pair.gateway.open({}, Sink())
        assert refused.value.code == "NotFound"
        assert pair.agent.streams == pair.gateway.streams == 0
        pair.close()

    run(work)


def test_stalled_stream_buffers_at_most_its_window_and_blocks_no_other_stream() -> None:
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


def test_lost_tunnel_fails_streams_being_opened() -> None:
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


def test_cancelled_open_cancels_the_work_of_the_peer() -> None:
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
        frame(frames.OPEN, 1, b"{}"),  # without a greeting
        HELLO + HELLO,
        HELLO + frame(frames.DATA, 99, b"x"),  # for a stream that never was
        OPEN + frame(frames.OPEN, 1, b"{}"),  # the same number twice
        HELLO + frame(frames.OPEN, 2, b"{}"),  # a number of ours
        b"\x0b\xff\xff\xff\x00\x00\x00\x00",  # a greeting of 16 MiB
        HELLO + frame(frames.OPEN, 1, b"[]"),
        HELLO + frame(frames.OPEN, 1, b"[" * 100_000),
        HELLO + frame(frames.CREDIT, 4, b"\xff\xff\xff\xff"),  # credit for no stream
        OPEN + frame(frames.CREDIT, 1, b"\x01"),
        OPEN + frame(frames.CREDIT, 1, b"\xff\xff\xff\xff") * 300,  # without end
        OPEN + frame(frames.END, 1) + frame(frames.END, 1),
        OPEN + frame(frames.END, 1) + frame(frames.DATA, 1, b"x"),
        OPEN + frame(frames.DATA, 1, bytes(60_000)) * 18,  # more than the window, to a stream that is paused
        OPEN + frame(frames.ACCEPT, 1, b"{}"),  # of its own wish
        OPEN + frame(frames.PING, 1),
        HELLO + frame(frames.CLOSE, 0),
        HELLO + frame(13, 0),
        HELLO + frame(0, 0),
    ],
)
@pytest.mark.parametrize("chunk", [1, 1 << 20])
def test_protocol_violation_of_the_peer_ends_the_tunnel(bytes_of_a_stranger: bytes, chunk: int) -> None:
    async def work() -> None:
        pair = Pair(sink=lambda: Sink(made=lambda sink: sink.stream.pause_reading()))
        for start in range(0, len(bytes_of_a_stranger), chunk):
            pair.gateway.data_received(bytes_of_a_stranger[start : start + chunk])
        assert pair.gateway.lost.done()
        assert pair.down.closed
        assert pair.gateway.streams == 0

    run(work)


def test_data_before_a_stream_is_accepted_ends_the_tunnel() -> None:
    async def work() -> None:
        pair = Pair(on_open=lambda incoming: None)
        pair.gateway.data_received(OPEN + frame(frames.DATA, 1, b"x"))
        assert pair.gateway.lost.done()

    run(work)


def test_open_cancelled_while_its_answer_arrives_affects_no_other_stream() -> None:
    def greet(sink: Sink) -> None:
        sink.stream.write(b"welcome")
        sink.stream.write_eof()

    async def work() -> None:
        asked: list[Incoming] = []
        pair = Pair(on_open=asked.append)
        await settle()
        lively = asyncio.ensure_future(pair.agent.open({}, Sink()))
        for answer in ("accept", "refuse"):
            sink = Sink()
            opening = asyncio.ensure_future(pair.agent.open({}, sink))
            await settle()
            pair.down.frozen = True
            if answer == "accept":
                asked[-1].accept({}, Sink(made=greet))
            else:
                asked[-1].refuse("No", "no")
            await settle()
            opening.cancel()
            pair.down.pass_on(1000)  # in the same turn of the loop
            pair.down.thaw()
            with pytest.raises(asyncio.CancelledError):
                await opening
            await settle()
            assert not pair.agent.lost.done()
            assert sink.transport is None
        asked[0].accept({"still": "here"}, Sink())
        assert (await lively)[1] == {"still": "here"}
        assert pair.streams == (1, 1)
        pair.close()

    run(work)


def test_open_cancelled_after_its_answer_closes_the_stream() -> None:
    async def work() -> None:
        pair = Pair()
        sink = Sink()
        opening = asyncio.ensure_future(pair.agent.open({}, sink))
        while sink.transport is None:  # noqa: ASYNC110
            await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        await asyncio.gather(sink.lost, pair.opened[0].lost)
        assert pair.streams == (0, 0)
        pair.close()

    run(work)


def test_streams_that_close_while_both_have_unsent_data_end() -> None:
    """The echo does not read while it cannot write; the other side has closed and accepts no more data."""

    def echo(sink: Sink) -> None:
        sink.stream.write(bytes(sink.heard))
        sink.heard.clear()

    async def work() -> None:
        pair = Pair(
            sink=lambda: Sink(
                data=echo,
                pause=lambda sink: sink.stream.pause_reading(),
                resume=lambda sink: sink.stream.resume_reading(),
            )
        )
        near, far = await pair.open(Sink(made=lambda sink: sink.stream.pause_reading()))
        for _ in range(50):
            near.stream.write(bytes(100_000))
            await settle(2)
        assert far.paused
        near.stream.close()
        await asyncio.gather(near.lost, far.lost)
        assert pair.streams == (0, 0)
        pair.close()

    run(work)


def test_data_before_the_peer_closed_is_kept_for_a_paused_reader() -> None:
    async def work() -> None:
        pair = Pair()
        near, far = await pair.open()
        far.stream.pause_reading()
        near.stream.write(b"a" * 200_000)
        near.stream.close()
        await near.lost
        await settle()
        assert not far.stream.is_closing()  # who asks before it resumes must not think that all is over
        assert not far.lost.done()
        far.stream.write(b"into the void")
        far.stream.resume_reading()
        assert await far.lost is None
        assert len(far.heard) == 200_000
        assert far.stream.is_closing()
        assert pair.streams == (0, 0)
        pair.close()

    run(work)


@pytest.mark.parametrize("size", [1000, 3 * WINDOW], ids=["arrived", "unsent"])
def test_end_is_told_before_the_close_of_a_stream_with_unread_data(size: int) -> None:
    """Otherwise the regular end of a byte stream would look like one that was cut off."""

    async def work() -> None:
        pair = Pair()
        near, far = await pair.open()
        data = bytes(size)
        far.stream.pause_reading()
        near.stream.write(data)
        near.stream.write_eof()
        near.stream.close()
        await settle()
        assert far.eof == 0
        far.stream.resume_reading()
        await far.lost
        assert (bytes(far.heard), far.eof) == (data, 1)
        pair.close()

    run(work)


def test_protocol_with_paused_writing_is_notified_that_its_peer_closed() -> None:
    async def work() -> None:
        pair = Pair(sink=lambda: Sink(pause=lambda sink: sink.stream.pause_reading(),
                                      resume=lambda sink: sink.stream.resume_reading()))  # fmt: skip
        near, far = await pair.open(Sink(made=lambda sink: sink.stream.pause_reading()))
        far.stream.write(bytes(3 * WINDOW))
        await settle()
        assert far.paused
        near.stream.write(b"the last words")
        near.stream.close()
        assert await far.lost is None
        assert far.heard == b"the last words"
        pair.close()

    run(work)


def test_protocol_can_end_the_stream_in_resume_writing() -> None:
    for end in ("write_eof", "close", "abort"):

        async def work(end: str = end) -> None:
            pair = Pair()
            near, far = await pair.open(Sink(resume=lambda sink: getattr(sink.stream, end)()))
            far.stream.pause_reading()
            near.stream.write(bytes(WINDOW + 100_000))
            await settle()
            assert near.paused
            far.stream.resume_reading()
            await settle()
            assert far.eof == (end == "write_eof")
            assert len(far.heard) == WINDOW + 100_000 or end == "abort"
            assert not pair.gateway.lost.done()
            assert pair.streams == ((1, 1) if end == "write_eof" else (0, 0))
            pair.close()

        run(work)


@pytest.mark.parametrize("where", ["made", "data", "eof", "pause", "lost"])
def test_protocol_that_raises_ends_only_its_own_stream(where: str) -> None:
    def fail(sink: Sink) -> None:
        raise RuntimeError("this protocol fails")

    async def work() -> None:
        sinks = [Sink(), Sink(**{where: fail})]
        pair = Pair(sink=lambda: sinks.pop(0))
        near, far = await pair.open()
        bad_near, bad_far = await pair.open()
        bad_near.stream.pause_reading()
        bad_near.stream.write(b"x")
        if bad_far.transport is not None:
            bad_far.stream.write(bytes(WINDOW + HIGH_WATER + 1))
        await settle()
        bad_near.stream.write_eof()
        await settle()
        bad_near.stream.close()
        near.stream.write(b"I live")
        await asyncio.gather(bad_near.lost, bad_far.lost)
        await settle()
        assert far.heard == b"I live"
        assert pair.streams == (1, 1)
        pair.close()

    run(work)


def test_protocol_that_closes_the_tunnel_during_a_read_receives_no_more_data() -> None:
    async def work() -> None:
        pair = Pair()
        opened: list[Sink] = []

        def take(incoming: Incoming) -> None:
            opened.append(Sink(made=lambda _sink: pair.gateway.close("enough")))
            incoming.accept({}, opened[-1])

        pair.gateway._on_open = take
        pair.gateway.data_received(OPEN + frame(frames.OPEN, 3, b"{}") + frame(frames.DATA, 1, b"x"))
        assert len(opened) == 1
        assert pair.gateway.streams == 0
        await opened[0].lost
        assert not opened[0].heard
        pair.gateway.data_received(frame(frames.OPEN, 5, b"{}"))
        assert pair.gateway.streams == 0

    run(work)


def test_cancelled_wait_for_greeting_or_end_does_not_affect_the_tunnel() -> None:
    async def work() -> None:
        pair = Pair()
        pair.agent.greeting.cancel()
        pair.agent.lost.cancel()
        await settle()
        near, far = await pair.open()
        pair.gateway.close("enough")
        assert str(await near.lost) == "enough"
        assert await far.lost is None
        assert pair.agent.streams == 0

    run(work)


def test_overlong_rejection_arrives_truncated() -> None:
    async def work() -> None:
        words = "\udcff" + "ü" * 1_000_000
        pair = Pair(on_open=lambda incoming: incoming.refuse("No", words, {"hint": "x" * 300_000}))
        with pytest.raises(Refused) as refused:
            await pair.agent.open({}, Sink())
        assert words.startswith(refused.value.message)
        assert len(refused.value.message) > 1000
        pair.close()

    run(work)


def test_oversized_answer_or_request_rejects_the_stream() -> None:
    async def work() -> None:
        async def serve(incoming: Incoming) -> None:
            incoming.accept({"much": "x" * 300_000}, Sink())

        pair = Pair(on_open=lambda incoming: incoming.serve(serve(incoming)))
        with pytest.raises(Refused, match="too large"):
            await pair.agent.open({}, Sink())
        with pytest.raises(Unavailable, match="too large"):
            await pair.agent.open({"much": "x" * 300_000}, Sink())
        assert pair.streams == (0, 0)
        pair.close()

    run(work)


def test_stream_is_rejected_if_its_handler_fails_or_does_not_answer() -> None:
    async def work() -> None:
        async def serve(incoming: Incoming) -> None:
            if incoming.request["fails"]:
                raise RuntimeError("a fault")

        pair = Pair(on_open=lambda incoming: incoming.serve(serve(incoming)))
        for fails in (True, False):
            with pytest.raises(Refused, match="could not be opened"):
                await pair.agent.open({"fails": fails}, Sink())
        pair.close()

    run(work)


def test_stream_is_answered_only_once() -> None:
    async def work() -> None:
        asked: list[Incoming] = []
        pair = Pair(on_open=asked.append)
        opening = asyncio.ensure_future(pair.agent.open({}, Sink()))
        await settle()
        asked[0].accept({}, Sink())
        asked[0].refuse("No", "too late")
        with pytest.raises(RuntimeError):
            asked[0].accept({}, Sink())
        await opening
        pair.close()

    run(work)


def test_stream_over_the_agreed_limit_is_rejected() -> None:
    async def work() -> None:
        pair = Pair(most=3)
        for _ in range(3):
            await pair.open()
        with pytest.raises(Unavailable, match="3 streams"):
            await pair.agent.open({}, Sink())
        pair.agent._most = 10
        with pytest.raises(Refused) as refused:
            await pair.agent.open({}, Sink())
        assert refused.value.code == "TooMany"
        assert pair.streams == (3, 3)
        pair.close()

    run(work)


def test_draining_tunnel_opens_no_streams_and_keeps_open_ones() -> None:
    async def work() -> None:
        pair = Pair()
        near, far = await pair.open()
        pair.gateway.drain()
        await settle()
        assert pair.agent.drained
        with pytest.raises(Unavailable):
            await pair.agent.open({}, Sink())
        near.stream.write(b"on and on")
        await settle()
        assert far.heard == b"on and on"
        pair.close()

    run(work)


def test_three_thousand_concurrent_streams_carry_their_own_bytes() -> None:
    async def work() -> None:
        pair = Pair(1 << 20)
        sinks = [Sink() for _ in range(3_000)]
        await asyncio.gather(*(pair.agent.open({}, sink) for sink in sinks))
        for number, sink in enumerate(sinks):
            sink.stream.write(b"%d" % number * 50)
            sink.stream.close()
        await asyncio.gather(*(sink.lost for sink in sinks), *(far.lost for far in pair.opened))
        assert [bytes(far.heard) for far in pair.opened] == [b"%d" % number * 50 for number in range(3_000)]
        assert pair.streams == (0, 0)
        pair.close()

    run(work)


def test_huge_write_takes_linear_time() -> None:
    async def work() -> None:
        pair = Pair(1 << 20)
        near, far = await pair.open()
        far.actions["data"] = lambda sink: None
        started = time.process_time()
        near.stream.write(bytes(64 << 20))
        near.stream.close()
        await far.lost
        assert len(far.heard) == 64 << 20
        assert time.process_time() - started < 20  # copying the rest for each frame takes a minute
        pair.close()

    run(work)


def test_written_bytes_are_copied_at_the_time_of_the_write() -> None:
    async def work() -> None:
        pair = Pair()
        near, far = await pair.open()
        changing = bytearray(b"first")
        near.stream.write(changing)
        changing[:] = b"later"
        near.stream.write(memoryview(b"0123456789")[::2])
        near.stream.write(b"")
        with pytest.raises(TypeError):
            near.stream.write("text")  # type: ignore[arg-type]
        await settle()
        assert far.heard == b"first02468"
        pair.close()

    run(work)


def test_stream_can_be_handed_to_another_protocol() -> None:
    async def work() -> None:
        pair = Pair()
        near, far = await pair.open()
        second = Sink()

        def hand_over(sink: Sink) -> None:
            sink.stream.pause_reading()
            sink.stream.set_protocol(second)
            sink.stream.resume_reading()

        far.actions["data"] = hand_over
        near.stream.write(b"one")
        near.stream.write(b"two")
        await settle()
        near.stream.write(b"three")
        near.stream.close()
        await second.lost
        assert (bytes(far.heard), bytes(second.heard)) == (b"one", b"twothree")
        assert not far.lost.done()
        pair.close()

    run(work)


def test_write_buffer_limits_of_a_stream_are_respected() -> None:
    async def work() -> None:
        pair = Pair()
        near, far = await pair.open()
        far.stream.pause_reading()
        near.stream.set_write_buffer_limits(high=0)
        near.stream.write(bytes(WINDOW))
        assert near.paused
        await settle()
        assert not near.paused
        near.stream.write(b"x")
        assert near.paused
        with pytest.raises(ValueError, match="must be"):
            near.stream.set_write_buffer_limits(high=1, low=2)
        pair.close()

    run(work)


def test_peer_that_sends_pings_and_never_reads_is_disconnected() -> None:
    async def work() -> None:
        pair = Pair()
        await settle()
        pair.down.frozen = True
        for _ in range(MAX_UNSENT // 1000):
            pair.gateway.data_received(frame(frames.PING, 0, bytes(1000)))
            assert pair.gateway._outbox.unsent <= MAX_UNSENT
            await asyncio.sleep(0)
        for _ in range(200):
            pair.gateway.data_received(frame(frames.PING, 0, bytes(1000)))
        assert "does not read" in pair.gateway.lost.result()

    run(work)


def test_opens_that_exceed_the_send_queue_are_rejected() -> None:
    async def work() -> None:
        pair = Pair()
        await settle()
        pair.up.frozen = True
        openings = [asyncio.ensure_future(pair.agent.open({"x": "x" * 200_000}, Sink())) for _ in range(50)]
        await settle()
        refused = [opening for opening in openings if opening.done()]
        assert refused
        assert all(isinstance(opening.exception(), Unavailable) for opening in refused)
        assert not pair.agent.lost.done()
        pair.up.thaw()
        await asyncio.gather(*openings, return_exceptions=True)
        pair.close()

    run(work)


def test_unread_rest_of_a_closed_stream_is_discarded_after_a_deadline() -> None:
    async def work() -> None:
        pair = Pair()
        near, far = await pair.open()
        far.stream.pause_reading()
        near.stream.write(bytes(3 * WINDOW))
        near.stream.close()
        await settle()
        now = asyncio.get_running_loop().time()
        pair.agent._switch.linger(now)
        pair.agent._switch.linger(now + LINGER - 1)
        assert pair.streams == (1, 1)
        pair.agent._switch.linger(now + LINGER + 1)
        assert await near.lost is None
        assert isinstance(await far.lost, ConnectionResetError)
        assert pair.streams == (0, 0)
        pair.close()

    run(work)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mux, "BEAT", 0.05)
    monkeypatch.setattr(mux, "DEAD", 0.15)


@pytest.mark.usefixtures("hasty")
def test_silent_peer_is_disconnected_in_time_and_an_idle_one_is_not() -> None:
    async def work() -> None:
        pair = Pair()
        near, _ = await pair.open()
        await asyncio.sleep(0.5)
        assert not pair.agent.lost.done()
        pair.down.frozen = pair.up.frozen = True
        started = time.monotonic()
        assert "silent" in await pair.agent.lost
        assert time.monotonic() - started < within(0.15 + 0.1)
        assert isinstance(await near.lost, ConnectionResetError)

    run(work)


@pytest.mark.usefixtures("hasty")
def test_peer_without_a_greeting_is_disconnected() -> None:
    async def work() -> None:
        pair = Pair()
        lone = Mux(dialler=True, hello={}, on_open=lambda incoming: None)
        lone.connection_made(pair.up)
        for _ in range(100):
            lone.data_received(frame(frames.PONG, 0))
            await asyncio.sleep(0.01)
            if lone.lost.done():
                break
        assert "did not send its HELLO" in lone.lost.result()
        pair.close()

    run(work)


def test_suspended_process_pings_its_peer_before_it_disconnects() -> None:
    async def work() -> None:
        pair = Pair()
        await settle()
        loop = asyncio.get_running_loop()
        pair.agent._heard = loop.time() - 100
        pair.agent._check(loop.time() - 100)
        assert not pair.agent.lost.done()
        await settle()
        assert pair.agent._heard > loop.time() - 50  # the other side answered
        pair.agent._heard = loop.time() - 100
        pair.agent._check(loop.time() - 5)
        assert pair.agent.lost.done()

    run(work)


def test_closed_tunnel_sends_its_reason_even_if_its_send_queue_is_full() -> None:
    async def work() -> None:
        pair = Pair()
        near, far = await pair.open()
        pair.up.frozen = True
        near.stream.write(bytes(WINDOW))
        assert pair.agent._outbox.full
        pair.agent.close("maintenance")
        pair.up.frozen = False
        assert str(await far.lost) == "maintenance"
        assert await near.lost is None
        assert await pair.agent.lost == "maintenance"

    run(work)
