"""Held requests: each is settled once, by a thread or by people, and by refusal when neither comes in time."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID, uuid4

import pytest
from sqlalchemy import select
from tests.support.world import World

from postern.domain import question
from postern.domain.permit import Permit
from postern.domain.question import MAX_STATEMENT, Decision
from postern.domain.session import Verb
from postern.errors import Unavailable
from postern.gateway import held as module
from postern.gateway.held import HeldRequests
from postern.gateway.parsing import ParseThreads
from postern.interception.events import Operation
from postern.interception.pipeline import Pipeline, SessionView
from postern.interception.verdicts import FORWARD, Forward, Hold, Refuse, Verdict, Warn
from postern.protocols.base import Request
from postern.relay.driver import Driver
from postern.relay.link import Park
from postern.relay.parked import Parked
from postern.services import questions as asking
from postern.store.database import Database
from postern.store.schema import questions as table


class _Watched(asyncio.Future[None]):
    """Says who waits for it."""

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
        self.link = SimpleNamespace(parked=Parked(hold, request, 0, Pipeline([], view), 0, []))
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
        self.link.parked = None
        self.settled.set_result(verdict)


@pytest.fixture
async def world(database: Database) -> World:
    return await World.make(database)


async def permit(world: World) -> tuple[UUID, Permit]:
    services = world.services()
    await world.add_connection("shop")
    found = await services.access.admit_principal(
        await world.add_user("ann", "dba"), "shop", verb=Verb.CONNECT, source=""
    )
    session = await services.sessions.open(found, session_id=uuid4(), worker="w1", metadata={})
    return session.id, found


def park(held: HeldRequests, line: Line, session_id: UUID, of: Permit) -> None:
    held.on_park(session_id, of, cast("Driver", line), Park("t1", "held"))


async def test_work_is_done_in_a_thread(world: World) -> None:
    held = HeldRequests(world.services().questions, world.signals)
    session_id, of = await permit(world)
    line = Line(Hold("t1", "parsing", work=lambda: FORWARD))
    park(held, line, session_id, of)
    assert await asyncio.wait_for(line.settled, 60) is FORWARD
    broken = Line(Hold("t1", "parsing", work=lambda: cast("Any", 1 / 0)))
    park(held, broken, session_id, of)
    assert isinstance(await asyncio.wait_for(broken.settled, 60), Refuse)


async def test_attack_work_that_takes_too_long_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PARSE_WITHIN", 0.1)
    held = HeldRequests(world.services().questions, world.signals)

    def slow() -> Verdict:
        time.sleep(0.5)
        return FORWARD

    line = Line(Hold("t1", "parsing", work=slow))
    park(held, line, *await permit(world))
    assert isinstance(await asyncio.wait_for(line.settled, 60), Refuse)


async def test_nobody_decides_until_the_deadline(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "WAITS", timedelta(seconds=1.5))
    questions = asking.Questions(world.stores.questions, world.features(), world.signals, module.utc_now)
    held = HeldRequests(questions, world.signals)
    line = Line(Hold("t1", "held by care", rule="care / 1"))
    park(held, line, *await permit(world))
    verdict = await asyncio.wait_for(line.settled, 60)
    assert isinstance(verdict, Refuse)
    assert verdict.message == "held by care; nobody decided in time, so it was refused"
    assert "waits until an administrator has decided" in line.told[0].message
    (kept,) = await _all(world)
    assert kept == (Decision.EXPIRED, "delete from t\n-- $1 = 'x'\n-- $2 = NULL")


async def test_attack_what_no_decider_would_be_shown_is_not_asked_about(world: World) -> None:
    """Something harmless in front, and what it is about behind the end of what is shown."""
    held = HeldRequests(world.services().questions, world.signals)
    session_id, of = await permit(world)
    line = Line(Hold("t1", "held by a rule", rule="careful / 1"))
    text = f"select 1{' ' * MAX_STATEMENT}; drop table t"
    line.link.parked.request.operations[:] = [Operation(1, text)]
    park(held, line, session_id, of)
    verdict = await asyncio.wait_for(line.settled, 60)
    assert isinstance(verdict, Refuse)
    assert "10,000 characters" in verdict.message
    assert not line.told


async def test_a_link_that_ends_withdraws_its_question(world: World) -> None:
    questions = asking.Questions(world.stores.questions, world.features(), world.signals, module.utc_now)
    held = HeldRequests(questions, world.signals)
    line = Line(Hold("t1", "held by care", rule="care / 1"))
    park(held, line, *await permit(world))
    await asyncio.wait_for(line.asked.wait(), 60)
    line.done.set_result(None)
    async with asyncio.timeout(60):
        while (await _all(world))[0][0] is None:  # noqa: ASYNC110 - what is waited for sets no event
            await asyncio.sleep(0.02)
    assert (await _all(world))[0][0] == Decision.WITHDRAWN
    assert not line.settled.done()


async def test_a_decision_of_which_the_signal_was_lost_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOOK_EVERY", 0.1)
    questions = asking.Questions(world.stores.questions, world.features(), world.signals, module.utc_now)
    held = HeldRequests(questions, world.signals)
    line = Line(Hold("t1", "held by care", rule="care / 1"))
    park(held, line, *await permit(world))
    await asyncio.wait_for(line.asked.wait(), 60)
    (waiting,) = await world.stores.questions.waiting((await _org(world)), module.utc_now())
    at = module.utc_now()
    assert await world.stores.questions.decide(waiting.id, Decision.APPROVED, "chief@example.com", "", at)
    assert isinstance(await asyncio.wait_for(line.settled, 60), Forward)


async def test_a_store_that_is_away_refuses_and_the_link_goes_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the deadline, while it is asked, and while the row is written."""
    monkeypatch.setattr(asking, "WAITS", timedelta(seconds=0.2))
    monkeypatch.setattr(module, "_LOOK_EVERY", 0.05)
    questions = asking.Questions(world.stores.questions, world.features(), world.signals, module.utc_now)
    held = HeldRequests(questions, world.signals)
    session_id, of = await permit(world)

    async def away(*_: object) -> None:
        raise Unavailable("the store does not answer")

    for name in ("close", "look", "ask"):
        monkeypatch.setattr(questions, name, away)
        line = Line(Hold("t1", "held by care", rule="care / 1"))
        park(held, line, session_id, of)
        assert isinstance(await asyncio.wait_for(line.settled, 60), Refuse)


async def test_who_gives_up_withdraws_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOOK_EVERY", 3600.0)
    questions = asking.Questions(world.stores.questions, world.features(), world.signals, module.utc_now)
    held = HeldRequests(questions, world.signals)
    line = Line(Hold("t1", "held by care", rule="care / 1"))
    park(held, line, *await permit(world))
    await asyncio.wait_for(line.asked.wait(), 60)
    await until(lambda: line.on_settled is not None)
    line.link.parked = None
    assert line.on_settled is not None
    line.on_settled()
    for _ in range(500):
        if (await _all(world))[0][0] is not None:
            break
        await asyncio.sleep(0.02)
    assert (await _all(world))[0][0] == Decision.WITHDRAWN
    assert line.on_settled is None


async def test_a_long_session_collects_nothing(world: World) -> None:
    """Each statement that is judged in a thread left something behind on its link."""
    held = HeldRequests(world.services().questions, world.signals)
    session_id, of = await permit(world)
    line = Line(Hold("t1", "parsing", work=lambda: FORWARD))
    parked = line.link.parked
    for _ in range(3):
        line.settled = asyncio.get_running_loop().create_future()
        line.link.parked = parked
        park(held, line, session_id, of)
        await asyncio.wait_for(line.settled, 60)
        await until(lambda: not held._tasks)
    assert not line.callbacks


async def test_who_is_refused_hears_of_the_limit(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question, "MAX_OF_SESSION", 0)
    held = HeldRequests(world.services().questions, world.signals)
    line = Line(Hold("t1", "held by care", rule="care / 1"))
    park(held, line, *await permit(world))
    verdict = await asyncio.wait_for(line.settled, 60)
    assert isinstance(verdict, Refuse)
    assert "which is the most" in verdict.message


async def until(true: Callable[[], bool]) -> None:
    for _ in range(500):
        if true():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("still not so")


async def _org(world: World) -> UUID:
    return (await world.stores.organisations.default()).id


async def _all(world: World) -> list[tuple[str | None, str]]:
    async with world.database.statement() as connection:
        return [tuple(row) for row in await connection.execute(select(table.c.decision, table.c.statement))]


async def test_too_many_that_wait_are_refused_and_told_why(world: World) -> None:
    held = HeldRequests(world.services().questions, world.signals)
    held._threads = ParseThreads(1, most=1)
    session_id, of = await permit(world)
    go = threading.Event()

    def work() -> Verdict:
        assert go.wait(10)
        return FORWARD

    lines = [Line(Hold("t1", "parsing", work=work)) for _ in range(3)]
    for line in lines:
        park(held, line, session_id, of)
    refused = await asyncio.wait_for(lines[2].settled, 5)
    assert isinstance(refused, Refuse)
    assert "too many statements wait" in refused.message
    assert "short statements do not wait" in refused.hint
    go.set()
    assert [await asyncio.wait_for(line.settled, 5) for line in lines[:2]] == [FORWARD, FORWARD]
