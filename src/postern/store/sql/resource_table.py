"""Named resources of an organisation, one table each: what all stores of such resources have in common.

A store converts rows and resources, and declares the links of its resources. Everything else is here: lists by name,
look-up by name or identifier, unique names, and versions: a change of an outdated one is rejected (optimistic locking).

Locks are taken in one order: the room for one more, the groups that a resource names, its own row, its links.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Protocol, TypeVar
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Label,
    Select,
    String,
    Table,
    case,
    cast,
    delete,
    false,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from postern.domain.lists import Listed, Page
from postern.domain.named_resource import NamedResource, plural
from postern.domain.rules.rule_filter import ALL_RULES, RuleFilter
from postern.errors import Conflict, Invalid, NotFound, PosternError
from postern.store.database import Database
from postern.store.prepared import Row
from postern.store.schema.target_tables import connections
from postern.store.sql.locking import one_at_a_time
from postern.store.sql.rows import SEPARATOR, as_uuid, count_of, split
from postern.store.threaded import Executor

R = TypeVar("R", bound=NamedResource)
CHANGED_MEANWHILE = "was changed by another request at the same time; read it again, and repeat the change"

L = TypeVar("L", bound=NamedResource, contravariant=True)


class LinkTable(Protocol[L]):
    """Rows of a linked table that belong to a resource: connections that it lists, groups that it names."""

    def columns(self, table: Table) -> Sequence[Label[str]]:
        """Return the columns that show them in a resource's row, each as one text."""

    async def hold(self, transaction: Executor, resource: L) -> None:
        """Lock what the resource will refer to. Raises Conflict where that is gone."""

    async def replace(self, transaction: Executor, resource: L) -> None:
        """Write the resource's links, and delete all others that it had."""


@dataclass(frozen=True)
class ConnectionLinks:
    """The connections that a resource lists in its field `connection_ids`, with their names.

    `own_column` is the column of `pairs` with the resource's identifier. `is_mutual`: connections list the resource,
    too, so a change of the list also changes them.
    """

    pairs: Table
    own_column: str = "rule_id"
    is_mutual: bool = False

    def columns(self, table: Table) -> Sequence[Label[str]]:
        mine = self.pairs.c[self.own_column] == table.c.id
        ids = select(func.aggregate_strings(cast(self.pairs.c.connection_id, String), SEPARATOR)).where(mine)
        names = select(func.aggregate_strings(connections.c.name, SEPARATOR)).join(
            self.pairs, self.pairs.c.connection_id == connections.c.id
        )
        return [
            ids.correlate(table).scalar_subquery().label("connection_ids"),
            names.where(mine).correlate(table).scalar_subquery().label("connection_names"),
        ]

    async def hold(self, transaction: Executor, resource: Any) -> None:
        """Lock nothing: foreign keys do it."""

    async def replace(self, transaction: Executor, resource: Any) -> None:
        rows = [{"connection_id": key} for key in sorted(resource.connection_ids)]
        if self.is_mutual:
            await self.count_change(transaction, resource.id, resource.connection_ids)
        await replace_rows(transaction, self.pairs.c[self.own_column], resource.id, rows)

    async def count_change(self, transaction: Executor, key: UUID, after: Collection[UUID]) -> None:
        """Lock the connections that the resource has and had, and give those that it gets or loses another version."""
        listed = select(self.pairs.c.connection_id).where(self.pairs.c[self.own_column] == key)
        before = set((await transaction.execute(listed)).scalars())
        query = select(connections.c.id).where(connections.c.id.in_(before | {*after})).order_by(connections.c.name)
        await transaction.execute(query.with_for_update())
        changed = update(connections).where(connections.c.id.in_(before ^ {*after}))
        await transaction.execute(changed.values(version=connections.c.version + 1))

    def lists(self, table: Table, name_or_id: str) -> ColumnElement[bool]:
        """Return the condition that a resource of `table` lists this connection."""
        key = as_uuid(name_or_id)
        named = connections.c.name == name_or_id
        same = named if key is None else or_(named, connections.c.id == key)
        query = select(self.pairs.c.connection_id).join(connections, connections.c.id == self.pairs.c.connection_id)
        return query.where(self.pairs.c[self.own_column] == table.c.id, same).correlate(table).exists()


def listed_ids(row: Row) -> frozenset[UUID]:
    return frozenset(UUID(key) for key in split(row["connection_ids"]))


def listed_names(row: Row) -> tuple[str, ...]:
    return tuple(sorted(split(row["connection_names"])))


async def replace_rows(
    transaction: Executor, owner: ColumnElement[Any], key: UUID, rows: Sequence[Mapping[str, object]]
) -> None:
    """Write these rows of the resource `key`, whose identifier is in the column `owner`, and delete its others."""
    table = owner.table
    await transaction.execute(delete(table).where(owner == key))
    if rows:
        await transaction.execute(insert(table), [{owner.key: key, **row} for row in rows])


def one_of(table: Table, query: Select[Any], org_id: UUID, name_or_id: str) -> Select[Any]:
    """Return the row's condition: a name takes precedence over an identifier of the same spelling."""
    key, named = as_uuid(name_or_id), table.c.name == name_or_id
    condition = named if key is None else or_(named, table.c.id == key)
    return query.where(table.c.org_id == org_id, condition).order_by(None).order_by(case((named, 0), else_=1)).limit(1)


class ResourceTable(Generic[R]):
    """`noun` is the resource in errors, and `field` its key; `most` the maximum of an organisation, None without
    bound; `full` the error beyond it."""

    table: Table
    noun: str
    field: str = "name"
    most: int | None = None
    full: type[PosternError] = Invalid
    links: Sequence[LinkTable[R]] = ()
    _built: ClassVar[dict[type, Select[Any]]] = {}  # `_all` of each class: building it takes longer than running it

    def __init__(self, database: Database) -> None:
        self._database = database
        if type(self) not in self._built:
            self._built[type(self)] = self.select_rows().order_by(self.table.c.name)
        self._all = self._built[type(self)]

    def select_rows(self) -> Select[Any]:
        """Return the SELECT of the rows that resources are read from."""
        labels = [column for link in self.links for column in link.columns(self.table)]
        return select(*self.table.c, *labels)

    async def read(self, row: Row) -> R:
        """Return a row's resource. Raises ValueError, TypeError or KeyError for what this version does not know."""
        raise NotImplementedError

    async def values(self, resource: R) -> dict[str, Any]:
        """Return the columns that a change may set."""
        raise NotImplementedError

    async def all(self, org_id: UUID) -> list[R]:
        """Return all of them by name, consistently."""
        return await self.select(self.table.c.org_id == org_id)

    async def find(self, org_id: UUID, page: Page, where: RuleFilter = ALL_RULES) -> Listed[R]:
        """Return one page of them by name."""
        return await self.some(page, self.table.c.org_id == org_id, *self._conditions(where))

    async def some(self, page: Page, *conditions: ColumnElement[bool]) -> Listed[R]:
        """Return one page by name of those that meet the conditions."""
        async with self._database.statement() as statement:
            query = self._all.where(*conditions).limit(page.limit).offset(page.offset)
            rows = (await statement.execute(query)).mappings().all()
            total = (await statement.execute(count_of(self.table, *conditions))).scalar_one()
        return Listed([await self.read(row) for row in rows], total)

    async def get(self, org_id: UUID, name_or_id: str) -> R | None:
        """Return the resource: a name takes precedence over an identifier of the same spelling."""
        async with self._database.statement() as statement:
            result = await statement.execute(one_of(self.table, self._all, org_id, name_or_id))
            row = result.mappings().one_or_none()
        return None if row is None else await self.read(row)

    async def find_existing_ids(self, org_id: UUID, ids: Sequence[UUID]) -> set[UUID]:
        """Return those identifiers that exist."""
        query = select(self.table.c.id).where(self.table.c.org_id == org_id, self.table.c.id.in_(ids))
        async with self._database.statement() as statement:
            return set((await statement.execute(query)).scalars())

    async def new_row(self, resource: R) -> dict[str, Any]:
        fixed = {"id": resource.id, "org_id": resource.org_id, "created_at": resource.created_at, "version": 1}
        return await self.values(resource) | fixed | {"managed_by": resource.managed_by}

    async def add(self, resource: R) -> None:
        """Add a resource. Raises Conflict where the name is in use, Invalid where the maximum is reached."""
        values = await self.new_row(resource)
        async with self._writing(resource, is_new=True) as transaction:
            await transaction.execute(insert(self.table).values(values))
            for link in self.links:
                await link.replace(transaction, resource)

    async def update(self, resource: R) -> R:
        """Replace the row that has the resource's version, and return the resource with the next one.

        Raises NotFound where it is gone, Conflict where it was changed since it was read, or its name is in use.
        """
        common = {"managed_by": resource.managed_by, "version": resource.version + 1}
        values = await self.values(resource) | common
        async with self._writing(resource) as transaction:
            same = update(self.table).where(*self._this(resource), self.table.c.version == resource.version)
            if (await transaction.execute(same.values(values))).rowcount != 1:
                raise await self._missing_error(transaction, resource)
            for link in self.links:
                await link.replace(transaction, resource)
        return replace(resource, version=resource.version + 1)  # type: ignore[type-var]

    async def remove(self, resource: R) -> None:
        """Delete the row that has the resource's version. Raises Conflict where it was changed since it was read."""
        same = delete(self.table).where(*self._this(resource), self.table.c.version == resource.version)
        async with self._database.transaction() as transaction:
            await self.before_removal(transaction, resource)
            if (await transaction.execute(same)).rowcount != 1:
                raise await self._missing_error(transaction, resource)

    async def before_write(self, transaction: Executor, resource: R, *, is_new: bool) -> None:
        """Write related rows first, in the same transaction."""

    async def before_removal(self, transaction: Executor, resource: R) -> None:
        """Write related rows first, in the same transaction."""

    def conflict_message(self, resource: R) -> str:
        """Return why the resource could not be written. Services check references first, so the second reason only
        follows a concurrent change."""
        also = ", or something that it refers to was just deleted" if self.links else ""
        return f"name: {self.noun} {resource.name!r} exists already{also}; choose another name"

    async def select(self, *conditions: ColumnElement[bool]) -> list[R]:
        async with self._database.statement() as statement:
            rows = (await statement.execute(self._all.where(*conditions))).mappings().all()
        return [await self.read(row) for row in rows]

    def _conditions(self, where: RuleFilter) -> list[ColumnElement[bool]]:
        conditions = [] if where.name is None else [self.table.c.name == where.name]
        if where.connection is not None:
            lists = [link for link in self.links if isinstance(link, ConnectionLinks)]
            conditions += [link.lists(self.table, where.connection) for link in lists] or [false()]
        return conditions if where.search is None else [*conditions, self.contains(where.search.lower())]

    def contains(self, text: str) -> ColumnElement[bool]:
        """Return the condition that the name or the description contains this text, which is in lower case."""
        columns = [self.table.c[name] for name in ("name", "description") if name in self.table.c]
        return or_(*(func.lower(column).contains(text, autoescape=True) for column in columns))

    @asynccontextmanager
    async def _writing(self, resource: R, *, is_new: bool = False) -> AsyncIterator[Executor]:
        try:
            async with self._database.transaction() as transaction:
                if is_new:
                    await self._check_room(transaction, resource.org_id)
                for link in self.links:
                    await link.hold(transaction, resource)
                await self.before_write(transaction, resource, is_new=is_new)
                yield transaction
        except IntegrityError:
            raise Conflict(self.conflict_message(resource), field=self.field) from None

    def _this(self, resource: R) -> tuple[ColumnElement[bool], ...]:
        """Return its condition. Derived identifiers are unique in an organisation only."""
        return self.table.c.org_id == resource.org_id, self.table.c.id == resource.id

    async def _check_room(self, transaction: Executor, org_id: UUID) -> None:
        if self.most is None:
            return
        await one_at_a_time(transaction)
        there = (await transaction.execute(count_of(self.table, self.table.c.org_id == org_id))).scalar_one()
        if there >= self.most:
            raise self.full(f"an organisation can have at most {self.most} {plural(self.noun)}; delete unused ones")

    async def _missing_error(self, transaction: Executor, resource: R) -> Conflict | NotFound:
        there = select(self.table.c.id).where(*self._this(resource))
        if (await transaction.execute(there)).one_or_none() is None:
            return NotFound(f"the {self.noun} {resource.name!r} no longer exists")
        return Conflict(f"{self.noun} {resource.name!r} {CHANGED_MEANWHILE}")
