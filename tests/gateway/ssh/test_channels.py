"""A client's channel whose link does not read."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from postern.gateway.ssh.channel import ChannelTransport
from postern.protocols.terminal import messages as m


class Reader(asyncio.Protocol):
    def __init__(self) -> None:
        self.frames: list[tuple[int, bytes]] = []

    def data_received(self, data: bytes) -> None:
        self.frames += m.FrameReader().feed(data)


def channel() -> Any:
    def nothing() -> None: ...

    return SimpleNamespace(pause_reading=nothing, resume_reading=nothing, is_closing=lambda: False)


async def test_the_last_size_of_a_window_is_never_lost() -> None:
    transport, reader = ChannelTransport(channel(), "::1"), Reader()
    transport.set_protocol(reader)
    transport.pause_reading()
    for number in range(5_000):
        transport.resized(1 + number, 24)
    transport.received(b"typed")
    transport.resized(80, 25)
    transport.resized(90, 25)
    transport.resume_reading()
    await asyncio.sleep(0)
    sizes = [m.read_resize(payload) for kind, payload in reader.frames if kind == m.RESIZE]
    assert sizes == [(5_000, 24), (90, 25)]
    assert [kind for kind, _ in reader.frames] == [m.RESIZE, m.STDIN, m.RESIZE]
