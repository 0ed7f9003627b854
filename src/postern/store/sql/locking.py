"""Locks in the store: exclusive creation, and rows that several writers change at once."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, select, update

from postern.domain.identity.organisation import DEFAULT
from postern.store.schema.identity_tables import orgs
from postern.store.schema.session_tables import sessions
from postern.store.sql.rows import among
from postern.store.threaded import Executor


async def one_at_a_time(transaction: Executor) -> None:
    """Serialise transactions that call this, by locking a row that always exists."""
    await transaction.execute(update(orgs).where(orgs.c.name == DEFAULT).values(name=orgs.c.name))


def lock_sessions(connection: Connection, ids: Sequence[UUID]) -> None:
    """Lock these rows, before the transaction changes them, in one order for all writers, so that they cannot deadlock.

    Writers that change row by row go by the identifier instead. A transaction of SQLite is the only writer anyway.
    """
    if ids and connection.dialect.name != "sqlite":
        rows = select(sessions.c.id).where(among(connection, ids)).order_by(sessions.c.id)
        connection.execute(rows.with_for_update(key_share=True))
