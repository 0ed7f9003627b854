"""Deadlines of a client's connection: one timer for all reads."""

from __future__ import annotations

import asyncio

import pytest

from postern.protocols.http.listener.http_stream import HttpStream
from postern.relay.relay_handshake import StreamHandshake
from postern.transport.memory import MemoryTransport

SOON, NEVER = 0.02, 3600.0  # seconds


class _Peer(asyncio.Protocol):
    """The other end. Nothing is sent to it."""


def new_stream() -> HttpStream:
    handshake = StreamHandshake()
    handshake.connection_made(MemoryTransport(_Peer()))
    return HttpStream(handshake)


def after(seconds: float) -> float:
    return asyncio.get_running_loop().time() + seconds


async def test_read_without_bytes_ends_at_its_deadline() -> None:
    stream = new_stream()
    for _ in range(2):
        with pytest.raises(TimeoutError):
            await stream.read(after(SOON))
    stream.data_received(b"late")
    assert await stream.read(after(SOON)) == b"late"


async def test_deadline_that_is_earlier_than_the_last_one_counts() -> None:
    stream = new_stream()
    reading = asyncio.ensure_future(stream.read(after(NEVER)))
    await asyncio.sleep(0)
    stream.data_received(b"first")
    assert await reading == b"first"
    with pytest.raises(TimeoutError):
        await stream.read(after(SOON))


async def test_deadline_of_an_earlier_read_does_not_end_a_later_one() -> None:
    stream = new_stream()
    reading = asyncio.ensure_future(stream.read(after(SOON)))
    await asyncio.sleep(0)
    stream.data_received(b"first")
    assert await reading == b"first"
    reading = asyncio.ensure_future(stream.read(after(NEVER)))
    await asyncio.sleep(3 * SOON)
    assert not reading.done()
    stream.data_received(b"sec")
    stream.data_received(b"ond")
    assert await reading == b"second"


async def test_deadline_of_a_lost_connection_means_nothing() -> None:
    stream = new_stream()
    reading = asyncio.ensure_future(stream.read(after(NEVER)))
    await asyncio.sleep(0)
    stream.connection_lost(None)
    with pytest.raises(ConnectionResetError):
        await reading


async def test_cancelled_read_loses_no_bytes() -> None:
    stream = new_stream()
    reading = asyncio.ensure_future(stream.read(after(NEVER)))
    await asyncio.sleep(0)
    stream.data_received(b"bytes")
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert await stream.read(after(SOON)) == b"bytes"
