"""Changes of reviews: decided, used, ended, each with its session and its events.

Each function is a part of one transaction, which the store begins. Locks are taken in one order: the review's row,
those of the reviewers, the credential's, the session's. What a transaction of SQLite reads stays unchanged until it
ends.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import Connection, Select, and_, case, delete, exists, insert, or_, select, update

from postern.domain.event import VOICED
from postern.domain.identity.principal import PrincipalKind, PrincipalStatus
from postern.domain.reviews.review import Review, ReviewEvent, ReviewKind, after, is_final
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.reviews.review_weighing import Seat, Weighed
from postern.domain.sessions.ledger import RecordKind
from postern.domain.sessions.session import EndReason, SessionStatus
from postern.errors import Conflict, NotFound
from postern.store.ports.review_ports import Moved, Weigh
from postern.store.ports.target_ports import SessionEnd
from postern.store.schema.identity_tables import orgs, user_groups, users
from postern.store.schema.review_tables import review_news, review_voices, reviews
from postern.store.schema.session_tables import sessions
from postern.store.schema.target_tables import connections, credentials
from postern.store.sql.identity.sql_credentials import valid_conditions
from postern.store.sql.recordings.sql_sealed_records import enqueue
from postern.store.sql.reviews.review_conditions import OPEN, PENDING
from postern.store.sql.reviews.review_rows import load, voice_values, window_values
from postern.store.sql.sessions.sql_sessions import approve_session, withdraw_session

_MOST_LAPSING = 500  # reviews that one round ends; the next one ends more
_ENDINGS = {
    ReviewEvent.REJECTED: EndReason.REJECTED,
    ReviewEvent.REVOKED: EndReason.REVOKED,
    ReviewEvent.EXPIRED: EndReason.EXPIRED,
    ReviewEvent.WITHDRAWN: EndReason.WITHDRAWN,
}
_WHY = {
    ReviewEvent.EXPIRED: "its review expired before a decision, or before it was used",
    ReviewEvent.WITHDRAWN: "its review was withdrawn",
}
_CONNECTION_IS_GONE = ~exists().where(connections.c.id == reviews.c.connection_id)
_SESSION_IS_DONE = exists().where(sessions.c.id == reviews.c.session_id, sessions.c.status == SessionStatus.DONE)


def decide(connection: Connection, review_id: UUID, reviewer_id: UUID, weigh: Weigh, at: datetime) -> Moved:
    """Apply a decision. Raises NotFound, Conflict, and what `weigh` does."""
    review = _lock_review(connection, review_id)
    if review is None:
        raise NotFound(f"there is no review {review_id}")
    weighed: Weighed = weigh(_as_asked_now(connection, review), _seats(connection, review, reviewer_id))
    _speak(connection, review, weighed)
    if weighed.event is None:
        values = {"time_window": window_values(weighed.time_window)}
        connection.execute(update(reviews).where(reviews.c.id == review.id).values(values))
        queue_event(connection, review.id, VOICED, at)
        return Moved(_one(connection, review.id))
    if weighed.event is ReviewEvent.APPROVED:
        return _approve(connection, review, weighed, at)
    to = after(review.kind, review.status, weighed.event)
    if to is None:
        raise Conflict(f"this review cannot be {weighed.event} any more: it is {review.status}")
    comment = f": {weighed.voice.comment}" if weighed.voice.comment else ""
    return _end(
        connection, review, weighed.event, to, at, f"{weighed.event} by {weighed.voice.reviewer.email}{comment}"
    )


def _as_asked_now(connection: Connection, review: Review) -> Review:
    """Return the review with its current approvers for a statement, which is decided at once: removed reviewers no
    longer count.

    A grant only counts while the same approvers are required, so those it names can decide on one.
    """
    if review.kind is not ReviewKind.STATEMENT:
        return review
    query = select(orgs.c.admin_group, connections.c.reviewers).join(orgs, orgs.c.id == connections.c.org_id)
    row = connection.execute(query.where(connections.c.id == review.binding.connection_id)).first()
    approver_groups = frozenset() if row is None else frozenset((row.admin_group, *row.reviewers))
    demands = [
        replace(demand, groups=tuple(name for name in demand.groups if name in approver_groups))
        for demand in review.demands
    ]
    return replace(review, demands=tuple(demands))


def _approve(connection: Connection, review: Review, weighed: Weighed, at: datetime) -> Moved:
    """Approve it. Raises Conflict when its session has ended, or its credential is no longer valid."""
    given_review = review.approve(at, weighed.time_window)
    problem = _credential_problem(connection, review, at)
    if problem:
        raise Conflict(f"{problem}, so there is nothing to approve any more")
    if review.session_id is not None and not _goes_on(connection, review.kind, review.session_id):
        raise Conflict("the session of this review has ended, so there is nothing to approve any more")
    values = {
        "status": given_review.status,
        "decided_at": given_review.decided_at,
        "revoke_at": given_review.revoke_at,
        "expires_at": given_review.expires_at,
        "time_window": window_values(given_review.time_window),
        "ended_at": at if is_final(given_review.kind, given_review.status) else None,
    }
    connection.execute(update(reviews).where(reviews.c.id == review.id).values(values))
    queue_event(connection, review.id, ReviewEvent.APPROVED, at)
    return Moved(_one(connection, review.id))


def _goes_on(connection: Connection, kind: ReviewKind, session_id: UUID) -> bool:
    """Return whether its session exists; one that had not begun becomes ready."""
    if kind is not ReviewKind.STATEMENT:
        return approve_session(connection, session_id)
    runs = select(sessions.c.id).where(sessions.c.id == session_id, sessions.c.status != SessionStatus.DONE)
    return connection.execute(runs).first() is not None


def move(connection: Connection, review_id: UUID, event: ReviewEvent, at: datetime) -> Moved | None:
    """Apply an event; None when its state does not allow it now."""
    review = _lock_review(connection, review_id)
    to = None if review is None else after(review.kind, review.status, event)
    if review is None or to is None:
        return None
    if event is ReviewEvent.STARTED and not (review.is_usable(at) and _is_ready(connection, review)):
        return None
    # The review was approved after the caller read it as expired: the approval stands.
    if event is ReviewEvent.EXPIRED and review.status is not ReviewStatus.PENDING and not review.has_lapsed(at):
        return None
    return _end(connection, review, event, to, at, _WHY.get(event))


def withdraw_unusable(connection: Connection, review_id: UUID, at: datetime) -> Moved | None:
    """Withdraw a pending review whose credential is no longer valid; None if it is not pending, or the credential is
    valid."""
    review = _lock_review(connection, review_id)
    if review is None or review.status is not ReviewStatus.PENDING:
        return None
    problem = _credential_problem(connection, review, at)
    if not problem:
        return None
    connection.execute(update(reviews).where(reviews.c.id == review.id).values(withdrawal_reason=problem))
    event = ReviewEvent.WITHDRAWN
    return _end(connection, review, event, ReviewStatus.WITHDRAWN, at, f"{_WHY[event]}: {problem}")


def unusable_at(now: datetime, credential_id: UUID | None) -> Select[Any]:
    """Return the ids of reviews that `withdraw_unusable` withdraws."""
    valid = exists().where(credentials.c.id == reviews.c.credential_id, *valid_conditions(now)).correlate(reviews)
    query = select(reviews.c.id).where(PENDING, reviews.c.credential_id.is_not(None), ~valid)
    if credential_id is not None:
        query = query.where(reviews.c.credential_id == credential_id)
    return query.order_by(reviews.c.created_at, reviews.c.id).limit(_MOST_LAPSING)


def _credential_problem(connection: Connection, review: Review, at: datetime) -> str:
    """Return why the review's credential cannot be used; empty if it can, or there is none.

    Locks the credential, so that of an approval and a revocation at the same time the first one counts.
    """
    if review.credential is None:
        return ""
    query = select(credentials.c.revoked_at, credentials.c.expires_at).where(credentials.c.id == review.credential.id)
    row = connection.execute(query.with_for_update(read=True)).one_or_none()
    name = f"credential {review.credential.username!r}"
    if row is None:
        return f"{name} was deleted"
    if row.revoked_at is not None:
        return f"{name} was revoked"
    return f"{name} has expired" if row.expires_at is not None and at >= row.expires_at else ""


def _is_ready(connection: Connection, review: Review) -> bool:
    ready = select(sessions.c.id).where(sessions.c.id == review.session_id, sessions.c.status == SessionStatus.READY)
    return connection.execute(ready).first() is not None


def _end(
    connection: Connection, review: Review, event: ReviewEvent, to: ReviewStatus, at: datetime, why: str | None
) -> Moved:
    """End it, or take the next step of a running script. The session that waits for it ends with it."""
    values: dict[str, Any] = {"status": to, "ended_at": at if is_final(review.kind, to) else None}
    if review.status is ReviewStatus.PENDING:
        values["decided_at"] = at
    connection.execute(update(reviews).where(reviews.c.id == review.id).values(values))
    queue_event(connection, review.id, event, at)
    ended = False
    if event in _ENDINGS and review.session_id is not None and review.kind is not ReviewKind.STATEMENT:
        ended = withdraw_session(connection, review.session_id, SessionEnd(at, _ENDINGS[event], detail=why))
    return Moved(_one(connection, review.id), ended)


def queue_event(connection: Connection, review_id: UUID, kind: str, at: datetime) -> None:
    """Queue an event for the users that are notified, and for the ledger."""
    connection.execute(insert(review_news).values(id=uuid4(), review_id=review_id, kind=kind, at=at))
    query = select(reviews.c.org_id, reviews.c.session_id).where(reviews.c.id == review_id)
    row = connection.execute(query).one()
    enqueue(connection, RecordKind.REVIEW, row.org_id, review_id, row.session_id, at)


def _lock_review(connection: Connection, review_id: UUID) -> Review | None:
    """Lock the review until the transaction ends; rows that refer to it can be added."""
    query = select(*reviews.c).where(reviews.c.id == review_id).with_for_update(key_share=True)
    rows = load(connection, query)
    return rows[0] if rows else None


def _one(connection: Connection, review_id: UUID) -> Review:
    return load(connection, select(*reviews.c).where(reviews.c.id == review_id))[0]


def _speak(connection: Connection, review: Review, weighed: Weighed) -> None:
    """Store a vote; it replaces the same choice of the same person, by any account. A withdrawn approval stays
    beside it."""
    voice, table = weighed.voice, review_voices.c
    same = {vote.reviewer.principal_id for vote in review.voices if vote.reviewer.is_same(voice.reviewer)}
    mine = (table.review_id == review.id, table.principal_id.in_(same), table.choice == voice.choice)
    connection.execute(delete(review_voices).where(*mine))
    connection.execute(insert(review_voices).values(voice_values(review.id, voice)))


def _seats(connection: Connection, review: Review, reviewer_id: UUID) -> dict[UUID, Seat]:
    """Return the seats of the deciding reviewer and of earlier voters, and lock the deciding reviewer's rows.

    A concurrent removal of the reviewer's groups or account waits for this transaction, or this waits for it. Only
    these rows are locked, so that it cannot deadlock with a change of several users.
    """
    query = select(users.c.id).where(users.c.id == reviewer_id).with_for_update(read=True)
    connection.execute(query)
    their_query = select(user_groups.c.name).where(user_groups.c.user_id == reviewer_id)
    connection.execute(their_query.order_by(user_groups.c.name, user_groups.c.source).with_for_update(read=True))
    who = {
        reviewer_id,
        *(voice.reviewer.principal_id for voice in review.voices if voice.reviewer.principal_id is not None),
    }
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


def over_at(now: datetime) -> Select[Any]:
    """Return (id, event) of all that has expired; those whose session has ended first, which are not late."""
    pending, approved = reviews.c.status == ReviewStatus.PENDING, reviews.c.status == ReviewStatus.APPROVED
    is_script = reviews.c.kind == ReviewKind.ONETIME
    late = or_(
        and_(or_(pending, and_(approved, is_script)), reviews.c.expires_at <= now),
        and_(approved, reviews.c.kind == ReviewKind.JIT, reviews.c.revoke_at <= now),
    )
    has_run = and_(reviews.c.status == ReviewStatus.PROCESSING, _SESSION_IS_DONE)
    left = and_(or_(pending, and_(approved, is_script)), _SESSION_IS_DONE)
    gone = and_(or_(pending, approved), _CONNECTION_IS_GONE)
    event = case(
        (has_run, ReviewEvent.FINISHED.value),
        (or_(left, gone), ReviewEvent.WITHDRAWN.value),
        else_=ReviewEvent.EXPIRED.value,
    )
    query = select(reviews.c.id, event.label("event")).where(OPEN, or_(late, has_run, left, gone))
    return query.order_by(reviews.c.created_at, reviews.c.id).limit(_MOST_LAPSING)
