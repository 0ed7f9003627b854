"""Links whose directions end alone: back-pressure, ends, losses."""

from __future__ import annotations

import socket
import struct
from typing import Any

import pytest

from postern.domain.sessions.session import EndReason
from postern.protocols.tcp.tcp_wire import TcpWire
from postern.protocols.wire_base import Side
from postern.relay.driver import FLUSH, LINGER, STALLED

from .test_driver_ends import Peer, Session, Timers


class Socket:
    def __init__(self) -> None:
        self.resets = False

    def setsockopt(self, level: int, name: int, value: bytes) -> None:
        assert (level, name) == (socket.SOL_SOCKET, socket.SO_LINGER)
        assert struct.unpack("ii", value) == (1, 0)
        self.resets = True


class HalfOpenPeer(Peer):
    """A peer with a socket of its own, and `unsent` bytes."""

    def __init__(self, *, encrypted: bool = False) -> None:
        super().__init__(encrypted=encrypted)
        self.encrypted = encrypted
        self.socket = Socket()
        self.is_ended = False
        self.unsent = 0
        self._extra["socket"] = self.socket

    def can_write_eof(self) -> bool:
        return not self.encrypted

    def write_eof(self) -> None:
        assert not self.encrypted
        self.is_ended = True

    def get_write_buffer_size(self) -> int:
        return self.unsent


class Passing(Session):
    client: Any
    target: Any

    def __init__(self, *, encrypted_client: bool = False, encrypted_target: bool = False) -> None:
        super().__init__(wire=TcpWire(recorded_input=1000))
        self.client = HalfOpenPeer(encrypted=encrypted_client)
        self.target = HalfOpenPeer(encrypted=encrypted_target)
        self.driver.attach(Side.CLIENT, self.client)
        self.driver.attach(Side.TARGET, self.target)

    @property
    def resets(self) -> tuple[bool, bool]:
        return self.client.socket.resets, self.target.socket.resets


@pytest.fixture
async def timers(monkeypatch: pytest.MonkeyPatch) -> Timers:
    return Timers(monkeypatch)


@pytest.mark.parametrize(
    ("first", "reason"), [(Side.CLIENT, EndReason.CLIENT_CLOSED), (Side.TARGET, EndReason.TARGET_CLOSED)]
)
async def test_each_direction_ends_alone(timers: Timers, first: Side, reason: EndReason) -> None:
    session = Passing()
    peers = {Side.CLIENT: session.client, Side.TARGET: session.target}
    second = Side.TARGET if first is Side.CLIENT else Side.CLIENT
    assert session.driver.handle_eof(first)
    assert (peers[first].is_ended, peers[second].is_ended, session.closed) == (False, True, (False, False))
    send = session.driver.from_target if second is Side.TARGET else session.driver.from_client
    send(b"more")
    assert peers[first].written == b"more"
    assert not session.driver.handle_eof(second)
    assert (peers[first].is_ended, session.closed, session.resets) == (True, (True, True), (False, False))
    assert session.lose_both() is reason


async def test_end_of_a_direction_is_passed_on_once(timers: Timers) -> None:
    session = Passing()
    assert session.driver.handle_eof(Side.CLIENT)
    assert session.driver.handle_eof(Side.CLIENT)  # asyncio repeats it when reading is resumed


@pytest.mark.parametrize("side", Side)
async def test_loss_before_the_end_resets_the_other_side(timers: Timers, side: Side) -> None:
    session = Passing()
    session.driver.handle_loss(side)
    other = session.target if side is Side.CLIENT else session.client
    assert (other.closed, other.socket.resets) == (True, True)


async def test_loss_after_the_end_is_the_end(timers: Timers) -> None:
    session = Passing(encrypted_target=True)
    assert not session.driver.handle_eof(Side.TARGET)  # TLS closes both directions
    assert (session.client.is_ended, session.client.closed) == (True, False)
    session.driver.handle_loss(Side.TARGET)
    assert (session.client.closed, session.client.socket.resets) == (True, False)


async def test_killed_session_resets_both_sides(timers: Timers) -> None:
    session = Passing()
    session.driver.handle_eof(Side.CLIENT)
    session.driver.end(EndReason.KILLED, "killed")
    assert (session.closed, session.resets, session.client.written) == ((True, True), (True, True), b"")
    timers.expire(FLUSH)
    assert (session.client.aborted, session.target.aborted) == (True, True)


async def test_target_by_tls_has_time_to_answer_after_the_client_has_ended(timers: Timers) -> None:
    session = Passing(encrypted_target=True)
    assert session.driver.handle_eof(Side.CLIENT)
    session.driver.from_target(b"answer")
    assert (session.client.written, session.closed) == (b"answer", (False, False))
    timers.expire(LINGER)
    assert (session.closed, session.resets) == ((True, True), (False, False))


async def test_slow_reader_has_time_for_the_rest_while_it_reads(timers: Timers) -> None:
    session = Passing()
    session.client.unsent = 1000
    for side in Side:
        session.driver.handle_eof(side)
    for left in (500, 499):
        session.client.unsent = left
        timers.expire(STALLED)
        assert not session.client.aborted
    timers.expire(STALLED)
    assert session.client.aborted


async def test_client_that_does_not_read_can_still_send() -> None:
    session = Passing()
    session.driver.throttle(Side.CLIENT, True)
    assert session.reads == (True, False)
    session.driver.throttle(Side.TARGET, True)
    assert session.reads == (False, False)
    session.driver.throttle(Side.CLIENT, False)
    assert session.reads == (False, True)
