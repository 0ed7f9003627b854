"""Reviews of statements: who decides on what a guardrail holds, how many may wait, and when they go."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest
from tests.services.reviews.desk import Desk
from tests.support.world import World

from postern.domain.features import Feature
from postern.domain.identity.principal import Principal, PrincipalKind
from postern.domain.reviews import review as limits
from postern.domain.reviews.review import Choice, Review, ReviewEvent
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.rules.permit import Permit
from postern.domain.sessions.retention import Purge, PurgeScope
from postern.domain.sessions.session import EndReason, Verb
from postern.errors import Conflict, Denied, TooMany
from postern.services.server.audit_context import collect_change

TEXT = "drop table x"


async def running(world: World, who: Principal) -> tuple[Permit, str]:
    """A session on a connection of its own, for which no approval is required."""
    name = f"db-{uuid4().hex[:6]}"
    await world.add_connection(name)
    services = world.services()
    permit: Permit = await services.access.admit_principal(
        who, name, verb=Verb.CONNECT, source="192.0.2.1", means="login:1"
    )
    session = await services.sessions.open(permit, session_id=uuid4(), worker="w1", metadata={})
    return permit, str(session.id)


async def held(desk: Desk, who: Principal | None = None, text: str = TEXT) -> Review:
    permit, session_id = await running(desk.world, who or desk.ann)
    return await hold(desk, permit, session_id, text)


async def hold(desk: Desk, permit: Permit, session_id: str, text: str = TEXT) -> Review:
    session = await desk.services.sessions.get(desk.root, session_id)
    return await desk.services.asking.hold(permit, session.id, "care / 1", "held", text)


async def test_administrators_decide_and_the_connections_reviewers(desk: Desk) -> None:
    one = await held(desk)
    assert (one.groups, one.demands[0].min_approvals, one.demands[0].rule) == (("admin",), 1, "care / 1")
    with pytest.raises(Denied):
        await desk.services.reviews.decide(desk.ann, str(one.id), Choice.APPROVED)
    permit = await desk.granted()
    session = await desk.services.sessions.open(permit, session_id=uuid4(), worker="w1", metadata={})
    other = await hold(desk, permit, str(session.id))
    assert other.groups == ("dba", "admin")
    assert (await desk.approve(other, desk.rolf)).status is ReviewStatus.APPROVED


async def test_attack_a_program_decides_nothing(desk: Desk) -> None:
    """Who may make an API key would approve what they sent by it."""
    one = await held(desk)
    issued = await desk.services.api_keys.create(desk.root, {"name": "robot", "groups": ("admin",)})
    program = issued.account.principal
    assert program.kind is not PrincipalKind.USER
    with pytest.raises(Denied, match="only users can decide"):
        await desk.services.reviews.decide(program, str(one.id), Choice.APPROVED)


@pytest.mark.parametrize("of_account", [False, True])
async def test_attack_who_made_a_programs_key_decides_on_what_it_sends(desk: Desk, of_account: bool) -> None:
    services = desk.services
    chief = await desk.world.add_user("chief", "admin")
    fields: dict[str, object] = {"name": "robot"} if of_account else {"name": "robot", "groups": ("dba",)}
    if of_account:
        await services.service_accounts.create(
            desk.root, {"subject": "robot@shop", "name": "robot", "groups": ("dba",)}
        )
        fields["service_account"] = "robot@shop"
    issued = await services.api_keys.create(chief, fields)
    one = await held(desk, issued.account.principal)
    await services.api_keys.remove(chief, "robot")
    with pytest.raises(Denied, match="your own request"):
        await services.reviews.decide(chief, str(one.id), Choice.APPROVED)
    assert (await desk.approve(one, desk.root)).status is ReviewStatus.APPROVED


async def test_own_statements_are_decided_only_where_the_organisation_says_so(desk: Desk) -> None:
    one = await held(desk, desk.root)
    with pytest.raises(Denied, match="ask another reviewer"):
        await desk.approve(one, desk.root)
    await desk.services.features.put(desk.root, Feature.SELF_REVIEW, enabled=True)
    approved = await desk.approve(one, desk.root)
    assert approved.status is ReviewStatus.APPROVED
    assert approved.voices[0].own
    other = await held(desk)
    with pytest.raises(Denied):
        await desk.approve(other, desk.ann)


async def test_attack_one_asker_fills_no_list(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_OF_OWNER", 3)
    made = [await held(desk) for _ in range(3)]
    with pytest.raises(TooMany, match="you have 3 pending reviews"):
        await held(desk)
    await held(desk, desk.zoe)
    monkeypatch.setattr(limits, "MAX_OF_ORGANISATION", 4)
    with pytest.raises(TooMany, match="the organisation has 4 pending reviews"):
        await held(desk, desk.zoe)
    await desk.services.reviews.decide(desk.root, str(made[0].id), Choice.REJECTED)
    await held(desk)


async def test_attack_one_session_asks_and_gives_up_for_ever(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_OF_SESSION", 3)
    permit, session_id = await running(desk.world, desk.ann)
    for _ in range(3):
        one = await hold(desk, permit, session_id)
        await desk.services.reviews.close(one.id, ReviewEvent.WITHDRAWN)
    with pytest.raises(TooMany, match="requested 3 reviews"):
        await hold(desk, permit, session_id)


async def test_attack_many_at_once_go_over_no_limit(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_OF_OWNER", 4)
    permit, session_id = await running(desk.world, desk.ann)
    many = [hold(desk, permit, session_id, f"drop table t{number}") for number in range(10)]
    results = await asyncio.gather(*many, return_exceptions=True)
    assert sum(isinstance(one, Review) for one in results) == 4
    assert sum(isinstance(one, TooMany) for one in results) == 6


async def test_a_statement_whose_session_has_ended_waits_no_more(desk: Desk) -> None:
    """A worker that was killed closes none of its reviews."""
    one = await held(desk)
    assert one.session_id is not None
    await desk.services.sessions.close(
        one.session_id, reason=EndReason.GATEWAY_CRASHED, exit_code=None, metrics={}, event_size=0
    )
    with pytest.raises(Conflict):
        await desk.approve(one, desk.root)
    late = await held(desk)
    desk.world.clock.forward(seconds=601)
    await desk.services.reviews.settle()
    found = [await desk.services.reviews.get(desk.root, str(each.id)) for each in (one, late)]
    assert [each.status for each in found] == [ReviewStatus.WITHDRAWN, ReviewStatus.EXPIRED]


async def test_a_decision_and_the_deadline_at_once_leave_one_outcome(desk: Desk) -> None:
    for _ in range(5):
        one = await held(desk)
        decided, closed = await asyncio.gather(
            desk.approve(one, desk.root),
            desk.services.reviews.close(one.id, ReviewEvent.EXPIRED),
            return_exceptions=True,
        )
        kept = await desk.services.reviews.look(one.id)
        assert kept is not None
        if isinstance(decided, Review):
            assert kept.status is ReviewStatus.APPROVED
            assert isinstance(closed, Review)
        else:
            assert isinstance(decided, Conflict)
            assert kept.status is ReviewStatus.EXPIRED
            assert closed is None


async def test_a_decision_is_audited(desk: Desk) -> None:
    one = await held(desk)
    with collect_change() as trail:
        await desk.approve(one, desk.root)
    assert isinstance(trail.after, dict)
    assert (trail.after["status"], trail.after["kind"]) == ("APPROVED", "statement")


async def test_a_purged_recording_takes_what_quotes_it(desk: Desk) -> None:
    one, other = await held(desk), await held(desk)
    await desk.services.reviews.record_estimate(one.id, {"rows": 3})
    await desk.approve(one, desk.root)
    at = desk.world.clock.now
    assert one.session_id is not None
    purge = Purge(one.session_id, one.org_id, PurgeScope.RECORDING, "retention", 1, at, 0, at, "")
    await desk.world.stores.purges.mark_done([purge])
    purged, kept = [await desk.services.reviews.look(each.id) for each in (one, other)]
    assert purged is not None
    assert kept is not None
    assert (purged.input, purged.estimate, purged.status) == ("", None, ReviewStatus.APPROVED)
    assert kept.input == TEXT
