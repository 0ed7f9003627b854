"""Contracts of logins: who comes in at a gate, and how the gateway logs in at a target.

check_gate     a protocol's gate, and a client of that protocol
check_log_in   the gateway's own login at a target

Both run in memory, on streams that are read in pieces of every size. A gate is what a listener calls: it reads what a
client says, answers whether the client was let in, and has told it otherwise. TLS is no part of this: it is the
stream's, and what each protocol says around it has tests of its own.

Each raises AssertionError that says what is broken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tests.support.protocols.playbook import CHUNKS

from postern.errors import PosternError
from postern.relay.relay_handshake import StreamHandshake

Gate = Callable[[StreamHandshake], Awaitable[bool]]
LogIn = Callable[[StreamHandshake, str, str], Awaitable[object]]
"""Logs in by a user's name and a password. Raises what its caller is told."""

_LONGEST = 60.0  # seconds: nothing here waits for anybody but the other end
_EARLY = b"what a client says without waiting"
_BEHIND = b"what comes right behind a login"


class _End(asyncio.Transport):
    """One end of a connection in memory. What is written at it is read at its peer, `size` bytes at a time."""

    def __init__(self, protocol: asyncio.BaseProtocol, size: int) -> None:
        super().__init__()
        self.peer = self
        self.sent = b""
        self._protocol = protocol
        self._size = size
        self._unread = b""
        self._closing = self._lost = self._paused = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("192.0.2.1", 7) if name in ("peername", "sockname") else default

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing waits to be sent."""

    def can_write_eof(self) -> bool:
        return False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._closing:
            self.sent += bytes(data)
            self.peer._unread += bytes(data)
            self.peer._soon()

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        self._soon()

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._closing = True
        self._soon()
        self.peer._soon()

    abort = close

    def _soon(self) -> None:
        asyncio.get_running_loop().call_soon(self._read)

    def _read(self) -> None:
        """One piece, or the end."""
        if self._lost or (self._paused and not self._closing):
            return
        if self._unread and not self._closing:
            piece = self._unread[: self._size or len(self._unread)]
            self._unread = self._unread[len(piece) :]
            assert isinstance(self._protocol, asyncio.Protocol)
            self._protocol.data_received(piece)
            self._soon()
        elif self._closing or self.peer._closing:
            self._lost = self._closing = True
            self._protocol.connection_lost(None)


class _Client(StreamHandshake):
    """`early` is said together with what the client writes for the `last` time."""

    def __init__(self, last: int = 0) -> None:
        super().__init__()
        self.writes = 0
        self._last = last

    def write(self, data: bytes) -> None:
        self.writes += 1
        super().write(data + _EARLY if self.writes == self._last else data)


@dataclass
class _Met:
    let_in: bool
    error: Exception | None
    said: bytes
    answered: bytes
    writes: int

    @property
    def told(self) -> str:
        return "" if self.error is None else f"{type(self.error).__name__}: {self.error}"


async def _meet(
    gate: Gate, client: Callable[[_Client], Awaitable[object]], size: int, *, last: int = 0, bare: bool = True
) -> _Met:
    """A client at a gate, until it is let in or is not. `bare`: both then say what they say without waiting."""
    ours, theirs = StreamHandshake(), _Client(last)
    here, there = _End(ours, size), _End(theirs, size)
    here.peer, there.peer = there, here
    ours.connection_made(here)
    theirs.connection_made(there)

    async def serve() -> bool:
        let_in = False
        with suppress(ConnectionError):
            let_in = await gate(ours)
            if let_in and bare:
                ours.write(_BEHIND)
                if last:
                    found = await ours.read(len(_EARLY))
                    assert found == _EARLY, f"in pieces of {size}, what was said early came as {found!r}"
        if not let_in:
            ours.close()
        return let_in

    serving = asyncio.ensure_future(serve())
    error: Exception | None = None
    try:
        async with asyncio.timeout(_LONGEST):
            try:
                await client(theirs)
                if bare:
                    found = await theirs.read(len(_BEHIND))
                    assert found == _BEHIND, f"in pieces of {size}, what came behind the login came as {found!r}"
            except AssertionError:
                raise
            except Exception as caught:
                error = caught
            let_in = await serving
    except TimeoutError:
        raise AssertionError(f"in pieces of {size}, somebody waits for what nobody sends") from None
    finally:
        serving.cancel()
        here.close()
        there.close()
    return _Met(let_in, error, there.sent, here.sent, theirs.writes)


async def check_gate(
    make_gate: Callable[[], Gate],
    log_in: LogIn,
    *,
    user: str,
    stranger: str,
    password: str,
    garbage: Sequence[bytes],
    bare: bool = True,
    sends_password: bool = False,
) -> None:
    """Holds a gate and the client `log_in` to what every login must keep.

    `stranger` is a name that nobody has, and that could be somebody's. Each of `garbage` is nothing that a client may
    begin with. `bare`: streams are the protocol's own, so that what is said early can be seen; not so where everything
    is encrypted by the protocol itself (SSH). `sends_password`: the protocol has no challenge, so that whoever sees a
    login can repeat it, and only TLS protects it.

    1. The right password is let in, however the reads are cut. What a client says without waiting for that, and what
       the other side says right behind it, is neither lost nor reordered.
    2. A wrong password and an unknown user are not let in, and hear the same; where it can be told, as much of it.
    3. What was said in one login lets nobody in again, and a client that goes in the middle of it ends it.
    4. Garbage ends the connection, however it is cut: nobody waits for the rest of it.
    """

    def right(stream: _Client) -> Awaitable[object]:
        return log_in(stream, user, password)

    for size in CHUNKS:
        met = whole = await _meet(make_gate(), right, size, bare=bare)
        assert met.let_in, f"in pieces of {size}, the right password is not let in"
        assert met.error is None, f"in pieces of {size}, who is let in is told {met.told}"
        if bare:
            met = await _meet(make_gate(), right, size, last=met.writes)
            assert met.let_in, f"in pieces of {size}, who says something early is not let in: {met.told}"
    wrong = await _meet(make_gate(), lambda stream: log_in(stream, user, password + "x"), 0, bare=bare)
    unknown = await _meet(make_gate(), lambda stream: log_in(stream, stranger, password), 0, bare=bare)
    assert not wrong.let_in, "a wrong password is let in"
    assert not unknown.let_in, "an unknown user is let in"
    assert wrong.told, "a wrong password is told nothing"
    assert wrong.told.replace(user, stranger) == unknown.told, f"a wrong password hears {wrong.told}, unlike nobody"
    if bare:
        assert len(wrong.answered) == len(unknown.answered), "a wrong password is told more than an unknown user"
    for end in _ends(whole.said[:-1]) if sends_password else _ends(met.said):
        again = await _meet(make_gate(), _saying(met.said[:end], stays=False), 0)
        assert not again.let_in, f"the first {end} bytes of another login let somebody in"
    for data in garbage:
        for size in CHUNKS:
            met = await _meet(make_gate(), _saying(data), size)
            assert not met.let_in, f"{data[:100]!r} lets somebody in"


async def check_log_in(
    make_gate: Callable[[], Gate], log_in: LogIn, *, user: str, password: str, garbage: Sequence[bytes]
) -> None:
    """Holds the gateway's login at a target to the same; `make_gate` stands for targets that mean well.

    1. A target that says something else (`garbage`) is refused, however it is cut: nobody waits for the rest of it.
    2. So is one that goes in the middle of its answers.
    """

    async def meets(stream: StreamHandshake) -> None:
        try:
            await log_in(stream, user, password)
        finally:
            stream.close()

    met = await _meet(make_gate(), lambda stream: log_in(stream, user, password), 0, bare=False)
    assert met.let_in, f"a target that means well is refused: {met.told}"
    talks = [(data, size, True) for data in garbage for size in CHUNKS]
    talks += [(met.answered[:end], 0, False) for end in _ends(met.answered)[:-1]]
    for data, size, stays in talks:
        met = await _meet(_saying(data, stays=stays), meets, size, bare=False)
        assert isinstance(met.error, PosternError | ConnectionError), f"{data[:100]!r} ends a login with {met.error!r}"


def _ends(data: bytes) -> list[int]:
    """Some places in it, its beginning and its end among them."""
    return sorted({len(data) * part // 10 for part in range(11)})


def _saying(data: bytes, *, stays: bool = True) -> Gate:
    """One that says this, whatever it hears: a client, or a target. It raises ConnectionError once the other side has
    gone; at once where it goes itself."""

    async def says(stream: StreamHandshake) -> bool:
        stream.write(data)
        if not stays:
            stream.close()
        await stream.read(1 << 30)
        return False

    return says
