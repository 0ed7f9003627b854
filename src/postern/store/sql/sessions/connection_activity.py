"""The activity of connections: when they were used last, and how many of their sessions are open.

The index of a connection's sessions gives its newest one. A user's sessions on one connection have no index of their
own, because every session would pay for it: the newest sessions of the user are searched instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, case, func, select

from postern.domain.sessions.session import SessionStatus
from postern.domain.targets.connection_use import OWN_SESSIONS, ConnectionActivity, SessionActivity
from postern.store.schema.session_tables import sessions
from postern.store.schema.target_tables import connections
from postern.store.sql.sessions.session_conditions import has_status


def read_activity(
    connection: Connection, org_id: UUID, ids: Sequence[UUID], owner: str, *, with_all: bool
) -> dict[UUID, ConnectionActivity]:
    """Return the activity of `owner` (a subject), and of all users if `with_all`. Three statements at most."""
    own_uses = _own_uses(connection, org_id, ids, owner)
    uses = _uses(connection, ids) if with_all else {}
    open_sessions = _open_sessions(connection, org_id, ids, owner)
    return {
        key: ConnectionActivity(
            SessionActivity(own_uses.get(key), open_sessions.get(key, (0, 0))[0]),
            SessionActivity(uses.get(key), open_sessions.get(key, (0, 0))[1]) if with_all else None,
        )
        for key in ids
    }


def _own_uses(connection: Connection, org_id: UUID, ids: Sequence[UUID], owner: str) -> Mapping[UUID, datetime]:
    newest = (
        select(sessions.c.connection_id, sessions.c.start_date)
        .where(sessions.c.org_id == org_id, sessions.c.user_id == owner)
        .order_by(sessions.c.start_date.desc(), sessions.c.id.desc())
        .limit(OWN_SESSIONS)
        .subquery()
    )
    last_used = func.max(newest.c.start_date).label("last_used")
    query = select(newest.c.connection_id, last_used).where(newest.c.connection_id.in_(ids))
    return {row.connection_id: row.last_used for row in connection.execute(query.group_by(newest.c.connection_id))}


def _uses(connection: Connection, ids: Sequence[UUID]) -> Mapping[UUID, datetime]:
    newest = (
        select(sessions.c.start_date)
        .where(sessions.c.org_id == connections.c.org_id, sessions.c.connection_id == connections.c.id)
        .order_by(sessions.c.start_date.desc(), sessions.c.id.desc())
        .limit(1)
        .correlate(connections)
        .scalar_subquery()
        .label("last_used")
    )
    query = select(connections.c.id, newest).where(connections.c.id.in_(ids))
    return {row.id: row.last_used for row in connection.execute(query)}


def _open_sessions(
    connection: Connection, org_id: UUID, ids: Sequence[UUID], owner: str
) -> Mapping[UUID, tuple[int, int]]:
    """Return how many open sessions `owner` has on each connection, and how many all users have."""
    own_sessions = func.sum(case((sessions.c.user_id == owner, 1), else_=0)).label("own_sessions")
    query = (
        select(sessions.c.connection_id, own_sessions, func.count().label("all_sessions"))
        .where(has_status(SessionStatus.OPEN), sessions.c.org_id == org_id, sessions.c.connection_id.in_(ids))
        .group_by(sessions.c.connection_id)
    )
    return {row.connection_id: (row.own_sessions, row.all_sessions) for row in connection.execute(query)}
