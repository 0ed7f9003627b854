"""What a driver delays and for how long, with transports that only record."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

import pytest
from tests.support.links import Asks, ReadsAll, Withholds, Words, pipeline
from tests.support.promises import until
from tests.support.protocols import postgres_test_messages as pg

from postern.interception.events import Event
from postern.interception.pipeline import Interceptor
from postern.interception.verdicts import FORWARD
from postern.protocols.postgres.wire.postgres_wire import PostgresWire
from postern.protocols.terminal import terminal_frames as m
from postern.protocols.terminal.terminal_wire import TypedWire
from postern.protocols.wire_base import Side
from postern.relay.driver import Driver
from postern.relay.link import HoldEffect, Link


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
    rule: Interceptor = field(default_factory=Words)

    def __post_init__(self) -> None:
        wire = TypedWire()
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        self.driver = Driver(
            Link(wire, pipeline(self.rule), clock=lambda: 0), self, clock=lambda: 0, cancel_target=lambda: done
        )
        self.driver.attach(Side.CLIENT, self.client)
        self.driver.attach(Side.TARGET, self.target)
        self.driver.from_client(m.START_FRAME + m.frame(m.STDIN, b"drop it\r\rls\r"))

    def record(self, events: list[Event], micros: int) -> None:
        """Kept nowhere."""

    @property
    def typed(self) -> bytes:
        return b"".join(
            payload for kind, payload in m.TerminalFrameReader().feed(self.target.written) if kind == m.STDIN
        )


async def test_input_after_a_denied_line_is_held_until_the_target_has_answered() -> None:
    here = Typing()
    assert (here.typed, here.client.reads) == (b"drop it\x15", False)
    here.driver.from_target(m.frame(m.STDOUT, b"\r$ "))
    assert (here.typed, here.client.reads) == (b"drop it\x15", False)
    await until(lambda: here.typed == b"drop it\x15\x03")
    here.driver.from_target(m.frame(m.STDOUT, b"^C\r\n$ "))
    assert (here.typed, here.client.reads) == (b"drop it\x15\x03", False)
    await until(lambda: here.client.reads)
    assert here.typed == b"drop it\x15\x03\x15 \rls\r"


async def test_input_after_a_denied_line_is_sent_although_the_program_prints_nothing() -> None:
    here = Typing()
    await until(lambda: here.client.reads)
    assert here.typed == b"drop it\x15\x03\x15 \rls\r"


async def test_held_input_is_discarded_when_its_client_disconnects() -> None:
    here = Typing()
    here.driver.handle_loss(Side.CLIENT)
    assert here.target.closed
    await asyncio.sleep(1.1)  # longer than anything waits
    assert here.typed == b"drop it\x15"
    here.driver.handle_loss(Side.TARGET)
    assert here.driver.done.done()


@pytest.mark.parametrize(
    "interrupt", [m.frame(m.STDIN, b"l\x03"), m.signal("INT")], ids=["a key", "a signal of the client"]
)
async def test_ctrl_c_ends_the_wait_of_a_held_line(interrupt: bytes) -> None:
    here = Typing(rule=Asks("drop"))
    here.driver.from_client(m.frame(m.STDIN, b"x"))
    assert here.driver.link.held_request is not None
    here.driver.from_client(interrupt)
    assert here.driver.link.held_request is None
    assert here.typed == b"drop it\x15"
    assert b"cancelled while it was held" in here.client.written


RUN = pg.parse("insert") + pg.bind() + pg.execute()
QUIET = 0.2  # seconds: longer than the rest of a batch is waited for, unless it may have to be reviewed


class Pipelining:
    """A PostgreSQL client that sends requests without waiting, under these rules."""

    def __init__(self, *interceptors: Interceptor) -> None:
        self.client, self.target = Noting(), Noting()
        self.cancelled: list[asyncio.Future[None]] = []
        self.parked: list[HoldEffect] = []
        link = Link(PostgresWire(), pipeline(*interceptors), clock=lambda: 0)
        self.driver = Driver(
            link,
            self,
            clock=lambda: 0,
            cancel_target=self.cancel,
            on_park=lambda _, park: self.parked.append(park),
        )
        self.driver.attach(Side.CLIENT, self.client)
        self.driver.attach(Side.TARGET, self.target)

    def record(self, events: list[Event], micros: int) -> None:
        """Kept nowhere."""

    def cancel(self) -> asyncio.Future[None]:
        self.cancelled.append(asyncio.get_running_loop().create_future())
        return self.cancelled[-1]


async def test_incomplete_batch_is_sent_at_once_if_no_rule_needs_the_whole_batch() -> None:
    here = Pipelining(ReadsAll(wants=frozenset(Words().wants)))
    here.driver.from_client(RUN)
    assert here.target.written == RUN


@pytest.mark.parametrize("rule", [Words(), Asks()])
async def test_incomplete_batch_is_sent_when_the_client_pauses(rule: Interceptor) -> None:
    here = Pipelining(rule)
    here.driver.from_client(RUN[:20])
    here.driver.from_client(RUN[20:])
    assert here.target.written == b""
    await until(lambda: here.target.written)
    assert here.target.written == RUN + pg.flush()


async def test_complete_batch_is_not_flushed() -> None:
    here = Pipelining(Words())
    here.driver.from_client(RUN)
    here.driver.from_client(pg.sync())
    await asyncio.sleep(QUIET)
    assert here.target.written == RUN + pg.sync()


async def test_incomplete_batch_that_can_need_a_review_waits_longer_until_a_part_has_run() -> None:
    here = Pipelining(Asks())
    began = time.monotonic()
    here.driver.from_client(RUN)
    await asyncio.sleep(QUIET)
    assert here.target.written == b"" or time.monotonic() - began > 0.9
    await until(lambda: here.target.written)
    here.driver.from_client(RUN)
    assert not here.driver.link.may_review_batches
    await until(lambda: here.target.written == (RUN + pg.flush()) * 2)


async def test_incomplete_batch_of_a_client_that_never_pauses_is_sent() -> None:
    here = Pipelining(Words())

    async def send() -> None:
        while True:
            here.driver.from_client(RUN)
            await asyncio.sleep(0.01)

    sending = asyncio.create_task(send())
    await until(lambda: here.target.written)
    sending.cancel()
    assert here.target.written.startswith(RUN * 2)


async def test_delay_of_an_incomplete_batch_starts_with_that_batch() -> None:
    """A client that always has an incomplete batch in progress sends none of them in parts."""
    for _ in range(100):  # until the machine lets the loop run before the wait of the last batch is over
        here = Pipelining(Words())
        here.driver.from_client(RUN)
        time.sleep(0.3)  # noqa: ASYNC251 - longer than the first batch may wait, without a chance for its timer
        began = time.monotonic()
        here.driver.from_client(pg.sync() + RUN)
        for _ in range(3):
            await asyncio.sleep(0)
        written = here.target.written
        here.driver.from_client(pg.sync())
        if time.monotonic() - began < 0.04:
            break
    else:
        pytest.fail("the machine is too busy to tell")
    assert written == RUN + pg.sync()


async def test_cancel_sends_an_incomplete_batch_and_stops_the_target() -> None:
    here = Pipelining(Words())
    here.driver.from_client(RUN)
    here.driver.cancel()
    assert here.target.written == RUN + pg.flush()
    assert len(here.cancelled) == 1
    await asyncio.sleep(QUIET)
    assert here.target.written == RUN + pg.flush()


async def test_cancel_gives_up_the_review_of_an_incomplete_batch() -> None:
    here = Pipelining(Asks())
    here.driver.from_client(pg.parse("review this"))
    here.driver.cancel()
    assert len(here.parked) == 1
    assert not here.driver.link.held_request
    assert b"cancelled while it was held" in here.client.written
    assert here.target.written == b""


async def test_incomplete_batch_is_discarded_when_its_client_disconnects() -> None:
    here = Pipelining(Words())
    here.driver.from_client(RUN)
    here.driver.handle_loss(Side.CLIENT)
    await asyncio.sleep(QUIET)
    assert here.target.written == b""


async def test_incomplete_batch_is_discarded_when_its_client_closes_its_sending_side() -> None:
    here = Pipelining(Words())
    here.driver.from_client(RUN)
    here.driver.handle_eof(Side.CLIENT)
    await asyncio.sleep(QUIET)
    assert here.target.written == pg.terminate()


async def test_batch_is_not_sent_while_a_cancel_of_the_target_is_pending() -> None:
    here = Pipelining(Withholds(), Words())
    here.driver.from_client(pg.query("select s"))
    sent = here.target.written
    here.driver.from_target(pg.row_description("s") + pg.data_row("secret-1"))
    assert len(here.cancelled) == 1
    here.driver.from_client(RUN)  # it was read already
    await asyncio.sleep(QUIET)
    assert here.target.written == sent
    here.cancelled[0].set_result(None)
    await until(lambda: here.target.written != sent)


async def test_delay_of_a_batch_after_a_held_statement_starts_with_the_decision() -> None:
    here = Pipelining(Asks())
    here.driver.from_client(pg.query("review this") + RUN)
    await asyncio.sleep(QUIET)
    here.driver.resume("t1", FORWARD)
    assert here.target.written == pg.query("review this")
    await until(lambda: here.target.written.endswith(pg.flush()))
    assert here.target.written == pg.query("review this") + RUN + pg.flush()
