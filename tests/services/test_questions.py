"""Questions on both engines: who sees them, who decides, and that one decision counts."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from tests.support.world import World

from postern.domain import question
from postern.domain.event import EventKind
from postern.domain.lists import Page
from postern.domain.permit import Permit
from postern.domain.principal import Principal, PrincipalKind
from postern.domain.question import MAX_STATEMENT, WAITS, Decision, Question
from postern.domain.retention import Purge, What
from postern.domain.session import EndReason, Verb
from postern.domain.sink import SinkKind
from postern.errors import Conflict, Denied, Invalid, NotFound, PosternError, TooMany
from postern.services.identity.api_keys import ApiKeyFields
from postern.services.identity.service_accounts import ServiceAccountFields
from postern.services.questions import Questions
from postern.services.server.trail import follow
from postern.services.telling.sinks import SinkFields
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


async def seen(questions: Questions, who: Principal) -> list[Question]:
    found = await questions.waiting(who, Page())
    assert found.total == len(found.items)
    return list(found.items)


async def opened(world: World, who: Principal) -> tuple[Permit, UUID]:
    """A session that runs."""
    name = f"shop-{uuid4().hex[:6]}"
    await world.add_connection(name)
    services = world.services()
    permit: Permit = await services.access.admit_principal(who, name, verb=Verb.CONNECT, source="192.0.2.1")
    session = await services.sessions.open(permit, session_id=uuid4(), worker="w1", metadata={})
    return permit, session.id


async def asked(world: World, questions: Questions, who: Principal) -> Question:
    permit, session_id = await opened(world, who)
    made = await questions.ask(permit, session_id, "care / 1", "held", "drop table x\0" + "y" * MAX_STATEMENT)
    assert made.connection == permit.connection.name
    return made


async def test_a_question_is_seen_by_who_may_decide_or_asked(
    world: World, questions: Questions, ann: Principal, chief: Principal
) -> None:
    made = await asked(world, questions, ann)
    assert len(made.statement) == MAX_STATEMENT
    assert await seen(questions, chief) == [made]
    assert await seen(questions, ann) == [made]
    assert await seen(questions, await world.add_user("reader", "auditor")) == [made]
    assert await seen(questions, await world.add_user("bob", "staff")) == []
    assert await seen(questions, replace(chief, org_id=uuid4())) == []


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
    assert await seen(questions, chief) == []


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
    assert await seen(questions, chief) == []
    with pytest.raises(Conflict):
        await questions.decide(chief, str(again.id), approve=True)
    found = await questions.look(again.id)
    assert found is not None
    assert found.decision is None


async def test_a_program_decides_nothing(world: World, questions: Questions, ann: Principal, chief: Principal) -> None:
    """Attack: who may make an API key approves what they sent by it."""
    made = await asked(world, questions, ann)
    for kind in (PrincipalKind.API_KEY, PrincipalKind.SERVICE_ACCOUNT, PrincipalKind.MACHINE):
        with pytest.raises(Denied, match="people decide"):
            await questions.decide(replace(chief, kind=kind), str(made.id), approve=True)
    assert await seen(questions, chief) == [made]


@pytest.mark.parametrize("of_account", [False, True])
async def test_attack_who_made_a_programs_key_decides_on_what_it_sends(
    world: World, questions: Questions, chief: Principal, of_account: bool
) -> None:
    services = world.services()
    second = await world.add_user("second", "admin")
    fields = ApiKeyFields(name="robot", groups=None if of_account else ("dba",))
    if of_account:
        account = ServiceAccountFields(name="robot", groups=("dba",))
        await services.service_accounts.create(second, "robot@shop", account)
        fields = replace(fields, service_account="robot@shop")
    issued = await services.api_keys.create(chief, fields)
    made = await asked(world, questions, issued.view.account.principal)
    await services.api_keys.revoke(chief, "robot")
    with pytest.raises(Denied, match="sent themselves"):
        await questions.decide(chief, str(made.id), approve=True)
    assert (await questions.decide(second, str(made.id), approve=False)).decision is Decision.REJECTED


async def test_own_statements_are_decided_only_where_the_organisation_says_so(
    world: World, questions: Questions, chief: Principal
) -> None:
    made = await asked(world, questions, chief)
    with pytest.raises(Denied, match="ask another"):
        await questions.decide(chief, str(made.id), approve=True)
    await world.features().put(chief, "self-review", enabled=True)
    assert (await questions.decide(chief, str(made.id), approve=True)).decision is Decision.APPROVED
    ann = await world.add_user("ann", "dba")
    other = await asked(world, questions, ann)
    with pytest.raises(Denied, match="only an administrator"):
        await questions.decide(ann, str(other.id), approve=True)


async def test_attack_one_asker_fills_no_list(
    world: World, questions: Questions, ann: Principal, chief: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(question, "MAX_OF_ASKER", 3)
    for _ in range(3):
        await asked(world, questions, ann)
    with pytest.raises(TooMany, match="3 statements of yours wait"):
        await asked(world, questions, ann)
    bob = await world.add_user("bob", "dba")
    await asked(world, questions, bob)
    monkeypatch.setattr(question, "MAX_OF_ORGANISATION", 4)
    with pytest.raises(TooMany, match="4 statements wait"):
        await asked(world, questions, bob)
    await questions.decide(chief, str((await seen(questions, ann))[0].id), approve=False)
    await asked(world, questions, ann)


async def test_attack_one_session_asks_and_gives_up_for_ever(
    world: World, questions: Questions, ann: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(question, "MAX_OF_SESSION", 3)
    permit, session_id = await opened(world, ann)
    for _ in range(3):
        made = await questions.ask(permit, session_id, "care / 1", "held", "drop table x")
        await questions.close(made.id, Decision.WITHDRAWN)
    with pytest.raises(TooMany, match="asked 3 times"):
        await questions.ask(permit, session_id, "care / 1", "held", "drop table x")


async def test_attack_many_at_once_go_over_no_limit(
    world: World, questions: Questions, ann: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(question, "MAX_OF_ASKER", 4)
    permit, session_id = await opened(world, ann)
    many = [questions.ask(permit, session_id, "care / 1", "held", f"drop table t{n}") for n in range(10)]
    results = await asyncio.gather(*many, return_exceptions=True)
    assert sum(isinstance(one, Question) for one in results) == 4
    assert sum(isinstance(one, TooMany) for one in results) == 6


async def test_a_question_whose_session_has_ended_waits_no_more(
    world: World, questions: Questions, ann: Principal, chief: Principal
) -> None:
    """A worker that was killed closes none of its questions."""
    made = await asked(world, questions, ann)
    await world.services().sessions.close(
        made.session_id, reason=EndReason.GATEWAY_CRASHED, exit_code=None, metrics={}, event_size=0
    )
    assert await seen(questions, chief) == []
    with pytest.raises(Conflict, match="its session has ended"):
        await questions.decide(chief, str(made.id), approve=True)
    late = await asked(world, questions, ann)
    world.clock.forward(seconds=WAITS / timedelta(seconds=1))
    await questions.settle()
    assert [(await questions.get(chief, str(one.id))).decision for one in (made, late)] == [
        Decision.WITHDRAWN,
        Decision.EXPIRED,
    ]


async def test_who_decides_in_the_last_moment_is_who_counts(
    world: World, questions: Questions, ann: Principal, chief: Principal
) -> None:
    """Another machine's clock says that the deadline has come."""
    made = await asked(world, questions, ann)
    await questions.decide(chief, str(made.id), approve=True)
    closed = await questions.close(made.id, Decision.EXPIRED)
    assert closed is not None
    assert closed.decision is Decision.APPROVED


async def test_decisions_and_expiry_at_once_leave_one_outcome(
    world: World, questions: Questions, ann: Principal, chief: Principal
) -> None:
    for _ in range(5):
        made = await asked(world, questions, ann)
        decided, closed = await asyncio.gather(
            questions.decide(chief, str(made.id), approve=True),
            questions.close(made.id, Decision.EXPIRED),
            return_exceptions=True,
        )
        kept = await questions.look(made.id)
        assert kept is not None
        if isinstance(decided, Question):
            assert kept.decision is Decision.APPROVED
            assert isinstance(closed, Question)
        else:
            assert isinstance(decided, Conflict)
            assert kept.decision is Decision.EXPIRED
            assert closed is None


async def test_what_is_old_goes_once_it_was_told(world: World, questions: Questions, ann: Principal) -> None:
    made = await asked(world, questions, ann)
    await questions.close(made.id, Decision.WITHDRAWN)
    world.clock.forward(days=100)
    await questions.settle()
    assert await questions.look(made.id) is not None
    await world.services().follow_up.once()
    await questions.settle()
    assert await questions.look(made.id) is None


async def test_sinks_hear_of_questions(world: World, questions: Questions, ann: Principal, chief: Principal) -> None:
    services = world.services()
    kinds = (EventKind.QUESTION_ASKED, EventKind.QUESTION_CLOSED)
    fields = SinkFields(name="siem", kind=SinkKind.WEBHOOK, address="https://siem.example.com/x", events=kinds)
    sink, _ = await services.sinks.create(chief, fields)
    world.clock.forward(seconds=1)
    made = await asked(world, questions, ann)
    await services.follow_up.once()
    await questions.decide(chief, str(made.id), approve=False, comment="no")
    await services.follow_up.once()
    await services.follow_up.once()
    found = await world.stores.deliveries.waiting(sink.id, 10)
    assert [one.event for one in found] == list(kinds)
    first, second = (json.loads(one.body)["data"] for one in found)
    assert (first["question_id"], first["asker_email"], first["rule"]) == (str(made.id), ann.email, "care / 1")
    assert "statement" not in first
    assert (second["decision"], second["decided_by"], second["comment"]) == ("rejected", chief.email, "no")


async def test_a_decision_is_audited(world: World, questions: Questions, ann: Principal, chief: Principal) -> None:
    made = await asked(world, questions, ann)
    with follow() as trail:
        await questions.decide(chief, str(made.id), approve=True)
    assert isinstance(trail.after, dict)
    assert (trail.after["asker"], trail.after["decision"]) == (ann.email, "approved")


async def test_a_purged_recording_takes_its_questions_with_it(
    world: World, questions: Questions, ann: Principal, chief: Principal
) -> None:
    """They quote it."""
    made, other = await asked(world, questions, ann), await asked(world, questions, ann)
    await questions.decide(chief, str(made.id), approve=True)
    at = world.clock.now
    purge = Purge(made.session_id, made.org_id, What.RECORDING, "retention", 1, at, 0, at, "")
    await world.stores.purges.done([purge])
    assert await questions.look(made.id) is None
    assert await questions.look(other.id) is not None
