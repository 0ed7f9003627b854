"""What rules about connections have in common in the store, whatever they say: lists of groups and of connections,
each read as one text, so that a rule is one row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Label,
    RowMapping,
    Select,
    String,
    Table,
    case,
    cast,
    delete,
    func,
    insert,
    or_,
    select,
)

from postern.store.schema.targets import connections
from postern.store.sql.rows import SEPARATOR, as_uuid, split
from postern.store.threaded import Executor


def joined_column(rules: Table, parts: Table, text: ColumnElement[str], label: str) -> Label[str]:
    """The `text` of each row of `parts` that belongs to the rule; `split` takes it apart."""
    joined = select(func.aggregate_strings(text, SEPARATOR)).where(parts.c.rule_id == rules.c.id)
    return joined.correlate(rules).scalar_subquery().label(label)


def connection_ids_column(rules: Table, listed: Table) -> Label[str]:
    return joined_column(rules, listed, cast(listed.c.connection_id, String), "connection_ids")


def connection_names_column(rules: Table, listed: Table) -> Label[str]:
    joined = select(func.aggregate_strings(connections.c.name, SEPARATOR)).join(
        listed, listed.c.connection_id == connections.c.id
    )
    own = joined.where(listed.c.rule_id == rules.c.id)
    return own.correlate(rules).scalar_subquery().label("connection_names")


def one_of(rules: Table, wanted: Select[Any], org_id: UUID, name_or_id: str) -> Select[Any]:
    """The rule that is meant: a name wins over an identifier of the same spelling."""
    key = as_uuid(name_or_id)
    named: ColumnElement[bool] = rules.c.name == name_or_id
    meant = named if key is None else or_(named, rules.c.id == key)
    return wanted.where(rules.c.org_id == org_id, meant).order_by(None).order_by(case((named, 0), else_=1)).limit(1)


def listed_ids(row: RowMapping) -> frozenset[UUID]:
    return frozenset(UUID(key) for key in split(row["connection_ids"]))


def listed_names(row: RowMapping) -> tuple[str, ...]:
    return tuple(sorted(split(row["connection_names"])))


async def replace_parts(
    transaction: Executor, parts: Table, rule_id: UUID, rows: Sequence[Mapping[str, object]]
) -> None:
    """`rows` from now on, and nothing else."""
    await transaction.execute(delete(parts).where(parts.c.rule_id == rule_id))
    if rows:
        await transaction.execute(insert(parts), [{"rule_id": rule_id, **row} for row in rows])
