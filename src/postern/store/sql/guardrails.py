"""Guard rails, with their side of the association to connections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from postern.domain.guardrail import GuardRail
from postern.domain.lists import Listed, Page
from postern.domain.rule_filter import ALL_RULES, RuleFilter
from postern.errors import Conflict, NotFound
from postern.store.database import Database
from postern.store.schema.targets import connection_guardrails, guardrails
from postern.store.sql.rows import count_of, guardrail_of, rules_page, rules_values, rules_wanted
from postern.store.threaded import Executor

_ALL = (
    select(*guardrails.c, connection_guardrails.c.connection_id)
    .select_from(guardrails)
    .outerjoin(connection_guardrails, connection_guardrails.c.guardrail_id == guardrails.c.id)
    .order_by(guardrails.c.name, connection_guardrails.c.connection_id)
)


class SqlGuardRails:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, org_id: UUID, guardrail_id: UUID) -> GuardRail | None:
        found = await self._select(guardrails.c.org_id == org_id, guardrails.c.id == guardrail_id)
        return found[0] if found else None

    async def find(self, org_id: UUID, page: Page, where: RuleFilter = ALL_RULES) -> Listed[GuardRail]:
        own = connection_guardrails.c.guardrail_id == guardrails.c.id
        wanted = rules_wanted(guardrails, connection_guardrails, own, org_id, where)
        async with self._database.statement() as connection:
            total = (await connection.execute(count_of(guardrails, *wanted))).scalar_one()
        return Listed(await self._select(guardrails.c.id.in_(rules_page(guardrails, wanted, page))), total)

    async def _select(self, *conditions: ColumnElement[bool]) -> list[GuardRail]:
        async with self._database.statement() as connection:
            rows = (await connection.execute(_ALL.where(*conditions))).mappings().all()
        one_each = {row["id"]: row for row in rows}
        of: dict[UUID, list[UUID | None]] = {key: [] for key in one_each}
        for row in rows:
            of[row["id"]].append(row["connection_id"])
        return [guardrail_of(row, [one for one in of[key] if one is not None]) for key, row in one_each.items()]

    async def known(self, org_id: UUID, ids: Sequence[UUID]) -> set[UUID]:
        wanted = select(guardrails.c.id).where(guardrails.c.org_id == org_id, guardrails.c.id.in_(ids))
        async with self._database.statement() as connection:
            return set((await connection.execute(wanted)).scalars())

    async def add(self, guardrail: GuardRail) -> None:
        try:
            async with self._database.transaction() as transaction:
                fixed = {"id": guardrail.id, "org_id": guardrail.org_id, "created_at": guardrail.created_at}
                await transaction.execute(insert(guardrails).values(_values(guardrail) | fixed))
                await _associate(transaction, guardrail)
        except IntegrityError:
            raise _taken(guardrail) from None

    async def update(self, guardrail: GuardRail) -> None:
        try:
            async with self._database.transaction() as transaction:
                result = await transaction.execute(
                    update(guardrails).where(guardrails.c.id == guardrail.id).values(_values(guardrail))
                )
                if result.rowcount != 1:
                    raise NotFound(f"there is no guard rail {guardrail.id} any more")
                await _associate(transaction, guardrail)
        except IntegrityError:
            raise _taken(guardrail) from None

    async def remove(self, guardrail_id: UUID) -> None:
        async with self._database.statement() as connection:
            await connection.execute(delete(guardrails).where(guardrails.c.id == guardrail_id))


def _values(guardrail: GuardRail) -> dict[str, Any]:
    return {
        "name": guardrail.name,
        "description": guardrail.description,
        "input": rules_values(guardrail.input),
        "output": rules_values(guardrail.output),
        "updated_at": guardrail.updated_at,
    }


def _taken(guardrail: GuardRail) -> Conflict:
    return Conflict(
        f"name: a guard rail {guardrail.name!r} exists already, or a connection of it was just removed", field="name"
    )


async def _associate(transaction: Executor, guardrail: GuardRail) -> None:
    """Replaces the guard rail's side of the association."""
    await transaction.execute(delete(connection_guardrails).where(connection_guardrails.c.guardrail_id == guardrail.id))
    pairs = [{"connection_id": key, "guardrail_id": guardrail.id} for key in set(guardrail.connection_ids)]
    if pairs:
        await transaction.execute(insert(connection_guardrails), pairs)
