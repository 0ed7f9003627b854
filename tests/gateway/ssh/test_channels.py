"""A client's channel whose link does not read."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.promises import until

from postern.protocols.ssh.listener import ssh_client_channel as channels
from postern.protocols.ssh.listener.ssh_client_channel import ClientChannel
from postern.protocols.terminal import terminal_frames as m


class Reader(asyncio.Protocol):
    def __init__(self) -> None:
        self.frames: list[tuple[int, bytes]] = []
        self.lost = False
        self.may_write = True

    def pause_writing(self) -> None:
        self.may_write = False

    def resume_writing(self) -> None:
        self.may_write = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True

    def data_received(self, data: bytes) -> None:
        self.frames += m.TerminalFrameReader().feed(data)


def channel() -> Any:
    def nothing() -> None: ...

    return SimpleNamespace(pause_reading=nothing, resume_reading=nothing, is_closing=lambda: False)


async def test_last_window_size_is_delivered_after_a_pause() -> None:
    transport, reader = ClientChannel(channel(), "::1"), Reader()
    transport.set_protocol(reader)
    transport.pause_reading()
    for number in range(5_000):
        transport.queue_resize(1 + number, 24)
    transport.receive_data(b"typed")
    transport.queue_resize(80, 25)
    transport.queue_resize(90, 25)
    transport.resume_reading()
    await asyncio.sleep(0)
    sizes = [m.read_resize(payload) for kind, payload in reader.frames if kind == m.RESIZE]
    assert sizes == [(5_000, 24), (90, 25)]
    assert [kind for kind, _ in reader.frames] == [m.RESIZE, m.STDIN, m.RESIZE]


class Left:
    """A channel that its client closed while its link did not read."""

    def __init__(self, *, forward: bool) -> None:
        self.transport, self.reader = ClientChannel(channel(), "::1", forward=forward), Reader()
        self.transport.set_protocol(self.reader)
        self.transport.set_channel_full(True)
        self.transport.pause_reading()
        self.transport.receive_data(b"sent")
        self.transport.receive_eof()
        self.gone = 0
        self.transport.handle_close(self._count)

    def _count(self) -> None:
        self.gone += 1


async def test_data_of_a_closed_forwarded_connection_is_still_delivered() -> None:
    left = Left(forward=True)
    assert left.reader.may_write
    await asyncio.sleep(0)
    assert (left.gone, left.reader.lost) == (0, False)
    left.transport.write(m.frame(m.STDOUT, b"an answer") + m.exit_frame(0))  # nobody is there for it
    left.transport.set_channel_full(True)
    assert left.reader.may_write
    left.transport.resume_reading()
    await asyncio.sleep(0.01)
    assert left.reader.frames == [(m.STDIN, b"sent"), (m.STDIN_END, b"")]
    assert (left.gone, left.reader.lost) == (1, True)


async def test_unread_data_of_a_closed_forwarded_connection_is_discarded_after_a_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(channels, "DRAIN", 0.01)
    left = Left(forward=True)
    await until(lambda: left.reader.lost)
    assert (left.gone, left.reader.frames) == (1, [])
    left.transport.resume_reading()
    await asyncio.sleep(0)
    assert not left.reader.frames


async def test_closed_link_receives_no_more_data_of_its_channel() -> None:
    left = Left(forward=True)
    left.transport.close()
    await asyncio.sleep(0.01)
    assert (left.gone, left.reader.lost, left.reader.frames) == (1, True, [])


async def test_program_channel_closes_at_once_with_its_client() -> None:
    left = Left(forward=False)
    await asyncio.sleep(0.01)
    assert (left.gone, left.reader.lost, left.reader.frames) == (1, True, [])
