"""Live links and changed reviews: which links are checked again, and what happens to them."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID, uuid4

import pytest
from tests.support.waiting import somebody

from postern.domain.rules.permit import Permit, seal
from postern.domain.rules.policy import Policy
from postern.domain.sessions.session import EndReason, Verb
from postern.domain.targets.connection import Connection
from postern.errors import Unavailable
from postern.gateway.link_registry import LinkRegistry, RegisteredLink
from postern.gateway.session_opening import SessionAborted
from postern.services.admission import Access
from postern.store.ports.common_ports import Topic
from postern.store.signals import LocalSignals

OVER = "the access of review 7 has expired: it was revoked by rita@example.com"


def permit_of(review_id: UUID | None, expires_at: datetime | None = None) -> Permit:
    connection = cast("Connection", SimpleNamespace(id=uuid4(), org_id=uuid4(), name="shop", protocol="postgres"))
    policy = cast("Policy", SimpleNamespace(max_duration=None))
    given = (somebody(), connection, policy, Verb.CONNECT, "192.0.2.1", None, expires_at, seal())
    return Permit(*given, means="login:1", review_id=review_id)


class Driving:
    """The part of a driver that ends a session."""

    def __init__(self) -> None:
        self.ends: list[tuple[EndReason, str]] = []
        self.renewed = 0
        self.client_bytes = self.target_bytes = 0

    def end(self, reason: EndReason, message: str) -> None:
        self.ends.append((reason, message))

    def renew(self, _pipeline: object) -> None:
        self.renewed += 1


class Place:
    """The links of one worker. The reviews in `over` give no access any more; admission fails with `problem`."""

    def __init__(self) -> None:
        self.signals = LocalSignals()
        self.over: set[UUID] = set()
        self.problem: Exception | None = None
        self.asked: list[UUID | None] = []
        self.renewals: list[asyncio.Future[Policy]] = []
        access = cast("Access", SimpleNamespace(still_allowed=self._still_allowed, renew=self._renewed))
        self.links = LinkRegistry(access, self.signals, cast("Any", lambda permit, view: None), idle_timeout=0)

    async def _still_allowed(self, permit: Permit) -> str | None:
        self.asked.append(permit.review_id)
        if self.problem is not None:
            raise self.problem
        return OVER if permit.review_id in self.over else None

    async def _renewed(self, permit: Permit) -> Permit:
        return permit if not self.renewals else replace(permit, policy=await self.renewals.pop(0))

    def add(self, permit: Permit, since: int | None = None) -> Driving:
        driver, view = Driving(), cast("Any", SimpleNamespace(schema=None))
        link = RegisteredLink(uuid4(), permit, view, cast("Any", driver), time.monotonic(), 60)
        self.links.add(link, since=self.links.changes if since is None else since)
        return driver

    async def settled(self) -> None:
        while self.links._tasks:
            await asyncio.wait(set(self.links._tasks))

    async def tell(self, review_id: UUID, status: str = "REVOKED") -> None:
        """As the services do it; back once every check has ended."""
        await self.signals.publish(Topic.REVIEW_CHANGED, review_id=str(review_id), status=status)
        await self.settled()


@pytest.fixture
async def place() -> Place:
    return Place()


async def test_ended_review_ends_only_its_own_links(place: Place) -> None:
    review, other = uuid4(), uuid4()
    own = [place.add(permit_of(review)) for _ in range(3)]
    others = [place.add(permit_of(other)), place.add(permit_of(None))]
    place.over |= {review, other}
    await place.tell(review)
    assert [driver.ends for driver in own] == [[(EndReason.REVOKED, OVER)]] * 3
    assert [driver.ends for driver in others] == [[], []]
    assert place.asked == [review] * 3


async def test_link_of_an_expired_permit_ends_as_expired(place: Place) -> None:
    review, now = uuid4(), datetime.now(UTC)
    past, future = (place.add(permit_of(review, now + timedelta(hours=hours))) for hours in (-1, 1))
    place.over.add(review)
    await place.tell(review, "EXPIRED")
    assert past.ends == [(EndReason.EXPIRED, OVER)]
    assert future.ends == [(EndReason.REVOKED, OVER)]


async def test_review_that_still_gives_access_does_not_end_its_links(place: Place) -> None:
    review = uuid4()
    driver = place.add(permit_of(review))
    await place.tell(review, "APPROVED")
    assert place.asked == [review]
    assert (driver.ends, driver.renewed) == ([], 0)


@pytest.mark.parametrize("problem", [Unavailable("the store is away"), RuntimeError("broken")])
async def test_link_whose_review_cannot_be_checked_ends(place: Place, problem: Exception) -> None:
    review = uuid4()
    driver = place.add(permit_of(review))
    place.problem = problem
    await place.tell(review)
    ((reason, message),) = driver.ends
    assert reason is EndReason.REVOKED
    assert "could not be" in message


async def test_removed_link_is_not_checked_again(place: Place) -> None:
    review = uuid4()
    driver = place.add(permit_of(review))
    (link,) = place.links._links
    place.links.remove(link)
    place.over.add(review)
    await place.tell(review)
    assert (driver.ends, place.asked) == ([], [])


async def test_session_that_is_still_dialling_ends_with_its_review(place: Place) -> None:
    review = uuid4()

    async def dial() -> None:
        links = place.links
        with links.opening(uuid4()) as opening, links.dialling(opening, permit_of(review), since=links.changes):
            begun.set()
            await asyncio.sleep(60)

    begun = asyncio.Event()
    dialling = asyncio.create_task(dial())
    await begun.wait()
    place.over.add(review)
    await place.tell(review)
    with pytest.raises(SessionAborted, match="was revoked") as ended:
        await dialling
    assert ended.value.reason is EndReason.REVOKED


async def test_attack_review_that_ends_between_admission_and_link_ends_the_link(place: Place) -> None:
    review, before = uuid4(), place.links.changes
    place.over.add(review)
    await place.tell(review)
    assert place.asked == []
    late, known = place.add(permit_of(review), before), place.add(permit_of(review))
    await place.settled()
    assert late.ends == [(EndReason.REVOKED, OVER)]
    assert known.ends == []  # was admitted by what holds since


async def test_unchanged_policy_does_not_renew_the_link(place: Place) -> None:
    """A held statement would otherwise be judged and reviewed again."""
    driver, loop = place.add(permit_of(None)), asyncio.get_running_loop()
    await place.signals.publish(Topic.POLICY_CHANGED)
    await place.settled()
    assert driver.renewed == 0
    place.renewals = [loop.create_future()]
    place.renewals[0].set_result(Policy(max_duration=7))
    await place.signals.publish(Topic.POLICY_CHANGED)
    await place.settled()
    assert driver.renewed == 1


async def test_policy_read_earlier_never_replaces_a_newer_one(place: Place) -> None:
    place.add(permit_of(None))
    (link,) = place.links._links
    loop = asyncio.get_running_loop()
    older, newer = place.renewals = [loop.create_future(), loop.create_future()]
    await place.signals.publish(Topic.POLICY_CHANGED)
    await place.signals.publish(Topic.POLICY_CHANGED)
    newer.set_result(Policy(max_duration=2))
    for _ in range(10):
        await asyncio.sleep(0)
    older.set_result(Policy(max_duration=1))
    await place.settled()
    assert link.permit.policy.max_duration == 2
