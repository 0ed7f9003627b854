"""Violations are written in order, in limited numbers, and omissions are counted."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from uuid import UUID, uuid4

import pytest
from tests.support.promises import until, within
from tests.support.world import World

from postern.domain.rules.permit import Permit, seal
from postern.domain.rules.policy import Policy
from postern.domain.rules.violation import MAX_STATEMENT, Violation
from postern.domain.sessions.session import Verb
from postern.errors import Unavailable
from postern.gateway.rules import violations as module
from postern.gateway.rules.violations import ONE_BY_ONE, SessionViolations, Violations
from postern.interception.events import Operation
from postern.store.database import Database


class Kept:
    """A store that can be unavailable, and that rejects the rule `poison`."""

    def __init__(self) -> None:
        self.rows: list[Violation] = []
        self.grown = asyncio.Event()
        self.is_away = False
        self.tries = 0

    async def add(self, violations: Sequence[Violation]) -> None:
        self.tries += 1
        if self.is_away:
            raise Unavailable("the store does not answer")
        if any(one.rule == "poison" for one in violations):
            raise ValueError("no such text")
        self.rows += violations
        self.grown.set()


@pytest.fixture
async def permit(database: Database) -> Permit:
    world = await World.make(database)
    ann, connection = await world.add_user("ann"), await world.add_connection("shop")
    return Permit(ann, connection, Policy(), Verb.CONNECT, "192.0.2.1", None, None, seal())


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY", 0.01)


def made(store: object, permit: Permit) -> tuple[Violations, SessionViolations, Counter[str]]:
    counted: Counter[str] = Counter()

    def count(name: str, *labels: str, by: float = 1) -> None:
        counted[labels[0]] += int(by)

    every = Violations(store, count)  # type: ignore[arg-type]
    return every, every.of(uuid4(), permit), counted


def refuse(session: SessionViolations, times: int = 1, text: str = "drop table orders", rule: str = "no drops") -> None:
    for _ in range(times):
        session("deny", rule, "refused", [Operation(1, text)] if text else [])


async def grown(store: Kept, number: int) -> None:
    async with asyncio.timeout(within(5)):
        while len(store.rows) < number:
            store.grown.clear()
            await store.grown.wait()


async def test_violations_are_stored_with_cut_statements(database: Database, permit: Permit) -> None:
    world = await World.make(database)
    _, session, counted = made(world.stores.violations, permit)
    session("deny", "no drops", "refused", [Operation(1, "drop table orders", values=(b"secret",))])
    session("warn", "mind", "careful", [])
    session("review", "ask", "may it run?", [Operation(2, "update\0 orders \ud800" + "x" * MAX_STATEMENT)])

    async def written() -> bool:
        return len(await world.stores.postprocessing.violations(10)) >= 3

    await until(written, within(5))
    found = await world.stores.postprocessing.violations(10)
    assert [(one.number, one.action, one.rule, one.left_out) for one in found] == [
        (1, "deny", "no drops", 0),
        (2, "warn", "mind", 0),
        (3, "review", "ask", 0),
    ]
    first, second, third = found
    assert (first.connection, first.user, first.statement) == ("shop", "ann@example.com", "drop table orders")
    assert second.statement is None
    assert third.statement is not None
    assert third.statement.startswith("update\ufffd orders ?xx")
    assert len(third.statement) == MAX_STATEMENT
    assert counted == {"deny": 1, "warn": 1, "review": 1}


async def test_violations_of_a_session_over_the_limit_are_counted_as_left_out(
    permit: Permit, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Kept()
    _, session, counted = made(store, permit)
    refuse(session, ONE_BY_ONE + 50)
    await grown(store, ONE_BY_ONE)
    monkeypatch.setattr(session, "_next_at", 0.0)  # a minute has passed
    refuse(session)
    refuse(session, 7)
    await session.close()
    assert [one.number for one in store.rows] == [*range(1, ONE_BY_ONE + 1), ONE_BY_ONE + 51, ONE_BY_ONE + 58]
    assert [one.left_out for one in store.rows[-3:]] == [0, 50, 6]
    told = len(store.rows) + sum(one.left_out for one in store.rows)
    assert told == session.number == counted["deny"] == ONE_BY_ONE + 58
    assert len({one.id for one in store.rows}) == len(store.rows)


@pytest.mark.usefixtures("soon")
async def test_violations_wait_for_an_unavailable_store_in_limited_numbers(
    permit: Permit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST", 5)
    store = Kept()
    store.is_away = True
    every, session, _ = made(store, permit)
    refuse(session, 9)
    assert every.is_full
    await session.close()  # which holds nobody up
    assert (store.rows, store.tries > 0) == ([], True)
    store.is_away = False
    await grown(store, 6)
    assert [(one.number, one.left_out) for one in store.rows] == [*((number, 0) for number in range(1, 6)), (9, 3)]


@pytest.mark.usefixtures("soon")
async def test_violation_that_cannot_be_written_does_not_block_others(
    permit: Permit, caplog: pytest.LogCaptureFixture
) -> None:
    store = Kept()
    every, session, _ = made(store, permit)
    refuse(session)
    refuse(session, rule="poison")
    refuse(session)
    await every.once()
    assert [one.number for one in store.rows] == [1, 3]
    assert "could not be written" in caplog.text


async def test_violations_added_again_after_a_lost_answer_are_stored_once(database: Database, permit: Permit) -> None:
    """The store accepted them, but its answer was lost, so they are sent again."""
    world = await World.make(database)
    _, session, _ = made(world.stores.violations, permit)
    refuse(session, 3)
    await session.close()
    found = await world.stores.postprocessing.violations(10)
    await world.stores.violations.add(found)
    assert await world.stores.postprocessing.violations(10) == found
    assert all(isinstance(one.id, UUID) for one in found)


async def test_session_without_violations_runs_no_store_query(permit: Permit) -> None:
    store = Kept()
    _, session, _ = made(store, permit)
    await session.close()
    assert store.tries == 0
