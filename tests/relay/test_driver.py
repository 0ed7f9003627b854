"""What a driver does in time, with transports that only take notes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from tests.support.links import Words, pipeline
from tests.support.promises import until

from postern.interception.events import Event
from postern.protocols.base import Side
from postern.protocols.terminal import messages as m
from postern.protocols.terminal.wire import TerminalWire
from postern.relay.driver import Driver
from postern.relay.link import Link


class Noting(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.reads = True
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def is_reading(self) -> bool:
        return self.reads

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True


@dataclass
class Typing:
    """A terminal at which `drop` may not be entered, and somebody who has entered it and goes on at once."""

    client: Noting = field(default_factory=Noting)
    target: Noting = field(default_factory=Noting)

    def __post_init__(self) -> None:
        wire = TerminalWire(whole=False, terminal=True)
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        self.driver = Driver(
            Link(wire, pipeline(Words()), clock=lambda: 0), self, clock=lambda: 0, cancel_target=lambda: done
        )
        self.driver.attach(Side.CLIENT, self.client)
        self.driver.attach(Side.TARGET, self.target)
        self.driver.from_client(m.START_FRAME + m.frame(m.STDIN, b"drop it\r\rls\r"))

    def record(self, events: list[Event], micros: int) -> None:
        """Kept nowhere."""

    @property
    def typed(self) -> bytes:
        return b"".join(payload for kind, payload in m.FrameReader().feed(self.target.written) if kind == m.STDIN)


async def test_what_is_typed_behind_a_refused_line_waits_for_the_answer() -> None:
    here = Typing()
    assert (here.typed, here.client.reads) == (b"drop it\x03", False)
    here.driver.from_target(m.frame(m.STDOUT, b"^C\r\n$ "))
    assert (here.typed, here.client.reads) == (b"drop it\x03", False)
    await until(lambda: here.client.reads)
    assert here.typed == b"drop it\x03\x15 \rls\r"


async def test_a_program_that_says_nothing_is_not_waited_for_without_end() -> None:
    here = Typing()
    await until(lambda: here.client.reads)
    assert here.typed == b"drop it\x03\x15 \rls\r"


async def test_what_waits_goes_with_its_client() -> None:
    here = Typing()
    here.driver.lost(Side.CLIENT)
    assert here.target.closed
    await asyncio.sleep(1.1)  # longer than anything waits
    assert here.typed == b"drop it\x03"
    here.driver.lost(Side.TARGET)
    assert here.driver.done.done()
