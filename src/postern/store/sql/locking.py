"""One at a time, over all processes, for what must be made exactly once."""

from __future__ import annotations

from sqlalchemy import update

from postern.domain.organisation import DEFAULT
from postern.store.schema import orgs
from postern.store.threaded import Executor


async def one_at_a_time(transaction: Executor) -> None:
    """Whoever calls this in a transaction waits for the others' to end. It locks a row that is always there."""
    await transaction.execute(update(orgs).where(orgs.c.name == DEFAULT).values(name=orgs.c.name))
