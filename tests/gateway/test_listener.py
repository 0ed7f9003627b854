"""The login deadline: how long a login can take, and whose time counts."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable

import pytest

from postern import descriptors
from postern.descriptors import Descriptors
from postern.errors import PosternError
from postern.gateway.clients.listener import ConnectionLimiter, HandshakeRunner
from postern.gateway.clients.login_turns import LoginTurns
from postern.relay.relay_handshake import StreamHandshake

SOON = 0.05  # seconds


async def refuse(stream: StreamHandshake, error: PosternError) -> None:
    """Tell a client why it is rejected, in the plainest protocol there is."""
    stream.write(error.message.encode())


class Peer:
    """A client, and our end of its connection."""

    def __init__(self) -> None:
        ours, self.socket = socket.socketpair()
        self.socket.setblocking(False)
        self._ours = ours
        self.stream = StreamHandshake()

    async def connect(self) -> StreamHandshake:
        await asyncio.get_running_loop().create_connection(lambda: self.stream, sock=self._ours)
        return self.stream

    async def read_all(self) -> str:
        """Return what it is told up to the end, then close."""
        loop, data = asyncio.get_running_loop(), b""
        while part := await loop.sock_recv(self.socket, 1024):
            data += part
        self.socket.close()
        return data.decode()


class Work:
    """Logins that continue until the test ends them."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.begun = 0

    async def __call__(self, stream: StreamHandshake) -> Awaitable[None] | None:
        self.begun += 1
        await self.go.wait()
        return None


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.parametrize("known", [True, False])
async def test_login_deadline_counts_only_the_time_of_the_client(known: bool) -> None:
    """A client that has sent everything is not disconnected because its target is slow."""
    logins, served = HandshakeRunner(timeout=SOON, most=10, most_per_address=10), asyncio.Event()
    ours, theirs = socket.socketpair()
    with theirs:
        stream = StreamHandshake()
        await asyncio.get_running_loop().create_connection(lambda: stream, sock=ours)

        async def serve(stream: StreamHandshake) -> Awaitable[None] | None:
            if known:
                stream.on_known()
            await asyncio.sleep(SOON * 4)
            served.set()
            return None

        logins.start(stream, serve, refuse)
        theirs.setblocking(False)
        assert await asyncio.get_running_loop().sock_recv(theirs, 1) == b""
    assert served.is_set() is known
    await logins.stop(1)


def test_attack_ipv6_addresses_of_one_subscriber_share_a_login_limit() -> None:
    places = ConnectionLimiter(most=10, most_per_address=2)
    taken = [places.take(f"2001:db8:1:2::{number:x}") for number in range(10)]
    assert taken == [True] * 2 + [False] * 8
    assert places.take("2001:db8:1:3::1")
    assert places.take("192.0.2.1")
    assert places.take("::ffff:192.0.2.1")
    assert not places.take("192.0.2.1")
    places.leave("2001:db8:1:2::0")
    assert places.take("2001:db8:1:2::ffff")


async def test_clients_over_the_login_limit_get_the_reason_and_logins_continue(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logins, work = HandshakeRunner(timeout=60, most=3, most_per_address=3), Work()
    peers = [Peer() for _ in range(5)]
    for peer in peers:
        logins.start(await peer.connect(), work, refuse)
    for peer in peers[3:]:
        assert "the maximum number of logins is in progress" in await peer.read_all()
    assert work.begun == 3
    assert logins.rejected == 2
    assert [one for one in caplog.messages if "too many clients log in at once" in one] == [
        "too many clients log in at once: 1 clients were rejected, the last one from ; let clients use a connection "
        "pool, or raise POSTERN_MAX_HANDSHAKES or POSTERN_MAX_HANDSHAKES_PER_ADDRESS"
    ]
    work.go.set()
    for peer in peers[:3]:
        assert await peer.read_all() == ""
    await logins.stop(1)


async def test_next_login_starts_when_a_slot_is_free() -> None:
    logins, work = HandshakeRunner(timeout=60, most=100, most_per_address=100, turns=LoginTurns(slots=2)), Work()
    peers = [Peer() for _ in range(6)]
    for peer in peers:
        logins.start(await peer.connect(), work, refuse)
    await settle()
    assert (work.begun, logins.waiting) == (2, 4)
    work.go.set()
    for peer in peers:
        assert await peer.read_all() == ""
    assert (work.begun, logins.waiting) == (6, 0)
    await logins.stop(1)


@pytest.mark.parametrize("frees", ["known", "held", "time"])
async def test_login_that_waits_for_others_frees_its_slot(frees: str) -> None:
    """The client, the target or the reviewers can be slow: other logins need not wait for them."""
    logins, go = HandshakeRunner(timeout=60, most=9, most_per_address=9, turns=LoginTurns(slots=1)), asyncio.Event()
    begun = asyncio.Semaphore(0)

    async def serve(stream: StreamHandshake) -> Awaitable[None] | None:
        begun.release()
        if frees == "known":
            stream.on_known()
        elif frees == "held":
            stream.on_known()
            stream.on_held()
        await go.wait()
        return None

    peers = [Peer() for _ in range(3)]
    for peer in peers:
        logins.start(await peer.connect(), serve, refuse)
    async with asyncio.timeout(60):
        for _ in peers:
            await begun.acquire()
    go.set()
    for peer in peers:
        assert await peer.read_all() == ""
    await logins.stop(1)


async def test_stop_closes_clients_that_wait_for_their_turn() -> None:
    logins, work = HandshakeRunner(timeout=60, most=9, most_per_address=9, turns=LoginTurns(slots=1)), Work()
    peers = [Peer(), Peer()]
    for peer in peers:
        logins.start(await peer.connect(), work, refuse)
    await settle()
    await logins.stop(1)
    for peer in peers:
        assert await peer.read_all() == ""
    assert logins.waiting == 0


@pytest.mark.parametrize("logging_in", [0, 1, 3])
@pytest.mark.parametrize("spare", [-1, 0])
async def test_client_is_admitted_if_there_are_descriptors_for_all_that_its_session_opens(
    monkeypatch: pytest.MonkeyPatch, logging_in: int, spare: int
) -> None:
    """Nobody is refused after a login for want of a descriptor: also at the exact limit."""
    reserve, opened = 64, 100
    monkeypatch.setattr(descriptors, "count_open", lambda: opened)
    monkeypatch.setattr(descriptors, "limit", lambda: 10_000)
    logins, work = HandshakeRunner(timeout=60, most=9, most_per_address=9, descriptors=Descriptors(reserve)), Work()
    for _ in range(logging_in):
        logins.start(await Peer().connect(), work, refuse)
    needed = descriptors.PER_CLIENT * (logging_in + 1)
    monkeypatch.setattr(descriptors, "limit", lambda: opened + needed + reserve + spare)
    peer = Peer()
    logins.start(await peer.connect(), work, refuse)
    await settle()
    assert work.begun == logging_in + (spare >= 0)
    if spare < 0:
        assert "at its limit of open files" in await peer.read_all()
    work.go.set()
    await logins.stop(1)
