"""Reports of reviews, on both engines."""

from __future__ import annotations

from datetime import date, timedelta
from uuid import uuid4

import pytest
from tests.support.reviews import REVIEWERS, asked, decided
from tests.support.world import START, World

from postern.domain.reviews.review import ApprovalRequirement, Choice, ReviewEvent, ReviewKind
from postern.domain.reviews.review_report import ReviewsBy, sums_of
from postern.errors import Denied, Invalid
from postern.services.notifications import reports as module
from postern.services.notifications.reports import ReportDays

FORCED = (ApprovalRequirement("prod", ("owners",), force_groups=(REVIEWERS,)), ApprovalRequirement("", (REVIEWERS,)))


def later(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


async def test_what_became_of_reviews_and_how_long_people_waited(world: World) -> None:
    auditor, bob = await world.add_user("auditor", "auditor"), await world.add_user("bob", REVIEWERS)
    ann = await world.add_user("ann", REVIEWERS)
    quick = await asked(world, ann)
    await decided(world, quick, bob, at=START + later(10))
    revoked = await asked(world, demands=FORCED, connection="vault")
    await decided(world, revoked, bob, at=START + later(30), force=True)
    await decided(world, revoked, bob, Choice.REVOKED, at=START + later(99))  # who forced it is told all the same
    rejected = await asked(world, kind=ReviewKind.ONETIME)
    await decided(world, rejected, bob, Choice.REJECTED, at=START + later(50))
    own = await asked(world, ann, kind=ReviewKind.ONETIME)
    await decided(world, own, ann, at=START + later(70), own_allowed=True)
    assert await world.stores.reviews.move(own.id, ReviewEvent.WITHDRAWN, START + later(80)) is not None
    withdrawn, expired, _ = [await asked(world) for _ in range(3)]
    assert await world.stores.reviews.move(withdrawn.id, ReviewEvent.WITHDRAWN, START + later(5)) is not None
    assert await world.stores.reviews.move(expired.id, ReviewEvent.EXPIRED, START + later(7_200)) is not None
    await asked(world, created_at=START - timedelta(days=40))

    reports = world.services().reports
    found = await reports.reviews(auditor, ReportDays(), ReviewsBy.CONNECTION)
    total = found.total
    assert (total.asked, total.waiting, total.approved, total.rejected) == (7, 1, 3, 1)
    assert (total.expired, total.withdrawn, total.revoked, total.forced, total.own) == (1, 1, 1, 1, 1)
    assert (total.median_seconds, total.longest_seconds) == (40.0, 70.0)
    assert [(name, sums.asked) for name, sums in found.lines] == [("shop", 6), ("vault", 1)]
    assert found.lines[1][1].forced == 1
    by_group = await reports.reviews(auditor, ReportDays(), ReviewsBy.GROUP)
    assert [(name, sums.asked) for name, sums in by_group.lines] == [(REVIEWERS, 7), ("owners", 1)]
    by_kind = await reports.reviews(auditor, ReportDays(), ReviewsBy.KIND)
    assert [(name, sums.asked) for name, sums in by_kind.lines] == [("jit", 5), ("onetime", 2)]
    assert by_kind.total == by_group.total == total
    elsewhere = await reports.reviews(auditor, ReportDays(date(2025, 1, 1), date(2025, 2, 1)), ReviewsBy.KIND)
    assert (elsewhere.lines, elsewhere.total) == ([], sums_of([]))
    assert elsewhere.total.median_seconds is None


async def test_reports_of_reviews_are_for_administrators_and_auditors(world: World) -> None:
    ann = await world.add_user("ann")
    with pytest.raises(Denied):
        await world.services().reports.reviews(ann, ReportDays(), ReviewsBy.KIND)


async def test_a_report_of_too_many_reviews_is_refused_not_cut(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    admin = await world.add_user("admin", "admin")
    for _ in range(3):
        await asked(world, id=uuid4())
    monkeypatch.setattr(module, "MAX_REVIEWS", 3)
    reports = world.services().reports
    assert (await reports.reviews(admin, ReportDays(), ReviewsBy.KIND)).total.asked == 3
    monkeypatch.setattr(module, "MAX_REVIEWS", 2)
    with pytest.raises(Invalid, match="too many reviews"):
        await reports.reviews(admin, ReportDays(), ReviewsBy.KIND)
