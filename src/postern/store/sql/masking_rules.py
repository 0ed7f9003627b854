"""Masking rules, with their association to connections."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import ColumnElement, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from postern.domain.lists import Listed, Page
from postern.domain.masking import MaskingRule
from postern.domain.rule_filter import ALL_RULES, RuleFilter
from postern.errors import Conflict, NotFound
from postern.store.database import Database
from postern.store.schema.targets import connection_masking_rules, masking_rules
from postern.store.sql.rows import count_of, masking_rule_of, masking_rule_values, rules_page, rules_wanted
from postern.store.threaded import Executor

_ALL = (
    select(*masking_rules.c, connection_masking_rules.c.connection_id)
    .select_from(masking_rules)
    .outerjoin(connection_masking_rules, connection_masking_rules.c.masking_rule_id == masking_rules.c.id)
    .order_by(masking_rules.c.name, connection_masking_rules.c.connection_id)
)


class SqlMaskingRules:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, org_id: UUID, rule_id: UUID) -> MaskingRule | None:
        found = await self._select(masking_rules.c.org_id == org_id, masking_rules.c.id == rule_id)
        return found[0] if found else None

    async def find(self, org_id: UUID, page: Page, where: RuleFilter = ALL_RULES) -> Listed[MaskingRule]:
        own = connection_masking_rules.c.masking_rule_id == masking_rules.c.id
        wanted = rules_wanted(masking_rules, connection_masking_rules, own, org_id, where)
        async with self._database.statement() as connection:
            total = (await connection.execute(count_of(masking_rules, *wanted))).scalar_one()
        return Listed(await self._select(masking_rules.c.id.in_(rules_page(masking_rules, wanted, page))), total)

    async def _select(self, *conditions: ColumnElement[bool]) -> list[MaskingRule]:
        async with self._database.statement() as connection:
            rows = (await connection.execute(_ALL.where(*conditions))).mappings().all()
        one_each = {row["id"]: row for row in rows}
        of: dict[UUID, list[UUID | None]] = {key: [] for key in one_each}
        for row in rows:
            of[row["id"]].append(row["connection_id"])
        return [masking_rule_of(row, [one for one in of[key] if one is not None]) for key, row in one_each.items()]

    async def add(self, rule: MaskingRule) -> None:
        fixed = {"id": rule.id, "org_id": rule.org_id, "created_at": rule.created_at}
        try:
            async with self._database.transaction() as transaction:
                await transaction.execute(insert(masking_rules).values(masking_rule_values(rule) | fixed))
                await _associate(transaction, rule)
        except IntegrityError:
            raise _taken(rule) from None

    async def update(self, rule: MaskingRule) -> None:
        try:
            async with self._database.transaction() as transaction:
                result = await transaction.execute(
                    update(masking_rules).where(masking_rules.c.id == rule.id).values(masking_rule_values(rule))
                )
                if result.rowcount != 1:
                    raise NotFound(f"there is no masking rule {rule.id} any more")
                await _associate(transaction, rule)
        except IntegrityError:
            raise _taken(rule) from None

    async def remove(self, rule_id: UUID) -> None:
        async with self._database.statement() as connection:
            await connection.execute(delete(masking_rules).where(masking_rules.c.id == rule_id))


def _taken(rule: MaskingRule) -> Conflict:
    return Conflict(
        f"name: a masking rule {rule.name!r} exists already, or a connection of it was just removed", field="name"
    )


async def _associate(transaction: Executor, rule: MaskingRule) -> None:
    await transaction.execute(
        delete(connection_masking_rules).where(connection_masking_rules.c.masking_rule_id == rule.id)
    )
    pairs = [{"connection_id": key, "masking_rule_id": rule.id} for key in set(rule.connection_ids)]
    if pairs:
        await transaction.execute(insert(connection_masking_rules), pairs)
