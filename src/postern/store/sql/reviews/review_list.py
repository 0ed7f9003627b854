"""The list of reviews: first those that wait, then the others, each section newest first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from uuid import UUID

from sqlalchemy import Connection, RowMapping, select

from postern.domain.lists import Count, Page, Position, Stretch
from postern.domain.reviews.review import Review, ReviewStatus
from postern.store.ports.review_ports import ReviewFilter
from postern.store.schema.review_tables import reviews
from postern.store.sql.long_lists import LongList, by_time, count_rows, find_page
from postern.store.sql.reviews.review_conditions import PENDING, conditions_of
from postern.store.sql.reviews.review_rows import load

_WAITING, _OTHERS = 0, 1  # sections
_KEYSET = by_time(reviews.c.created_at, reviews.c.id)
_COLUMNS = [reviews.c.id, reviews.c.created_at]
_BEFORE_OTHERS = Position(datetime(9999, 1, 1, tzinfo=UTC), UUID(int=0), _OTHERS)


@dataclass(frozen=True, slots=True)
class _Sections:
    """Those that wait are few and have an index of their own, so that no condition on them is a sieve."""

    waiting: LongList
    others: LongList | None
    all: LongList


def find(connection: Connection, org_id: UUID, wanted: ReviewFilter, page: Page) -> Stretch[Review]:
    """See ReviewStore.find. A review that is decided while somebody reads the list may come twice, and is never
    left out: its new section comes later."""
    sections = _sections(org_id, wanted)
    found = _keys(connection, sections, replace(page, count=Count.NONE))
    by_id = {one.id: one for one in load(connection, select(*reviews.c).where(reviews.c.id.in_(found.items)))}
    total, is_capped = count_rows(connection, sections.all, page.count)
    return Stretch([by_id[key] for key in found.items if key in by_id], total, is_capped, found.next)


def _sections(org_id: UUID, wanted: ReviewFilter) -> _Sections:
    lead, sieves = conditions_of(org_id, wanted)
    waiting = LongList(_COLUMNS, _KEYSET, [*lead, *sieves, PENDING])
    if wanted.status is ReviewStatus.PENDING:
        return _Sections(waiting, None, waiting)
    others = LongList(_COLUMNS, _KEYSET, lead, [*sieves, reviews.c.status != ReviewStatus.PENDING])
    return _Sections(waiting, others, LongList(_COLUMNS, _KEYSET, lead, sieves))


def _keys(connection: Connection, sections: _Sections, page: Page) -> Stretch[UUID]:
    """Return the identifiers on one page: the rest of the first section, filled up from the second."""
    first: Stretch[UUID] = Stretch([], None)
    if page.after is None or page.after.section == _WAITING:
        first = find_page(connection, sections.waiting, page, _key_of)
        if first.next is not None:
            return first
        skipped = count_rows(connection, sections.waiting, Count.EXACT)[0] or 0 if page.offset else 0
        page = Page(page.limit - len(first.items), max(0, page.offset - skipped), None, Count.NONE)
    if sections.others is None:
        return first
    if not page.limit:
        more = find_page(connection, sections.others, Page(1, count=Count.NONE), _key_of)
        return replace(first, next=_BEFORE_OTHERS if more.items or more.next else None)
    rest = find_page(connection, sections.others, page, _key_of)
    following = None if rest.next is None else replace(rest.next, section=_OTHERS)
    return Stretch([*first.items, *rest.items], None, next=following)


def _key_of(row: RowMapping) -> UUID:
    key: UUID = row["id"]
    return key
