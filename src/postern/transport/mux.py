"""Many streams over one connection that the agent or the command line dialled to a gateway.

    dialler                                   listener
       │  ◀────────────────────────────────  HELLO │      who each is; the dialler's token came before, with the
       │  HELLO ──────────────────────────────────▶│      request that made the connection
       │  OPEN 1 {…} ─────────────────────────────▶│      either side opens: odd numbers are the dialler's,
       │  ◀───────────── ACCEPT 1 {…} / REFUSE 1   │      even ones the listener's; numbers are never used again
       │  DATA 1 · CREDIT 1 · END 1  ◀────────────▶│
       │  CLOSE 1 / RESET 1 ◀─────────────────────▶│

One stream, seen from one side:

    opening ──ACCEPT──▶ open ──END sent──▶ open, writes no more ─┐
       │                 │ └──END got───▶ open, hears no more ───┼─ CLOSE or RESET, sent or got; tunnel lost ──▶ gone
       └──REFUSE, RESET──┴───────────────────────────────────────┘

Frames for a number that is gone are dropped: the two sides may end a stream at the same time. A frame for a number
that never was is a violation, and ends the tunnel.

Every stream has its own credit (`stream.py`), so one that stalls takes no room here. Small frames of one turn of the
loop leave in one write; large ones are not copied together. While the connection is full, the streams that have
something to send wait in a ring, and each may send one quantum in its turn.

Both sides ask for a sign of life after BEAT seconds of silence; after DEAD seconds of it the tunnel is given up, even
though the network still holds it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, cast

from postern.errors import PosternError, ProtocolViolation, Unavailable
from postern.transport.frames import MAX_CONTROL, MAX_DATA, Frame, FrameReader, Kind, header
from postern.transport.stream import Stream

log = logging.getLogger(__name__)

BEAT, DEAD = 5.0, 15.0  # seconds
_JOIN = 4 * 1024  # bytes; a larger payload is written by itself
_MAX_UNSENT = 4 << 20  # bytes of frames that a peer may leave unread before it is given up
_LAST = (1 << 32) - 1

Message = Mapping[str, Any]


class Refused(PosternError):
    """The other side did not accept a stream. `code` names the class of errors it stands for (see `errors`)."""

    def __init__(self, code: str, message: str, details: Mapping[str, str]) -> None:
        super().__init__(message)
        self.code = code
        self.details = details


class Incoming:
    """A stream that the peer wants to open: accept or refuse it, once."""

    def __init__(self, mux: Mux, stream: Stream, request: Message) -> None:
        self.request = request
        self.stream = stream
        self._mux = mux
        self._task: asyncio.Task[None] | None = None
        self.answered = False

    def serve(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs `work`, which answers; it is cancelled when the peer takes its wish back, or the tunnel is lost."""
        self._task = asyncio.get_running_loop().create_task(self._serve(work))

    def accept(self, answer: Message, protocol: asyncio.Protocol) -> None:
        """From here on the stream runs. Raises ConnectionError when nobody waits for it any more."""
        if self.stream.is_closing():
            raise ConnectionResetError("the other side no longer waits for this stream")
        self.answered = True
        self._mux.settle(self.stream)
        self._mux.send(Kind.ACCEPT, self.stream.number, _encoded(answer))
        self.stream.open(protocol)

    def refuse(self, code: str, message: str, details: Mapping[str, str] | None = None) -> None:
        if not self.answered and not self.stream.is_closing():
            self.answered = True
            refusal = {"code": code, "message": message, "details": dict(details or {})}
            self._mux.send(Kind.REFUSE, self.stream.number, _encoded(refusal))
            self.stream.lost(None)

    def withdrawn(self) -> None:
        if self._task is not None and not self.answered:
            self._task.cancel()

    async def _serve(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except PosternError as error:
            self.refuse(type(error).__name__, error.message)
        except ConnectionError as error:
            log.debug("a stream ended while it was opened: %s", error)
        except Exception:
            log.exception("a stream could not be opened")
        finally:
            self.refuse("Unavailable", "this stream could not be opened; the log of the other side says why")


class Mux(asyncio.Protocol):
    """The protocol of a tunnel's connection.

    `hello` is what the peer is told first; None leaves that to `introduce`. `on_open` gets every stream that the peer
    opens, and must not block. At most `most` streams are open at once. `lost` is set, with the reason, when the tunnel
    is over.
    """

    def __init__(
        self, *, dialler: bool, hello: Message | None, on_open: Callable[[Incoming], None], most: int = 10_000
    ) -> None:
        self._hello = hello
        self._on_open = on_open
        self._most = most
        self._next = 1 if dialler else 2
        self._theirs = 0 if dialler else -1  # the last number that the peer used
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._reader = FrameReader()
        self._streams: dict[int, Stream] = {}
        self._openings: dict[int, asyncio.Future[Message]] = {}
        self._protocols: dict[int, asyncio.Protocol] = {}  # of those that are opening
        self._incoming: dict[int, Incoming] = {}  # not answered yet
        self._unsent: list[bytes] = []
        self._unsent_size = 0
        self._flushing = False
        self.full = False
        self._ring: deque[Stream] = deque()
        self._heard = self._loop.time()
        self._beat: asyncio.TimerHandle | None = None
        self.greeting: asyncio.Future[Message] = self._loop.create_future()
        self.lost: asyncio.Future[str] = self._loop.create_future()
        self.drained = False  # the peer wants no more streams opened

    @property
    def streams(self) -> int:
        """How many are open or being opened."""
        return len(self._streams)

    # For whoever holds the tunnel

    async def open(self, request: Message, protocol: asyncio.Protocol) -> tuple[Stream, Message]:
        """A new stream for `protocol`, and what the peer answered.

        Raises Refused, or Unavailable when the tunnel takes no streams or is lost. Cancelled, it takes its wish back.
        """
        if self._transport is None or self.lost.done() or self.drained:
            raise Unavailable("the tunnel takes no new streams; it is being closed")
        if len(self._streams) >= self._most or self._next > _LAST:
            raise Unavailable(f"the tunnel has {len(self._streams)} streams open, and takes no more")
        number = self._next
        self._next += 2
        payload = _encoded(request)
        answer: asyncio.Future[Message] = self._loop.create_future()
        self._openings[number] = answer
        self._protocols[number] = protocol
        stream = self._streams[number] = Stream(self, number)
        self.send(Kind.OPEN, number, payload)
        try:
            return stream, await answer
        except asyncio.CancelledError:
            stream.reset("nobody waits for it any more")
            raise
        finally:
            self._openings.pop(number, None)
            self._protocols.pop(number, None)

    def introduce(self, hello: Message) -> None:
        self.send(Kind.HELLO, 0, _encoded(hello))

    def drain(self) -> None:
        """Asks the peer to open nothing more here; what is open goes on."""
        self.send(Kind.DRAIN, 0)

    def close(self, reason: str) -> None:
        """Ends all streams, telling the peer why, and the tunnel."""
        for stream in list(self._streams.values()):
            stream.reset(reason)
        self._flush()
        self._over(reason)
        if self._transport is not None:
            self._transport.close()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self._hello is not None:
            self.introduce(self._hello)
        self._heard = self._loop.time()
        self._beat = self._loop.call_later(BEAT, self._check, self._heard)

    def data_received(self, data: bytes | memoryview) -> None:
        self._heard = self._loop.time()
        try:
            for frame in self._reader.feed(data):
                self._dispatch(frame)
        except ProtocolViolation as error:
            self._give_up(error.message)

    def pause_writing(self) -> None:
        self.full = True

    def resume_writing(self) -> None:
        self.full = False
        self._flush()
        self._go_round()

    def connection_lost(self, error: Exception | None) -> None:
        self._over(str(error) if error else "the other side closed the tunnel")

    # For streams

    def send(self, kind: Kind, stream: int, payload: bytes = b"") -> None:
        self._put(header(kind, stream, len(payload)) + payload)

    def send_data(self, stream: int, data: bytes | bytearray | memoryview) -> None:
        start = header(Kind.DATA, stream, len(data))
        if len(data) < _JOIN:
            self._put(start + data)
            return
        self._put(start)
        self._flush()
        if self._transport is not None:
            self._transport.write(data)

    def wait_for_room(self, stream: Stream) -> None:
        if stream not in self._ring:
            self._ring.append(stream)
        if not self.full:  # it has had its quantum: the others first
            self._loop.call_soon(self._go_round)

    def forget(self, stream: Stream) -> None:
        self._streams.pop(stream.number, None)
        incoming = self._incoming.pop(stream.number, None)
        if incoming is not None:
            incoming.withdrawn()
        if stream in self._ring:
            self._ring.remove(stream)

    def settle(self, stream: Stream) -> None:
        """It has been accepted: what happens to it from now on is no business of whoever accepted it."""
        self._incoming.pop(stream.number, None)

    def about(self, name: str, default: Any) -> Any:
        return default if self._transport is None else self._transport.get_extra_info(name, default)

    # Our own

    def _go_round(self) -> None:
        while self._ring and not self.full:
            stream = self._ring.popleft()
            if not stream.pump(MAX_DATA):
                self._ring.append(stream)

    def _put(self, data: bytes) -> None:
        self._unsent.append(data)
        self._unsent_size += len(data)
        if not self._flushing and not self.full:
            self._flushing = True
            self._loop.call_soon(self._flush)
        elif self._unsent_size > _MAX_UNSENT:
            self._give_up("the other side does not read what it is sent")

    def _flush(self) -> None:
        self._flushing = False
        if self._unsent and self._transport is not None:
            data = self._unsent[0] if len(self._unsent) == 1 else b"".join(self._unsent)
            self._unsent.clear()
            self._unsent_size = 0
            self._transport.write(data)

    def _check(self, since: float) -> None:
        """Each BEAT seconds. `since` is when it was asked for: a process that slept has heard nothing, and is to blame
        for that itself."""
        now = self._loop.time()
        if now - since > 2 * BEAT:
            self._heard = max(self._heard, now - DEAD + BEAT)
        silence = now - self._heard
        if silence >= DEAD:
            self._give_up(f"the other side has been silent for {silence:.0f} seconds")
            return
        if silence >= BEAT * 0.9:
            self.send(Kind.PING, 0)
        self._beat = self._loop.call_later(BEAT, self._check, now)

    def _dispatch(self, frame: Frame) -> None:
        kind, number, payload = frame
        stream = self._streams.get(number)
        if kind is Kind.DATA:
            if stream is not None:
                stream.received(payload)
            else:
                self._check_number(number)
        elif number == 0:
            self._dispatch_tunnel(kind, payload)
        elif kind is Kind.OPEN:
            self._opened(number, payload)
        elif stream is None:
            self._check_number(number)
        elif kind in (Kind.ACCEPT, Kind.REFUSE):
            self._answered(stream, kind, _decoded(payload))
        else:
            self._dispatch_stream(stream, kind, payload)

    def _dispatch_tunnel(self, kind: Kind, payload: bytes) -> None:
        if kind is Kind.PING:
            self.send(Kind.PONG, 0, payload)
        elif kind is Kind.HELLO and not self.greeting.done():
            self.greeting.set_result(_decoded(payload))
        elif kind is Kind.DRAIN:
            self.drained = True
        elif kind is not Kind.PONG:
            raise ProtocolViolation(f"a {kind.name} frame that belongs to no stream")

    def _dispatch_stream(self, stream: Stream, kind: Kind, payload: bytes) -> None:
        if kind is Kind.CREDIT:
            stream.credited(int.from_bytes(payload, "big"))
        elif kind is Kind.END:
            stream.ended(False)
        elif kind in (Kind.CLOSE, Kind.RESET):
            opening = self._openings.get(stream.number)
            reason = payload.decode(errors="replace") or "the other side closed it"
            if opening is not None and not opening.done():
                opening.set_exception(Unavailable(reason))
            stream.ended(True if kind is Kind.CLOSE else ConnectionResetError(reason))
        else:
            raise ProtocolViolation(f"a {kind.name} frame on a stream")

    def _opened(self, number: int, payload: bytes) -> None:
        if number <= self._theirs or (number - self._next) % 2 == 0:
            raise ProtocolViolation(f"stream {number} was opened a second time, or by the wrong side")
        self._theirs = number
        stream = Stream(self, number)
        incoming = Incoming(self, stream, _decoded(payload))
        self._streams[number] = stream
        if len(self._streams) > self._most:
            incoming.refuse("TooMany", f"this tunnel has {self._most} streams open; close some first")
            return
        self._incoming[number] = incoming
        try:
            self._on_open(incoming)
        except Exception:
            log.exception("a stream could not be opened")
            incoming.refuse("Unavailable", "this stream could not be opened; the log of the other side says why")

    def _answered(self, stream: Stream, kind: Kind, message: Message) -> None:
        answer = self._openings.get(stream.number)
        if answer is None or answer.done():
            raise ProtocolViolation("a stream was answered a second time, or not asked for")
        if kind is Kind.ACCEPT:
            stream.open(self._protocols[stream.number])
            answer.set_result(message)
        else:
            answer.set_exception(_refused(message))
            stream.lost(None)

    def _check_number(self, number: int) -> None:
        """Raises ProtocolViolation for a stream that never was."""
        ours = (number - self._next) % 2 == 0
        if number == 0 or (number >= self._next if ours else number > self._theirs):
            raise ProtocolViolation(f"a frame for stream {number}, which was never opened")

    def _give_up(self, reason: str) -> None:
        log.info("a tunnel is given up: %s", reason)
        self._over(reason)
        if self._transport is not None:
            self._transport.abort()

    def _over(self, reason: str) -> None:
        if self.lost.done():
            return
        self.lost.set_result(reason)
        if not self.greeting.done():
            self.greeting.set_exception(Unavailable(f"the tunnel was lost: {reason}"))
            self.greeting.exception()  # somebody may wait for it, or nobody
        if self._beat is not None:
            self._beat.cancel()
        for opening in self._openings.values():
            if not opening.done():
                opening.set_exception(Unavailable(f"the tunnel was lost: {reason}"))
        for stream in list(self._streams.values()):
            stream.lost(ConnectionResetError(f"the tunnel was lost: {reason}"))
        self._unsent.clear()
        self._ring.clear()


def _refused(message: Message) -> Refused:
    details = message.get("details")
    if not isinstance(details, dict):
        details = {}
    texts = {str(name): str(value) for name, value in details.items()}
    return Refused(str(message.get("code", "")), str(message.get("message", "")), texts)


def _encoded(message: Message) -> bytes:
    payload = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
    if len(payload) > MAX_CONTROL:
        raise Unavailable(f"a message of {len(payload)} bytes is too large for the tunnel, which takes {MAX_CONTROL}")
    return payload


def _decoded(payload: bytes) -> Message:
    try:
        message = json.loads(payload)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        raise ProtocolViolation("a message on the tunnel that is no JSON object")
    return message
