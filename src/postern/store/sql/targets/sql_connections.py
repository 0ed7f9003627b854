"""Connections, with their side of the association to guardrails."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Label, Select, Table, bindparam, func, or_, select, true, update
from sqlalchemy import Connection as DatabaseConnection

from postern.domain.facets import Facet
from postern.domain.lists import Listed, Page
from postern.domain.rules.access import Reach
from postern.domain.sessions.session import SessionStatus
from postern.domain.targets.connection import Connection, Toggle
from postern.domain.targets.connection_use import ConnectionFacet
from postern.domain.targets.resource import TagUse
from postern.store.database import Database
from postern.store.encryption import Encryption
from postern.store.ports.target_ports import ConnectionFilter, SecretUse
from postern.store.prepared import PreparedStatement, Row
from postern.store.schema.session_tables import sessions
from postern.store.schema.target_tables import connection_guardrails, connections, guardrails
from postern.store.sql.resource_table import ResourceTable, one_of, replace_rows
from postern.store.sql.rows import as_uuid, connection_of, connection_values, count_of, guardrail_ids_column, page_of
from postern.store.sql.runbooks.sql_issue_templates import hold_template
from postern.store.sql.sql_facets import facet_statement, read_facet
from postern.store.sql.targets.connection_conditions import conditions_of, each_tag, status_of, within
from postern.store.sql.targets.sql_resources import ensure_resource
from postern.store.threaded import Executor

_ALL = select(*connections.c, guardrail_ids_column())
# The list without a filter, which pages ask for first and most often: half of what it takes is building statements.
_PAGE = PreparedStatement(
    _ALL.where(connections.c.org_id == bindparam("org"))
    .order_by(connections.c.name)
    .limit(bindparam("limit"))
    .offset(bindparam("offset"))
)
_COUNT = PreparedStatement(count_of(connections, connections.c.org_id == bindparam("org")))
_FIXED = {"id", "org_id", "created_at", "version"}


class _Guardrails:
    """The guardrails of a connection. They list their connections, so a change of these is one of theirs, too: an
    outdated write of one is rejected."""

    def columns(self, table: Table) -> Sequence[Label[str]]:
        return [guardrail_ids_column()]

    async def hold(self, transaction: Executor, resource: Connection) -> None:
        """Lock the guardrails that the connection has and had: before the connection, as their own writers do."""
        condition = connection_guardrails.c.connection_id == resource.id
        before = set(
            (await transaction.execute(select(connection_guardrails.c.guardrail_id).where(condition))).scalars()
        )
        after = {UUID(key) for key in resource.guardrail_rules}
        if not before | after:
            return
        all_of_them = select(guardrails.c.id).where(guardrails.c.id.in_(before | after)).order_by(guardrails.c.id)
        await transaction.execute(all_of_them.with_for_update())
        changed = update(guardrails).where(guardrails.c.id.in_(before ^ after))
        await transaction.execute(changed.values(version=guardrails.c.version + 1))

    async def replace(self, transaction: Executor, resource: Connection) -> None:
        rows = [{"guardrail_id": UUID(key)} for key in resource.guardrail_rules]
        await replace_rows(transaction, connection_guardrails.c.connection_id, resource.id, rows)


class SqlConnections(ResourceTable[Connection]):
    table, noun = connections, "connection"
    links = (_Guardrails(),)

    def __init__(self, database: Database, encryption: Encryption) -> None:
        super().__init__(database)
        self._encryption = encryption

    async def read(self, row: Row) -> Connection:
        return await connection_of(row, self._encryption)

    async def values(self, resource: Connection) -> dict[str, Any]:
        values = await connection_values(resource, self._encryption)
        return {name: value for name, value in values.items() if name not in _FIXED}

    async def before_write(self, transaction: Executor, resource: Connection, *, is_new: bool) -> None:
        await ensure_resource(transaction, resource.org_id, resource.resource_name)
        await hold_template(transaction, resource)

    async def get(self, org_id: UUID, name_or_id: str, secrets: SecretUse = SecretUse.ALL) -> Connection | None:
        async with self._database.statement() as connection:
            result = await connection.execute(one_of(connections, self._all, org_id, name_or_id))
            row = result.mappings().one_or_none()
        return None if row is None else await connection_of(row, self._encryption, secrets=secrets)

    async def search(
        self, org_id: UUID, criteria: ConnectionFilter, page: Page, secrets: SecretUse = SecretUse.ALL
    ) -> Listed[Connection]:
        conditions = conditions_of(criteria, self._database.is_sqlite)
        async with self._database.statement() as connection:
            if conditions:
                own_conditions = (connections.c.org_id == org_id, *conditions)
                rows = self._all.where(*own_conditions).limit(page.limit).offset(page.offset)
                count = count_of(connections, *own_conditions)
                page_rows, total = await connection.run_sync(lambda connection: page_of(connection, rows, count))
            else:
                page_rows, total = await connection.run_sync(lambda connection: _whole_list(connection, org_id, page))
        return Listed([await connection_of(row, self._encryption, secrets=secrets) for row in page_rows], total)

    async def facets(
        self, org_id: UUID, criteria: ConnectionFilter, names: Collection[ConnectionFacet]
    ) -> Mapping[ConnectionFacet, Facet]:
        conditions = (connections.c.org_id == org_id, *conditions_of(criteria, self._database.is_sqlite))
        statements = {name: self._facet(name, criteria.alive_after, conditions) for name in names}
        async with self._database.statement() as statement:
            return await statement.run_sync(
                lambda connection: {name: read_facet(connection, query) for name, query in statements.items()}
            )

    def _facet(
        self, name: ConnectionFacet, alive_after: datetime | None, conditions: Sequence[ColumnElement[bool]]
    ) -> Select[Any]:
        if name is ConnectionFacet.TAG:
            tag = each_tag(self._database.is_sqlite)
            return facet_statement(tag.c.key + "=" + tag.c.value, connections.join(tag, true()), *conditions)
        if name is ConnectionFacet.STATUS:
            return facet_statement(status_of(alive_after), connections, *conditions)
        return facet_statement(connections.c[name], connections, *conditions)

    async def open_sessions(self, connection_id: UUID) -> list[UUID]:
        live = select(sessions.c.id).where(
            sessions.c.connection_id == connection_id, sessions.c.status != SessionStatus.DONE
        )
        async with self._database.statement() as statement:
            return list((await statement.execute(live)).scalars())

    async def by_ids(self, org_id: UUID, ids: Sequence[UUID]) -> list[Connection]:
        query = self._all.where(connections.c.org_id == org_id, connections.c.id.in_(ids))
        async with self._database.statement() as connection:
            rows = (await connection.execute(query)).mappings().all()
        return [await connection_of(row, self._encryption, secrets=SecretUse.NONE) for row in rows]

    async def ids_of(self, org_id: UUID, names_or_ids: Sequence[str]) -> Mapping[str, UUID]:
        keys = [key for key in map(as_uuid, names_or_ids) if key is not None]
        condition = or_(connections.c.name.in_(names_or_ids), connections.c.id.in_(keys))
        query = select(connections.c.id, connections.c.name).where(connections.c.org_id == org_id, condition)
        async with self._database.statement() as connection:
            rows = (await connection.execute(query)).all()
        by_name: dict[str, UUID] = {row.name: row.id for row in rows}
        by_id: dict[UUID | None, UUID] = {row.id: row.id for row in rows}
        keys_by_name = {
            names_or_id: by_name.get(names_or_id) or by_id.get(as_uuid(names_or_id)) for names_or_id in names_or_ids
        }
        return {name: key for name, key in keys_by_name.items() if key is not None}

    async def for_runbooks(self, org_id: UUID, reach: Reach | None, name_or_id: str | None) -> Mapping[UUID, str]:
        query = (
            select(connections.c.id, connections.c.name)
            .where(connections.c.org_id == org_id, connections.c.access_mode_runbooks == Toggle.ENABLED, *within(reach))
            .order_by(connections.c.name)
        )
        if name_or_id is not None:
            query = one_of(connections, query, org_id, name_or_id)
        async with self._database.statement() as connection:
            return {row.id: row.name for row in (await connection.execute(query)).all()}

    async def names_of(self, org_id: UUID, subtypes: Collection[str]) -> list[str]:
        own = (connections.c.org_id == org_id, connections.c.subtype.in_(subtypes))
        async with self._database.statement() as connection:
            return list((await connection.execute(select(connections.c.name).where(*own))).scalars())

    async def tags(self, org_id: UUID, reach: Reach | None, page: Page) -> Listed[TagUse]:
        tag = each_tag(self._database.is_sqlite)
        used = (
            select(tag.c.key, tag.c.value, func.count().label("connections"))
            .select_from(connections.join(tag, true()))
            .where(connections.c.org_id == org_id, *within(reach))
            .group_by(tag.c.key, tag.c.value)
        )
        count = select(func.count()).select_from(used.subquery())
        query = used.order_by(tag.c.key, tag.c.value).limit(page.limit).offset(page.offset)
        async with self._database.statement() as connection:
            page_rows, total = await connection.run_sync(lambda connection: page_of(connection, query, count))
        return Listed([TagUse(**row) for row in page_rows], total)


def _whole_list(connection: DatabaseConnection, org_id: UUID, page: Page) -> tuple[list[Row], int]:
    rows = _PAGE.rows(connection, {"org": org_id, "limit": page.limit, "offset": page.offset})
    return rows, _COUNT.rows(connection, {"org": org_id})[0]["total"]
