"""Lists that grow with use, on both engines: pages by cursor, totals, and their indexes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.support.plans import explained, statements_heard
from tests.support.reviews import REVIEWERS, asked, decided
from tests.support.world import START, World

from postern.domain.identity.principal import Principal
from postern.domain.lists import Count, Page, Position, Stretch
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.sink import DeliveryState
from postern.store.ports.review_ports import ReviewFilter
from postern.store.ports.server_ports import AuditEntry, AuditFilter
from postern.store.sql import long_lists

SECOND = timedelta(seconds=1)


def entry_of(world: World, at: int, **fields: Any) -> AuditEntry:
    values: dict[str, Any] = {
        "id": uuid4(),
        "org_id": world.org_id,
        "at": START + at * SECOND,
        "actor_id": None,
        "actor_email": "ann@example.com",
        "actor_subject": "ann",
        "action": "update",
        "resource_type": "connections",
        "resource": "shop",
        "method": "PUT",
        "path": "/api/connections/shop",
        "status": 200,
        "source": "192.0.2.1",
        "request_id": "r",
        "body": {},
        "outcome": "success",
        "before": None,
        "after": None,
    }
    return AuditEntry(**(values | fields))


async def entries(world: World, count: int, **fields: Any) -> list[AuditEntry]:
    """Add entries, two of each moment; newest first."""
    made = [entry_of(world, n // 2, **fields) for n in range(count)]
    for one in made:
        await world.stores.audit.add(one)
    return sorted(made, key=lambda one: (one.at, one.id), reverse=True)


async def pages(find: Callable[[Page], Awaitable[Stretch[Any]]], limit: int) -> list[Any]:
    """Return all items, page by page by cursor."""
    found: list[Any] = []
    page = Page(limit, count=Count.NONE)
    while True:
        stretch = await find(page)
        found += stretch.items
        if stretch.next is None:
            return found
        page = replace(page, after=stretch.next)


async def test_audit_log_is_read_by_cursor_while_it_grows(world: World) -> None:
    made = await entries(world, 9)

    async def find(page: Page) -> Stretch[AuditEntry]:
        found = await world.stores.audit.find(world.org_id, AuditFilter(), page)
        await world.stores.audit.add(entry_of(world, 100))
        return found

    assert await pages(find, 2) == made


async def test_audit_log_of_another_organisation_is_empty(world: World) -> None:
    made = await entries(world, 2)
    for after in (None, Position(made[0].at, made[0].id)):
        found = await world.stores.audit.find(uuid4(), AuditFilter(), Page(after=after))
        assert (list(found.items), found.total) == ([], 0)


@pytest.mark.parametrize(
    ("count", "filters", "total", "is_capped"),
    [
        (Count.CAPPED, {}, 3, True),
        (Count.EXACT, {}, 6, True),
        (Count.NONE, {}, None, False),
        # Filters are tried on a bounded number of rows: of the newest 4, and of the newest 8.
        (Count.CAPPED, {"action": "update"}, 2, True),
        (Count.EXACT, {"action": "update"}, 5, True),
        (Count.EXACT, {"action": "update", "created_after": START + 3 * SECOND}, 4, False),
    ],
)
async def test_total_is_counted_up_to_its_limit_and_marked(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    count: Count,
    filters: dict[str, Any],
    total: int | None,
    is_capped: bool,
) -> None:
    """Ten entries, of which every second one and three of the newest four are updates."""
    bounds = {"COUNT_CAP": 3, "EXACT_CAP": 6, "LOOK_AT": 4, "LOOK_AT_MOST": 8}
    for name, bound in bounds.items():
        monkeypatch.setattr(long_lists, name, bound)
    for at in range(10):
        await world.stores.audit.add(entry_of(world, at, action="update" if at % 2 or at == 2 else "create"))
    found = await world.stores.audit.find(world.org_id, AuditFilter(**filters), Page(1, count=count))
    assert (found.total, found.total_is_capped) == (total, is_capped)


@pytest.mark.parametrize("offset", [0, 1])
async def test_rare_entries_are_found_within_bounded_work_per_page(
    world: World, monkeypatch: pytest.MonkeyPatch, offset: int
) -> None:
    monkeypatch.setattr(long_lists, "LOOK_AT", 4)
    monkeypatch.setattr(long_lists, "LOOK_AT_MOST", 4)
    rare = entry_of(world, -1, action="revoke")
    await world.stores.audit.add(rare)
    made = await entries(world, 10)

    async def find(page: Page) -> Stretch[AuditEntry]:
        return await world.stores.audit.find(world.org_id, AuditFilter(action="revoke"), page)

    first = await find(Page(offset=offset))
    assert (list(first.items), first.next) == ([], Position(made[3].at, made[3].id))
    assert await pages(find, 50) == [rare]


@pytest.fixture
async def ann(world: World) -> Principal:
    return await world.add_user("ann")


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 50])
async def test_reviews_by_cursor_appear_once_and_pending_ones_first(world: World, ann: Principal, limit: int) -> None:
    bob = await world.add_user("bob", REVIEWERS)
    made = [await asked(world, ann, created_at=START + n // 2 * SECOND) for n in range(8)]
    for one in made[::2]:
        await decided(world, one, bob)
    waiting, others = (
        [one.id for one in sorted(some, key=lambda one: (one.created_at, one.id), reverse=True)]
        for some in (made[1::2], made[::2])
    )
    store = world.stores.reviews
    for wanted, expected in (
        (ReviewFilter(), [*waiting, *others]),
        (ReviewFilter(status=ReviewStatus.PENDING), waiting),
        (ReviewFilter(status=ReviewStatus.APPROVED), others),
        (ReviewFilter(mine=(ann.id, frozenset())), [*waiting, *others]),
    ):
        found = await pages(lambda page, wanted=wanted: store.find(world.org_id, wanted, page), limit)  # type: ignore[misc]
        assert [one.id for one in found] == expected
        total = (await store.find(world.org_id, wanted, Page(limit))).total
        assert total == len(expected)


async def test_review_decided_between_two_pages_is_not_skipped(world: World, ann: Principal) -> None:
    bob = await world.add_user("bob", REVIEWERS)
    made = [await asked(world, ann, created_at=START + n * SECOND) for n in range(4)]
    store = world.stores.reviews
    first = await store.find(world.org_id, ReviewFilter(), Page(2, count=Count.NONE))
    for one in (made[0], made[3]):
        await decided(world, one, bob)
    assert first.next is not None
    second = await store.find(world.org_id, ReviewFilter(), Page(4, after=first.next, count=Count.NONE))
    assert [one.id for one in first.items] == [made[3].id, made[2].id]
    assert [one.id for one in second.items] == [made[1].id, made[3].id, made[0].id]


AT = Position(START, UUID(int=9))
FIND: dict[str, Callable[[World, Page], Awaitable[Stretch[Any]]]] = {
    "audit_log": lambda world, page: world.stores.audit.find(world.org_id, AuditFilter(), page),
    "audit_log, dates": lambda world, page: world.stores.audit.find(
        world.org_id, AuditFilter(created_after=START - SECOND, created_before=START + SECOND), page
    ),
    "audit_log, sieved": lambda world, page: world.stores.audit.find(world.org_id, AuditFilter(action="x"), page),
    "checkpoints": lambda world, page: world.stores.checkpoints.find(world.org_id, page),
    "credentials": lambda world, page: world.stores.credentials.of_connection(world.org_id, UUID(int=1), None, page),
    "credentials, own": lambda world, page: world.stores.credentials.of_connection(
        world.org_id, UUID(int=1), UUID(int=2), page
    ),
    "deliveries": lambda world, page: world.stores.deliveries.find(UUID(int=1), None, page),
    "deliveries, state": lambda world, page: world.stores.deliveries.find(UUID(int=1), DeliveryState.WAITING, page),
    "holds": lambda world, page: world.stores.holds.find(world.org_id, page),
    "purges": lambda world, page: world.stores.purges.find(world.org_id, page),
    "reviews": lambda world, page: world.stores.reviews.find(world.org_id, ReviewFilter(), page),
    "reviews, own": lambda world, page: world.stores.reviews.find(world.org_id, ReviewFilter(owner=UUID(int=2)), page),
    "session_issues": lambda world, page: world.stores.session_issues.find(world.org_id, None, page),
}
PAGES = {
    "first": Page(20, count=Count.CAPPED),
    "cursor": Page(20, after=AT, count=Count.NONE),
    "cursor, second section": Page(20, after=replace(AT, section=1), count=Count.NONE),
    "exact": Page(20, after=AT, count=Count.EXACT),
}


@pytest.mark.parametrize("page", PAGES.values(), ids=list(PAGES))
@pytest.mark.parametrize("name", FIND)
async def test_page_and_count_never_read_or_sort_a_whole_table(world: World, name: str, page: Page) -> None:
    table = name.partition(",")[0]
    statements = await statements_heard(world.database, table, lambda: FIND[name](world, page))
    assert statements
    for statement in statements:
        for line in await explained(world.database, statement):
            assert f"Seq Scan on {table}" not in line, (statement, line)
            assert f"SCAN {table}" not in line, (statement, line)
            # Reviews that wait are few, and sorted.
            assert table == "reviews" or "TEMP B-TREE" not in line, (statement, line)
            assert table == "reviews" or "Sort" not in line, (statement, line)
