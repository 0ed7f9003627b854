"""Reviews: submitted, decided and ended, each with its session and its events in one transaction.

Locks are taken in one order: the organisation's row, to count pending reviews, before those of `review_moves`. The list
has pending reviews first, then the others, each section newest first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    Select,
    and_,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)

from postern.domain.event import CREATED
from postern.domain.lists import Count, Page, Position, Stretch
from postern.domain.reviews.review import (
    LATELY,
    ApprovalRequirement,
    Binding,
    Crowd,
    Person,
    Review,
    ReviewedCredential,
    ReviewEvent,
    ReviewKind,
)
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.sessions.session import Session
from postern.domain.targets.command import NOTHING_ADDED, Invocation
from postern.errors import TooMany
from postern.store.database import Database
from postern.store.encryption import Encryption
from postern.store.ports.review_ports import Moved, ReviewChange, ReviewFilter, Weigh
from postern.store.prepared import Row
from postern.store.schema.identity_tables import api_keys, orgs, users
from postern.store.schema.review_tables import review_groups, review_news, review_voices, reviews
from postern.store.schema.session_tables import sessions
from postern.store.schema.target_tables import credentials
from postern.store.sql.long_lists import LongList, by_time, count_rows, find_page
from postern.store.sql.reviews.review_conditions import NEWEST, OPEN, PENDING, bound_to, conditions_of
from postern.store.sql.reviews.review_moves import decide, move, over_at, queue_event, unusable_at, withdraw_unusable
from postern.store.sql.reviews.review_rows import load, review_of, review_values, voice_of
from postern.store.sql.rows import prefix_columns
from postern.store.sql.sessions.sql_sessions import add_session, seal_invocation, session_values

_WAITING, _OTHERS = 0, 1  # sections
_KEYSET = by_time(reviews.c.created_at, reviews.c.id)
_COLUMNS = [reviews.c.id, reviews.c.created_at]
_BEFORE_OTHERS = Position(datetime(9999, 1, 1, tzinfo=UTC), UUID(int=0), _OTHERS)


@dataclass(frozen=True, slots=True)
class _Sections:
    """The sections of the list. Pending reviews are few and have an index of their own, so no condition on them is a
    sieve."""

    waiting: LongList
    others: LongList | None
    all: LongList


def find(connection: Connection, org_id: UUID, criteria: ReviewFilter, page: Page) -> Stretch[Review]:
    """Return a page, see ReviewStore.find.

    A review that is decided while the list is read may appear twice, and is never left out: its new section comes
    later.
    """
    sections = _sections(org_id, criteria)
    stretch = _keys(connection, sections, replace(page, count=Count.NONE))
    by_id = {
        review.id: review for review in load(connection, select(*reviews.c).where(reviews.c.id.in_(stretch.items)))
    }
    total, is_capped = count_rows(connection, sections.all, page.count)
    return Stretch([by_id[key] for key in stretch.items if key in by_id], total, is_capped, stretch.next)


def _sections(org_id: UUID, criteria: ReviewFilter) -> _Sections:
    lead, sieves = conditions_of(org_id, criteria)
    waiting = LongList(_COLUMNS, _KEYSET, [*lead, *sieves, PENDING])
    if criteria.status is ReviewStatus.PENDING:
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


_MOST_PRUNED = 1_000
_CHUNK = 300  # identifiers in one statement
_MOST_GRANTS = 20  # of one binding that are looked at


class SqlReviews:
    def __init__(self, database: Database, encryption: Encryption) -> None:
        self._database = database
        self._encryption = encryption

    async def add(
        self, review: Review, session: Session | None, *, source: str, invocation: Invocation = NOTHING_ADDED
    ) -> Review:
        values, sealed = None, None
        if session is not None:
            values = session_values(session, review.binding.principal_id, source)
            sealed = await seal_invocation(self._encryption, session.id, invocation)

        def work(connection: Connection) -> Review:
            # The organisation's row is the lock: of those that come at once each counts the ones before it.
            query = select(orgs.c.id).where(orgs.c.id == review.org_id)
            connection.execute(query.with_for_update(key_share=True))
            there = _already(connection, review) if review.kind is ReviewKind.JIT else None
            if there is not None:
                return there
            full = _crowd(connection, review).full()
            if full is not None:
                raise TooMany(full)
            if values is not None:
                add_session(connection, values, sealed)
            _insert(connection, review)
            return review

        return await self._database.together(work)

    async def get(self, review_id: UUID) -> Review | None:
        found_reviews = await self._some(select(*reviews.c).where(reviews.c.id == review_id))
        return found_reviews[0] if found_reviews else None

    async def waiting(self, review_ids: Collection[UUID], now: datetime) -> set[UUID]:
        mine = select(reviews.c.id).where(reviews.c.id.in_(review_ids), PENDING, reviews.c.expires_at > now)
        async with self._database.statement() as statement:
            return set((await statement.execute(mine)).scalars())

    async def of_sessions(self, org_id: UUID, session_ids: Sequence[UUID]) -> Mapping[UUID, Review]:
        pairs = select(sessions.c.id, sessions.c.review_id).where(
            sessions.c.org_id == org_id, sessions.c.id.in_(session_ids), sessions.c.review_id.is_not(None)
        )

        def work(connection: Connection) -> dict[UUID, Review]:
            under = {row.id: row.review_id for row in connection.execute(pairs)}
            query = select(*reviews.c).where(reviews.c.org_id == org_id, reviews.c.id.in_(set(under.values())))
            found_reviews = {review.id: review for review in load(connection, query)} if under else {}
            return {key: found_reviews[review_id] for key, review_id in under.items() if review_id in found_reviews}

        async with self._database.statement() as statement:
            return await statement.run_sync(work)

    async def find(self, org_id: UUID, criteria: ReviewFilter, page: Page) -> Stretch[Review]:
        async with self._database.plan_each() as statement:
            return await statement.run_sync(lambda connection: find(connection, org_id, criteria, page))

    async def grant(self, binding: Binding, demands: Sequence[ApprovalRequirement], now: datetime) -> Review | None:
        condition = and_(reviews.c.status == ReviewStatus.APPROVED, reviews.c.revoke_at > now)
        waits = and_(reviews.c.status == ReviewStatus.PENDING, reviews.c.expires_at > now)
        mine = select(reviews.c.id).where(*bound_to(binding, demands), OPEN, or_(condition, waits))
        mine = mine.order_by(*NEWEST).limit(_MOST_GRANTS)
        query = (
            select(*reviews.c, *prefix_columns(review_voices, "voice_"))
            .outerjoin(review_voices, review_voices.c.review_id == reviews.c.id)
            .where(reviews.c.id.in_(mine))
            .order_by(*NEWEST, review_voices.c.at, review_voices.c.principal_id)
        )
        async with self._database.statement() as statement:
            rows = (await statement.execute(query)).mappings().all()
        by_id: dict[UUID, list[Row]] = {}
        for row in rows:
            by_id.setdefault(row["id"], []).append(row)
        found_reviews = [
            review_of(
                review_rows[0], [voice_of(row, "voice_") for row in review_rows if row["voice_review_id"] is not None]
            )
            for review_rows in by_id.values()
        ]
        # A review whose time window is closed does not admit its owner now, so any other takes precedence.
        return max(
            found_reviews,
            key=lambda review: (review.is_usable(now), review.status is ReviewStatus.APPROVED),
            default=None,
        )

    async def decide(self, review_id: UUID, reviewer_id: UUID, weigh: Weigh, at: datetime) -> Moved:
        return await self._database.together(lambda connection: decide(connection, review_id, reviewer_id, weigh, at))

    async def move(self, review_id: UUID, event: ReviewEvent, at: datetime) -> Moved | None:
        return await self._database.together(lambda connection: move(connection, review_id, event, at))

    async def finish(self, session_id: UUID, at: datetime) -> None:
        query = select(reviews.c.id).where(
            reviews.c.session_id == session_id, reviews.c.kind == ReviewKind.ONETIME, OPEN
        )

        def work(connection: Connection) -> None:
            for review_id in connection.execute(query).scalars().all():
                move(connection, review_id, ReviewEvent.FINISHED, at)

        await self._database.together(work)

    async def lapse(self, now: datetime) -> list[Moved]:
        async with self._database.statement() as statement:
            over = [(row.id, row.event) for row in (await statement.execute(over_at(now))).all()]
        # One transaction for each, so that a concurrent decision waits for one of them only.
        moved = [await self.move(review_id, ReviewEvent(event), now) for review_id, event in over]
        closed = [change for change in moved if change is not None]
        return closed + await self.withdraw_unusable(now)

    async def withdraw_unusable(self, now: datetime, credential_id: UUID | None = None) -> list[Moved]:
        async with self._database.statement() as statement:
            keys = (await statement.execute(unusable_at(now, credential_id))).scalars().all()
        moved = [
            await self._database.together(partial(withdraw_unusable, review_id=review_id, at=now)) for review_id in keys
        ]
        return [change for change in moved if change is not None]

    async def find_credential(self, credential_id: UUID) -> ReviewedCredential | None:
        query = select(credentials.c.id, credentials.c.username).where(credentials.c.id == credential_id)
        async with self._database.statement() as statement:
            row = (await statement.execute(query)).one_or_none()
        return None if row is None else ReviewedCredential(row.id, row.username)

    async def store_estimate(self, review_id: UUID, estimate: Mapping[str, object]) -> bool:
        waits = update(reviews).where(reviews.c.id == review_id, reviews.c.status == ReviewStatus.PENDING)
        async with self._database.statement() as statement:
            done = await statement.execute(waits.values(estimate=dict(estimate)))
        return done.rowcount == 1

    async def makers(self, principal_id: UUID, credential_id: UUID | None) -> tuple[Person, ...]:
        keys = select(api_keys.c.maker_id, api_keys.c.created_by.label("named"))
        pairs: list[Select[Any]] = [keys.where(api_keys.c.principal_id == principal_id)]
        if credential_id is not None:
            issued = select(credentials.c.maker_id, literal("").label("named"))
            pairs.append(issued.where(credentials.c.id == credential_id, credentials.c.maker_id.is_not(None)))

        def work(connection: Connection) -> tuple[Person, ...]:
            creators = {(row.maker_id, row.named) for pair in pairs for row in connection.execute(pair)}
            people = select(users.c.id, users.c.subject, users.c.email, users.c.name)
            people = people.where(users.c.id.in_({maker for maker, _ in creators if maker is not None}))
            persons_by_id = {
                row.id: Person(row.id, row.subject, row.email, row.name) for row in connection.execute(people)
            }
            persons = {
                persons_by_id.get(maker) or Person(maker, "", named)
                for maker, named in creators
                if maker != principal_id
            }
            return tuple(sorted(persons, key=lambda person: (person.email, str(person.principal_id))))

        async with self._database.statement() as statement:
            return await statement.run_sync(work)

    async def news(self, most: int) -> list[ReviewChange]:
        query = select(*review_news.c).order_by(review_news.c.at, review_news.c.id).limit(most)

        def work(connection: Connection) -> list[ReviewChange]:
            rows = connection.execute(query).all()
            keys = sorted({row.review_id for row in rows})
            found_reviews: dict[UUID, Review] = {}
            for at in range(0, len(keys), _CHUNK):
                some = select(*reviews.c).where(reviews.c.id.in_(keys[at : at + _CHUNK]))
                found_reviews |= {review.id: review for review in load(connection, some)}
            return [
                ReviewChange(row.id, found_reviews[row.review_id], row.kind, row.at)
                for row in rows
                if row.review_id in found_reviews
            ]

        async with self._database.statement() as statement:
            return await statement.run_sync(work)

    async def prune(self, before: datetime) -> None:
        old = select(reviews.c.id).where(reviews.c.ended_at < before).order_by(reviews.c.ended_at).limit(_MOST_PRUNED)
        async with self._database.statement() as statement:
            await statement.execute(delete(reviews).where(reviews.c.id.in_(old)))

    async def _some(self, query: Select[Any]) -> list[Review]:
        async with self._database.statement() as statement:
            return await statement.run_sync(lambda connection: load(connection, query))


def _already(connection: Connection, review: Review) -> Review | None:
    """Return a pending review, or one that `grant` finds from now on: it was approved after the caller was told to
    request one."""
    same, now = bound_to(review.binding, review.demands), review.created_at
    waits = select(*reviews.c).where(*same, PENDING, reviews.c.expires_at > now)
    waiting = load(connection, waits.order_by(*NEWEST).limit(1))
    if waiting:
        return waiting[0]
    query = select(*reviews.c).where(*same, reviews.c.status == ReviewStatus.APPROVED, reviews.c.revoke_at > now)
    usable = [
        review for review in load(connection, query.order_by(*NEWEST).limit(_MOST_GRANTS)) if review.is_usable(now)
    ]
    return usable[0] if usable and usable[0].access_duration <= review.access_duration else None


def _crowd(connection: Connection, review: Review) -> Crowd:
    """Count the reviews beside a new one. Pending ones are few, and those of a session use an index."""
    waits = (reviews.c.org_id == review.org_id, PENDING, reviews.c.expires_at > review.created_at)
    of_session = 0
    if review.kind is ReviewKind.STATEMENT:
        of_session = _count(
            connection, [reviews.c.session_id == review.session_id, reviews.c.kind == ReviewKind.STATEMENT]
        )
    own_count = func.count().filter(reviews.c.principal_id == review.binding.principal_id)
    row = connection.execute(select(own_count, func.count()).select_from(reviews).where(*waits)).one()
    lately = [
        reviews.c.org_id == review.org_id,
        reviews.c.principal_id == review.binding.principal_id,
        reviews.c.created_at > review.created_at - LATELY,
    ]
    return Crowd(of_session, *row, _count(connection, lately))


def _insert(connection: Connection, review: Review) -> None:
    connection.execute(insert(reviews).values(review_values(review)))
    names = dict.fromkeys((*review.groups, *review.force_groups))
    if names:
        connection.execute(insert(review_groups), [{"review_id": review.id, "name": name} for name in names])
    queue_event(connection, review.id, CREATED, review.created_at)


def _count(connection: Connection, conditions: list[ColumnElement[bool]]) -> int:
    return int(connection.execute(select(func.count()).select_from(reviews).where(*conditions)).scalar_one())
