"""Connections, with their side of the association to guard rails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from sqlalchemy import Connection as DatabaseConnection
from sqlalchemy import bindparam, case, delete, func, insert, or_, select, true, update
from sqlalchemy.exc import IntegrityError

from postern.domain.lists import Listed, Page
from postern.domain.rules.access import Reach
from postern.domain.sessions.session import SessionStatus
from postern.domain.targets.connection import Connection, Toggle
from postern.domain.targets.resource import TagUse
from postern.errors import Conflict, NotFound
from postern.store.database import Database
from postern.store.encryption import Encryption
from postern.store.ports.target_ports import ConnectionFilter, SecretUse
from postern.store.prepared import PreparedStatement, Row
from postern.store.schema.session_tables import sessions
from postern.store.schema.target_tables import connection_guardrails, connections, guardrails
from postern.store.sql.rows import as_uuid, connection_of, connection_values, count_of, guardrail_ids_column, page_of
from postern.store.sql.runbooks.sql_issue_templates import hold_template
from postern.store.sql.targets.connection_conditions import conditions_of, each_tag, within
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
_FIXED = {"id", "org_id", "name", "created_at"}


class SqlConnections:
    def __init__(self, database: Database, encryption: Encryption) -> None:
        self._database = database
        self._encryption = encryption

    async def get(self, org_id: UUID, name_or_id: str, secrets: SecretUse = SecretUse.ALL) -> Connection | None:
        key = as_uuid(name_or_id)
        named = connections.c.name == name_or_id
        wanted = (
            _ALL.where(connections.c.org_id == org_id, named if key is None else or_(named, connections.c.id == key))
            .order_by(case((named, 0), else_=1))
            .limit(1)
        )
        async with self._database.statement() as connection:
            row = (await connection.execute(wanted)).mappings().one_or_none()
        return None if row is None else await connection_of(row, self._encryption, secrets=secrets)

    async def find(
        self, org_id: UUID, wanted: ConnectionFilter, page: Page, secrets: SecretUse = SecretUse.ALL
    ) -> Listed[Connection]:
        conditions = conditions_of(wanted, self._database.is_sqlite)
        async with self._database.statement() as connection:
            if conditions:
                own = (connections.c.org_id == org_id, *conditions)
                rows = _ALL.where(*own).order_by(connections.c.name).limit(page.limit).offset(page.offset)
                count = count_of(connections, *own)
                found, total = await connection.run_sync(lambda connection: page_of(connection, rows, count))
            else:
                found, total = await connection.run_sync(lambda connection: _whole_list(connection, org_id, page))
        return Listed([await connection_of(row, self._encryption, secrets=secrets) for row in found], total)

    async def by_ids(self, org_id: UUID, ids: Sequence[UUID]) -> list[Connection]:
        wanted = _ALL.where(connections.c.org_id == org_id, connections.c.id.in_(ids)).order_by(connections.c.name)
        async with self._database.statement() as connection:
            rows = (await connection.execute(wanted)).mappings().all()
        return [await connection_of(row, self._encryption, secrets=SecretUse.NONE) for row in rows]

    async def ids_of(self, org_id: UUID, names_or_ids: Sequence[str]) -> Mapping[str, UUID]:
        keys = [key for key in map(as_uuid, names_or_ids) if key is not None]
        meant = or_(connections.c.name.in_(names_or_ids), connections.c.id.in_(keys))
        wanted = select(connections.c.id, connections.c.name).where(connections.c.org_id == org_id, meant)
        async with self._database.statement() as connection:
            rows = (await connection.execute(wanted)).all()
        by_name: dict[str, UUID] = {row.name: row.id for row in rows}
        by_id: dict[UUID | None, UUID] = {row.id: row.id for row in rows}
        found = {given: by_name.get(given) or by_id.get(as_uuid(given)) for given in names_or_ids}
        return {given: key for given, key in found.items() if key is not None}

    async def for_runbooks(self, org_id: UUID, reach: Reach | None, name_or_id: str | None) -> Mapping[UUID, str]:
        wanted = (
            select(connections.c.id, connections.c.name)
            .where(connections.c.org_id == org_id, connections.c.access_mode_runbooks == Toggle.ENABLED, *within(reach))
            .order_by(connections.c.name)
        )
        if name_or_id is not None:
            key = as_uuid(name_or_id)
            named = connections.c.name == name_or_id
            meant = named if key is None else or_(named, connections.c.id == key)
            wanted = wanted.where(meant).order_by(None).order_by(case((named, 0), else_=1)).limit(1)
        async with self._database.statement() as connection:
            return {row.id: row.name for row in (await connection.execute(wanted)).all()}

    async def tags(self, org_id: UUID, reach: Reach | None, page: Page) -> Listed[TagUse]:
        tag = each_tag(self._database.is_sqlite)
        used = (
            select(tag.c.key, tag.c.value, func.count().label("connections"))
            .select_from(connections.join(tag, true()))
            .where(connections.c.org_id == org_id, *within(reach))
            .group_by(tag.c.key, tag.c.value)
        )
        count = select(func.count()).select_from(used.subquery())
        shown = used.order_by(tag.c.key, tag.c.value).limit(page.limit).offset(page.offset)
        async with self._database.statement() as connection:
            found, total = await connection.run_sync(lambda connection: page_of(connection, shown, count))
        return Listed([TagUse(**row) for row in found], total)

    async def add(self, connection: Connection) -> None:
        values = await connection_values(connection, self._encryption)
        try:
            async with self._database.transaction() as transaction:
                await ensure_resource(transaction, connection.org_id, connection.resource_name)
                await hold_template(transaction, connection)
                await transaction.execute(insert(connections).values(values))
                await _associate(transaction, connection)
        except IntegrityError:
            raise _in_between(connection) from None

    async def update(self, connection: Connection, *, with_guardrails: bool = True) -> None:
        values = await connection_values(connection, self._encryption)
        changed = {name: value for name, value in values.items() if name not in _FIXED}
        try:
            async with self._database.transaction() as transaction:
                await ensure_resource(transaction, connection.org_id, connection.resource_name)
                await hold_template(transaction, connection)
                result = await transaction.execute(
                    update(connections).where(connections.c.id == connection.id).values(changed)
                )
                if result.rowcount != 1:
                    raise NotFound(f"there is no connection {connection.name!r} any more")
                if with_guardrails:
                    await _associate(transaction, connection)
        except IntegrityError:
            raise _in_between(connection) from None

    async def remove(self, connection_id: UUID) -> list[UUID]:
        live = select(sessions.c.id).where(
            sessions.c.connection_id == connection_id, sessions.c.status != SessionStatus.DONE
        )
        async with self._database.transaction() as transaction:
            await transaction.execute(delete(connections).where(connections.c.id == connection_id))
            return list((await transaction.execute(live)).scalars())


def _whole_list(connection: DatabaseConnection, org_id: UUID, page: Page) -> tuple[list[Row], int]:
    found = _PAGE.rows(connection, {"org": org_id, "limit": page.limit, "offset": page.offset})
    return found, _COUNT.rows(connection, {"org": org_id})[0]["total"]


def _in_between(connection: Connection) -> Conflict:
    """Services check names and references first, so only a change at the same moment leads here."""
    return Conflict(
        f"name: a connection {connection.name!r} exists already, or something it refers to was just removed; try again",
        field="name",
    )


async def _associate(transaction: Executor, connection: Connection) -> None:
    """Replace the connection's guard rails. Guard rails list their connections, so these are changes of theirs, too:
    who has read one of them before cannot write it any more."""
    own = connection_guardrails.c.connection_id == connection.id
    before = set((await transaction.execute(select(connection_guardrails.c.guardrail_id).where(own))).scalars())
    after = {UUID(key) for key in connection.guardrail_rules}
    others = guardrails.c.id.in_(sorted(before ^ after))
    await transaction.execute(update(guardrails).where(others).values(version=guardrails.c.version + 1))
    await transaction.execute(delete(connection_guardrails).where(own))
    pairs = [{"connection_id": connection.id, "guardrail_id": key} for key in after]
    if pairs:
        await transaction.execute(insert(connection_guardrails), pairs)
