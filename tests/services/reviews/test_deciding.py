"""Who decides on a review, who may not, who sees it, and what is noted and told of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from uuid import uuid4

import pytest
from sqlalchemy import update
from tests.services.reviews.desk import MEANS, SOURCE, Desk

from postern.domain.features import Feature
from postern.domain.identity.principal import Account, Principal
from postern.domain.lists import Page
from postern.domain.reviews import review as limits
from postern.domain.reviews.review import Choice, Review, ReviewEvent, ReviewKind
from postern.domain.reviews.review_status import ReviewStatus
from postern.errors import Conflict, Denied, Invalid, NotFound, PosternError, TooMany
from postern.services.server.audit_context import collect_change
from postern.store.ports.common_ports import Topic
from postern.store.ports.review_ports import ReviewFilter
from postern.store.schema.identity_tables import users

PAGE = Page(10, 0)


async def names(desk: Desk, principal: Principal, wanted: ReviewFilter | None = None) -> list[str]:
    found = await desk.services.reviews.find(principal, wanted or ReviewFilter(), PAGE)
    return [review.owner.email.partition("@")[0] for review in found.items]


async def asked_by(desk: Desk, principal: Principal, means: str = MEANS) -> Review:
    return await desk.services.asking.ask(await desk.requested_access(principal, means=means))


async def test_who_sees_a_review(desk: Desk) -> None:
    review = await desk.ask()
    reviews = desk.services.reviews
    oona = await desk.world.add_user("oona", "on call")  # may force it
    for principal in (desk.ann, desk.rita, oona, desk.root, desk.otto):
        assert await reviews.get(principal, str(review.id)) == review
        assert await reviews.get(principal, str(review.session_id)) == review
        assert await names(desk, principal) == ["ann"]
    for key in (str(review.id), str(review.session_id), str(uuid4()), "none"):
        with pytest.raises(NotFound):
            await reviews.get(desk.zoe, key)
    stranger = replace(desk.root, org_id=uuid4())
    with pytest.raises(NotFound):
        await reviews.get(stranger, str(review.id))
    with pytest.raises(NotFound):
        await reviews.decide(desk.zoe, str(review.id), Choice.REJECTED)
    assert await names(desk, desk.zoe) == []


async def test_lists_are_of_ones_own_and_those_to_review(desk: Desk) -> None:
    await desk.ask()
    await asked_by(desk, desk.zoe)
    assert await names(desk, desk.ann) == ["ann"]
    assert sorted(await names(desk, desk.rita)) == ["ann", "zoe"]
    assert await names(desk, desk.rita, ReviewFilter(owner=desk.zoe.id)) == ["zoe"]
    assert await names(desk, desk.ann, ReviewFilter(owner=desk.zoe.id)) == []


async def test_an_administrator_who_is_no_reviewer_is_told_so(desk: Desk) -> None:
    review = await desk.ask()
    with pytest.raises(Denied, match="this review is for 'dba'"):
        await desk.approve(review, desk.root)
    with pytest.raises(Denied, match="auditors"):
        await desk.services.reviews.decide(desk.otto, str(review.id), Choice.REJECTED)
    rejected = await desk.services.reviews.decide(desk.root, str(review.id), Choice.REJECTED, comment="not today")
    assert rejected.status is ReviewStatus.REJECTED
    assert rejected.refusal is not None
    assert rejected.refusal.comment == "not today"


async def second_account(desk: Desk, first: Principal, way: str) -> Principal:
    """Made once the first one is called otherwise, since a store has one of each subject and each address."""
    called = {"subject": f"old {first.subject}"} if way == "subject" else {"email": f"old-{first.email}"}
    renamed = update(users).where(users.c.id == first.id).values(called)
    async with desk.world.database.transaction() as transaction:
        await transaction.execute(renamed)
    second = replace(first, id=uuid4())
    second = replace(second, email="rita@new.example.com") if way == "subject" else replace(second, subject="another")
    await desk.world.stores.principals.add(Account(second), desk.world.clock())
    return second


@pytest.mark.parametrize("way", ["account", "subject", "address", "key"])
async def test_nobody_approves_their_own(desk: Desk, way: str) -> None:
    owner = approver = desk.rita
    means = MEANS
    if way == "key":  # by a program whose key they made
        approver = await desk.world.add_user("rosa", "dba", "admin")
        made = await desk.services.api_keys.create(approver, {"name": "nightly"})
        key, owner = await desk.services.api_keys.authenticate(made.secret, SOURCE)
        means = f"key:{key.id}"
    review = await asked_by(desk, owner, means)
    if way in ("subject", "address"):
        approver = await second_account(desk, desk.rita, way)
    with pytest.raises(Denied, match="you cannot approve your own request"):
        await desk.approve(review, approver)
    assert (await desk.approve(review, desk.rolf)).status is ReviewStatus.APPROVED


async def test_a_program_decides_nothing(desk: Desk) -> None:
    made = await desk.services.api_keys.create(desk.root, {"name": "nightly", "groups": ("dba",)})
    _, program = await desk.services.api_keys.authenticate(made.secret, SOURCE)
    with pytest.raises(Denied, match="only users can decide"):
        await desk.approve(await desk.ask(), program)


async def test_ones_own_approval_and_a_forced_one_are_marked(desk: Desk) -> None:
    oona = await desk.world.add_user("oona", "on call")
    await desk.switch(Feature.SELF_REVIEW, on=True)
    own = await asked_by(desk, desk.rita)
    with collect_change() as trail:
        await desk.approve(own)
    assert isinstance(trail.before, dict)
    assert isinstance(trail.after, dict)
    assert (trail.before["status"], trail.after["status"]) == (ReviewStatus.PENDING, ReviewStatus.APPROVED)
    assert [(voice["by"], voice["own"], voice["forced"]) for voice in trail.after["voices"]] == [
        ("rita@example.com", True, False)
    ]
    other = await desk.ask()
    with pytest.raises(Denied, match="'dba'"):
        await desk.approve(other, oona)
    with collect_change() as trail:
        await desk.services.reviews.decide(oona, str(other.id), Choice.APPROVED, force=True)
    assert isinstance(trail.after, dict)
    assert [(voice["own"], voice["forced"]) for voice in trail.after["voices"]] == [(False, True)]


async def test_every_process_is_told(desk: Desk) -> None:
    review = await desk.ask()
    told = {"review_id": str(review.id), "session_id": str(review.session_id), "principal_id": str(desk.ann.id)}
    await desk.services.reviews.decide(desk.rita, str(review.session_id), Choice.REJECTED)
    assert desk.world.signals.of(Topic.REVIEW_CHANGED) == [
        told | {"status": "PENDING"},
        told | {"status": "REJECTED"},
    ]
    assert desk.world.signals.of(Topic.SESSION_DONE) == [{"session_id": str(review.session_id)}]
    with pytest.raises(Conflict, match="REJECTED"):
        await desk.approve(review)


async def test_comments_are_plain(desk: Desk) -> None:
    review = await desk.ask()
    for comment in ("\x07", "\u2066", "\ud800", "x" * 1_001):
        with pytest.raises(Invalid, match=r"^comment: "):
            await desk.services.reviews.decide(desk.rita, str(review.id), Choice.REJECTED, comment=comment)
    assert await desk.services.reviews.look(review.id) == review


async def test_who_takes_back_their_approval_has_said_both(desk: Desk) -> None:
    await desk.switch(Feature.SELF_REVIEW, on=True)
    oona = await desk.world.add_user("oona", "on call")
    review = await asked_by(desk, oona)
    reviews = desk.services.reviews
    await reviews.decide(oona, str(review.id), Choice.APPROVED, force=True, comment="outage")
    revoked = await reviews.decide(oona, str(review.id), Choice.REVOKED, comment="over")
    said = [(voice.choice, voice.forced, voice.own, voice.comment) for voice in revoked.voices]
    assert said == [(Choice.APPROVED, True, True, "outage"), (Choice.REVOKED, False, True, "over")]
    assert revoked.refusal == revoked.voices[1]
    assert await reviews.look(review.id) == revoked


async def test_who_asked_withdraws(desk: Desk) -> None:
    review = await desk.ask()
    for principal in (desk.rita, desk.root):
        with pytest.raises(Denied, match="only the owner of a review"):
            await desk.services.reviews.withdraw(principal, str(review.id))
    gone = await desk.services.reviews.withdraw(desk.ann, str(review.id))
    assert gone.status is ReviewStatus.WITHDRAWN
    assert desk.world.signals.of(Topic.SESSION_DONE) == [{"session_id": str(review.session_id)}]
    with pytest.raises(Conflict, match="it was withdrawn"):
        await desk.services.reviews.withdraw(desk.ann, str(review.id))


async def leaves(desk: Desk, principal: Principal) -> None:
    """All groups."""
    await desk.services.users.update(desk.root, principal.subject, {"groups": ()})


async def test_who_was_a_reviewer_when_it_was_asked_is_none_any_more(desk: Desk) -> None:
    review = await desk.ask()
    await leaves(desk, desk.rita)
    with pytest.raises(Denied, match="this review is for 'dba'"):
        await desk.approve(review)  # as the request that began before knows them
    assert (await desk.approve(review, desk.rolf)).status is ReviewStatus.APPROVED


async def test_who_leaves_after_their_approval_does_not_count(desk: Desk) -> None:
    await desk.add_rule(reviewers_groups=("dba",), min_approvals=2)
    review = await desk.ask()
    assert (await desk.approve(review)).status is ReviewStatus.PENDING
    with pytest.raises(Conflict, match="already"):
        await desk.approve(review)
    await leaves(desk, desk.rita)
    assert (await desk.approve(review, desk.rolf)).status is ReviewStatus.PENDING
    third = await desk.world.add_user("ruth", "dba")
    assert (await desk.approve(review, third)).status is ReviewStatus.APPROVED


async def test_one_of_two_who_decide_at_once_has_it(desk: Desk) -> None:
    review = await desk.ask()
    reviews, key = desk.services.reviews, str(review.id)
    both = await asyncio.gather(
        reviews.decide(desk.rita, key, Choice.APPROVED),
        reviews.decide(desk.rolf, key, Choice.APPROVED),
        return_exceptions=True,
    )
    assert sorted(type(one).__name__ for one in both) == ["Conflict", "Review"]
    now = await reviews.look(review.id)
    assert now is not None
    assert len(now.voices) == 1


async def test_a_worker_that_gives_up_hears_who_was_faster(desk: Desk) -> None:
    first, second = await desk.ask(), await asked_by(desk, desk.zoe)
    assert await desk.services.reviews.close(first.id, ReviewEvent.WITHDRAWN) is None
    approved = await desk.approve(second)
    assert await desk.services.reviews.close(second.id, ReviewEvent.EXPIRED) == approved


async def test_a_statement_is_held(desk: Desk) -> None:
    permit = await desk.granted()
    session = await desk.services.sessions.open(permit, session_id=uuid4(), worker="w1", metadata={})
    asking, reviews = desk.services.asking, desk.services.reviews
    held = await asking.hold(permit, session.id, "no deletes", "it deletes rows", "delete from t\n-- $1 = 'a\0'")
    assert (held.kind, held.groups, held.session_id) == (ReviewKind.STATEMENT, ("dba", "admin"), session.id)
    assert (held.input, held.reason) == ("delete from t\n-- $1 = 'a\ufffd'", "it deletes rows")
    assert [demand.rule for demand in held.demands] == ["no deletes"]
    await reviews.record_estimate(held.id, {"rows": 3})
    assert (await reviews.get(desk.root, str(held.id))).estimate == {"rows": 3}
    # The session's own review is another one.
    assert (await reviews.get(desk.root, str(session.id))).id == permit.review_id
    assert (await desk.approve(held, desk.root)).status is ReviewStatus.APPROVED
    with pytest.raises(Invalid, match="longer than"):
        await asking.hold(permit, session.id, "no deletes", "it deletes rows", "x" * 10_001)
    await desk.switch(Feature.REVIEWS, on=False)
    with pytest.raises(Denied, match="switched off"):
        await asking.hold(permit, session.id, "no deletes", "it deletes rows", "delete from t")


async def test_those_who_ask_on_and_on_are_stopped(desk: Desk) -> None:
    async def ask(number: int) -> None:
        await asked_by(desk, desk.ann, f"login:{number}")

    for number in range(20):
        await ask(number)
    with pytest.raises(PosternError, match="withdraw one, or wait"):
        await ask(20)


async def test_attack_asking_and_withdrawing_in_a_loop(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_LATELY", 3)
    for _ in range(3):
        await desk.services.reviews.withdraw(desk.ann, str((await desk.ask()).id))
    with pytest.raises(TooMany, match="3 reviews within an hour"):
        await desk.ask()
    await asked_by(desk, desk.zoe)  # others are not hindered
    desk.world.clock.forward(hours=1)
    assert (await desk.ask()).status is ReviewStatus.PENDING


async def held(desk: Desk) -> Review:
    """A statement of Ann's, on a connection that nobody had to let her into."""
    permit = await desk.granted()
    session = await desk.services.sessions.open(permit, session_id=uuid4(), worker="w1", metadata={})
    return await desk.services.asking.hold(permit, session.id, "no deletes", "it deletes rows", "delete from t")


async def test_attack_a_statement_is_decided_by_who_was_a_reviewer(desk: Desk) -> None:
    review = await held(desk)
    await desk.world.overwrite(desk.shop, reviewers=("security",))
    sam = await desk.world.add_user("sam", "security")
    with pytest.raises(Denied, match="this review is for 'admin'"):
        await desk.approve(review)
    with pytest.raises(Denied, match="only its reviewers"):
        await desk.services.reviews.decide(desk.rita, str(review.id), Choice.REJECTED)
    with pytest.raises(NotFound):  # it was asked of others
        await desk.approve(review, sam)
    decided = await desk.approve(review, desk.root)
    assert (decided.status, decided.groups) == (ReviewStatus.APPROVED, ("dba", "admin"))


async def test_what_waits_or_is_given_on_a_connection_ends_with_it(desk: Desk) -> None:
    statement = await held(desk)
    approved = await desk.review_of(await desk.ready())
    waiting = await desk.review_of(await desk.submit("select 2"))
    given = await desk.services.reviews.get(desk.root, str(statement.session_id))
    before = [statement, approved, waiting, given]
    await desk.services.reviews.settle()
    assert [await desk.services.reviews.look(one.id) for one in before] == before
    await desk.services.connections.remove(desk.root, "shop")
    with pytest.raises(Denied, match="no group"):
        await desk.approve(statement, desk.root)
    await desk.services.reviews.settle()
    for one in before:
        now = await desk.services.reviews.look(one.id)
        assert now is not None
        assert now.status is ReviewStatus.WITHDRAWN


async def test_what_waits_for_whom(desk: Desk) -> None:
    await desk.add_rule(reviewers_groups=("dba",), min_approvals=2)
    oona = await desk.world.add_user("oona", "on call")  # may force the demand of the connection's own reviewers
    two = await desk.world.add_user("two", "dba", "auditor")

    async def waits_for(principal: Principal, page: Page = PAGE) -> list[str]:
        found = await desk.services.reviews.find_waiting(principal, ReviewFilter(), page)
        assert found.total is not None
        assert found.total >= len(found.items)
        return [review.owner.email.partition("@")[0] for review in found.items]

    anns = await desk.ask()
    desk.world.clock.forward(seconds=1)  # the newer one comes first
    await asked_by(desk, desk.rita)
    assert (await waits_for(desk.rita), await waits_for(desk.rolf)) == (["ann"], ["rita", "ann"])
    assert (await waits_for(oona), await waits_for(two), await waits_for(desk.root)) == (["rita", "ann"], [], [])
    assert (await waits_for(desk.rolf, Page(1, 1)), await waits_for(desk.rolf, Page(1, 2))) == (["ann"], [])
    await desk.switch(Feature.SELF_REVIEW, on=True)
    assert await waits_for(desk.rita) == ["rita", "ann"]
    await desk.approve(anns)
    assert (await waits_for(desk.rita), await waits_for(desk.rolf)) == (["rita"], ["rita", "ann"])
    desk.world.clock.forward(hours=1)
    assert await waits_for(desk.rolf) == []  # too late for it, and not noted yet
