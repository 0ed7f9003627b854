"""Many streams over one connection that an agent or a command line dialled to a gateway.

    dialler                                   listener
       │  ◀────────────────────────────────  HELLO │      the identities; the dialler's token came earlier, with
       │  HELLO ──────────────────────────────────▶│      the request that made the connection
       │  OPEN 1 {…} ─────────────────────────────▶│      either side opens: odd numbers are the dialler's,
       │  ◀───────────── ACCEPT 1 {…} / REFUSE 1   │      even ones the listener's; numbers are never reused
       │  DATA 1 · CREDIT 1 · END 1  ◀────────────▶│
       │  CLOSE 1 / RESET 1 ◀─────────────────────▶│

One stream, seen from one side:

    opening ──ACCEPT──▶ open ──END sent──▶ half-closed (local) ──┐
       │                 │ └──END got───▶ half-closed (remote) ──┼─ CLOSE or RESET, sent or got; tunnel lost ──▶ gone
       └──REFUSE, RESET──┴───────────────────────────────────────┘

Every stream has its own credit (`stream_state.py`), so one that stalls takes no buffer here. Small frames of one turn
of the loop leave in one write. While the connection is full, streams with data to send wait in a ring, and each sends
one quantum in its turn (`send_queue.py`).

Both sides send a ping after BEAT seconds of silence. After DEAD seconds of silence the tunnel is closed, even if the
network still keeps the connection.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, cast

from postern.errors import CarrierBroke, PosternError, ProtocolViolation, Unavailable
from postern.transport import frames
from postern.transport.carrier import Carrier
from postern.transport.demultiplexer import Demultiplexer
from postern.transport.send_queue import HEADROOM, MAX_UNSENT, SendQueue
from postern.transport.stream import Stream
from postern.transport.stream_state import StreamState
from postern.transport.stream_windows import TUNNEL, Reserve, Windows
from postern.transport.tunnel_messages import Message as Message
from postern.transport.tunnel_messages import Refused as Refused
from postern.transport.tunnel_messages import decode, decode_refusal, encode, encode_refusal

log = logging.getLogger(__name__)

BEAT, DEAD = 5.0, 15.0  # seconds


class Incoming:
    """A stream that the peer wants to open: accept or refuse it, once."""

    def __init__(self, mux: Mux, lane: StreamState, request: Message) -> None:
        self.request = request
        self.stream = Stream(lane, mux.about)
        self.answered = False
        self._mux = mux
        self._new_stream = lane
        self._task: asyncio.Task[None] | None = None
        lane.on_gone = self._withdrawn

    def serve(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work`, which answers the request. It is cancelled when the peer withdraws the request, or the tunnel is
        lost."""
        self._task = self._mux.keep(self._serve(work))
        # Cancelled before its first step, it never started `work`.
        self._task.add_done_callback(lambda _task: work.close())

    def accept(self, answer: Message, protocol: asyncio.Protocol) -> None:
        """Accept the stream, and start it. Raises ConnectionError if the peer has withdrawn the request."""
        if self.answered:
            raise RuntimeError("this stream was already answered")
        if self._new_stream.gone:
            raise ConnectionResetError("the other side no longer waits for this stream")
        payload = encode(answer)
        self.answered = True
        self._new_stream.on_gone = None
        self._mux.send(frames.ACCEPT, self._new_stream.number, payload)
        if not self._new_stream.gone:  # the tunnel may have been closed just now
            self._new_stream.open(protocol, self.stream)

    def refuse(self, code: str, message: str, details: Mapping[str, str] | None = None) -> None:
        if self.answered or self._new_stream.gone:
            return
        payload = encode_refusal(code, message, details or {})
        self.answered = True
        self._mux.send(frames.REFUSE, self._new_stream.number, payload)
        self._new_stream.handle_loss(None)

    def _withdrawn(self) -> None:
        if self._task is not None and not self.answered:
            self._task.cancel()

    async def _serve(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except PosternError as error:
            self.refuse(type(error).__name__, error.message)
        except ConnectionError as error:
            log.debug("a stream ended while it was being opened: %s", error)
        except Exception:
            log.exception("a stream could not be opened")
        finally:
            self.refuse("Unavailable", "this stream could not be opened; the log of the other side says why")


class Mux(asyncio.Protocol):
    """The protocol of a tunnel's connection.

    `hello` is the first message to the peer; None leaves that to `introduce`. `on_open` gets every stream that the peer
    opens, and must not block. At most `most` streams are open at once. `greeting` is the peer's first message; it fails
    with Unavailable when the tunnel is lost before. `lost` is set, with the reason, when the tunnel is over. The
    windows of its streams grow out of `reserve`, by TUNNEL bytes at most.
    """

    def __init__(
        self,
        *,
        dialler: bool,
        hello: Message | None,
        on_open: Callable[[Incoming], None],
        most: int = 10_000,
        reserve: Reserve | None = None,
    ) -> None:
        self._hello = hello
        self._on_open = on_open
        self._most = most
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._outbox = SendQueue(self._loop, self._handle_overflow)
        self._switch = Demultiplexer(dialler=dialler, control=self._control)
        self._lanes = self._switch.lanes
        self._windows = Windows(Reserve(TUNNEL, reserve), time.monotonic)  # uvloop's own clock has whole ms
        self._openings: dict[int, _Opening] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._over = False
        self._greeted = False
        self._heard = self._made = self._loop.time()
        self._received = 0  # bytes
        self._beat: asyncio.TimerHandle | None = None
        self.greeting: asyncio.Future[Message] = self._loop.create_future()
        self.lost: asyncio.Future[str] = self._loop.create_future()
        self.drained = False  # the peer accepts no more streams
        # asyncio's hot callbacks, bound directly to save a call.
        self.pause_writing = self._outbox.pause  # type: ignore[method-assign]
        self.resume_writing = self._outbox.resume  # type: ignore[method-assign]

    @property
    def streams(self) -> int:
        """Return how many streams are open or being opened."""
        return len(self._lanes)

    # For the owner of the tunnel

    async def open(self, request: Message, protocol: asyncio.Protocol) -> tuple[Stream, Message]:
        """Open a new stream for `protocol`. Return it and the peer's answer.

        Raises Refused, or Unavailable when the tunnel accepts no streams or is lost. When cancelled, it withdraws the
        request.
        """
        if self._transport is None or self._over or self.drained:
            raise Unavailable("the tunnel accepts no new streams; it is closing")
        if len(self._lanes) >= self._most or self._switch.is_exhausted():
            raise Unavailable(f"the tunnel has {len(self._lanes)} streams open, its limit")
        payload = encode(request)
        if self._outbox.unsent + len(payload) > MAX_UNSENT // 2:
            raise Unavailable("the tunnel's send buffer is full, because the other side reads slowly")
        lane = self._new_stream(self._switch.take_number())
        stream = Stream(lane, self.about)
        opening = self._openings[lane.number] = _Opening(lane, stream, protocol, self._loop.create_future())
        self.send(frames.OPEN, lane.number, payload)
        try:
            return stream, await opening.answer
        except asyncio.CancelledError:
            if opening.answer.done() and not opening.answer.cancelled():
                opening.answer.exception()  # it came too late
            lane.reset("the request was cancelled")
            raise
        finally:
            self._openings.pop(lane.number, None)

    def introduce(self, hello: Message) -> None:
        """Send this side's identity, once."""
        self.send(frames.HELLO, 0, encode(hello))

    def drain(self) -> None:
        """Ask the peer to open no more streams; open ones continue."""
        self.send(frames.DRAIN, 0)

    def close(self, reason: str) -> None:
        """End all streams with the reason, and the tunnel."""
        for lane in list(self._lanes.values()):
            lane.reset(reason)
        self._outbox.finish()
        self._end(reason)
        if self._transport is not None:
            self._transport.close()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self._over:  # closed before it was made
            self._transport.abort()
            return
        if self._hello is not None:
            self.introduce(self._hello)
        self._outbox.attach(_sender(self._transport))
        self._heard = self._made = self._loop.time()
        self._beat = self._loop.call_later(BEAT, self._check, self._heard)

    def data_received(self, data: bytes | memoryview) -> None:
        self._heard = self._loop.time()
        self._received += len(data)
        self._outbox.cork()
        try:
            self._switch.feed(data)
        except ProtocolViolation as error:
            self._break(error.message)
        finally:
            self._outbox.uncork()  # the responses to one read leave together, and before the end of the turn

    def connection_lost(self, error: Exception | None) -> None:
        self._end(str(error) if error else "the other side closed the tunnel")

    # For its streams

    def send(self, kind: int, stream: int, payload: bytes = b"") -> None:
        self._outbox.frame(kind, stream, payload)

    def about(self, name: str, default: Any) -> Any:
        return default if self._transport is None else self._transport.get_extra_info(name, default)

    def keep(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Return a task, and keep a reference to it while it runs."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # Incoming frames

    def _control(self, kind: int, number: int, payload: bytes) -> None:
        if number == 0:
            self._tunnel_frame(kind, payload)
        elif kind == frames.OPEN:
            self._handle_open(number, payload)
        elif kind in (frames.PING, frames.PONG, frames.HELLO, frames.DRAIN):
            raise ProtocolViolation(f"a {frames.NAMES[kind]} frame on a stream")
        elif (lane := self._lanes.get(number)) is None:
            self._switch.check(number)
        elif kind in (frames.ACCEPT, frames.REFUSE):
            self._handle_answer(lane, kind, payload)
        else:
            self._handle_close(lane, kind, payload.decode(errors="replace"))

    def _tunnel_frame(self, kind: int, payload: bytes) -> None:
        if kind == frames.PING:
            self.send(frames.PONG, 0, payload)
        elif kind == frames.HELLO and not self._greeted:
            self._greeted = True
            greeting = decode(payload)
            self._ping()
            if not self.greeting.done():
                self.greeting.set_result(greeting)
        elif kind == frames.DRAIN:
            self.drained = True
        elif kind == frames.PONG:
            if self._windows.receive_pong(payload):
                self._ping()
        else:
            raise ProtocolViolation(f"a {frames.NAMES[kind]} frame without a stream, or sent twice")

    def _ping(self) -> None:
        self.send(frames.PING, 0, self._windows.ask())

    def _handle_open(self, number: int, payload: bytes) -> None:
        if not self._greeted:
            raise ProtocolViolation("the peer opened a stream before its HELLO")
        self._switch.take_theirs(number)
        request = decode(payload)
        crowded = len(self._lanes) >= self._most
        incoming = Incoming(self, self._new_stream(number), request)
        if crowded:
            incoming.refuse("TooMany", f"this tunnel has {self._most} streams open; close some first")
            return
        try:
            self._on_open(incoming)
        except Exception:
            log.exception("a stream could not be opened")
            incoming.refuse("Unavailable", "this stream could not be opened; the log of the other side says why")

    def _handle_answer(self, lane: StreamState, kind: int, payload: bytes) -> None:
        opening = self._openings.get(lane.number)
        if opening is None or opening.answered:
            raise ProtocolViolation("the peer answered a stream twice, or one that was not requested")
        opening.answered = True
        if opening.answer.cancelled():
            # The opener learns it in the next turn; later frames in this read have no receiver.
            lane.reset("the request was cancelled")
            return
        if kind == frames.ACCEPT:
            message = decode(payload)
            lane.open(opening.protocol, opening.stream)
            if not opening.answer.done():  # its protocol may have ended the tunnel
                opening.answer.set_result(message)
        else:
            opening.answer.set_exception(decode_refusal(payload))
            lane.handle_loss(None)

    def _handle_close(self, lane: StreamState, kind: int, reason: str) -> None:
        reason = reason or "the other side closed it"
        opening = self._openings.get(lane.number)
        if opening is not None and not opening.answer.done():
            opening.answer.set_exception(Unavailable(reason))
        if kind == frames.CLOSE:
            lane.receive_close()
        else:
            lane.handle_loss(ConnectionResetError(reason))

    # Internal

    def _new_stream(self, number: int) -> StreamState:
        lane = self._lanes[number] = StreamState(number, self._lanes, self._outbox, self._loop, self._windows)
        return lane

    def _check(self, since: float) -> None:
        """Check for silence. `since` is the time of the ping: a process that was suspended has received nothing, which
        is not the peer's fault."""
        now = self._loop.time()
        if now - since > 2 * BEAT:
            self._heard = max(self._heard, now - DEAD + BEAT)
            self._made = max(self._made, now - DEAD + BEAT)
        silence = now - self._heard
        if silence >= DEAD:
            self._give_up(f"the other side has been silent for {silence:.0f} seconds")
            return
        if not self._greeted and now - self._made >= DEAD:
            self._give_up("the other side did not send its HELLO in time")
            return
        if silence >= BEAT * 0.9 or self._windows.used:  # the path of a busy tunnel may have become shorter
            self._windows.used = False
            self._ping()
        self._switch.linger(now)
        if not self._over:
            self._beat = self._loop.call_later(min(BEAT, DEAD - silence), self._check, now)

    def _handle_overflow(self) -> None:
        self._give_up("the other side does not read its data")

    def _give_up(self, reason: str) -> None:
        log.info("closing a tunnel: %s", reason)
        self._end(reason)
        if self._transport is not None:
            self._transport.abort()

    def _break(self, reason: str) -> None:
        """Handle a protocol violation of the peer. Its streams get the reason, so that each session logs it."""
        count, received = len(self._lanes), self._received
        log.warning(
            "closing a tunnel with %d streams: its peer broke the protocol within the first %d bytes: %s",
            count,
            received,
            reason,
        )
        self._end(reason, CarrierBroke)
        if self._transport is not None:
            self._transport.abort()

    def _end(self, reason: str, kind: type[ConnectionResetError] = ConnectionResetError) -> None:
        if self._over:
            return
        self._over = True
        self._switch.stop()
        self._outbox.stop()
        if self._beat is not None:
            self._beat.cancel()
        words = f"the tunnel was lost: {reason}"
        for opening in list(self._openings.values()):
            if not opening.answer.done():
                opening.answer.set_exception(Unavailable(words))
        for lane in list(self._lanes.values()):
            lane.handle_loss(kind(words))
        if not self.greeting.done():
            self.greeting.set_exception(Unavailable(words))
            self.greeting.exception()  # no caller may be waiting for it
        if not self.lost.done():
            self.lost.set_result(reason)


class _Opening:
    """A stream that the peer has not answered yet."""

    def __init__(
        self, lane: StreamState, stream: Stream, protocol: asyncio.Protocol, answer: asyncio.Future[Message]
    ) -> None:
        self.lane = lane
        self.stream = stream
        self.protocol = protocol
        self.answer = answer
        self.answered = False


def _sender(transport: asyncio.Transport) -> Callable[[bytearray], None]:
    if isinstance(transport, Carrier):
        return transport.write_message
    return lambda message: transport.write(bytes(memoryview(message)[HEADROOM:]))
