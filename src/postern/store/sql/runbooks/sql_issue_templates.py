"""Issue templates. Only connections store their template; templates list no connections.

A writer that changes the template of a connection locks templates first, by identifier, and then connections, by name.
So no connection gets a template that was just deleted, and no two writers deadlock. The change is also one of the
templates, whose versions increase.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Label, Table, or_, select, update
from sqlalchemy import Row as ResultRow

from postern.domain.issues.issue import CmdbField, FieldMapping, IssueTemplate, MappingType, Prompt, PromptType
from postern.domain.lists import Listed, Page
from postern.domain.named_resource import is_declared
from postern.domain.rules.access import Reach
from postern.domain.rules.rule_filter import ALL_RULES, RuleFilter
from postern.domain.targets.connection import Connection
from postern.errors import Conflict, Malformed, NotFound
from postern.store.prepared import Row
from postern.store.schema.issue_tables import issue_templates
from postern.store.schema.target_tables import connections
from postern.store.sql.resource_table import CHANGED_MEANWHILE, ResourceTable
from postern.store.sql.rows import as_uuid, count_of
from postern.store.sql.targets.connection_conditions import within
from postern.store.threaded import Executor

_PLAIN = ("name", "description", "project_key", "request_type_id", "transition", "updated_at")


class _Connections:
    """The connections that have the template."""

    def columns(self, table: Table) -> Sequence[Label[str]]:
        return []

    async def hold(self, transaction: Executor, resource: IssueTemplate) -> None:
        """Lock the connections, and before them the templates that lose them. Raises NotFound, Malformed, Conflict."""
        if resource.connection_ids is None:
            return
        has = select(connections.c.issue_template_id).where(
            connections.c.id.in_(resource.connection_ids), connections.c.issue_template_id.is_not(None)
        )
        others = {UUID(key) for key in (await transaction.execute(has)).scalars()} - {resource.id}
        await _lock_templates(transaction, {resource.id, *others})
        new, former = await _difference(transaction, resource)
        losing = {UUID(row.issue_template_id) for row in new if row.issue_template_id is not None}
        if not losing <= others:
            raise Conflict(f"issue template {resource.name!r}: a connection {CHANGED_MEANWHILE}")
        await _count_change(transaction, losing)
        for row in (*new, *former):
            if is_declared(row.managed_by):
                raise Malformed(
                    f"connection_ids: connection {row.name!r} is managed by {row.managed_by}; change it there",
                    field="connection_ids",
                )

    async def replace(self, transaction: Executor, resource: IssueTemplate) -> None:
        if resource.connection_ids is None:
            return
        new, former = await _difference(transaction, resource)
        await _set(transaction, [row.id for row in new], str(resource.id), resource.updated_at)
        await _set(transaction, [row.id for row in former], None, resource.updated_at)


class SqlIssueTemplates(ResourceTable[IssueTemplate]):
    table, noun = issue_templates, "issue template"
    most = 500
    links = (_Connections(),)

    async def find(
        self, org_id: UUID, page: Page, where: RuleFilter = ALL_RULES, reach: Reach | None = None
    ) -> Listed[IssueTemplate]:
        async with self._database.statement() as statement:
            visible = await _visible(statement, org_id, reach)
            conditions = [issue_templates.c.org_id == org_id, *self._conditions(where), *visible]
            query = self._all.where(*conditions).limit(page.limit).offset(page.offset)
            rows = (await statement.execute(query)).mappings().all()
            total = (await statement.execute(count_of(issue_templates, *conditions))).scalar_one()
            templates = [await self.read(row) for row in rows]
            return Listed(await _with_connections(statement, templates, reach), total)

    async def get(self, org_id: UUID, name_or_id: str, reach: Reach | None = None) -> IssueTemplate | None:
        issue_template = await super().get(org_id, name_or_id)
        if issue_template is None:
            return None
        async with self._database.statement() as statement:
            [template] = await _with_connections(statement, [issue_template], reach)
        return template if reach is None or template.connection_ids else None

    async def read(self, row: Row) -> IssueTemplate:
        return IssueTemplate(
            **{name: row[name] for name in ("id", "org_id", *_PLAIN, "created_at", "managed_by", "version")},
            mappings=tuple(
                FieldMapping(**values | {"type": MappingType(values["type"])}) for values in row["mappings"]
            ),
            prompts=tuple(
                Prompt(**values | {"field_type": PromptType(values["field_type"])}) for values in row["prompts"]
            ),
            cmdb=tuple(CmdbField(**values) for values in row["cmdb"]),
        )

    async def values(self, resource: IssueTemplate) -> dict[str, Any]:
        listed = {name: [asdict(item) for item in getattr(resource, name)] for name in ("mappings", "prompts", "cmdb")}
        return {name: getattr(resource, name) for name in _PLAIN} | listed

    async def before_removal(self, transaction: Executor, resource: IssueTemplate) -> None:
        """Remove it from its connections."""
        await _lock_templates(transaction, [resource.id])
        had = await _lock_connections(transaction, connections.c.issue_template_id == str(resource.id))
        await _set(transaction, [row.id for row in had], None, resource.updated_at)


async def hold_template(transaction: Executor, connection: Connection) -> None:
    """Lock the templates that a connection has and had, before the connection is written. Raises Conflict where the
    template was just deleted."""
    stored = select(connections.c.issue_template_id).where(connections.c.id == connection.id)
    before = (await transaction.execute(stored)).scalar_one_or_none()
    after = connection.issue_template_id
    keys = {key for key in (as_uuid(before or ""), as_uuid(after or "")) if key is not None}
    locked_ids = {row.id for row in await _lock_templates(transaction, keys) if row.org_id == connection.org_id}
    if after is not None and as_uuid(after) not in locked_ids:
        raise Conflict(
            f"tracker_issue_template_id: the issue template {after!r} was just deleted; choose another",
            field="tracker_issue_template_id",
        )
    if before != after:
        await _count_change(transaction, locked_ids)


async def _lock_templates(transaction: Executor, keys: Collection[UUID]) -> Sequence[ResultRow[Any]]:
    if not keys:
        return []
    query = select(issue_templates.c.id, issue_templates.c.org_id).where(issue_templates.c.id.in_(keys))
    return (await transaction.execute(query.order_by(issue_templates.c.id).with_for_update())).all()


async def _count_change(transaction: Executor, keys: Collection[UUID]) -> None:
    if keys:
        changed = update(issue_templates).where(issue_templates.c.id.in_(keys))
        await transaction.execute(changed.values(version=issue_templates.c.version + 1))


async def _visible(statement: Executor, org_id: UUID, reach: Reach | None) -> list[ColumnElement[bool]]:
    if reach is None:
        return []
    column = connections.c.issue_template_id
    named = select(column).where(connections.c.org_id == org_id, column.is_not(None), *within(reach)).distinct()
    return [issue_templates.c.id.in_([UUID(key) for key in (await statement.execute(named)).scalars()])]


async def _with_connections(
    statement: Executor, templates: Sequence[IssueTemplate], reach: Reach | None
) -> list[IssueTemplate]:
    of: dict[str, list[UUID]] = {str(template.id): [] for template in templates}
    column = connections.c.issue_template_id
    query = select(connections.c.id, column).where(column.in_(of), *within(reach)).order_by(connections.c.name)
    for row in (await statement.execute(query)).all() if of else ():
        of[row.issue_template_id].append(row.id)
    return [replace(template, connection_ids=tuple(of[str(template.id)])) for template in templates]


async def _difference(
    transaction: Executor, template: IssueTemplate
) -> tuple[list[ResultRow[Any]], list[ResultRow[Any]]]:
    """Return the connections that get the template and those that lose it, locked. Raises NotFound."""
    key, connection_ids = str(template.id), frozenset(template.connection_ids or ())
    condition = or_(connections.c.id.in_(connection_ids), connections.c.issue_template_id == key)
    rows = await _lock_connections(transaction, connections.c.org_id == template.org_id, condition)
    for missing in connection_ids - {row.id for row in rows}:
        raise NotFound(f"connection_ids: there is no connection with id {str(missing)!r}", field="connection_ids")
    new = [row for row in rows if row.id in connection_ids and row.issue_template_id != key]
    return new, [row for row in rows if row.id not in connection_ids]


async def _lock_connections(transaction: Executor, *conditions: ColumnElement[bool]) -> Sequence[ResultRow[Any]]:
    column = connections.c
    query = select(column.id, column.name, column.managed_by, column.issue_template_id).where(*conditions)
    return (await transaction.execute(query.order_by(column.name).with_for_update())).all()


async def _set(transaction: Executor, ids: Collection[UUID], template_id: str | None, at: datetime | None) -> None:
    if ids:
        values = {"issue_template_id": template_id, "updated_at": at, "version": connections.c.version + 1}
        await transaction.execute(update(connections).where(connections.c.id.in_(ids)).values(values))
