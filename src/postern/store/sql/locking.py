"""Locks in the store: one at a time for what must be made exactly once, and rows that several change at once."""

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
    """Whoever calls this in a transaction waits for the others' to end. It locks a row that is always there."""
    await transaction.execute(update(orgs).where(orgs.c.name == DEFAULT).values(name=orgs.c.name))


def lock_sessions(connection: Connection, ids: Sequence[UUID]) -> None:
    """In a transaction that will change these rows, in one order for all who do: two that change the same ones wait for
    each other and never in a circle. Who changes row by row goes by the identifier instead. A transaction of SQLite is
    the only one that writes anyhow."""
    if ids and connection.dialect.name != "sqlite":
        rows = select(sessions.c.id).where(among(connection, ids)).order_by(sessions.c.id)
        connection.execute(rows.with_for_update(key_share=True))
