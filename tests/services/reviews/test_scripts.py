"""Scripts that are reviewed: what waits, what runs, for whom, when, and that it is once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import time, timedelta
from typing import Any
from uuid import uuid4

import pytest
from tests.services.reviews.desk import MEANS, SOURCE, Desk

from postern.domain.features import Feature
from postern.domain.reviews.review import Choice, ReviewKind
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.reviews.time_window import TimeWindow
from postern.domain.secret import Secret
from postern.domain.sessions.session import EndReason, Session, SessionStatus
from postern.domain.targets.command import Invocation
from postern.domain.targets.connection import ConnectionType, Toggle
from postern.errors import Conflict, Denied, Invalid, NotFound
from postern.store.ports.common_ports import Topic

NIGHT = TimeWindow(time(22), time(3, 15))  # tests begin at 03:04:05 UTC
DAY = TimeWindow(time(9), time(17))


async def run(desk: Desk, session: Session) -> None:
    """To its end, by a worker."""
    assert await desk.services.sessions.claim(session.id, "w1") is not None
    await desk.services.sessions.close(session.id, reason=EndReason.COMPLETED, exit_code=0, metrics={}, event_size=0)


async def status(desk: Desk, session: Session) -> tuple[SessionStatus, ReviewStatus]:
    return (await desk.session(session)).status, (await desk.review_of(session)).status


async def test_only_review_of_script_shows_script_of_its_session(desk: Desk) -> None:
    """A statement may be held while its session runs a script: its reviewers decide on the statement alone."""
    review = await desk.review_of(await desk.submit("delete from t"))
    shown = {
        (kind, has_session): await desk.services.reviews.script(
            replace(review, kind=kind, session_id=review.session_id if has_session else None)
        )
        for kind in ReviewKind
        for has_session in (True, False)
    }
    assert {case for case, script in shown.items() if script is not None} == {(ReviewKind.ONETIME, True)}
    assert await desk.services.reviews.script(replace(review, session_id=uuid4())) is None


async def test_a_script_waits_runs_once_and_is_done(desk: Desk) -> None:
    sessions, signals = desk.services.sessions, desk.world.signals
    session = await desk.submit("delete from t", reason="ticket 7", labels={"a": "b"}, metadata={"c": "d"})
    assert (session.status, session.worker) == (SessionStatus.OPEN, None)
    review = await desk.review_of(session)
    assert (review.id, review.session_id, review.reason) == (session.review_id, session.id, "ticket 7")
    assert await desk.services.reviews.script(review) == "delete from t"
    kept = await desk.session(session)
    assert (kept.script, kept.labels, kept.metadata, kept.review_id) == (
        "delete from t",
        {"a": "b"},
        {"c": "d"},
        review.id,
    )
    assert await sessions.claim(session.id, "w1") is None
    await desk.approve(review)
    assert await status(desk, session) == (SessionStatus.READY, ReviewStatus.APPROVED)
    assert await sessions.waiting() == []
    assert await sessions.claim(session.id, "w1") is None
    assert signals.of(Topic.SESSION_RUN) == []

    await sessions.execute(desk.ann, session.id)
    assert signals.of(Topic.SESSION_RUN) == [{"session_id": str(session.id)}]
    assert await sessions.waiting() == [session.id]
    assert await status(desk, session) == (SessionStatus.READY, ReviewStatus.PROCESSING)
    with pytest.raises(Conflict, match="PROCESSING"):
        await sessions.execute(desk.ann, session.id)
    claimed = await sessions.claim(session.id, "w1")
    assert claimed is not None
    assert claimed[0].script == "delete from t"
    assert (claimed[1].review_id, claimed[1].means, claimed[1].source) == (review.id, MEANS, SOURCE)
    assert await desk.services.access.still_allowed(claimed[1]) is None
    assert await sessions.claim(session.id, "w2") is None
    await sessions.close(session.id, reason=EndReason.COMPLETED, exit_code=0, metrics={}, event_size=0)
    assert await status(desk, session) == (SessionStatus.DONE, ReviewStatus.EXECUTED)
    with pytest.raises(Conflict, match="EXECUTED, it has already run, and can run only once"):
        await sessions.execute(desk.ann, session.id)


async def test_reviewers_see_the_parameters_that_will_be_bound(desk: Desk) -> None:
    given = Invocation(parameters={"name": "it's\n", "id": 7, "note": None})
    session = await desk.submit("update t set name = :name, note = :note where id = :id", invocation=given)
    review = await desk.review_of(session)
    assert review.input == ":name = \"it's\\n\"\n:id = '7'\n:note = NULL"
    await desk.approve(review)
    await desk.services.sessions.execute(desk.ann, session.id)
    claimed = await desk.services.sessions.claim(session.id, "w1")
    assert claimed is not None
    assert claimed[2] == given


async def test_parameters_longer_than_reviewers_are_shown_are_rejected(desk: Desk) -> None:
    with pytest.raises(Invalid, match="parameters: longer than the 10,000 characters") as raised:
        await desk.submit("select :a", invocation=Invocation(parameters={"a": "x" * 10_001}))
    assert raised.value.field == "parameters"


async def test_of_many_who_run_it_one_does(desk: Desk) -> None:
    session = await desk.ready()
    runs = [desk.services.sessions.execute(desk.ann, session.id) for _ in range(5)]
    found = await asyncio.gather(*runs, return_exceptions=True)
    assert sorted(type(one).__name__ for one in found) == ["Conflict"] * 4 + ["Session"]
    assert len(desk.world.signals.of(Topic.SESSION_RUN)) == 1


async def test_only_its_owner_runs_it(desk: Desk) -> None:
    session = await desk.ready()
    with pytest.raises(Denied, match="only the owner of a review"):
        await desk.services.sessions.execute(desk.root, session.id)
    with pytest.raises(Denied, match="only the owner of a review"):
        await desk.services.sessions.execute(desk.otto, session.id)
    for stranger in (desk.rita, desk.zoe):
        with pytest.raises(NotFound):
            await desk.services.sessions.execute(stranger, session.id)
    assert await status(desk, session) == (SessionStatus.READY, ReviewStatus.APPROVED)


async def test_what_waits_does_not_run(desk: Desk) -> None:
    session = await desk.submit()
    with pytest.raises(Conflict, match="PENDING, it is pending: 1 member of the group 'dba' must approve"):
        await desk.services.sessions.execute(desk.ann, session.id)
    await desk.services.reviews.decide(desk.rita, str(session.id), Choice.REJECTED, comment="no")
    with pytest.raises(Conflict, match=r"REJECTED, it was rejected by rita@example\.com: no"):
        await desk.services.sessions.execute(desk.ann, session.id)
    ended = await desk.session(session)
    assert (ended.status, ended.metadata["end_reason"]) == (SessionStatus.DONE, EndReason.REJECTED)
    assert desk.world.signals.of(Topic.SESSION_DONE) == [{"session_id": str(session.id)}]


async def test_what_was_not_reviewed_is_not_executed(desk: Desk) -> None:
    await desk.world.add_connection("free")
    session = await desk.services.sessions.submit(desk.ann, "free", "select 1", source=SOURCE, means=MEANS)
    assert (session.status, session.review_id) == (SessionStatus.READY, None)
    with pytest.raises(Conflict, match="is not a reviewed script"):
        await desk.services.sessions.execute(desk.ann, session.id)
    access = await desk.approve(await desk.ask())
    assert access.session_id is not None
    with pytest.raises(Conflict, match="is not a reviewed script"):
        await desk.services.sessions.execute(desk.ann, access.session_id)


async def test_it_runs_in_its_window_only(desk: Desk) -> None:
    session = await desk.ready(window=DAY)
    with pytest.raises(Denied, match="09:00 to 17:00 UTC, next at 2026-01-02 09:00:00 UTC"):
        await desk.services.sessions.execute(desk.ann, session.id)
    assert await status(desk, session) == (SessionStatus.READY, ReviewStatus.APPROVED)
    desk.world.clock.now = desk.world.clock().replace(hour=10)
    await desk.services.sessions.execute(desk.ann, session.id)
    claimed = await desk.services.sessions.claim(session.id, "w1")
    assert claimed is not None
    assert claimed[1].expires_at == desk.world.clock().replace(hour=17, minute=0, second=0)


async def test_a_window_that_closes_before_a_worker_has_it(desk: Desk) -> None:
    session = await desk.ready(window=NIGHT)
    await desk.services.sessions.execute(desk.ann, session.id)
    desk.world.clock.forward(minutes=15)
    assert await desk.services.sessions.claim(session.id, "w1") is None
    assert await status(desk, session) == (SessionStatus.DONE, ReviewStatus.EXECUTED)
    ended = await desk.session(session)
    assert "cannot be run now" in ended.metadata["end_detail"]


async def test_attack_what_was_started_runs_days_later_when_a_worker_has_come_back(desk: Desk) -> None:
    session = await desk.ready()
    await desk.services.sessions.execute(desk.ann, session.id)
    desk.world.clock.forward(hours=24)
    await desk.services.reviews.settle()
    assert await desk.services.sessions.claim(session.id, "w1") is None
    assert await status(desk, session) == (SessionStatus.DONE, ReviewStatus.EXECUTED)
    ended = await desk.session(session)
    assert "its approval expired" in ended.metadata["end_detail"]


async def test_a_window_that_closes_while_it_runs_ends_it(desk: Desk) -> None:
    session = await desk.ready(window=NIGHT)
    await desk.services.sessions.execute(desk.ann, session.id)
    claimed = await desk.services.sessions.claim(session.id, "w1")
    assert claimed is not None
    desk.world.clock.forward(minutes=15)
    reason = await desk.services.access.still_allowed(claimed[1])
    assert reason is not None
    assert "time window" in reason


async def test_an_approval_ends_a_day_later(desk: Desk) -> None:
    session = await desk.ready()
    desk.world.clock.forward(hours=24)
    with pytest.raises(Conflict, match="approval expired"):
        await desk.services.sessions.execute(desk.ann, session.id)
    await desk.services.reviews.settle()
    assert await status(desk, session) == (SessionStatus.DONE, ReviewStatus.EXPIRED)


async def change(desk: Desk, what: str) -> None:
    shop = await desk.world.stores.connections.get(desk.world.org_id, "shop")
    assert shop is not None
    fields: dict[str, Any] = {}
    if what == "place":
        await desk.moves()
    elif what == "rule":
        await desk.add_rule()
    elif what == "reviews":
        await desk.switch(Feature.REVIEWS, on=False)
    elif what == "scripts":
        await desk.switch(Feature.SCRIPT_RUNS, on=False)
    elif what == "mode":
        fields = {"access_mode_exec": Toggle.DISABLED}
    elif what == "hidden":
        await desk.switch(Feature.ACCESS_CONTROL, on=True)
    if fields:
        await desk.world.overwrite(shop, **fields)


@pytest.mark.parametrize("what", ["place", "rule", "reviews", "scripts", "mode", "hidden"])
async def test_what_changed_since_it_was_approved_counts(desk: Desk, what: str) -> None:
    session, started = await desk.ready(), await desk.ready()
    await desk.services.sessions.execute(desk.ann, started.id)
    await change(desk, what)
    with pytest.raises((Denied, NotFound)):
        await desk.services.sessions.execute(desk.ann, session.id)
    assert await status(desk, session) == (SessionStatus.READY, ReviewStatus.APPROVED)
    assert await desk.services.sessions.claim(started.id, "w1") is None
    assert await status(desk, started) == (SessionStatus.DONE, ReviewStatus.EXECUTED)


async def test_a_rule_that_is_added_before_a_worker_has_it(desk: Desk) -> None:
    free = await desk.world.add_connection("free")
    session = await desk.services.sessions.submit(desk.ann, "free", "select 1", source=SOURCE, means=MEANS)
    await desk.add_rule(free)
    assert await desk.services.sessions.claim(session.id, "w1") is None
    ended = await desk.session(session)
    assert (ended.status, ended.exit_code) == (SessionStatus.DONE, 1)


async def test_what_it_is_started_with_is_kept_and_shown_without_values(desk: Desk) -> None:
    await desk.world.add_connection(
        "box", type=ConnectionType.CUSTOM, subtype="bash", command=("bash",), reviewers=("dba",)
    )
    given = Invocation(("--all", "it's"), {"REGION": Secret("north"), "TOKEN": Secret("hidden-value")})
    session = await desk.services.sessions.submit(desk.ann, "box", "echo", source=SOURCE, means=MEANS, invocation=given)
    review = await desk.review_of(session)
    assert review.input == "argument 1: '--all'\nargument 2: \"it's\"\nvariable REGION\nvariable TOKEN"
    assert "hidden-value" not in str(review)
    await desk.approve(review)
    await desk.services.sessions.execute(desk.ann, session.id)
    claimed = await desk.services.sessions.claim(session.id, "w1")
    assert claimed is not None
    assert claimed[2] == given
    with pytest.raises(Invalid, match="client_args"):
        await desk.services.sessions.submit(
            desk.ann, "box", "echo", source=SOURCE, means=MEANS, invocation=Invocation(("x" * 10_001,))
        )


@pytest.mark.parametrize("when", ["waiting", "ready", "started", "running"])
async def test_killing_it_ends_its_review(desk: Desk, when: str) -> None:
    sessions = desk.services.sessions
    session = await (desk.submit() if when == "waiting" else desk.ready())
    if when in ("started", "running"):
        await sessions.execute(desk.ann, session.id)
    if when == "running":
        assert await sessions.claim(session.id, "w1") is not None
    await sessions.kill(desk.ann, session.id)
    if when == "running":
        assert [one["session_id"] for one in desk.world.signals.of(Topic.SESSION_KILL)] == [str(session.id)]
        return
    ended = ReviewStatus.EXECUTED if when == "started" else ReviewStatus.WITHDRAWN
    assert await status(desk, session) == (SessionStatus.DONE, ended)
    assert desk.world.signals.of(Topic.SESSION_DONE) == [{"session_id": str(session.id)}]
    assert await sessions.claim(session.id, "w1") is None


async def test_a_worker_that_died_leaves_nothing_open(desk: Desk) -> None:
    session = await desk.ready()
    await desk.services.sessions.execute(desk.ann, session.id)
    assert await desk.services.sessions.claim(session.id, "w1") is not None
    after = desk.world.services()  # the worker, started anew
    assert await after.sessions.recover("w1") == [session.id]
    await after.sessions.close(session.id, reason=EndReason.GATEWAY_CRASHED, exit_code=None, metrics={}, event_size=0)
    await after.reviews.settle()
    assert await status(desk, session) == (SessionStatus.DONE, ReviewStatus.EXECUTED)


async def test_it_runs_whoever_the_owner_has_become_since(desk: Desk) -> None:
    """It may still run for a member of another group, whom no rule asks, and when no approval is required."""
    session = await desk.ready()
    shop = await desk.world.stores.connections.get(desk.world.org_id, "shop")
    assert shop is not None
    await desk.world.overwrite(shop, reviewers=())
    await desk.services.sessions.execute(desk.ann, session.id)
    await run(desk, session)
    assert await status(desk, session) == (SessionStatus.DONE, ReviewStatus.EXECUTED)


async def test_each_script_has_its_own_review(desk: Desk) -> None:
    await desk.granted()
    first, second = await desk.submit(), await desk.submit()
    assert first.review_id != second.review_id
    review = await desk.review_of(first)
    assert review.expires_at == desk.world.clock() + timedelta(hours=24)
    await desk.approve(review)
    assert await status(desk, second) == (SessionStatus.OPEN, ReviewStatus.PENDING)
