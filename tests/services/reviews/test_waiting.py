"""Sessions that wait for a review of access: who gets them, and what ends them."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest
from tests.services.reviews.desk import Desk

from postern.domain.reviews.review import Choice
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.sessions.session import EndReason, SessionStatus, Verb
from postern.store.ports.common_ports import Topic


async def test_who_waited_goes_on_and_others_get_sessions_of_their_own(desk: Desk) -> None:
    sessions = desk.services.sessions
    review = await desk.ask()
    assert review.session_id is not None
    waiting = await sessions.get(desk.ann, review.session_id)
    assert (waiting.status, waiting.worker, waiting.verb) == (SessionStatus.OPEN, None, Verb.CONNECT)
    assert (waiting.review_id, waiting.metadata["application_name"]) == (review.id, "psql")
    assert await sessions.recover("w1") == []
    await desk.approve(review)
    assert (await sessions.get(desk.ann, waiting.id)).status is SessionStatus.READY
    assert await sessions.waiting() == []
    assert await sessions.claim(waiting.id, "w1") is None  # it is no script

    permit = await desk.connect()
    assert permit.session_id == waiting.id
    desk.world.clock.forward(seconds=5)
    resumed = await sessions.resume(permit, worker="w1", metadata={"application_name": "psql", "client": "new"})
    assert resumed is not None
    assert (resumed.status, resumed.worker, resumed.start_date) == (SessionStatus.OPEN, "w1", desk.world.clock())
    assert resumed.metadata["client"] == "new"
    assert await sessions.resume(permit, worker="w2", metadata={}) is None
    later = await desk.connect()
    assert (later.review_id, later.session_id) == (review.id, None)
    assert await sessions.resume(later, worker="w2", metadata={}) is None
    opened = await sessions.open(later, session_id=uuid4(), worker="w2", metadata={})
    assert (await sessions.get(desk.ann, opened.id)).review_id == review.id
    assert set(await desk.services.reviews.of_sessions(desk.ann, [waiting.id, opened.id])) == {waiting.id, opened.id}


async def test_a_burst_of_connections_has_one_review_and_one_of_them_its_session(desk: Desk) -> None:
    wishes = [await desk.requested_access() for _ in range(4)]
    asking, sessions = desk.services.asking, desk.services.sessions
    asked = [
        asking.ask(requested_access, session=sessions.to_wait(requested_access, metadata={}))
        for requested_access in wishes
    ]
    found = await asyncio.gather(*asked)
    assert len({review.id for review in found}) == 1
    await desk.approve(found[0])
    permits = [await desk.connect() for _ in range(4)]
    resumed = await asyncio.gather(
        *(sessions.resume(permit, worker=f"w{number}", metadata={}) for number, permit in enumerate(permits))
    )
    assert sum(one is not None for one in resumed) == 1


@pytest.mark.parametrize("end", ["rejected", "killed", "withdrawn", "expired", "unused"])
async def test_what_ends_a_session_that_waits(desk: Desk, end: str) -> None:
    review = await desk.ask()
    session_id = str(review.session_id)
    reviews, sessions = desk.services.reviews, desk.services.sessions
    if end == "rejected":
        await reviews.decide(desk.rita, session_id, Choice.REJECTED)
    elif end == "killed":
        await sessions.kill(desk.root, session_id)
    elif end == "withdrawn":
        await reviews.withdraw(desk.ann, session_id)
    else:
        if end == "unused":
            await desk.approve(review)
        desk.world.clock.forward(hours=1)
        await reviews.settle()
    reasons = {"rejected": EndReason.REJECTED, "killed": EndReason.WITHDRAWN, "withdrawn": EndReason.WITHDRAWN}
    ended = await sessions.get(desk.ann, session_id)
    assert (ended.status, ended.metadata["end_reason"]) == (SessionStatus.DONE, reasons.get(end, EndReason.EXPIRED))
    assert desk.world.signals.of(Topic.SESSION_DONE) == [{"session_id": session_id}]


async def test_killing_what_runs_leaves_what_was_given(desk: Desk) -> None:
    permit = await desk.granted()
    session = await desk.services.sessions.resume(permit, worker="w1", metadata={})
    assert session is not None
    await desk.services.sessions.kill(desk.ann, session.id)
    assert [one["session_id"] for one in desk.world.signals.of(Topic.SESSION_KILL)] == [str(session.id)]
    assert (await desk.review_of(session)).status is ReviewStatus.APPROVED
    assert (await desk.connect()).review_id == permit.review_id


async def test_somebody_at_a_proxy_managers_port_waits_there(desk: Desk) -> None:
    """The port is opened: each connection to it is admitted by itself."""
    managers = desk.services.proxy_managers
    attached = managers.attach(desk.ann, uuid4())
    asked = asyncio.ensure_future(managers.connect(desk.ann, "shop", 5433, None, source="::1", means="login:1"))
    order = await attached.orders.get()
    assert (order.connection, order.port) == ("shop", 5433)
    asked.cancel()
