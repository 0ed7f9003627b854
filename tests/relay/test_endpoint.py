"""The callback of a link's endpoint for its first bytes, over a real socket."""

from __future__ import annotations

import asyncio
import socket
from typing import cast

import pytest
import uvloop

from postern.protocols.wire_base import Side
from postern.relay import endpoint
from postern.relay.driver import Driver


class Noted:
    """In the place of a driver."""

    def __init__(self) -> None:
        self.read: list[bytes] = []
        self.came: asyncio.Queue[None] = asyncio.Queue()
        self.attached: list[Side] = []

    def attach(self, side: Side, _transport: asyncio.Transport) -> None:
        self.attached.append(side)

    def from_client(self, data: bytes) -> None:
        raise AssertionError("this is the target's side")

    def from_target(self, data: bytes) -> None:
        self.read.append(data)
        self.came.put_nowait(None)

    def handle_loss(self, side: Side) -> None: ...

    def handle_eof(self, side: Side) -> bool:
        return False


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_first_bytes_are_reported_once_and_the_callback_is_then_removed(loop: object) -> None:
    noted, told = Noted(), []

    async def run() -> endpoint.LinkEndpoint:
        near, far = socket.socketpair()
        transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=near)
        driver = cast("Driver", noted)
        made = endpoint.connect(driver, Side.TARGET, transport, lambda: told.append(len(noted.read)))
        transport.set_protocol(made)
        for number in range(3):
            far.send(b"%d" % number)
            await noted.came.get()
        assert transport.get_protocol() is made
        transport.close()
        far.close()
        return made

    with asyncio.Runner(loop_factory=loop) as runner:  # type: ignore[arg-type]
        made = runner.run(asyncio.wait_for(run(), 10))
    assert noted.read == [b"0", b"1", b"2"]
    assert told == [0]  # before they were passed on
    assert made.data_received == noted.from_target  # the very call that is made where nothing is traced


def test_endpoint_without_a_callback_passes_bytes_directly_to_the_driver() -> None:
    noted = Noted()
    made = endpoint.connect(cast("Driver", noted), Side.TARGET, cast("asyncio.Transport", None))
    assert made.data_received == noted.from_target
