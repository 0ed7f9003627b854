"""Held requests: each is decided once, by a process or by reviewers, and denied when neither decides in time."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID, uuid4

import pytest
from sqlalchemy import select
from tests.support.promises import PATIENT, until
from tests.support.reviews import decided
from tests.support.world import START, World

from postern.domain.reviews import review as limits
from postern.domain.reviews.review import MAX_INPUT, WAITS, Choice
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.rules.permit import Permit
from postern.domain.rules.row_count import PartCount, RowCount
from postern.domain.sessions.session import Verb
from postern.errors import Unavailable
from postern.gateway.rules import held_requests as module
from postern.gateway.rules import review_poller
from postern.gateway.rules.held_requests import HeldRequests
from postern.gateway.rules.parse_slots import ParseSlots, Task
from postern.gateway.rules.row_counts import HeldStatement, RowCounter
from postern.interception.events import Operation, Phase
from postern.interception.pipeline import Pipeline, SessionView
from postern.interception.verdicts import FORWARD, Forward, Hold, Refuse, Verdict, Warn, Work
from postern.protocols.wire_base import Request, TransactionState
from postern.relay.driver import Driver
from postern.relay.held_request import HeldRequest
from postern.relay.link import HoldEffect
from postern.relay.relay_target import Start
from postern.store.database import Database
from postern.store.schema.review_tables import reviews as table
from postern.wiring.addresses_wiring import review_page

pytestmark = pytest.mark.ci


class _Watched(asyncio.Future[None]):
    """Records who waits for it."""

    def __init__(self, callbacks: list[object]) -> None:
        super().__init__()
        self._heard = callbacks

    def add_done_callback(self, callback: Any, *, context: Any = None) -> None:
        self._heard.append(callback)
        super().add_done_callback(callback, context=context)

    def remove_done_callback(self, callback: Any) -> int:
        self._heard.remove(callback)
        return super().remove_done_callback(callback)


class Line:
    """What is used of a driver: a link with one request that is held."""

    def __init__(self, hold: Hold) -> None:
        request = Request()
        request.operations.append(Operation(1, "delete from t", values=(b"x", None)))
        view = SessionView(UUID(int=1), "ann@example.com", frozenset(), "shop", "database", "postgres", {})
        parked = HeldRequest(hold, request, 0, Pipeline([], view), 0, [])
        self.link = SimpleNamespace(held_request=parked, transaction_state=TransactionState(in_transaction=True))
        self.callbacks: list[object] = []
        self.done: asyncio.Future[None] = _Watched(self.callbacks)
        self.on_settled: Callable[[], None] | None = None
        self.settled: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self.told: list[Warn] = []
        self.asked = asyncio.Event()

    def ask(self, warning: Warn) -> None:
        self.told.append(warning)
        self.asked.set()

    def resume(self, ticket: str, verdict: Verdict) -> None:
        assert ticket == "t1"
        self.link.held_request = None
        self.settled.set_result(verdict)


@pytest.fixture
async def world(database: Database) -> World:
    world = await World.make(database)
    world.clock.now = module.utc_now()  # deadlines are waited for
    return world


def held_by(world: World, estimates: RowCounter | None = None, processes: ParseSlots | None = None) -> HeldRequests:
    services = world.services()
    row_counts = {} if estimates is None else {"postgres": estimates}
    address = review_page(services.server_configs)
    return HeldRequests(
        services.asking, services.reviews, world.signals, address, row_counts=row_counts, processes=processes
    )


def work_of(task: Callable[[], object]) -> Work:
    """A judgement that lets everything through once the task is done, too long for the event loop."""
    return Work(task, lambda _found: FORWARD)


def waits(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    monkeypatch.setitem(cast("dict[str, timedelta]", WAITS), "statement", timedelta(seconds=seconds))


async def permit(world: World) -> tuple[UUID, Permit]:
    services = world.services()
    await world.add_connection("shop")
    found = await services.access.admit_principal(
        await world.add_user("ann", "dba"), "shop", verb=Verb.CONNECT, source=""
    )
    session = await services.sessions.open(found, session_id=uuid4(), worker="w1", metadata={})
    return session.id, found


def park(held: HeldRequests, line: Line, session_id: UUID, of: Permit) -> None:
    held.on_park(session_id, of, Start("db"), cast("Driver", line), HoldEffect("t1", "held"))


async def test_parsing_runs_in_another_process_and_denies_if_it_fails(world: World) -> None:
    held = held_by(world)
    session_id, of = await permit(world)
    seen: list[object] = []

    def conclude(found: object) -> Verdict:
        seen.append(found)
        return FORWARD

    line = Line(Hold("t1", "parsing", work=Work(os.getpid, conclude)))
    park(held, line, session_id, of)
    assert await asyncio.wait_for(line.settled, 60) is FORWARD
    assert seen != [os.getpid()]
    for broken in (work_of(partial(int, "so")), work_of(lambda: "cannot be pickled"), work_of(partial(os._exit, 1))):
        line = Line(Hold("t1", "parsing", work=broken))
        park(held, line, session_id, of)
        assert isinstance(await asyncio.wait_for(line.settled, 60), Refuse)


async def test_attack_statement_whose_parsing_takes_too_long_is_denied(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PARSE_WITHIN", 0.1)
    held = held_by(world)
    line = Line(Hold("t1", "parsing", work=work_of(partial(time.sleep, 600))))
    park(held, line, *await permit(world))
    assert isinstance(await asyncio.wait_for(line.settled, 60), Refuse)


async def test_undecided_review_expires_and_the_statement_is_denied(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits(monkeypatch, 1.5)
    held = held_by(world)
    line = Line(Hold("t1", "held by care", rule="care / 1"))
    park(held, line, *await permit(world))
    world.clock.forward(seconds=2)
    verdict = await asyncio.wait_for(line.settled, 60)
    assert isinstance(verdict, Refuse)
    assert verdict.message == "held by care; the review expired without a decision, so it was denied"
    assert "waits for a decision of the group 'admin'" in line.told[0].message
    (kept,) = await _all(world)
    assert kept == (ReviewStatus.EXPIRED, "delete from t\n-- $1 = 'x'\n-- $2 = NULL")


async def test_attack_repeated_executions_are_shown_to_reviewers_with_their_count(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One decision admits a batch that executes a statement many times."""
    waits(monkeypatch, 1.5)
    held = held_by(world)
    line = Line(Hold("t1", "held by care", rule="care / 1"))
    pay = "update accounts set balance = balance + 100 where id = 7"
    line.link.held_request.request.operations[:] = [
        Operation(1, pay, Phase.PREPARE),
        *(Operation(exchange, pay) for exchange in range(1, 4)),
        # What is run may be any of several statements by that name: one exchange, judged as each of them.
        Operation(4, "select 1"),
        Operation(4, "select 1"),
        *(Operation(exchange, "delete from t", values=(b"x",)) for exchange in (5, 6)),
    ]
    park(held, line, *await permit(world))
    world.clock.forward(seconds=2)
    await asyncio.wait_for(line.settled, 60)
    ((_, shown),) = await _all(world)
    assert shown == f"{pay}\n-- 3 times\nselect 1\ndelete from t\n-- $1 = 'x'\n-- 2 times"


async def test_attack_statement_too_long_to_be_shown_is_denied_without_a_review(world: World) -> None:
    """Its harmless beginning would be shown, and its dangerous end would not."""
    held = held_by(world)
    session_id, of = await permit(world)
    line = Line(Hold("t1", "held by a rule", rule="careful / 1"))
    text = f"select 1{' ' * MAX_INPUT}; drop table t"
    line.link.held_request.request.operations[:] = [Operation(1, text)]
    park(held, line, session_id, of)
    verdict = await asyncio.wait_for(line.settled, 60)
    assert isinstance(verdict, Refuse)
    assert "10,000 characters" in verdict.message
    assert not line.told
    cut = Line(Hold("t1", "held by a rule", rule="careful / 1"))
    cut.link.held_request.request.operations[:] = [Operation(1, "delete from t", values=(b"x",), truncated=True)]
    park(held, cut, session_id, of)
    assert isinstance(await asyncio.wait_for(cut.settled, 60), Refuse)
    assert not cut.told


async def test_attack_control_characters_of_a_statement_are_escaped_for_reviewers(world: World) -> None:
    held = held_by(world)
    line = Line(Hold("t1", "held by care", rule="care / 1"))
    text = "delete from t where n = 1 --\u202e\x1b[2J\r\n\tand more"
    line.link.held_request.request.operations[:] = [Operation(1, text, values=(b"\x1b[31m", "\u202e".encode()))]
    park(held, line, *await permit(world))
    await asyncio.wait_for(line.asked.wait(), 60)
    ((_, shown),) = await _all(world)
    assert shown.splitlines() == [
        "delete from t where n = 1 --\\u202e\\x1b[2J",
        "\tand more",
        "-- $1 = '\\x1b[31m'",
        "-- $2 = '\\u202e'",
    ]
    line.done.set_result(None)
    await until(lambda: not held._tasks)


async def test_attack_text_that_reads_differently_than_it_runs_is_escaped_for_reviewers(world: World) -> None:
    """A comment with a hidden line end, bytes that look like another value, and invalid UTF-8."""
    held = held_by(world)
    line = Line(Hold("t1", "held by care", rule="care / 1"))
    text = "delete from t where n = $1 -- one\ror true"
    values = (b"1234", b"1234", b"a\xe9")
    line.link.held_request.request.operations[:] = [Operation(1, text, values=values, unsure=(1,))]
    park(held, line, *await permit(world))
    await asyncio.wait_for(line.asked.wait(), 60)
    ((_, shown),) = await _all(world)
    assert shown.splitlines() == [
        "delete from t where n = $1 -- one",
        "or true",
        "-- $1 = '1234', or the value that its type reads from the bytes 31323334",
        "-- $2 = '1234'",
        "-- $3 = 'a\\\\xe9'",
    ]
    line.done.set_result(None)
    await until(lambda: not held._tasks)


async def test_attack_pipelined_repetitions_are_shown_to_reviewers_with_their_count(world: World) -> None:
    held = held_by(world)
    line = Line(Hold("t1", "held by care", rule="care / 1"))
    text = "update accounts set balance = balance - $1"
    line.link.held_request.request.operations[:] = [
        Operation(1, text, Phase.PREPARE),
        *(Operation(number, text, values=(b"1",)) for number in (1, 2, 2, 3)),
        Operation(4, "select 1"),
    ]
    park(held, line, *await permit(world))
    await asyncio.wait_for(line.asked.wait(), 60)
    ((_, shown),) = await _all(world)
    assert shown.splitlines() == [text, text, "-- $1 = '1'", "-- 3 times", "select 1"]
    line.done.set_result(None)
    await until(lambda: not held._tasks)


async def test_ended_link_withdraws_its_review(world: World) -> None:
    held = held_by(world)
    line = Line(Hold("t1", "held by care", rule="care / 1"))
    park(held, line, *await permit(world))
    await asyncio.wait_for(line.asked.wait(), 60)
    line.done.set_result(None)
    await until(lambda: _decided(world))
    assert (await _all(world))[0][0] == ReviewStatus.WITHDRAWN
    assert not line.settled.done()


async def test_decision_with_a_lost_signal_is_found_by_polling(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review_poller, "EVERY", 0.1)
    held = held_by(world)
    line = Line(Hold("t1", "held by care", rule="care / 1"))
    park(held, line, *await permit(world))
    await asyncio.wait_for(line.asked.wait(), 60)
    (waiting,) = await _ids(world)
    await decide(world, waiting, Choice.APPROVED, "well")
    assert isinstance(await asyncio.wait_for(line.settled, 60), Forward)
    assert line.told[1].message == "held by care; chief@example.com approved it: well"


async def test_rejected_statement_names_the_reviewer_and_the_reason(world: World) -> None:
    held = held_by(world)
    line = Line(Hold("t1", "held by care", rule="care / 1"))
    park(held, line, *await permit(world))
    await asyncio.wait_for(line.asked.wait(), 60)
    (waiting,) = await _ids(world)
    chief = await world.add_user("chief", "admin")
    await world.services().reviews.decide(chief, str(waiting), Choice.REJECTED, comment="use the job")
    verdict = await asyncio.wait_for(line.settled, 60)
    assert isinstance(verdict, Refuse)
    assert verdict.message == "held by care; chief@example.com rejected it: use the job"
    assert len(line.told) == 1
    assert f"/reviews/{waiting} or with `postern reviews approve {waiting}`" in line.told[0].hint


async def test_statement_is_denied_if_its_user_withdraws_the_review_elsewhere(world: World) -> None:
    held = held_by(world)
    line = Line(Hold("t1", "held by care", rule="care / 1"))
    session_id, of = await permit(world)
    park(held, line, session_id, of)
    await asyncio.wait_for(line.asked.wait(), 60)
    (waiting,) = await _ids(world)
    await world.services().reviews.withdraw(of.principal, str(waiting))
    verdict = await asyncio.wait_for(line.settled, 60)
    assert isinstance(verdict, Refuse)
    assert verdict.message == "held by care; it was withdrawn, so it was denied"


async def test_attack_statement_that_needs_a_review_is_denied_if_reviews_are_disabled(world: World) -> None:
    held = held_by(world)
    line = Line(Hold("t1", "held by care", rule="care / 1"))
    session_id, of = await permit(world)
    admin = await world.add_user("chief", "admin")
    await world.services().features.put(admin, "reviews", enabled=False)
    park(held, line, session_id, of)
    verdict = await asyncio.wait_for(line.settled, 60)
    assert isinstance(verdict, Refuse)
    assert "reviews are switched off" in verdict.message
    assert not await _all(world)


async def test_unavailable_store_denies_the_held_statement_and_the_link_continues(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the deadline, during polling, and while the review is written."""
    waits(monkeypatch, 0.2)
    monkeypatch.setattr(review_poller, "EVERY", 0.05)
    services = world.services()
    held = HeldRequests(services.asking, services.reviews, world.signals, review_page(services.server_configs))
    session_id, of = await permit(world)

    async def away(*_: object) -> None:
        raise Unavailable("the store does not answer")

    for service, name in ((services.reviews, "close"), (services.reviews, "look"), (services.asking, "hold")):
        monkeypatch.setattr(service, name, away)
        line = Line(Hold("t1", "held by care", rule="care / 1"))
        park(held, line, session_id, of)
        assert isinstance(await asyncio.wait_for(line.settled, 60), Refuse)


async def test_cancelled_statement_withdraws_its_review_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review_poller, "EVERY", 3600.0)
    held = held_by(world)
    line = Line(Hold("t1", "held by care", rule="care / 1"))
    park(held, line, *await permit(world))
    await asyncio.wait_for(line.asked.wait(), 60)
    await until(lambda: line.on_settled is not None)
    line.link.held_request = None
    assert line.on_settled is not None
    line.on_settled()
    await until(lambda: _decided(world))
    assert (await _all(world))[0][0] == ReviewStatus.WITHDRAWN
    assert line.on_settled is None


async def test_long_session_leaves_no_callbacks_behind(world: World) -> None:
    """Each statement that is parsed elsewhere adds a callback to its link."""
    held = held_by(world)
    session_id, of = await permit(world)
    line = Line(Hold("t1", "parsing", work=work_of(partial(str))))
    parked = line.link.held_request
    for _ in range(3):
        line.settled = asyncio.get_running_loop().create_future()
        line.link.held_request = parked
        park(held, line, session_id, of)
        await asyncio.wait_for(line.settled, 60)
        await until(lambda: not held._tasks)
    assert not line.callbacks


async def test_statement_over_the_review_limit_is_denied_with_the_limit(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_OF_SESSION", 0)
    held = held_by(world)
    line = Line(Hold("t1", "held by care", rule="care / 1"))
    park(held, line, *await permit(world))
    verdict = await asyncio.wait_for(line.settled, 60)
    assert isinstance(verdict, Refuse)
    assert "which is the limit" in verdict.message


async def _all(world: World) -> list[tuple[str, str]]:
    async with world.database.statement() as connection:
        found = await connection.execute(select(table.c.status, table.c.input))
    return [(row.status, row.input) for row in found]


async def _decided(world: World) -> bool:
    return (await _all(world))[0][0] != ReviewStatus.PENDING


async def _ids(world: World) -> list[UUID]:
    async with world.database.statement() as connection:
        return [number for (number,) in await connection.execute(select(table.c.id))]


async def decide(world: World, review_id: UUID, choice: Choice, comment: str = "") -> None:
    """Without a signal: straight in the store."""
    chief = await world.add_user("chief", "admin")
    review = await world.stores.reviews.get(review_id)
    assert review is not None
    await decided(world, review, chief, choice, comment=comment)


class Counted(RowCounter):
    """Returns the row count that a test sets."""

    def __init__(self, found: RowCount | Exception | None) -> None:
        self.asked: list[tuple[Start, tuple[HeldStatement, ...], TransactionState | None]] = []
        self._found = found
        self.begun = asyncio.Event()
        self.go = asyncio.Event()
        self.given_up = False

    async def of(
        self,
        permit: Permit,
        start: Start,
        statements: Sequence[HeldStatement],
        standing: TransactionState | None = None,
    ) -> RowCount | None:
        self.asked.append((start, tuple(statements), standing))
        self.begun.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.given_up = True
            raise
        if isinstance(self._found, Exception):
            raise self._found
        return self._found


COUNT = RowCount((PartCount("DELETE", "public.t", 7),), START)


async def test_review_shows_the_estimated_row_count(world: World) -> None:
    counted = Counted(COUNT)
    held = held_by(world, counted)
    line = Line(Hold("t1", "held by care", rule="care / 1"))
    line.link.held_request.request.operations *= 2
    park(held, line, *await permit(world))
    await asyncio.wait_for(counted.begun.wait(), 60)
    assert counted.asked == [
        (Start("db"), (HeldStatement("delete from t", (b"x", None)),) * 2, TransactionState(in_transaction=True))
    ]
    counted.go.set()
    await asyncio.wait_for(line.asked.wait(), 60)
    (waiting,) = await _ids(world)

    async def shown() -> object:
        review = await world.stores.reviews.get(waiting)
        assert review is not None
        return review.estimate

    await until(shown)
    assert await shown() == COUNT.as_json()
    assert not line.settled.done()
    line.done.set_result(None)
    await until(lambda: not held._tasks)


async def test_decision_does_not_wait_for_the_row_count(world: World) -> None:
    counted = Counted(COUNT)
    held = held_by(world, counted)
    line = Line(Hold("t1", "held by care", rule="care / 1"))
    park(held, line, *await permit(world))
    await asyncio.wait_for(counted.begun.wait(), 60)
    await asyncio.wait_for(line.asked.wait(), 60)
    (waiting,) = await _ids(world)
    chief = await world.add_user("chief", "admin")
    await world.services().reviews.decide(chief, str(waiting), Choice.APPROVED)
    assert isinstance(await asyncio.wait_for(line.settled, 60), Forward)
    await until(lambda: counted.given_up)


@pytest.mark.parametrize("found", [None, Unavailable("the store is away")])
async def test_failed_row_count_does_not_affect_the_review(world: World, found: Exception | None) -> None:
    counted = Counted(found)
    counted.go.set()
    held = held_by(world, counted)
    line = Line(Hold("t1", "held by care", rule="care / 1"))
    park(held, line, *await permit(world))
    await asyncio.wait_for(line.asked.wait(), 60)
    await until(lambda: bool(counted.asked) and len(held._tasks) == 1)
    assert not line.settled.done()
    line.done.set_result(None)
    await until(lambda: not held._tasks)


async def test_statement_over_the_parsing_queue_limit_is_denied_with_the_reason(world: World) -> None:
    go = asyncio.Event()

    async def run(task: Task) -> object:
        await go.wait()
        return task()

    held = held_by(world, processes=ParseSlots(1, run, most=1))
    session_id, of = await permit(world)
    lines = [Line(Hold("t1", "parsing", work=work_of(str))) for _ in range(3)]
    for line in lines:
        park(held, line, session_id, of)
    refused = await asyncio.wait_for(lines[2].settled, PATIENT)
    assert isinstance(refused, Refuse)
    assert "too many statements are waiting" in refused.message
    assert "short statements do not wait" in refused.hint
    go.set()
    assert [await asyncio.wait_for(line.settled, PATIENT) for line in lines[:2]] == [FORWARD, FORWARD]


async def test_short_statement_is_parsed_on_the_event_loop_after_other_tasks(world: World) -> None:
    async def run(task: Task) -> object:
        raise AssertionError("no process is needed")

    held = held_by(world, processes=ParseSlots(1, run))
    order: list[str] = []

    def conclude(_: object) -> Verdict:
        order.append("parsed")
        return FORWARD

    line = Line(Hold("t1", "parsing", work=Work(None, conclude)))
    park(held, line, *await permit(world))
    asyncio.get_running_loop().call_soon(order.append, "somebody else")
    assert await asyncio.wait_for(line.settled, PATIENT) is FORWARD
    assert order == ["somebody else", "parsed"]
