"""Reviews: asked for, decided, and ended, each with its session and what is to be told of it in one transaction.

Locks are taken in one order: the organisation's row (to count what waits), the review's, those of who decides, the
session's. What a transaction of SQLite reads nobody changes until it ends.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    case,
    delete,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)

from postern.domain.command import NOTHING_ADDED, Invocation
from postern.domain.event import CREATED, VOICED
from postern.domain.lists import Listed, Page
from postern.domain.principal import PrincipalKind, PrincipalStatus
from postern.domain.review import (
    Binding,
    Crowd,
    Demand,
    Person,
    Review,
    ReviewEvent,
    ReviewKind,
    ReviewStatus,
    Seat,
    Weighed,
    after,
    is_final,
)
from postern.domain.session import EndReason, Session, SessionStatus
from postern.errors import Conflict, NotFound, TooMany
from postern.store.database import Database
from postern.store.encryption import Encryption
from postern.store.ports import Ended, Moved, ReviewFilter, ReviewNews
from postern.store.ports.reviews import Weigh
from postern.store.prepared import Row
from postern.store.schema import (
    api_keys,
    credentials,
    orgs,
    review_groups,
    review_news,
    review_voices,
    reviews,
    sessions,
    user_groups,
    users,
)
from postern.store.sql.review_rows import (
    asked_by,
    load,
    review_of,
    review_values,
    voice_of,
    voice_values,
    window_values,
)
from postern.store.sql.rows import as_uuid, prefixed
from postern.store.sql.sessions import (
    add_session,
    approve_session,
    seal_invocation,
    session_values,
    withdraw_session,
)

_MOST_LAPSING = 500  # reviews that one round ends; the next one ends more
_MOST_PRUNED = 1_000
_CHUNK = 300  # identifiers in one statement
_MOST_GRANTS = 20  # of one binding that are looked at

_ENDINGS = {
    ReviewEvent.REJECTED: EndReason.REJECTED,
    ReviewEvent.REVOKED: EndReason.REVOKED,
    ReviewEvent.EXPIRED: EndReason.EXPIRED,
    ReviewEvent.WITHDRAWN: EndReason.WITHDRAWN,
}
_NEWEST = (reviews.c.created_at.desc(), reviews.c.id.desc())
_OPEN = reviews.c.ended_at.is_(None)
_PENDING = and_(reviews.c.status == ReviewStatus.PENDING, _OPEN)
_SESSION_IS_DONE = exists().where(sessions.c.id == reviews.c.session_id, sessions.c.status == SessionStatus.DONE)


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
            own = select(orgs.c.id).where(orgs.c.id == review.org_id)
            connection.execute(own.with_for_update(key_share=True))
            waiting = _waiting(connection, review) if review.kind is ReviewKind.JIT else None
            if waiting is not None:
                return waiting
            full = _crowd(connection, review).full()
            if full is not None:
                raise TooMany(full)
            if values is not None:
                add_session(connection, values, sealed)
            _insert(connection, review)
            return review

        return await self._database.together(work)

    async def get(self, review_id: UUID) -> Review | None:
        found = await self._some(select(*reviews.c).where(reviews.c.id == review_id))
        return found[0] if found else None

    async def waiting(self, review_ids: Collection[UUID], now: datetime) -> set[UUID]:
        mine = select(reviews.c.id).where(reviews.c.id.in_(review_ids), _PENDING, reviews.c.expires_at > now)
        async with self._database.statement() as statement:
            return set((await statement.execute(mine)).scalars())

    async def of_sessions(self, org_id: UUID, session_ids: Sequence[UUID]) -> Mapping[UUID, Review]:
        pairs = select(sessions.c.id, sessions.c.review_id).where(
            sessions.c.org_id == org_id, sessions.c.id.in_(session_ids), sessions.c.review_id.is_not(None)
        )

        def work(connection: Connection) -> dict[UUID, Review]:
            under = {row.id: row.review_id for row in connection.execute(pairs)}
            wanted = select(*reviews.c).where(reviews.c.org_id == org_id, reviews.c.id.in_(set(under.values())))
            found = {review.id: review for review in _loaded(connection, wanted)} if under else {}
            return {key: found[review_id] for key, review_id in under.items() if review_id in found}

        async with self._database.statement() as statement:
            return await statement.run_sync(work)

    async def find(self, org_id: UUID, wanted: ReviewFilter, page: Page) -> Listed[Review]:
        conditions = _conditions(org_id, wanted)

        def work(connection: Connection) -> Listed[Review]:
            """Those that wait are few, and found by an index of their own; the others are in the order of theirs."""
            first = _page(connection, [*conditions, _PENDING], page.limit, page.offset)
            waiting, total = _count(connection, [*conditions, _PENDING]), _count(connection, conditions)
            others = [*conditions, reviews.c.status != ReviewStatus.PENDING]
            left = page.limit - len(first)
            rest = _page(connection, others, left, max(0, page.offset - waiting)) if left and total > waiting else []
            return Listed([*first, *rest], total)

        async with self._database.statement() as statement:
            return await statement.run_sync(work)

    async def grant(self, binding: Binding, demands: Sequence[Demand], now: datetime) -> Review | None:
        given = and_(reviews.c.status == ReviewStatus.APPROVED, reviews.c.revoke_at > now)
        waits = and_(reviews.c.status == ReviewStatus.PENDING, reviews.c.expires_at > now)
        mine = select(reviews.c.id).where(*_bound(binding, demands), _OPEN, or_(given, waits))
        mine = mine.order_by(*_NEWEST).limit(_MOST_GRANTS)
        wanted = (
            select(*reviews.c, *prefixed(review_voices, "voice_"))
            .outerjoin(review_voices, review_voices.c.review_id == reviews.c.id)
            .where(reviews.c.id.in_(mine))
            .order_by(*_NEWEST, review_voices.c.at, review_voices.c.principal_id)
        )
        async with self._database.statement() as statement:
            rows = (await statement.execute(wanted)).mappings().all()
        by_id: dict[UUID, list[Row]] = {}
        for row in rows:
            by_id.setdefault(row["id"], []).append(row)
        found = [
            review_of(own[0], [voice_of(row, "voice_") for row in own if row["voice_review_id"] is not None])
            for own in by_id.values()
        ]
        # One whose window is closed lets nobody in now, so any other goes before it.
        return max(found, key=lambda one: (one.is_usable(now), one.status is ReviewStatus.APPROVED), default=None)

    async def decide(self, review_id: UUID, reviewer_id: UUID, weigh: Weigh, at: datetime) -> Moved:
        return await self._database.together(lambda connection: _decide(connection, review_id, reviewer_id, weigh, at))

    async def move(self, review_id: UUID, event: ReviewEvent, at: datetime) -> Moved | None:
        return await self._database.together(lambda connection: _move(connection, review_id, event, at))

    async def finish(self, session_id: UUID, at: datetime) -> None:
        own = select(reviews.c.id).where(
            reviews.c.session_id == session_id, reviews.c.kind == ReviewKind.ONETIME, _OPEN
        )

        def work(connection: Connection) -> None:
            for review_id in connection.execute(own).scalars().all():
                _move(connection, review_id, ReviewEvent.FINISHED, at)

        await self._database.together(work)

    async def lapse(self, now: datetime) -> list[Moved]:
        async with self._database.statement() as statement:
            over = [(row.id, row.event) for row in (await statement.execute(_over(now))).all()]
        # Each by itself: whoever decides waits for one of them only.
        moved = [await self.move(review_id, ReviewEvent(event), now) for review_id, event in over]
        return [one for one in moved if one is not None]

    async def estimated(self, review_id: UUID, estimate: Mapping[str, object]) -> bool:
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
            made = {(row.maker_id, row.named) for pair in pairs for row in connection.execute(pair)}
            people = select(users.c.id, users.c.subject, users.c.email, users.c.name)
            people = people.where(users.c.id.in_({maker for maker, _ in made if maker is not None}))
            known = {row.id: Person(row.id, row.subject, row.email, row.name) for row in connection.execute(people)}
            found = {known.get(maker) or Person(maker, "", named) for maker, named in made if maker != principal_id}
            return tuple(sorted(found, key=lambda person: (person.email, str(person.principal_id))))

        async with self._database.statement() as statement:
            return await statement.run_sync(work)

    async def news(self, most: int) -> list[ReviewNews]:
        wanted = select(*review_news.c).order_by(review_news.c.at, review_news.c.id).limit(most)

        def work(connection: Connection) -> list[ReviewNews]:
            rows = connection.execute(wanted).all()
            keys = sorted({row.review_id for row in rows})
            found: dict[UUID, Review] = {}
            for at in range(0, len(keys), _CHUNK):
                some = select(*reviews.c).where(reviews.c.id.in_(keys[at : at + _CHUNK]))
                found |= {review.id: review for review in _loaded(connection, some)}
            return [
                ReviewNews(row.id, found[row.review_id], row.kind, row.at) for row in rows if row.review_id in found
            ]

        async with self._database.statement() as statement:
            return await statement.run_sync(work)

    async def prune(self, before: datetime) -> None:
        old = select(reviews.c.id).where(reviews.c.ended_at < before).order_by(reviews.c.ended_at).limit(_MOST_PRUNED)
        async with self._database.statement() as statement:
            await statement.execute(delete(reviews).where(reviews.c.id.in_(old)))

    async def _some(self, wanted: Select[Any]) -> list[Review]:
        async with self._database.statement() as statement:
            return await statement.run_sync(lambda connection: _loaded(connection, wanted))


def _loaded(connection: Connection, wanted: Select[Any]) -> list[Review]:
    return load(connection, connection.execute(wanted).mappings().all())


def _page(connection: Connection, conditions: list[ColumnElement[bool]], limit: int, offset: int) -> list[Review]:
    wanted = select(*reviews.c).where(*conditions).order_by(*_NEWEST)
    return _loaded(connection, wanted.limit(limit).offset(offset))


def _count(connection: Connection, conditions: list[ColumnElement[bool]]) -> int:
    return int(connection.execute(select(func.count()).select_from(reviews).where(*conditions)).scalar_one())


def _conditions(org_id: UUID, wanted: ReviewFilter) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = [reviews.c.org_id == org_id]
    equal = {
        reviews.c.status: wanted.status,
        reviews.c.kind: wanted.kind,
        reviews.c.session_id: wanted.session_id,
        reviews.c.principal_id: wanted.owner,
    }
    found += [column == value for column, value in equal.items() if value is not None]
    if wanted.connection is not None:
        key = as_uuid(wanted.connection)
        named: ColumnElement[bool] = reviews.c.connection == wanted.connection
        found.append(named if key is None else or_(named, reviews.c.connection_id == key))
    if wanted.groups is not None:
        found.append(_is_for(wanted.groups))
    if wanted.mine is not None:
        owner, groups = wanted.mine
        found.append(or_(reviews.c.principal_id == owner, _is_for(groups)))
    return found


def _is_for(groups: frozenset[str]) -> ColumnElement[bool]:
    mine = exists().where(review_groups.c.review_id == reviews.c.id, review_groups.c.name.in_(sorted(groups)))
    return mine.correlate(reviews)


def _bound(binding: Binding, demands: Sequence[Demand]) -> list[ColumnElement[bool]]:
    """Access that is bound to exactly this, and was asked for by exactly these demands."""
    return [
        reviews.c.kind == ReviewKind.JIT,
        reviews.c.principal_id == binding.principal_id,
        reviews.c.connection_id == binding.connection_id,
        reviews.c.place == binding.place,
        reviews.c.source == binding.source,
        reviews.c.means == binding.means,
        reviews.c.asked_by == asked_by(demands),
    ]


def _waiting(connection: Connection, review: Review) -> Review | None:
    same = _bound(review.binding, review.demands)
    wanted = select(*reviews.c).where(*same, _PENDING, reviews.c.expires_at > review.created_at)
    found = _loaded(connection, wanted.order_by(*_NEWEST).limit(1))
    return found[0] if found else None


def _crowd(connection: Connection, review: Review) -> Crowd:
    """Those that wait are few, and those of a session are found by an index."""
    waits = (reviews.c.org_id == review.org_id, _PENDING, reviews.c.expires_at > review.created_at)
    of_session = 0
    if review.kind is ReviewKind.STATEMENT:
        of_session = _count(
            connection, [reviews.c.session_id == review.session_id, reviews.c.kind == ReviewKind.STATEMENT]
        )
    own = func.count().filter(reviews.c.principal_id == review.binding.principal_id)
    row = connection.execute(select(own, func.count()).select_from(reviews).where(*waits)).one()
    return Crowd(of_session, *row)


def _insert(connection: Connection, review: Review) -> None:
    connection.execute(insert(reviews).values(review_values(review)))
    names = dict.fromkeys((*review.groups, *review.force_groups))
    if names:
        connection.execute(insert(review_groups), [{"review_id": review.id, "name": name} for name in names])
    _tell(connection, review.id, CREATED, review.created_at)


def _tell(connection: Connection, review_id: UUID, kind: str, at: datetime) -> None:
    connection.execute(insert(review_news).values(id=uuid4(), review_id=review_id, kind=kind, at=at))


def _locked(connection: Connection, review_id: UUID) -> Review | None:
    """Nobody else changes it before this transaction ends; rows that refer to it may be added."""
    wanted = select(*reviews.c).where(reviews.c.id == review_id).with_for_update(key_share=True)
    found = _loaded(connection, wanted)
    return found[0] if found else None


def _decide(connection: Connection, review_id: UUID, reviewer_id: UUID, weigh: Weigh, at: datetime) -> Moved:
    review = _locked(connection, review_id)
    if review is None:
        raise NotFound(f"there is no review {review_id}")
    said: Weighed = weigh(review, _seats(connection, review, reviewer_id))
    _speak(connection, review, said)
    if said.event is None:
        values = {"time_window": window_values(said.time_window)}
        connection.execute(update(reviews).where(reviews.c.id == review.id).values(values))
        _tell(connection, review.id, VOICED, at)
        return Moved(_one(connection, review.id))
    if said.event is ReviewEvent.APPROVED:
        return _approve(connection, review, said, at)
    to = after(review.kind, review.status, said.event)
    if to is None:
        raise Conflict(f"this review cannot be {said.event} any more: it is {review.status}")
    comment = f": {said.voice.comment}" if said.voice.comment else ""
    return _end(connection, review, said.event, to, at, f"{said.event} by {said.voice.reviewer.email}{comment}")


def _approve(connection: Connection, review: Review, said: Weighed, at: datetime) -> Moved:
    """Raises Conflict when nobody waits for it any more."""
    given = review.approved(at, said.time_window)
    if review.session_id is not None and not _goes_on(connection, review.kind, review.session_id):
        raise Conflict("the session of this review has ended, so there is nothing to approve any more")
    values = {
        "status": given.status,
        "decided_at": given.decided_at,
        "revoke_at": given.revoke_at,
        "expires_at": given.expires_at,
        "time_window": window_values(given.time_window),
        "ended_at": at if is_final(given.kind, given.status) else None,
    }
    connection.execute(update(reviews).where(reviews.c.id == review.id).values(values))
    _tell(connection, review.id, ReviewEvent.APPROVED, at)
    return Moved(_one(connection, review.id))


def _goes_on(connection: Connection, kind: ReviewKind, session_id: UUID) -> bool:
    """Whether the session that waits for it is there, which is ready from now on where it had not begun."""
    if kind is not ReviewKind.STATEMENT:
        return approve_session(connection, session_id)
    runs = select(sessions.c.id).where(sessions.c.id == session_id, sessions.c.status != SessionStatus.DONE)
    return connection.execute(runs).first() is not None


def _move(connection: Connection, review_id: UUID, event: ReviewEvent, at: datetime) -> Moved | None:
    review = _locked(connection, review_id)
    to = None if review is None else after(review.kind, review.status, event)
    if review is None or to is None:
        return None
    if event is ReviewEvent.STARTED and not (review.is_usable(at) and _is_ready(connection, review)):
        return None
    # Who lets a review expire did not know that it was approved just now: that stands.
    if event is ReviewEvent.EXPIRED and review.status is not ReviewStatus.PENDING and not review.has_lapsed(at):
        return None
    return _end(connection, review, event, to, at, _WHY.get(event))


_WHY = {
    ReviewEvent.EXPIRED: "nobody decided on its review, or nobody used it, in time",
    ReviewEvent.WITHDRAWN: "its review was withdrawn",
}


def _is_ready(connection: Connection, review: Review) -> bool:
    ready = select(sessions.c.id).where(sessions.c.id == review.session_id, sessions.c.status == SessionStatus.READY)
    return connection.execute(ready).first() is not None


def _end(
    connection: Connection, review: Review, event: ReviewEvent, to: ReviewStatus, at: datetime, why: str | None
) -> Moved:
    """Or the next step, of a script that runs. What ends it ends the session that waits for it."""
    values: dict[str, Any] = {"status": to, "ended_at": at if is_final(review.kind, to) else None}
    if review.status is ReviewStatus.PENDING:
        values["decided_at"] = at
    connection.execute(update(reviews).where(reviews.c.id == review.id).values(values))
    _tell(connection, review.id, event, at)
    ended = False
    if event in _ENDINGS and review.session_id is not None and review.kind is not ReviewKind.STATEMENT:
        ended = withdraw_session(connection, review.session_id, Ended(at, _ENDINGS[event], detail=why))
    return Moved(_one(connection, review.id), ended)


def _one(connection: Connection, review_id: UUID) -> Review:
    return _loaded(connection, select(*reviews.c).where(reviews.c.id == review_id))[0]


def _speak(connection: Connection, review: Review, said: Weighed) -> None:
    """In the place of what the same person has said before, by whichever account."""
    voice = said.voice
    same = {one.reviewer.principal_id for one in review.voices if one.reviewer.is_same(voice.reviewer)}
    mine = (review_voices.c.review_id == review.id, review_voices.c.principal_id.in_(same))
    connection.execute(delete(review_voices).where(*mine))
    connection.execute(insert(review_voices).values(voice_values(review.id, voice)))


def _seats(connection: Connection, review: Review, reviewer_id: UUID) -> dict[UUID, Seat]:
    """Of who decides, and of all who have spoken. Whoever takes the reviewer's groups or account away waits for this
    transaction, or is waited for here: only these rows, so that it is never in a circle with who changes several
    people's."""
    own = select(users.c.id).where(users.c.id == reviewer_id).with_for_update(read=True)
    connection.execute(own)
    theirs = select(user_groups.c.name).where(user_groups.c.user_id == reviewer_id)
    connection.execute(theirs.order_by(user_groups.c.name, user_groups.c.source).with_for_update(read=True))
    who = {reviewer_id, *(one.reviewer.principal_id for one in review.voices if one.reviewer.principal_id is not None)}
    people = select(users.c.id, users.c.status, users.c.kind, orgs.c.admin_group).join(
        orgs, orgs.c.id == users.c.org_id
    )
    rows = connection.execute(people.where(users.c.org_id == review.org_id, users.c.id.in_(who))).all()
    members = select(user_groups.c.user_id, user_groups.c.name).where(user_groups.c.user_id.in_(who))
    groups: dict[UUID, set[str]] = {}
    for row in connection.execute(members):
        groups.setdefault(row.user_id, set()).add(row.name)
    return {
        row.id: Seat(
            is_active=row.status == PrincipalStatus.ACTIVE,
            is_person=row.kind == PrincipalKind.USER,
            groups=frozenset(groups.get(row.id, ())),
            is_admin=row.admin_group in groups.get(row.id, ()),
        )
        for row in rows
    }


def _over(now: datetime) -> Select[Any]:
    """(id, event) of all that is over; those whose session has ended first, since then nobody is late."""
    pending, approved = reviews.c.status == ReviewStatus.PENDING, reviews.c.status == ReviewStatus.APPROVED
    is_script = reviews.c.kind == ReviewKind.ONETIME
    late = or_(
        and_(or_(pending, and_(approved, is_script)), reviews.c.expires_at <= now),
        and_(approved, reviews.c.kind == ReviewKind.JIT, reviews.c.revoke_at <= now),
    )
    has_run = and_(reviews.c.status == ReviewStatus.PROCESSING, _SESSION_IS_DONE)
    left = and_(or_(pending, and_(approved, is_script)), _SESSION_IS_DONE)
    event = case(
        (has_run, ReviewEvent.FINISHED.value), (left, ReviewEvent.WITHDRAWN.value), else_=ReviewEvent.EXPIRED.value
    )
    wanted = select(reviews.c.id, event.label("event")).where(_OPEN, or_(late, has_run, left))
    return wanted.order_by(reviews.c.created_at, reviews.c.id).limit(_MOST_LAPSING)
