"""Connections, with their side of the association to guard rails."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import ColumnElement, and_, bindparam, case, delete, false, func, insert, or_, select, true, update
from sqlalchemy import Connection as DatabaseConnection
from sqlalchemy.exc import IntegrityError

from postern.domain.access import Reach
from postern.domain.connection import Connection, is_tag_key
from postern.domain.lists import Listed, Page
from postern.domain.session import SessionStatus
from postern.errors import Conflict, NotFound
from postern.store.database import Database
from postern.store.encryption import Encryption
from postern.store.ports import ConnectionFilter
from postern.store.prepared import Prepared, Row
from postern.store.schema import access_rule_connections, connection_guardrails, connections, sessions
from postern.store.sql.rows import as_uuid, connection_of, connection_values, count_of, guardrail_ids_column, page_of
from postern.store.threaded import Executor

_ALL = select(*connections.c, guardrail_ids_column())
# The list without a filter, which pages ask for first and most often: half of what it takes is building statements.
_PAGE = Prepared(
    _ALL.where(connections.c.org_id == bindparam("org"))
    .order_by(connections.c.name)
    .limit(bindparam("limit"))
    .offset(bindparam("offset"))
)
_COUNT = Prepared(count_of(connections, connections.c.org_id == bindparam("org")))
_FIXED = {"id", "org_id", "name", "created_at"}


class SqlConnections:
    def __init__(self, database: Database, encryption: Encryption) -> None:
        self._database = database
        self._encryption = encryption

    async def get(self, org_id: UUID, name_or_id: str) -> Connection | None:
        key = as_uuid(name_or_id)
        named = connections.c.name == name_or_id
        wanted = (
            _ALL.where(connections.c.org_id == org_id, named if key is None else or_(named, connections.c.id == key))
            .order_by(case((named, 0), else_=1))
            .limit(1)
        )
        async with self._database.statement() as connection:
            row = (await connection.execute(wanted)).mappings().one_or_none()
        return None if row is None else await connection_of(row, self._encryption)

    async def find(self, org_id: UUID, wanted: ConnectionFilter, page: Page) -> Listed[Connection]:
        conditions = _conditions(wanted)
        async with self._database.statement() as connection:
            if conditions:
                own = (connections.c.org_id == org_id, *conditions)
                rows = _ALL.where(*own).order_by(connections.c.name).limit(page.limit).offset(page.offset)
                count = count_of(connections, *own)
                found, total = await connection.run_sync(lambda connection: page_of(connection, rows, count))
            else:
                found, total = await connection.run_sync(lambda connection: _whole_list(connection, org_id, page))
        return Listed([await connection_of(row, self._encryption) for row in found], total)

    async def by_ids(self, org_id: UUID, ids: Sequence[UUID]) -> list[Connection]:
        wanted = _ALL.where(connections.c.org_id == org_id, connections.c.id.in_(ids)).order_by(connections.c.name)
        async with self._database.statement() as connection:
            rows = (await connection.execute(wanted)).mappings().all()
        return [await connection_of(row, self._encryption) for row in rows]

    async def add(self, connection: Connection) -> None:
        values = await connection_values(connection, self._encryption)
        try:
            async with self._database.transaction() as transaction:
                await transaction.execute(insert(connections).values(values))
                await _associate(transaction, connection)
        except IntegrityError:
            raise _in_between(connection) from None

    async def update(self, connection: Connection) -> None:
        values = await connection_values(connection, self._encryption)
        changed = {name: value for name, value in values.items() if name not in _FIXED}
        try:
            async with self._database.transaction() as transaction:
                result = await transaction.execute(
                    update(connections).where(connections.c.id == connection.id).values(changed)
                )
                if result.rowcount != 1:
                    raise NotFound(f"there is no connection {connection.name!r} any more")
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
    """Replaces the connection's side of the association."""
    await transaction.execute(
        delete(connection_guardrails).where(connection_guardrails.c.connection_id == connection.id)
    )
    pairs = [{"connection_id": connection.id, "guardrail_id": UUID(key)} for key in set(connection.guardrail_rules)]
    if pairs:
        await transaction.execute(insert(connection_guardrails), pairs)


def _conditions(wanted: ConnectionFilter) -> list[ColumnElement[bool]]:
    equal = {
        connections.c.name: wanted.name,
        connections.c.type: wanted.type,
        connections.c.subtype: wanted.subtype,
        connections.c.agent_id: wanted.agent_id,
    }
    conditions = [column == value for column, value in equal.items() if value is not None]
    if wanted.search is not None:
        text = wanted.search.lower()
        searched = (connections.c.name, connections.c.subtype, connections.c.type, connections.c.resource_name)
        conditions.append(or_(*(func.lower(column).contains(text, autoescape=True) for column in searched)))
    conditions += [_tag_fits(*tag) for tag in wanted.tags]
    if wanted.reach is not None:
        conditions.append(_within(wanted.reach))
    return conditions


def _within(reach: Reach) -> ColumnElement[bool]:
    """The same answer as `domain.access.decide` gives for each connection by itself."""
    ways = [and_(*(_tag_fits(key, value, True) for key, value in tags.items())) for tags in reach.tags if tags]
    if reach.rules:
        listed = select(access_rule_connections.c.connection_id)
        ways.append(connections.c.id.in_(listed.where(access_rule_connections.c.rule_id.in_(reach.rules))))
    return or_(false(), *ways)


def _tag_fits(key: str, value: str, equal: bool) -> ColumnElement[bool]:
    """Whether the tag has that value; one that is not there has none."""
    if not is_tag_key(key):  # no connection has it, and it might not be what the engine takes for a path
        return false() if equal else true()
    tag = connections.c.connection_tags[key].as_string()
    return tag == value if equal else or_(tag.is_(None), tag != value)
