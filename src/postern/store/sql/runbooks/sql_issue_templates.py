"""Issue templates. Which connections have one stands with the connections, and nowhere else.

Whoever binds a connection locks the template's row before the connection's, and connections by name: so none is bound
to a template that is just removed, and those who bind wait for each other and never in a circle.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Row, RowMapping, delete, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from postern.domain.issue import CmdbField, FieldMapping, IssueTemplate, MappingType, Prompt, PromptType
from postern.domain.lists import Listed, Page
from postern.domain.rules.access import Reach
from postern.domain.targets.connection import Connection
from postern.errors import Conflict, Malformed, NotFound
from postern.store.database import Database
from postern.store.ports.issue_ports import BoundTemplate
from postern.store.schema.issue_tables import issue_templates
from postern.store.schema.target_tables import connections
from postern.store.sql.rows import as_uuid, count_of
from postern.store.sql.targets.connection_conditions import within
from postern.store.threaded import Executor

_PLAIN = ("name", "description", "project_key", "request_type_id", "transition")
_ALL = select(*issue_templates.c).order_by(issue_templates.c.name)


class SqlIssueTemplates:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, org_id: UUID, page: Page, reach: Reach | None = None) -> Listed[BoundTemplate]:
        async with self._database.statement() as connection:
            own = [issue_templates.c.org_id == org_id, *await _visible(connection, org_id, reach)]
            wanted = _ALL.where(*own).limit(page.limit).offset(page.offset)
            rows = (await connection.execute(wanted)).mappings().all()
            total = (await connection.execute(count_of(issue_templates, *own))).scalar_one()
            return Listed(await _bound(connection, rows, reach), total)

    async def get(self, org_id: UUID, template_id: str, reach: Reach | None = None) -> BoundTemplate | None:
        key = as_uuid(template_id)
        if key is None:
            return None
        wanted = _ALL.where(issue_templates.c.org_id == org_id, issue_templates.c.id == key)
        async with self._database.statement() as connection:
            rows = (await connection.execute(wanted)).mappings().all()
            found = await _bound(connection, rows, reach)
        return found[0] if found and (reach is None or found[0].connection_ids) else None

    async def add(self, template: IssueTemplate, connection_ids: Collection[UUID]) -> None:
        fixed = {"id": template.id, "org_id": template.org_id, "created_at": template.created_at}
        try:
            async with self._database.transaction() as transaction:
                await transaction.execute(insert(issue_templates).values(_values(template) | fixed))
                await _bind(transaction, template, connection_ids)
        except IntegrityError:
            raise _taken(template) from None

    async def update(self, template: IssueTemplate, connection_ids: Collection[UUID] | None) -> None:
        own = issue_templates.c.id == template.id
        try:
            async with self._database.transaction() as transaction:
                changed = update(issue_templates).where(own).values(_values(template))
                if (await transaction.execute(changed)).rowcount != 1:
                    raise NotFound(f"there is no issue template {template.name!r} any more")
                if connection_ids is not None:
                    await _bind(transaction, template, connection_ids)
        except IntegrityError:
            raise _taken(template) from None

    async def remove(self, template_id: UUID, at: datetime) -> None:
        own = issue_templates.c.id == template_id
        async with self._database.transaction() as transaction:
            await transaction.execute(select(issue_templates.c.id).where(own).with_for_update())
            had = [row.id for row in await _locked(transaction, connections.c.issue_template_id == str(template_id))]
            await _set(transaction, had, None, at)
            await transaction.execute(delete(issue_templates).where(own))


async def hold_template(transaction: Executor, connection: Connection) -> None:
    """Before a connection is written: its template stays until the end of the transaction. Raises Conflict when it was
    removed a moment ago."""
    if connection.issue_template_id is None:
        return
    key = as_uuid(connection.issue_template_id)
    wanted = select(issue_templates.c.id).where(
        issue_templates.c.id == key, issue_templates.c.org_id == connection.org_id
    )
    held = await transaction.execute(wanted.with_for_update(read=True, key_share=True))
    if held.one_or_none() is None:
        raise Conflict(
            f"tracker_issue_template_id: the issue template {connection.issue_template_id} was just removed; "
            "choose another",
            field="tracker_issue_template_id",
        )


async def _visible(connection: Executor, org_id: UUID, reach: Reach | None) -> list[ColumnElement[bool]]:
    if reach is None:
        return []
    column = connections.c.issue_template_id
    named = select(column).where(connections.c.org_id == org_id, column.is_not(None), *within(reach)).distinct()
    return [issue_templates.c.id.in_([UUID(key) for key in (await connection.execute(named)).scalars()])]


async def _bound(connection: Executor, rows: Sequence[RowMapping], reach: Reach | None) -> list[BoundTemplate]:
    keys = [str(row["id"]) for row in rows]
    column = connections.c.issue_template_id
    wanted = select(connections.c.id, column).where(column.in_(keys), *within(reach)).order_by(connections.c.name)
    of: dict[str, list[UUID]] = {key: [] for key in keys}
    for found in (await connection.execute(wanted)).all() if keys else ():
        of[found.issue_template_id].append(found.id)
    return [BoundTemplate(_template_of(row), tuple(of[str(row["id"])])) for row in rows]


async def _bind(transaction: Executor, template: IssueTemplate, wanted: Collection[UUID]) -> None:
    """These and no others, all of them the organisation's."""
    key = str(template.id)
    meant = or_(connections.c.id.in_(wanted), connections.c.issue_template_id == key)
    found = await _locked(transaction, connections.c.org_id == template.org_id, meant)
    for missing in set(wanted) - {row.id for row in found}:
        raise NotFound(f"connection_ids: there is no connection with id {str(missing)!r}", field="connection_ids")
    new = [row for row in found if row.id in wanted and row.issue_template_id != key]
    former = [row for row in found if row.id not in wanted]
    for row in (*new, *former):
        if row.managed_by is not None:
            raise Malformed(
                f"connection_ids: connection {row.name!r} is managed by {row.managed_by}; change it there",
                field="connection_ids",
            )
    assert template.updated_at is not None
    await _set(transaction, [row.id for row in new], key, template.updated_at)
    await _set(transaction, [row.id for row in former], None, template.updated_at)


async def _locked(transaction: Executor, *conditions: ColumnElement[bool]) -> Sequence[Row[Any]]:
    column = connections.c
    wanted = select(column.id, column.name, column.managed_by, column.issue_template_id).where(*conditions)
    return (await transaction.execute(wanted.order_by(column.name).with_for_update())).all()


async def _set(transaction: Executor, ids: Collection[UUID], template_id: str | None, at: datetime) -> None:
    if ids:
        values = {"issue_template_id": template_id, "updated_at": at}
        await transaction.execute(update(connections).where(connections.c.id.in_(ids)).values(values))


def _values(template: IssueTemplate) -> dict[str, Any]:
    listed = {name: [asdict(one) for one in getattr(template, name)] for name in ("mappings", "prompts", "cmdb")}
    return {name: getattr(template, name) for name in (*_PLAIN, "updated_at")} | listed


def _template_of(row: RowMapping) -> IssueTemplate:
    plain = {name: row[name] for name in ("id", "org_id", *_PLAIN, "created_at", "updated_at")}
    return IssueTemplate(
        **plain,
        mappings=tuple(FieldMapping(**one | {"type": MappingType(one["type"])}) for one in row["mappings"]),
        prompts=tuple(Prompt(**one | {"field_type": PromptType(one["field_type"])}) for one in row["prompts"]),
        cmdb=tuple(CmdbField(**one) for one in row["cmdb"]),
    )


def _taken(template: IssueTemplate) -> Conflict:
    return Conflict(f"name: an issue template {template.name!r} exists already", field="name")
