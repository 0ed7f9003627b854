"""Questions on both engines: who sees them, who decides, and that one decision counts."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from tests.support.world import World

from postern.domain.permit import Permit
from postern.domain.principal import Principal
from postern.domain.question import MAX_STATEMENT, WAITS, Decision, Question
from postern.domain.session import Verb
from postern.errors import Conflict, Denied, Invalid, NotFound, PosternError
from postern.services.questions import Questions
from postern.store.ports import Topic


@pytest.fixture
def questions(world: World) -> Questions:
    return world.services().questions


@pytest.fixture
async def ann(world: World) -> Principal:
    return await world.add_user("ann", "dba")


@pytest.fixture
async def chief(world: World) -> Principal:
    return await world.add_user("chief", "admin")


async def asked(world: World, questions: Questions, who: Principal) -> Question:
    """Of a session that runs."""
    name = f"shop-{uuid4().hex[:6]}"
    await world.add_connection(name)
    services = world.services()
    permit: Permit = await services.access.admit_principal(who, name, verb=Verb.CONNECT, source="192.0.2.1")
    session = await services.sessions.open(permit, session_id=uuid4(), worker="w1", metadata={})
    made = await questions.ask(permit, session.id, "care / 1", "held", "drop table x\0" + "y" * MAX_STATEMENT)
    assert made.connection == name
    return made


async def test_a_question_is_seen_by_who_may_decide_or_asked(
    world: World, questions: Questions, ann: Principal, chief: Principal
) -> None:
    made = await asked(world, questions, ann)
    assert len(made.statement) == MAX_STATEMENT
    assert await questions.waiting(chief) == [made]
    assert await questions.waiting(ann) == [made]
    assert await questions.waiting(await world.add_user("reader", "auditor")) == [made]
    assert await questions.waiting(await world.add_user("bob", "staff")) == []
    assert await questions.waiting(replace(chief, org_id=uuid4())) == []


async def test_who_decides(world: World, questions: Questions, ann: Principal, chief: Principal) -> None:
    made = await asked(world, questions, ann)
    bob, reader = await world.add_user("bob", "staff"), await world.add_user("reader", "auditor")
    refused: list[tuple[Principal, type[PosternError]]] = [
        (ann, Denied),
        (reader, Denied),
        (bob, NotFound),
        (replace(chief, org_id=uuid4()), NotFound),
    ]
    for who, error in refused:
        with pytest.raises(error):
            await questions.decide(who, str(made.id), approve=True)
    for missing in ("nonsense", str(UUID(int=7))):
        with pytest.raises(NotFound):
            await questions.decide(chief, missing, approve=True)
    with pytest.raises(Invalid):
        await questions.decide(chief, str(made.id), approve=False, comment="a\nb")
    told: list[str] = []
    world.signals.subscribe(Topic.QUESTION_DECIDED, lambda payload: told.append(payload["question_id"]))
    decided = await questions.decide(chief, str(made.id), approve=False, comment="no")
    assert (decided.decision, decided.decided_by, decided.comment) == (Decision.REJECTED, chief.email, "no")
    assert told == [str(made.id)]
    assert await questions.waiting(chief) == []


def test_reviewers_of_the_connection_decide_but_never_on_their_own() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    ids = (UUID(int=1), UUID(int=2), UUID(int=3))
    made = Question(*ids, "shop", "ann", "ann@example.com", "care / 1", "held", "drop table x", ("leads",), at, at)
    assert made.may_decide("bob", {"leads"}, is_admin=False)
    assert not made.may_decide("bob", {"staff"}, is_admin=False)
    assert not made.may_decide("ann", {"leads"}, is_admin=True)


async def test_one_of_many_decisions_counts(
    world: World, questions: Questions, ann: Principal, chief: Principal
) -> None:
    made = await asked(world, questions, ann)
    many = [questions.decide(chief, str(made.id), approve=bool(number % 2)) for number in range(8)]
    results = await asyncio.gather(*many, return_exceptions=True)
    assert sum(isinstance(one, Question) for one in results) == 1
    assert sum(isinstance(one, Conflict) for one in results) == 7


async def test_what_expired_or_was_withdrawn_is_not_decided(
    world: World, questions: Questions, ann: Principal, chief: Principal
) -> None:
    made = await asked(world, questions, ann)
    await questions.close(made.id, Decision.WITHDRAWN)
    with pytest.raises(Conflict):
        await questions.decide(chief, str(made.id), approve=True)
    again = await asked(world, questions, ann)
    world.clock.forward(seconds=WAITS / timedelta(seconds=1))
    assert await questions.waiting(chief) == []
    with pytest.raises(Conflict):
        await questions.decide(chief, str(again.id), approve=True)
    found = await questions.look(again.id)
    assert found is not None
    assert found.decision is None
