"""How a driver ends its link, and when it reads, waits and times out. Timers expire only when a test says so."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.links import Asks, Masks, ReadsAll, Withholds, Words, interpreted_only, pipeline
from tests.support.protocols import postgres_test_messages as pg

from postern.domain.sessions.session import EndReason
from postern.errors import RecordingFailed
from postern.interception.events import ClientOutput, Completed, Event
from postern.interception.pipeline import Interceptor
from postern.interception.verdicts import FORWARD, Warn
from postern.protocols.postgres.wire.postgres_wire import PostgresWire
from postern.protocols.terminal import terminal_frames as m
from postern.protocols.terminal.terminal_wire import TypedWire
from postern.protocols.wire_base import Side
from postern.relay.driver import (
    BATCH_QUIET,
    FLUSH,
    LINGER,
    LONGEST_WAIT,
    MAX_BEHIND,
    QUIET,
    REVIEWED_BATCH_QUIET,
    SETTLING,
    STOP,
    Driver,
    clock_since,
)
from postern.relay.link import HoldEffect, Link

from .test_driver import Noting


class Timers:
    """Every timer that is set, as its delay, its callback and its handle."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.all: list[tuple[float, Callable[[], None], asyncio.TimerHandle]] = []
        loop = asyncio.get_running_loop()
        real = loop.call_later

        def call_later(delay: float, callback: Callable[[], None], *_: Any) -> asyncio.TimerHandle:
            handle = real(3600, callback)
            self.all.append((delay, callback, handle))
            return handle

        monkeypatch.setattr(loop, "call_later", call_later)

    @property
    def delays(self) -> list[float]:
        """Of those that are still to go off."""
        return [delay for delay, _, handle in self.all if not handle.cancelled()]

    def expire(self, delay: float) -> None:
        """The one timer with this delay goes off."""
        (due,) = [entry for entry in self.all if entry[0] == delay and not entry[2].cancelled()]
        self.all.remove(due)
        due[1]()


@pytest.fixture
async def timers(monkeypatch: pytest.MonkeyPatch) -> Timers:
    return Timers(monkeypatch)


class Peer(Noting):
    """A transport that closes when the test says so, as one with bytes left to write does."""

    def __init__(self, *, encrypted: bool = False) -> None:
        super().__init__()
        self._extra = {"ssl_object": object() if encrypted else None}
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True


class Session:
    """A driver between two peers, with everything that it reports. `failing` is the recording."""

    def __init__(self, *interceptors: Interceptor, wire: Any = None, encrypted: bool = False) -> None:
        self.client, self.target = Peer(encrypted=encrypted), Peer()
        self.now = 0
        self.events: list[Event] = []
        self.failing = False
        self.cancelled: list[asyncio.Future[None]] = []
        self.parked: list[HoldEffect] = []
        self.settled = 0
        link = Link(wire or PostgresWire(), pipeline(*interceptors), clock=lambda: self.now)
        self.driver = Driver(
            link,
            self,
            clock=lambda: self.now,
            cancel_target=self.cancel,
            on_park=lambda _, park: self.parked.append(park),
        )
        self.driver.on_settled = self.count_settled
        self.driver.attach(Side.CLIENT, self.client)
        self.driver.attach(Side.TARGET, self.target)

    def record(self, events: list[Event], micros: int) -> None:
        if self.failing:
            raise RecordingFailed("the disk is full")
        self.events += events

    def cancel(self) -> asyncio.Future[None]:
        self.cancelled.append(asyncio.get_running_loop().create_future())
        return self.cancelled[-1]

    def count_settled(self) -> None:
        self.settled += 1

    @property
    def reads(self) -> tuple[bool, bool]:
        """Whether the client and the target are read."""
        return self.client.reads, self.target.reads

    @property
    def closed(self) -> tuple[bool, bool]:
        return self.client.closed, self.target.closed

    def run(self, text: str = "select 1") -> None:
        self.driver.from_client(pg.query(text))

    def lose_both(self) -> EndReason:
        assert not self.driver.done.done()
        self.driver.handle_loss(Side.CLIENT)
        assert not self.driver.done.done()
        self.driver.handle_loss(Side.TARGET)
        return self.driver.done.result()


ANSWER = pg.command_complete("SELECT 1") + pg.ready()


def test_clock_counts_microseconds() -> None:
    started = time.monotonic() - 1_000_000  # an error of one in a million shows
    earliest = time.monotonic() - started
    micros = clock_since(started)()
    latest = time.monotonic() - started
    assert earliest - 0.001 <= micros / 1_000_000 <= latest + 0.001


async def test_bytes_of_both_sides_are_counted(timers: Timers) -> None:
    session = Session()
    session.run()
    session.run()
    session.driver.from_target(ANSWER)
    session.driver.from_target(ANSWER)
    assert session.driver.client_bytes == 2 * len(pg.query("select 1"))
    assert session.driver.target_bytes == 2 * len(ANSWER)
    assert timers.all == []  # nothing waits for time


async def test_session_is_idle_since_the_last_byte_of_either_side(timers: Timers) -> None:
    session = Session()
    sides = [(session.driver.from_client, pg.query("select 1")), (session.driver.from_target, ANSWER)]
    for receive, data in sides:
        session.now += 3_000_000
        assert session.driver.idle == 3.0
        receive(data)
        assert session.driver.idle == 0.0


# What is read


@pytest.mark.parametrize(
    ("full", "reads"),
    [
        ([], (True, True)),
        ([Side.CLIENT], (False, False)),
        ([Side.TARGET], (False, True)),
        ([Side.CLIENT, Side.TARGET], (False, False)),
    ],
)
async def test_side_that_does_not_drain_pauses_reading_from_the_other_side(
    timers: Timers, full: list[Side], reads: tuple[bool, bool]
) -> None:
    session = Session()
    for side in full:
        session.driver.throttle(side, True)
    assert session.reads == reads
    for side in full:
        session.driver.throttle(side, False)
    assert session.reads == (True, True)


async def test_client_is_read_until_it_has_sent_too_much_after_a_held_request(timers: Timers) -> None:
    session = Session(Asks())
    session.run("review this")
    assert [park.ticket for park in session.parked] == ["t1"]
    for _ in range(2):
        session.driver.from_client(bytes(MAX_BEHIND // 2))
        assert session.reads == (True, True)
    session.driver.from_client(b"\0")
    assert session.reads == (False, True)


async def test_client_is_read_again_once_its_held_request_is_decided(timers: Timers) -> None:
    session = Session(Asks())
    session.run("review this")
    session.driver.from_client(pg.query("review that") + pg.query("x" * MAX_BEHIND))
    assert (session.client.reads, session.settled) == (False, 0)
    session.driver.resume("t1", FORWARD)
    assert (session.client.reads, session.settled) == (True, 1)
    assert [park.question for park in session.parked] == ["may review this run?", "may review that run?"]
    session.driver.from_client(bytes(MAX_BEHIND))  # what was sent behind the first does not count any more
    assert session.client.reads
    session.driver.from_client(b"\0")
    assert not session.client.reads


async def test_transport_that_closes_is_neither_paused_nor_resumed(timers: Timers) -> None:
    session = Session()
    session.client.closed = True
    session.driver.throttle(Side.CLIENT, True)
    assert session.reads == (True, False)


async def test_disconnected_side_is_neither_read_nor_written(timers: Timers) -> None:
    session = Session()
    session.driver.handle_loss(Side.CLIENT)
    session.driver.throttle(Side.TARGET, True)
    session.driver.from_target(ANSWER)
    assert session.client.written == b""
    session.driver.handle_loss(Side.TARGET)
    session.driver.throttle(Side.CLIENT, True)
    assert session.driver.done.result() is EndReason.CLIENT_CLOSED


# Ends


async def test_target_that_closes_its_connection_closes_both_sides(timers: Timers) -> None:
    session = Session()
    assert session.driver.handle_eof(Side.TARGET) is False
    assert b"the target closed the connection" in session.client.written
    assert session.closed == (True, True)
    assert session.lose_both() is EndReason.TARGET_CLOSED


async def test_lost_target_ends_the_session(timers: Timers) -> None:
    session = Session()
    session.run()
    session.driver.handle_loss(Side.TARGET)
    assert b"the target closed the connection" in session.client.written
    assert session.client.closed
    assert not session.driver.done.done()
    session.driver.handle_loss(Side.CLIENT)
    assert session.driver.done.result() is EndReason.TARGET_CLOSED
    assert session.cancelled == []


async def test_idle_client_that_closes_its_sending_side_ends_the_session(timers: Timers) -> None:
    session = Session()
    assert session.driver.handle_eof(Side.CLIENT) is False
    assert session.target.written == pg.terminate()
    assert session.closed == (True, True)
    assert session.lose_both() is EndReason.CLIENT_CLOSED
    assert session.cancelled == []


async def test_busy_client_that_closes_its_sending_side_gets_its_answer(timers: Timers) -> None:
    session = Session()
    session.run()
    assert session.driver.handle_eof(Side.CLIENT) is True
    assert session.closed == (False, False)
    assert timers.delays == [LINGER]
    session.driver.from_target(ANSWER)
    assert session.client.written == ANSWER
    assert session.closed == (True, True)
    assert session.lose_both() is EndReason.CLIENT_CLOSED
    assert session.cancelled == []


async def test_answer_to_a_client_that_closed_its_sending_side_has_a_deadline(timers: Timers) -> None:
    session = Session()
    session.run()
    session.driver.handle_eof(Side.CLIENT)
    timers.expire(LINGER)
    assert len(session.cancelled) == 1
    assert session.closed == (True, True)
    assert session.lose_both() is EndReason.CLIENT_CLOSED


async def test_encrypted_client_that_closes_its_sending_side_ends_the_session(timers: Timers) -> None:
    session = Session(encrypted=True)
    session.run()
    assert session.driver.handle_eof(Side.CLIENT) is False
    assert timers.delays == []
    session.driver.handle_loss(Side.CLIENT)
    assert len(session.cancelled) == 1


@pytest.mark.parametrize("is_busy", [True, False])
async def test_lost_client_cancels_only_its_running_statement(timers: Timers, is_busy: bool) -> None:
    session = Session()
    if is_busy:
        session.run()
    session.driver.handle_loss(Side.CLIENT)
    assert len(session.cancelled) == is_busy
    assert session.target.closed
    session.driver.handle_loss(Side.CLIENT)
    assert len(session.cancelled) == is_busy


@pytest.mark.parametrize("is_busy", [True, False])
async def test_killed_session_notifies_its_client_and_cancels_the_running_statement(
    timers: Timers, is_busy: bool
) -> None:
    session = Session()
    if is_busy:
        session.run()
    session.driver.end(EndReason.KILLED, "an admin killed this session", "57P01", "Ask the admin.")
    told = session.client.written
    assert told.count(b"an admin killed this session") == told.count(b"57P01") == told.count(b"Ask the admin.") == 1
    session.driver.end(EndReason.IDLE, "again")
    assert session.client.written == told
    assert len(session.cancelled) == is_busy
    assert session.lose_both() is EndReason.KILLED


async def test_side_that_does_not_take_its_last_bytes_is_aborted_after_a_deadline(timers: Timers) -> None:
    session = Session()
    session.driver.end(EndReason.KILLED, "an admin killed this session")
    assert (session.closed, timers.delays) == ((True, True), [FLUSH])
    assert not session.client.aborted
    timers.expire(FLUSH)
    assert (session.client.aborted, session.target.aborted) == (True, True)


async def test_disconnected_side_is_not_aborted(timers: Timers) -> None:
    session = Session()
    session.driver.handle_loss(Side.TARGET)
    timers.expire(FLUSH)
    assert (session.client.aborted, session.target.aborted) == (True, False)


@pytest.mark.parametrize("rule", [None, Words(), Withholds()])
async def test_ended_session_leaves_no_timer(timers: Timers, rule: Interceptor | None) -> None:
    session = Session(*[rule] if rule else [])
    session.driver.from_client(pg.parse("insert"))
    session.driver.from_target(pg.row_description("s") + pg.data_row("secret-1"))
    session.driver.handle_eof(Side.CLIENT)
    session.lose_both()
    assert timers.delays == []


async def test_ended_terminal_session_leaves_no_timer(timers: Timers) -> None:
    session = typing_session(Words())
    session.driver.from_client(stdin(b"drop it\rls\r"))
    assert timers.delays == [SETTLING]
    session.driver.handle_loss(Side.CLIENT)
    session.driver.handle_loss(Side.TARGET)
    assert timers.delays == []


async def test_timer_that_expires_after_the_end_sends_nothing(timers: Timers) -> None:
    session = typing_session(Words())
    session.driver.from_client(stdin(b"drop it\rls\r"))
    written = session.target.written
    session.driver.end(EndReason.KILLED, "an admin killed this session")
    timers.expire(SETTLING)
    assert session.target.written == written


# What cannot be recorded


@pytest.mark.parametrize("is_busy", [True, False])
async def test_request_that_cannot_be_recorded_is_not_sent_to_the_target(
    timers: Timers, caplog: pytest.LogCaptureFixture, is_busy: bool
) -> None:
    session = Session()
    if is_busy:
        session.run()
    sent = session.target.written
    session.failing = True
    session.run("select 2")
    assert session.target.written == sent
    assert session.client.written == pg.error("the gateway cannot record this session, so it ends", "58030", "FATAL")
    assert "the disk is full" in caplog.text
    assert len(session.cancelled) == 1  # the wire counts the request that was not sent
    assert session.lose_both() is EndReason.RECORDING_FAILED


async def test_answer_that_cannot_be_recorded_is_not_sent_to_the_client(timers: Timers) -> None:
    session = Session()
    session.run()
    session.failing = True
    session.driver.from_target(ANSWER)
    assert ANSWER not in session.client.written
    assert session.client.written == pg.error("the gateway cannot record this session, so it ends", "58030", "FATAL")
    assert session.lose_both() is EndReason.RECORDING_FAILED


def unfinished_wire() -> PostgresWire:
    """Return a wire with something under way whenever it ends."""

    class Unfinished(PostgresWire):
        def unfinished_exchanges(self) -> list[Completed]:
            return [Completed(7, "half a file")]

    return Unfinished()


@interpreted_only
async def test_unfinished_request_at_the_end_is_recorded_once(timers: Timers) -> None:
    session = Session(wire=unfinished_wire())
    session.driver.end(EndReason.KILLED, "an admin killed this session")
    session.lose_both()
    assert [event for event in session.events if not isinstance(event, ClientOutput)] == [Completed(7, "half a file")]


@interpreted_only
async def test_session_ends_although_its_unfinished_requests_cannot_be_recorded(
    timers: Timers, caplog: pytest.LogCaptureFixture
) -> None:
    session = Session(wire=unfinished_wire())
    session.failing = True
    session.driver.handle_loss(Side.CLIENT)
    assert "unfinished requests could not be recorded: the disk is full" in caplog.text
    session.driver.handle_loss(Side.TARGET)
    assert session.driver.done.result() is EndReason.CLIENT_CLOSED


@interpreted_only
async def test_failed_recording_is_not_retried_for_unfinished_requests(
    timers: Timers, caplog: pytest.LogCaptureFixture
) -> None:
    session = Session(wire=unfinished_wire())
    session.failing = True
    session.run()
    assert "what was under way" not in caplog.text
    assert session.lose_both() is EndReason.RECORDING_FAILED


# Requests to cancel, questions and answers to them


async def test_cancel_stops_the_running_statement_until_the_session_ends(timers: Timers) -> None:
    session = Session()
    session.driver.cancel()
    assert session.cancelled == []  # nothing runs
    session.run()
    session.driver.cancel()
    assert len(session.cancelled) == 1
    session.driver.end(EndReason.KILLED, "an admin killed this session")
    assert len(session.cancelled) == 2
    session.driver.cancel()
    assert len(session.cancelled) == 2


async def test_client_is_notified_only_while_its_request_is_held(timers: Timers) -> None:
    session = Session(Asks())
    session.driver.ask(Warn("asks", "waiting for ada"))
    assert session.client.written == b""  # nothing waits
    session.run("review this")
    session.driver.ask(Warn("asks", "waiting for ada"))
    assert b"waiting for ada" in session.client.written
    session.driver.resume("t1", FORWARD)
    session.driver.ask(Warn("asks", "waiting for bob"))
    assert b"waiting for bob" not in session.client.written


async def test_notice_about_a_held_request_is_sent_after_the_answer_before_it(timers: Timers) -> None:
    session = Session(Asks())
    session.run()
    session.run("review this")
    session.driver.ask(Warn("asks", "waiting for ada"))
    assert session.client.written == b""
    session.driver.from_target(ANSWER)
    assert session.client.written.startswith(ANSWER)
    assert b"waiting for ada" in session.client.written


async def test_renewed_policy_applies_to_the_next_request(timers: Timers) -> None:
    session = Session()
    session.driver.renew(pipeline(Words()))
    session.run("drop it")
    assert session.target.written == b""


# Answers that are withheld, and the target that is told to stop


def rows(*cells: str) -> bytes:
    return pg.row_description("s") + b"".join(map(pg.data_row, cells))


async def test_sides_are_not_read_until_the_cancel_of_the_target_has_finished(timers: Timers) -> None:
    session = Session(Withholds())
    session.run("select s")
    session.driver.from_target(rows("secret-1"))
    assert (len(session.cancelled), session.reads, timers.delays) == (1, (False, False), [STOP])
    session.driver.from_target(pg.data_row("secret-2"))
    assert len(session.cancelled) == 1  # it is told once for an answer
    session.cancelled[0].set_result(None)
    await asyncio.sleep(0)
    assert session.reads == (True, True)


async def test_target_is_read_although_it_cannot_be_cancelled(timers: Timers) -> None:
    session = Session(Withholds())
    session.run("select s")
    session.driver.from_target(rows("secret-1"))
    timers.expire(STOP)
    assert session.reads == (True, True)


async def test_each_blocked_answer_cancels_the_target(timers: Timers) -> None:
    session = Session(Withholds())
    for count in (1, 2):
        session.run("select s")
        session.driver.from_target(rows("secret-1"))
        assert len(session.cancelled) == count
        session.cancelled[-1].set_result(None)
        await asyncio.sleep(0)
        session.driver.from_target(pg.error("canceling statement due to user request", "57014") + pg.ready())


# What is typed, and what a terminal shows


def stdin(data: bytes) -> bytes:
    return m.frame(m.STDIN, data)


def stdout(data: bytes) -> bytes:
    return m.frame(m.STDOUT, data)


def typing_session(*interceptors: Interceptor) -> Session:
    session = Session(*interceptors, wire=TypedWire())
    session.driver.from_client(m.START_FRAME)
    return session


def typed(session: Session) -> bytes:
    return b"".join(
        payload for kind, payload in m.TerminalFrameReader().feed(session.target.written) if kind == m.STDIN
    )


async def test_input_after_a_denied_line_is_sent_once_the_target_is_quiet(timers: Timers) -> None:
    began = time.monotonic()
    session = typing_session(Words())
    session.driver.from_client(stdin(b"drop it\r\rls\r"))
    assert (session.client.reads, timers.delays) == (False, [SETTLING])
    session.driver.from_client(stdin(b"id\r"))  # it was read already, and does not put anything off
    assert len(timers.all) == 1
    for _ in range(3):
        session.driver.from_target(stdout(b"^C"))
        (delay,) = timers.delays  # the wait begins anew
        assert delay == QUIET or time.monotonic() - began > SETTLING - 2 * QUIET
    timers.expire(delay)
    assert typed(session) == b"drop it\x15\x03"
    timers.expire(SETTLING)
    assert typed(session) == b"drop it\x15\x03\x15 \rls\rid\r"
    assert session.client.reads
    assert timers.delays == []


async def test_input_after_a_denied_line_is_sent_although_the_target_is_never_quiet(timers: Timers) -> None:
    session = typing_session(Words())
    session.driver.from_client(stdin(b"drop it\rls\r"))
    time.sleep(SETTLING)  # noqa: ASYNC251 - no timer goes off meanwhile
    session.driver.from_target(stdout(b"^C"))
    assert timers.delays == [0.0]


async def test_second_denied_line_holds_the_input_after_it_again(timers: Timers) -> None:
    session = typing_session(Words())
    session.driver.from_client(stdin(b"drop it\rdrop that\rls\r"))
    for interrupts in (1, 1, 2):
        timers.expire(SETTLING)
        assert typed(session).count(b"\x03") == interrupts
        assert (session.client.reads, timers.delays) == (False, [SETTLING])
    timers.expire(SETTLING)
    assert session.client.reads
    assert typed(session).endswith(b"ls\r")


async def test_partial_output_line_is_sent_once_the_target_is_quiet(timers: Timers) -> None:
    session = typing_session(Masks())
    session.driver.from_target(stdout(b"$ "))
    assert (session.client.written, timers.delays) == (b"", [QUIET])
    session.driver.from_target(stdout(b"l"))
    assert timers.delays == [QUIET]  # the wait begins anew
    timers.expire(QUIET)
    shown = b"".join(payload for _, payload in m.TerminalFrameReader().feed(session.client.written))
    assert shown == b"$ l"
    assert timers.delays == []


async def test_partial_output_line_is_withheld_for_a_limited_time(timers: Timers) -> None:
    session = typing_session(Masks())
    session.driver.from_target(stdout(b"a"))
    time.sleep(LONGEST_WAIT + 0.01)  # noqa: ASYNC251 - no timer goes off meanwhile
    set_timers = len(timers.all)
    session.driver.from_target(stdout(b"b"))
    assert len(timers.all) == set_timers  # the wait does not begin anew
    timers.expire(QUIET)
    session.driver.from_target(stdout(b"c"))
    assert timers.delays == [QUIET]  # what comes next has a wait of its own


async def test_no_timer_is_set_if_no_output_is_withheld(timers: Timers) -> None:
    session = typing_session(ReadsAll())
    session.driver.from_client(stdin(b"ls\r"))
    session.driver.from_target(stdout(b"file\n"))
    assert timers.all == []


# Incomplete batches

RUN = pg.parse("insert") + pg.bind() + pg.execute()


@pytest.mark.parametrize(("rule", "delay"), [(Words(), BATCH_QUIET), (Asks(), REVIEWED_BATCH_QUIET)])
async def test_each_part_of_an_incomplete_batch_restarts_its_delay(
    timers: Timers, rule: Interceptor, delay: float
) -> None:
    session = Session(rule)
    for _ in range(3):
        session.driver.from_client(RUN)
        assert timers.delays == [delay]
    timers.expire(delay)
    assert session.target.written == RUN * 3 + pg.flush()
    assert timers.delays == []


async def test_completed_batch_is_not_delayed(timers: Timers) -> None:
    session = Session(Words())
    session.driver.from_client(RUN)
    session.driver.from_client(pg.sync())
    assert timers.delays == []


async def test_incomplete_batch_stays_delayed_while_a_cancel_of_the_target_is_pending(timers: Timers) -> None:
    session = Session(Withholds(), Words())
    session.run("select s")
    sent = session.target.written
    session.driver.from_target(rows("secret-1"))
    session.driver.from_client(RUN)
    for _ in range(10):  # longer than a batch waits otherwise
        timers.expire(BATCH_QUIET)
        assert session.target.written == sent
    session.cancelled[0].set_result(None)
    await asyncio.sleep(0)
    timers.expire(BATCH_QUIET)
    assert session.target.written.startswith(sent + pg.parse("insert"))
    assert session.target.written.endswith(pg.flush())


async def test_incomplete_batch_is_not_sent_once_the_session_has_ended(timers: Timers) -> None:
    session = Session(Words())
    session.driver.from_client(RUN)
    session.driver.end(EndReason.KILLED, "an admin killed this session")
    timers.expire(BATCH_QUIET)
    assert session.target.written == b""
    assert BATCH_QUIET not in timers.delays
