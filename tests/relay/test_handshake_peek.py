"""Peeking at the bytes of a login, and errors of the connection below it."""

from __future__ import annotations

import asyncio
import ssl

import pytest
from tests.support.waiting import Line

from postern.relay.relay_handshake import StreamHandshake


async def test_peeked_bytes_stay_unread() -> None:
    stream = StreamHandshake()
    Line(stream)
    peeking = asyncio.create_task(stream.peek(4))
    for data in (b"a", b"bc", b"de"):
        await asyncio.sleep(0)
        stream.data_received(data)
    assert await peeking == b"abcd"
    assert stream.buffered == 5
    assert await stream.read(5) == b"abcde"


async def test_cancelled_peek_loses_no_bytes() -> None:
    stream = StreamHandshake()
    Line(stream)
    stream.data_received(b"ab")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await stream.peek(4)
    stream.data_received(b"cd")
    assert await stream.read(4) == b"abcd"


async def test_peek_beyond_the_limit_of_the_buffer_reads_on() -> None:
    stream = StreamHandshake()
    line = Line(stream)
    line.resume_reading = lambda: None  # type: ignore[method-assign]
    stream.data_received(bytes(100_000))
    assert stream.is_full
    peeking = asyncio.create_task(stream.peek(150_000))
    await asyncio.sleep(0)
    assert not stream.is_full
    stream.data_received(bytes(50_000))
    assert len(await peeking) == 150_000


async def test_peer_that_goes_ends_a_peek() -> None:
    stream = StreamHandshake()
    Line(stream)
    peeking = asyncio.create_task(stream.peek(4))
    await asyncio.sleep(0)
    stream.data_received(b"ab")
    stream.eof_received()
    with pytest.raises(ConnectionError):
        await peeking


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ssl.SSLError(1, "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert"), "the connection failed: .*ALERT"),
        (OSError(113, "No route to host"), "the connection failed: .*No route to host"),
        (TimeoutError(110, "timed out"), "the connection failed: .*timed out"),
        (ConnectionResetError("reset"), "reset"),
        (None, "the connection was lost"),
    ],
)
async def test_every_end_of_the_connection_is_a_connection_error(error: Exception | None, said: str) -> None:
    stream = StreamHandshake()
    Line(stream)
    stream.connection_lost(error)
    with pytest.raises(ConnectionError, match=said):
        await stream.read(1)
