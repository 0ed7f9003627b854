"""Which changes clients hear of, on both stores."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from uuid import UUID, uuid4

import pytest
from tests.services.reviews.desk import Desk
from tests.support.world import World

from postern.domain.change import Audience, ChangeNotice, ChangeSubject
from postern.domain.features import Feature
from postern.domain.identity.login import ClientKind, LoginMethod
from postern.domain.identity.principal import Principal
from postern.domain.sessions.session import EndReason, Session, Verb
from postern.domain.targets.agent import AgentMode
from postern.errors import TooMany
from postern.services.identity.logins.logins import ClientFacts
from postern.services.notifications import change_feed
from postern.services.notifications.change_feed import STREAMS_EACH, ChangeFeed, ChangeFollower
from postern.services.targets.agents import AgentChange
from postern.store.ports.common_ports import Topic

Heard = list[tuple[str, UUID | None, str]]


@pytest.fixture
async def desk(world: World) -> Desk:
    return await Desk.make(world)


@pytest.fixture
def feed(desk: Desk) -> ChangeFeed:
    return desk.services.changes


async def settle(feed: ChangeFeed) -> None:
    """Wait until the audience of all signalled changes is known."""
    while feed._resolving is not None:
        await asyncio.wait({feed._resolving})
        await asyncio.sleep(0)


async def heard_by(feed: ChangeFeed, follower: ChangeFollower) -> Heard:
    await settle(feed)
    shown = await feed.show(follower.principal, follower.take().changes)
    return [(str(change.subject), change.id, change.what) for change in shown]


async def open_session(desk: Desk, principal: Principal, connection: str = "open") -> Session:
    permit = await desk.services.access.admit_principal(principal, connection, verb=Verb.CONNECT, source="192.0.2.1")
    return await desk.services.sessions.open(permit, session_id=uuid4(), worker="w1", metadata={})


async def close(desk: Desk, session: Session) -> None:
    await desk.services.sessions.close(
        session.id, reason=EndReason.CLIENT_CLOSED, exit_code=0, metrics={}, event_size=1
    )


async def test_sessions_are_heard_by_their_owner_and_by_those_who_see_all(desk: Desk, feed: ChangeFeed) -> None:
    await desk.world.add_connection("open")
    people = {name: getattr(desk, name) for name in ("ann", "rita", "root", "otto", "zoe")}
    with (
        feed.follow(people["ann"], None) as ann,
        feed.follow(people["rita"], None) as rita,
        feed.follow(people["root"], None) as root,
        feed.follow(people["otto"], None) as otto,
    ):
        session = await open_session(desk, desk.ann)
        await close(desk, session)
        expected = [("session", session.id, "started"), ("session", session.id, "ended")]
        assert await heard_by(feed, ann) == expected
        assert await heard_by(feed, root) == expected
        assert await heard_by(feed, otto) == expected
        assert await heard_by(feed, rita) == []


async def test_reviews_are_heard_by_their_requester_and_reviewers(desk: Desk, feed: ChangeFeed) -> None:
    with (
        feed.follow(desk.ann, None) as ann,
        feed.follow(desk.rita, None) as rita,
        feed.follow(desk.otto, None) as otto,
        feed.follow(desk.zoe, None) as zoe,
    ):
        review = await desk.ask()
        assert await heard_by(feed, rita) == [("review", review.id, "PENDING")]
        await desk.approve(review)
        for follower in (ann, otto):
            assert await heard_by(feed, follower) == [
                ("review", review.id, "PENDING"),
                ("review", review.id, "APPROVED"),
            ]
        assert await heard_by(feed, rita) == [("review", review.id, "APPROVED")]
        assert await heard_by(feed, zoe) == []


async def test_a_change_of_a_review_names_its_session(desk: Desk, feed: ChangeFeed) -> None:
    with feed.follow(desk.ann, None) as ann:
        review = await desk.ask()
        await settle(feed)
        assert [change.session_id for change in ann.take().changes] == [review.session_id]


async def test_agents_are_heard_by_administrators_and_auditors(desk: Desk, feed: ChangeFeed) -> None:
    agent = await desk.world.add_agent("edge", AgentMode.STANDARD)
    with (
        feed.follow(desk.root, None) as root,
        feed.follow(desk.otto, None) as otto,
        feed.follow(desk.ann, None) as ann,
    ):
        await desk.services.agents.announce(agent.id, AgentChange.CAME)
        await settle(feed)
        await desk.services.agents.announce(agent.id, AgentChange.WENT)
        await settle(feed)
        await desk.services.agent_keys.remove(desk.root, "edge")
        expected = [("agent", agent.id, what) for what in ("online", "offline", "deleted")]
        assert await heard_by(feed, root) == expected
        assert await heard_by(feed, otto) == expected
        assert await heard_by(feed, ann) == []


async def test_a_connection_is_named_only_to_those_who_can_see_it(desk: Desk, feed: ChangeFeed) -> None:
    await desk.switch(Feature.ACCESS_CONTROL, on=True)
    with feed.follow(desk.root, None) as root, feed.follow(desk.zoe, None) as zoe:
        await desk.services.connections.update(desk.root, "shop", {"tags": ["x"]})
        assert await heard_by(feed, root) == [("connection", desk.shop.id, "changed")]
        assert await heard_by(feed, zoe) == [("connection", None, "changed")]


async def test_a_deleted_connection_changes_the_list(desk: Desk, feed: ChangeFeed) -> None:
    with feed.follow(desk.ann, None) as ann:
        await desk.services.connections.remove(desk.root, "shop")
        assert ("connection", None, "changed") in await heard_by(feed, ann)


async def test_many_changed_connections_count_as_a_changed_list(desk: Desk, feed: ChangeFeed) -> None:
    audience = Audience(desk.world.org_id, everyone=True)
    changes = [ChangeNotice(number, ChangeSubject.CONNECTION, uuid4(), "changed", audience) for number in range(1, 30)]
    assert [change.id for change in await feed.show(desk.root, changes)] == [None]


async def test_logins_are_heard_by_their_user_alone(desk: Desk, feed: ChangeFeed) -> None:
    account = await desk.world.stores.principals.get(desk.world.org_id, desk.ann.id)
    assert account is not None
    with feed.follow(desk.ann, None) as ann, feed.follow(desk.root, None) as root:
        client = ClientFacts(ClientKind.API, "192.0.2.1")
        login = (await desk.services.logins.open(account, LoginMethod.LOCAL, client)).login
        await desk.services.logins.end(desk.ann, login.id)
        assert ann.is_doubtful
        assert not root.is_doubtful
        assert await heard_by(feed, ann) == [("login", login.id, "started"), ("login", login.id, "ended")]
        assert await heard_by(feed, root) == []


async def test_another_organisation_hears_nothing(desk: Desk, feed: ChangeFeed) -> None:
    stranger = replace(desk.root, id=uuid4(), org_id=uuid4())
    await desk.world.add_connection("open")
    with feed.follow(stranger, None) as follower:
        await open_session(desk, desk.ann)
        await desk.ask()
        await desk.services.connections.update(desk.root, "shop", {"tags": ["x"]})
        assert await heard_by(feed, follower) == []


async def test_a_client_continues_after_the_change_that_it_has(desk: Desk, feed: ChangeFeed) -> None:
    with feed.follow(desk.ann, None) as ann:
        await desk.ask()
        await settle(feed)
        position = ann.take().position
    await desk.services.logins.end_all(desk.ann.id)
    missed = await desk.submit()
    await settle(feed)
    with feed.follow(desk.ann, position) as ann:
        await settle(feed)
        batch = ann.take()
        assert not batch.has_gap
        assert [change.session_id for change in batch.changes] == [missed.id]


@pytest.mark.parametrize("position", ["", "x", "0-1", "-", "{epoch}-99", "{epoch}-", "{epoch}-²", "{epoch}--1"])
async def test_an_unknown_position_is_a_gap(desk: Desk, feed: ChangeFeed, position: str) -> None:
    with feed.follow(desk.ann, position.format(epoch=feed._epoch)) as ann:
        assert ann.take().has_gap


async def test_changes_that_no_client_followed_are_a_gap(
    desk: Desk, feed: ChangeFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_feed, "LINGER", 0.0)
    with feed.follow(desk.ann, None) as ann:
        position = ann.position
    await desk.ask()
    with feed.follow(desk.ann, position) as ann:
        assert ann.take().has_gap


async def test_old_changes_are_forgotten(desk: Desk, feed: ChangeFeed, monkeypatch: pytest.MonkeyPatch) -> None:
    with feed.follow(desk.ann, None) as ann:
        position = ann.position
        for _ in range(change_feed.MAX_REMEMBERED + 1):
            await desk.world.signals.publish(Topic.LOGIN_CHANGED, principal_id=str(desk.zoe.id), change="started")
        assert len(feed._remembered) == change_feed.MAX_REMEMBERED
        assert not ann.take().has_gap
    with feed.follow(desk.ann, position) as ann:
        assert ann.take().has_gap


async def test_a_follower_that_does_not_take_is_told_of_a_gap(desk: Desk, feed: ChangeFeed) -> None:
    with feed.follow(desk.ann, None) as ann:
        for _ in range(change_feed.MAX_QUEUED + 3):
            await desk.world.signals.publish(Topic.LOGIN_CHANGED, principal_id=str(desk.ann.id), change="started")
        batch = ann.take()
        assert batch.has_gap
        assert len(batch.changes) == 2  # those after the gap
        assert batch.position == feed.position()


@pytest.mark.parametrize("topic", [Topic.RESUMED, Topic.POLICY_CHANGED])
async def test_lost_signals_are_a_gap_and_every_login_is_checked(desk: Desk, feed: ChangeFeed, topic: str) -> None:
    with feed.follow(desk.ann, None) as ann:
        await desk.world.signals.publish(topic)
        assert ann.is_doubtful
        assert ann.take().has_gap


async def test_a_change_whose_audience_cannot_be_read_is_a_gap(
    desk: Desk, feed: ChangeFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_ids: object) -> None:
        raise OSError("the store is gone")

    monkeypatch.setattr(type(desk.world.stores.sessions), "owners", lambda _, ids: fail(ids))
    with feed.follow(desk.ann, None) as ann:
        await desk.world.signals.publish(Topic.SESSION_DONE, session_id=str(uuid4()))
        await settle(feed)
        assert ann.take().has_gap


async def test_too_many_changes_without_an_audience_are_a_gap(
    desk: Desk, feed: ChangeFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_feed, "MAX_UNRESOLVED", 2)
    with feed.follow(desk.ann, None) as ann:
        for _ in range(3):  # without a pause in which they could be looked up
            await desk.world.signals.publish(Topic.SESSION_DONE, session_id=str(uuid4()))
        assert ann.take().has_gap
        await settle(feed)


async def test_changed_groups_apply_to_what_is_queued(desk: Desk, feed: ChangeFeed) -> None:
    """A reviewer who loses the group hears nothing of what came meanwhile; one who gains it hears it."""
    with feed.follow(desk.rita, None) as rita, feed.follow(desk.zoe, None) as zoe:
        for follower in (rita, zoe):
            await desk.world.signals.publish(Topic.PRINCIPAL_CHANGED, principal_id=str(follower.principal.id))
        review = await desk.ask()
        await settle(feed)
        rita.settle(replace(desk.rita, groups=frozenset()), rita.doubts)
        zoe.settle(replace(desk.zoe, groups=frozenset({"dba"})), zoe.doubts)
        assert await heard_by(feed, rita) == [("login", None, "changed")]
        assert await heard_by(feed, zoe) == [("login", None, "changed"), ("review", review.id, "PENDING")]


async def test_streams_of_one_user_are_bounded(desk: Desk, feed: ChangeFeed) -> None:
    followed = [feed.follow(desk.ann, None) for _ in range(STREAMS_EACH)]
    for each in followed:
        each.__enter__()
    with (
        pytest.raises(TooMany, match=f"you already follow changes in {STREAMS_EACH} requests"),
        feed.follow(desk.ann, None),
    ):
        pass
    for each in followed:
        each.__exit__(None, None, None)
    with feed.follow(desk.ann, None):
        pass


async def test_many_sessions_are_looked_up_with_one_query(desk: Desk, feed: ChangeFeed) -> None:
    await desk.world.add_connection("open")
    sessions = [await open_session(desk, desk.ann) for _ in range(5)]
    with feed.follow(desk.ann, None) as ann:
        async with desk.counted() as statements:
            for session in sessions:
                await desk.world.signals.publish(Topic.SESSION_DONE, session_id=str(session.id))
            assert len(await heard_by(feed, ann)) == 5
        assert len(statements) == 1


async def test_nothing_is_looked_up_while_no_client_follows(desk: Desk, feed: ChangeFeed) -> None:
    async with desk.counted() as statements:
        await desk.world.signals.publish(Topic.SESSION_DONE, session_id=str(uuid4()))
        await settle(feed)
    assert statements == []


@pytest.mark.parametrize(
    ("name", "doubtful"), [("auth", True), ("features", True), ("token-keys", True), ("runbooks", False)]
)
async def test_settings_of_logins_put_every_login_in_doubt(
    desk: Desk, feed: ChangeFeed, name: str, doubtful: bool
) -> None:
    with feed.follow(desk.ann, None) as ann:
        await desk.world.signals.publish(Topic.SETTINGS_CHANGED, name=name)
        assert ann.is_doubtful is doubtful


async def test_changed_rules_put_the_logins_of_their_organisation_in_doubt(desk: Desk, feed: ChangeFeed) -> None:
    stranger = replace(desk.root, id=uuid4(), org_id=uuid4())
    with feed.follow(desk.ann, None) as ann, feed.follow(stranger, None) as other:
        await desk.world.signals.publish(Topic.POLICY_CHANGED, org_id=str(desk.world.org_id))
        assert ann.is_doubtful
        assert not other.is_doubtful
