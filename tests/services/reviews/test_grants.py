"""Access that was given: to whom, for what, for how long, and what ends it."""

from __future__ import annotations

from dataclasses import replace
from datetime import time, timedelta
from uuid import UUID, uuid4

import pytest
from tests.services.reviews.desk import MEANS, SOURCE, Desk

from postern.domain.features import Feature
from postern.domain.identity.credential import Grant
from postern.domain.identity.principal import Principal
from postern.domain.reviews.review import Choice, Review, ReviewEvent
from postern.domain.reviews.review_rule import AccessType
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.reviews.time_window import TimeWindow
from postern.domain.rules.permit import Permit
from postern.domain.sessions.session import Verb
from postern.domain.targets.connection import Toggle
from postern.errors import Conflict, Denied, Invalid, NotFound
from postern.services.reviews.review_requests import ReviewRequired
from postern.store.ports.common_ports import Topic

# Tests begin at 03:04:05 UTC.
NIGHT = TimeWindow(time(22), time(3, 15))
DAY = TimeWindow(time(9), time(17))


async def grant_of(desk: Desk, principal: Principal, connection: str = "shop") -> Grant:
    """By a new connection credential."""
    issued = await desk.services.credentials.issue(principal, connection, 3_600)
    grant = await desk.services.access.find_grant(issued.credential.username)
    assert grant is not None
    return grant


async def test_who_needs_nobody_is_let_in_for_three_statements(desk: Desk) -> None:
    other = await desk.world.add_connection("other")
    third = await desk.world.add_connection("third")
    await desk.add_rule(third)
    await desk.add_rule(other, name="juniors", required_groups=frozenset({"junior"}))
    username = (await grant_of(desk, desk.ann, "other")).username
    await desk.services.asking.grant(desk.ann, other, Verb.CONNECT, source=SOURCE, means="", credential_id=None)
    await desk.services.access_rules.explain(desk.root, "other", None)  # the network rules are cached from here on
    async with desk.counted() as statements:
        grant = await desk.services.access.find_grant(username)
        assert grant is not None
        permit = await desk.services.access.admit(grant, source=SOURCE)
        await desk.services.sessions.open(permit, session_id=uuid4(), worker="w1", metadata={})
    assert len(statements) == 3
    assert (permit.review_id, permit.session_id, permit.means) == (None, None, f"credential:{grant.credential_id}")


async def test_somebody_asks_is_let_in_and_it_ends(desk: Desk) -> None:
    requested_access = await desk.requested_access()
    assert (
        requested_access.principal,
        requested_access.connection.name,
        requested_access.verb,
        requested_access.waiting,
    ) == (desk.ann, "shop", Verb.CONNECT, None)
    review = await desk.ask(600, "ticket 7")
    assert (review.status, review.reason, review.access_duration) == (ReviewStatus.PENDING, "ticket 7", 600)
    assert review.owner.email == desk.ann.email
    desk.world.clock.forward(seconds=60)
    decided = await desk.approve(review)
    assert decided.revoke_at == desk.world.clock() + timedelta(seconds=600)
    permit = await desk.connect()
    assert (permit.review_id, permit.session_id) == (review.id, review.session_id)
    assert permit.expires_at == decided.revoke_at
    assert await desk.services.access.still_allowed(permit) is None
    assert (await desk.services.access.renew(permit)).expires_at == decided.revoke_at
    desk.world.clock.forward(seconds=600)
    reason = await desk.services.access.still_allowed(permit)
    assert reason is not None
    assert "expired at" in reason
    await desk.requested_access()


async def test_who_asks_twice_has_one_review(desk: Desk) -> None:
    first = await desk.ask()
    requested_access = await desk.requested_access()
    assert requested_access.waiting is not None
    assert requested_access.waiting.id == first.id
    session = desk.services.sessions.to_wait(requested_access, metadata={})
    second = await desk.services.asking.ask(requested_access, session=session)
    assert (second.id, second.session_id) == (first.id, first.session_id)
    assert [one["review_id"] for one in desk.world.signals.of(Topic.REVIEW_CHANGED)] == [str(first.id)]


@pytest.mark.parametrize("other", ["means", "address", "user", "connection", "verb"])
async def test_what_was_given_is_good_for_nothing_else(desk: Desk, other: str) -> None:
    await desk.world.add_connection("stock", reviewers=("dba",))
    bob = await desk.world.add_user("bob", "dev")
    await desk.granted()
    if other == "means":
        await desk.requested_access(means="key:1")
    elif other == "address":
        await desk.requested_access(source="192.0.2.2")
    elif other == "user":
        await desk.requested_access(bob)
    elif other == "connection":
        await desk.requested_access(connection="stock")
    else:
        await desk.requested_access(verb=Verb.EXEC)
    assert (await desk.connect()).review_id is not None


async def test_each_credential_of_a_user_asks_for_itself(desk: Desk) -> None:
    access = desk.services.access
    one, another = await grant_of(desk, desk.ann), await grant_of(desk, desk.ann)
    with pytest.raises(ReviewRequired) as required:
        await access.admit(one, source=SOURCE)
    review = await desk.services.asking.ask(required.value.requested_access)
    await desk.approve(review)
    permit = await access.admit(one, source=SOURCE)
    assert permit.review_id == review.id
    assert permit.credential_id == one.credential_id
    with pytest.raises(ReviewRequired):
        await access.admit(another, source=SOURCE)
    with pytest.raises(ReviewRequired):
        await desk.connect()  # by a login


@pytest.mark.parametrize("change", ["place", "rule", "reviewers"])
async def test_what_was_approved_does_not_cover_what_it_has_become(desk: Desk, change: str) -> None:
    permit = await desk.granted()
    if change == "place":
        await desk.moves()
    elif change == "rule":
        await desk.add_rule()
    else:
        shop = await desk.world.stores.connections.get(desk.world.org_id, "shop")
        assert shop is not None
        await desk.world.overwrite(shop, reviewers=("security",))
    await desk.requested_access()
    with pytest.raises(Denied, match=r"has a different target|have changed since"):
        await desk.services.access.renew(permit)


async def test_a_rule_that_is_added_ends_what_runs_without_a_review(desk: Desk) -> None:
    other = await desk.world.add_connection("other")
    permit = await desk.connect(connection="other")
    assert await desk.services.access.still_allowed(permit) is None
    await desk.add_rule(other)
    reason = await desk.services.access.still_allowed(permit)
    assert reason is not None
    assert "needs a review: 1 member of the group 'security' must approve" in reason
    with pytest.raises(Denied, match="group 'security' must approve"):
        await desk.services.access.renew(permit)


async def test_what_nobody_asks_for_any_more_goes_on(desk: Desk) -> None:
    permit = await desk.granted()
    shop = await desk.world.stores.connections.get(desk.world.org_id, "shop")
    assert shop is not None
    await desk.world.overwrite(shop, reviewers=())
    assert (await desk.services.access.renew(permit)).expires_at == permit.expires_at


async def test_rules_and_reviewers_ask_together(desk: Desk) -> None:
    await desk.add_rule(access_type=AccessType.JIT, max_duration=900)
    review = await desk.ask()
    assert [demand.rule for demand in review.demands] == ["", "production"]
    assert review.access_duration == 900
    assert (await desk.approve(review)).status is ReviewStatus.PENDING
    sam = await desk.world.add_user("sam", "security")
    assert (await desk.approve(review, sam)).status is ReviewStatus.APPROVED
    with pytest.raises(Invalid, match="from 1 to 900 seconds"):
        await desk.services.asking.ask(await desk.requested_access(means="login:2"), duration=901)


@pytest.mark.parametrize("end", ["revoked", "withdrawn", "off"])
async def test_what_was_given_is_taken_back(desk: Desk, end: str) -> None:
    permit = await desk.granted()
    reviews = desk.services.reviews
    if end == "revoked":
        await reviews.decide(desk.rita, str(permit.review_id), Choice.REVOKED, comment="too late")
    elif end == "withdrawn":
        await reviews.withdraw(desk.ann, str(permit.review_id))
    else:
        await desk.switch(Feature.REVIEWS, on=False)
    reason = await desk.services.access.still_allowed(permit)
    said = {"revoked": "revoked by rita@example.com: too late", "withdrawn": "withdrawn", "off": "switched off"}
    assert reason is not None
    assert said[end] in reason
    with pytest.raises(Denied, match=said[end]):
        await desk.services.access.renew(permit)
    with pytest.raises(Denied):
        await desk.connect()


async def test_approving_again_extends_nothing(desk: Desk) -> None:
    review = await desk.approve(await desk.ask())
    desk.world.clock.forward(seconds=60)
    for reviewer in (desk.rita, desk.rolf):
        with pytest.raises(Conflict, match="cannot be approved any more"):
            await desk.approve(review, reviewer)
    now = await desk.services.reviews.look(review.id)
    assert now is not None
    assert now.revoke_at == review.revoke_at


async def test_access_ends_with_the_first_of_its_ends(desk: Desk) -> None:
    grant = await grant_of(desk, desk.ann)
    access, clock = desk.services.access, desk.world.clock
    with pytest.raises(ReviewRequired) as required:
        await access.admit(grant, source=SOURCE)
    review = await desk.services.asking.ask(required.value.requested_access, duration=7_200)
    await desk.approve(review)
    permit = await access.admit(grant, source=SOURCE)
    assert permit.expires_at == grant.expires_at == clock() + timedelta(hours=1)
    rotated = replace(grant, expires_at=None)
    assert (await access.admit(rotated, source=SOURCE)).expires_at == clock() + timedelta(hours=2)
    assert (await access.renew(permit)).expires_at == grant.expires_at


async def test_attack_asking_for_long_before_less_is_given(desk: Desk) -> None:
    """The limit of the rule is lowered while the review waits, or behind its approval: nobody keeps more than that."""
    rule = await desk.add_rule(reviewers_groups=("dba",), max_duration=7_200)
    permit = await desk.granted(duration=7_200)
    assert await desk.services.access.still_allowed(permit) is None
    await desk.world.stores.review_rules.update(replace(rule, max_duration=600))
    await desk.world.signals.publish(Topic.POLICY_CHANGED, org_id=str(desk.world.org_id))
    assert "now has a shorter max duration" in str(await desk.services.access.still_allowed(permit))
    with pytest.raises(Denied, match="now has a shorter max duration"):
        await desk.services.access.renew(permit)
    assert (await desk.requested_access()).waiting is None
    desk.world.clock.forward(seconds=1)
    shorter = await desk.granted(duration=600)
    assert shorter.review_id != permit.review_id
    assert await desk.services.access.still_allowed(shorter) is None


async def test_a_window_that_closes_ends_access(desk: Desk) -> None:
    permit = await desk.granted(window=NIGHT)
    closes = desk.world.clock().replace(minute=15, second=0)
    assert permit.expires_at == closes
    assert (await desk.services.access.renew(permit)).expires_at == closes
    desk.world.clock.now = closes
    reason = await desk.services.access.still_allowed(permit)
    assert reason is not None
    assert "expired at 2026-01-02 03:15:00 UTC" in reason
    await desk.requested_access()  # it does not open again before access would have ended, so they may ask anew


async def test_attack_a_window_closes_while_somebody_is_let_in(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at the window and the end of what is given: not the next time that it turns counts."""
    permit = await desk.granted(window=NIGHT, duration=86_400)
    closes = desk.world.clock().replace(minute=15, second=0)
    looked = desk.services.asking.waiting_session

    async def slow(review: Review) -> UUID | None:
        desk.world.clock.now = closes
        return await looked(review)

    desk.world.clock.now = closes - timedelta(seconds=1)
    monkeypatch.setattr(desk.services.asking, "waiting_session", slow)
    assert (await desk.connect()).expires_at == closes
    desk.world.clock.now = closes - timedelta(seconds=1)
    standing = desk.services.asking.standing

    async def stood(now: Permit) -> Review | None:
        found = await standing(now)
        desk.world.clock.now = closes
        return found

    monkeypatch.setattr(desk.services.asking, "standing", stood)
    assert (await desk.services.access.renew(permit)).expires_at == closes


async def test_a_window_that_opens_again_lets_in_again(desk: Desk) -> None:
    permit = await desk.granted(window=NIGHT, duration=86_400)
    closes = desk.world.clock().replace(minute=15, second=0)
    assert permit.expires_at == closes
    desk.world.clock.now = closes
    reason = await desk.services.access.still_allowed(permit)
    assert reason is not None
    assert "22:00 to 03:15 UTC, next at 2026-01-02 22:00:00 UTC" in reason
    with pytest.raises(Denied, match="next at 2026-01-02 22:00:00 UTC") as refused:
        await desk.connect()
    assert not isinstance(refused.value, ReviewRequired)
    desk.world.clock.now = closes.replace(hour=22, minute=0)
    again = await desk.connect()
    assert again.expires_at == closes.replace(minute=4, second=5) + timedelta(days=1)


async def test_before_its_window_opens_nobody_is_let_in(desk: Desk) -> None:
    await desk.approve(await desk.ask(), window=DAY)
    with pytest.raises(Denied, match="next at 2026-01-02 09:00:00 UTC") as refused:
        await desk.connect()
    assert not isinstance(refused.value, ReviewRequired)
    desk.world.clock.now = desk.world.clock().replace(hour=9, minute=0, second=0)
    permit = await desk.connect()
    assert permit.expires_at == desk.world.clock() + timedelta(minutes=30)


async def test_switched_off_means_nobody_is_let_in(desk: Desk) -> None:
    await desk.granted()
    waiting = await desk.services.asking.ask(await desk.requested_access(means="login:2"))
    await desk.switch(Feature.REVIEWS, on=False)
    for means in ("login:1", "login:2", "login:3"):
        with pytest.raises(Denied, match="switched off") as refused:
            await desk.connect(means=means)
        assert not isinstance(refused.value, ReviewRequired)
    with pytest.raises(Denied, match="reviews is switched off"):
        await desk.approve(waiting)
    rejected = await desk.services.reviews.decide(desk.rita, str(waiting.id), Choice.REJECTED)
    assert rejected.status is ReviewStatus.REJECTED


async def test_access_is_bound_to_something_or_not_given(desk: Desk) -> None:
    with pytest.raises(Denied, match="log in to ask") as refused:
        await desk.connect(means="")
    assert not isinstance(refused.value, ReviewRequired)


async def test_no_access_mode_comes_before_reviewers(desk: Desk) -> None:
    await desk.world.add_connection("closed", reviewers=("dba",), access_mode_connect=Toggle.DISABLED)
    with pytest.raises(Denied, match="disabled") as refused:
        await desk.connect(connection="closed")
    assert not isinstance(refused.value, ReviewRequired)
    with pytest.raises(Denied, match="auditors"):
        await desk.connect(desk.otto)


async def test_administrators_are_asked_to_ask(desk: Desk) -> None:
    await desk.requested_access(desk.root)
    await desk.requested_access(desk.rita)


async def test_a_review_that_lapsed_is_asked_for_again(desk: Desk) -> None:
    first = await desk.ask()
    desk.world.clock.forward(hours=1)
    second = await desk.ask()
    assert second.id != first.id
    await desk.services.reviews.settle()
    lapsed = await desk.services.reviews.look(first.id)
    assert lapsed is not None
    assert lapsed.status is ReviewStatus.EXPIRED
    assert desk.world.signals.of(Topic.SESSION_DONE) == [{"session_id": str(first.session_id)}]
    assert await desk.services.reviews.close(first.id, ReviewEvent.WITHDRAWN) == lapsed


async def test_a_reason_is_one_plain_line(desk: Desk) -> None:
    for reason in ("two\rlines", "\x1b[31mred", "\u202egnirts", "x" * 1_001):
        with pytest.raises(Invalid, match=r"^reason: "):
            await desk.ask(reason=reason)
    typed = "Störung \u2014\r\nticket\n7 \n"
    assert (await desk.ask(reason=typed)).reason == "Störung \u2014 ticket 7"


async def test_a_group_that_is_renamed_while_a_review_waits_is_asked_anew(desk: Desk) -> None:
    given = await desk.granted()
    old = await desk.services.asking.ask(await desk.requested_access(means="login:2"))
    await desk.services.groups.update(desk.root, "dba", {"name": "keepers"})
    rita = replace(desk.rita, groups=frozenset({"keepers"}))
    for reviewer, refusal in ((desk.rita, Denied), (rita, NotFound)):
        with pytest.raises(refusal):
            await desk.approve(old, by=reviewer)
    assert desk.world.signals.of(Topic.POLICY_CHANGED)[-1]["org_id"] == str(desk.world.org_id)
    with pytest.raises(Denied, match="have changed since"):
        await desk.services.access.renew(given)
    requested_access = await desk.requested_access(means="login:2")
    assert (requested_access.waiting, requested_access.demands[0].groups) == (None, ("keepers",))
    again = await desk.services.asking.ask(requested_access)
    assert (await desk.approve(again, by=rita)).status is ReviewStatus.APPROVED
    assert (await desk.connect(means="login:2")).review_id == again.id
    assert (await desk.services.reviews.withdraw(desk.ann, str(old.id))).status is ReviewStatus.WITHDRAWN


async def test_attack_a_connection_that_was_deleted_and_made_again_is_another_one(desk: Desk) -> None:
    """What was approved lets nobody in, but rules that listed the old one do not ask for the new one."""
    await desk.add_rule()
    waits = await desk.ask()
    await desk.services.connections.remove(desk.root, "shop")
    await desk.world.add_connection("shop", await desk.world.add_agent("another"), reviewers=("dba",))
    await desk.approve(waits)
    requested_access = await desk.requested_access()
    assert requested_access.waiting is None
    assert [demand.rule for demand in requested_access.demands] == [""]
    with pytest.raises(ReviewRequired):
        await desk.connect()


async def test_who_took_it_back_was_killed_before_workers_were_told(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    permit = await desk.granted()
    await desk.services.postprocessing.once()

    async def lost(_topic: str, **_payload: str) -> None: ...

    with monkeypatch.context() as muted:
        muted.setattr(desk.world.signals, "publish", lost)
        await desk.services.reviews.decide(desk.rita, str(permit.review_id), Choice.REVOKED)
    told = len(desk.world.signals.of(Topic.REVIEW_CHANGED))
    await desk.services.postprocessing.once()
    (again,) = desk.world.signals.of(Topic.REVIEW_CHANGED)[told:]
    assert (again["review_id"], again["status"]) == (str(permit.review_id), "REVOKED")


async def test_the_order_of_groups_means_nothing(desk: Desk) -> None:
    """Who is let in by what was given is not cut for it a moment later."""
    rule = await desk.add_rule(reviewers_groups=("dba", "security"), force_groups=("a", "b"))
    permit = await desk.granted()
    turned = replace(rule, reviewers_groups=("security", "dba"), force_groups=("b", "a"))
    await desk.world.stores.review_rules.update(turned)
    await desk.world.signals.publish(Topic.POLICY_CHANGED, org_id=str(desk.world.org_id))
    assert (await desk.connect()).review_id == permit.review_id
    assert await desk.services.access.still_allowed(permit) is None
    assert (await desk.services.access.renew(permit)).review_id == permit.review_id


async def request_access(desk: Desk, window: TimeWindow | None = None) -> Review:
    requested = await desk.services.access_requests.request(
        desk.ann, "shop", source=SOURCE, means=MEANS, reason="ticket", duration=600, time_window=window
    )
    assert requested is not None
    return requested


async def test_requested_time_window_applies_where_reviewers_set_none(desk: Desk) -> None:
    review = await request_access(desk, DAY)
    assert (review.status, review.time_window) == (ReviewStatus.PENDING, DAY)
    assert (await desk.approve(review)).time_window == DAY
    with pytest.raises(Denied, match="gives access to connection 'shop'"):
        await desk.connect()
    desk.world.clock.forward(hours=6)
    assert (await desk.connect()).review_id == review.id


async def test_reviewer_replaces_the_requested_time_window(desk: Desk) -> None:
    review = await request_access(desk, DAY)
    assert (await desk.approve(review, window=NIGHT)).time_window == NIGHT
    assert (await desk.connect()).review_id == review.id


async def test_second_reviewer_cannot_replace_a_time_window_that_the_first_accepted(desk: Desk) -> None:
    await desk.world.overwrite(desk.shop, reviewers=())
    await desk.add_rule(reviewers_groups=("dba",), min_approvals=2)
    review = await request_access(desk, DAY)
    await desk.approve(review)
    with pytest.raises(Conflict, match="another reviewer has already set"):
        await desk.approve(review, by=desk.rolf, window=NIGHT)
    assert (await desk.approve(review, by=desk.rolf)).time_window == DAY


async def test_access_that_is_requested_again_is_the_same_review(desk: Desk) -> None:
    review = await request_access(desk)
    assert (await request_access(desk, DAY)).id == review.id
    await desk.approve(review)
    assert (await request_access(desk)).id == review.id
