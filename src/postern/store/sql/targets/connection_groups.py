"""The groups that connections name themselves: their own reviewers, and groups that can force an approval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, String, cast, or_, select, update

from postern.domain.identity.principal import UserGroup
from postern.errors import Conflict
from postern.store.schema.target_tables import connections
from postern.store.threaded import Executor

_LISTS = (connections.c.reviewers, connections.c.force_approve_groups)
_NEXT = {"version": connections.c.version + 1}  # so that a write based on an earlier read of the connection fails


async def rename_in_connections(transaction: Executor, group: UserGroup, name: str) -> None:
    """Rename a group; a connection that has both, the old name and the new one, has the new one once."""
    for row in await _with_groups(transaction, group):
        changed = {
            column.name: list(dict.fromkeys(name if item == group.name else item for item in row._mapping[column.name]))
            for column in _LISTS
            if group.name in row._mapping[column.name]
        }
        if changed:
            await transaction.execute(update(connections).where(connections.c.id == row.id).values(**changed, **_NEXT))


async def remove_from_connections(transaction: Executor, group: UserGroup) -> None:
    """Remove a group. Raises Conflict, naming the connection, where it is among the reviewers.

    Each of the reviewers must approve, so one less would open the connection, or require less. Groups that can force an
    approval only become fewer.
    """
    rows = await _with_groups(transaction, group)
    for row in rows:
        if group.name in row.reviewers:
            raise Conflict(
                f"the group {group.name!r} reviews connection {row.name!r}; change the connection's reviewers first"
            )
    for row in rows:
        if group.name in row.force_approve_groups:
            left = [item for item in row.force_approve_groups if item != group.name]
            where = connections.c.id == row.id
            await transaction.execute(update(connections).where(where).values(force_approve_groups=left, **_NEXT))


async def _with_groups(transaction: Executor, group: UserGroup) -> Sequence[Row[Any]]:
    """Return the organisation's connections that name any group, locked, by name."""
    named = or_(*(cast(column, String) != "[]" for column in _LISTS))
    query = select(connections.c.id, connections.c.name, *_LISTS).where(connections.c.org_id == group.org_id, named)
    return (await transaction.execute(query.order_by(connections.c.name).with_for_update())).all()
