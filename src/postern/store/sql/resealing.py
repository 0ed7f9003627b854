"""Resealing of values, in batches, while others read and write."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, LargeBinary, Row, Select, Table, and_, func, literal, null, select, update

from postern.store.database import Database
from postern.store.encryption import Encryption
from postern.store.encryption.encryption_vault import DIRECT, ENVELOPE, PREFIX
from postern.store.schema.identity_tables import logins, one_time_tokens, second_factors, token_keys, users
from postern.store.schema.issue_tables import session_issues
from postern.store.schema.recording_tables import ledger_keys
from postern.store.schema.runbook_tables import (
    runbook_repositories,
    runbook_schedules,
    runbook_snapshots,
    session_hooks,
)
from postern.store.schema.server_tables import idempotency_keys, org_settings, sinks
from postern.store.schema.session_tables import session_starts
from postern.store.schema.target_tables import connections

BATCH = 200  # rows


@dataclass(frozen=True, slots=True)
class _Place:
    """A column of sealed values. `owner` is the column of `users` when the table has no `org_id` of its own."""

    table: Table
    column: str
    row: Callable[[Row[Any]], str]
    owner: str | None = None
    server: bool = False

    @property
    def sealed(self) -> ColumnElement[bytes]:
        return self.table.c[self.column]

    @property
    def org_id(self) -> ColumnElement[Any]:
        if self.server:
            return null()
        return users.c.org_id if self.owner else self.table.c.org_id

    def select(self, *columns: ColumnElement[Any]) -> Select[Any]:
        query = select(*columns).select_from(self.table)
        return query.join(users, users.c.id == self.table.c[self.owner]) if self.owner else query

    def is_this(self, row: Row[Any]) -> ColumnElement[bool]:
        """Return the condition for the very value that was read: one that was written since is unchanged."""
        keys = [column == row._mapping[column.name] for column in self.table.primary_key]
        return and_(*keys, self.sealed == row._mapping["sealed_value"])


PLACES = (
    _Place(connections, "secret", lambda row: f"connections/{row.id}"),
    _Place(sinks, "secret", lambda row: f"sinks/{row.id}"),
    _Place(logins, "provider_refresh", lambda row: f"logins/{row.id}"),
    _Place(second_factors, "material", lambda row: f"second_factors/{row.id}", owner="user_id"),
    _Place(org_settings, "value", lambda row: f"org_settings/{row.org_id}/{row.name}"),
    _Place(
        idempotency_keys, "body", lambda row: f"idempotency_keys/{row.principal_id}/{row.digest.hex()}", "principal_id"
    ),
    _Place(runbook_schedules, "given", lambda row: f"runbook_schedules/{row.id}"),
    _Place(one_time_tokens, "payload", lambda row: f"vouchers/{row.digest.hex()}", server=True),
    _Place(session_starts, "content", lambda row: f"session_starts/{row.session_id}", server=True),
    _Place(session_issues, "new", lambda row: f"session_issues/{row.session_id}"),
    _Place(ledger_keys, "private", lambda row: f"ledger_keys/{row.id}"),
    _Place(runbook_repositories, "secrets", lambda row: f"runbook_repositories/{row.org_id}/{row.id}"),
    _Place(runbook_snapshots, "content", lambda row: f"runbook_snapshots/{row.org_id}/{row.repository_id}"),
    _Place(runbook_snapshots, "hooks", lambda row: f"runbook_hooks/{row.org_id}/{row.repository_id}"),
    _Place(session_hooks, "output", lambda row: f"session_hooks/{row.id}"),
    _Place(token_keys, "private", lambda row: f"token_keys/{row.id}", server=True),
)


async def reseal_direct(database: Database, encryption: Encryption) -> int:
    """Reseal values of an earlier version, which used the key file itself, under data keys; return how many."""
    done = 0
    for place in PLACES:
        async for _ in _reseal_each(database, encryption, place, _begin(place, 1) == DIRECT):
            done += 1
    return done


async def reseal(
    database: Database, encryption: Encryption, org_id: UUID | None, tell: Callable[[int], None] = lambda _: None
) -> int:
    """Reseal all values of an organisation (of none: None) under the data key in use; return how many.

    `tell` receives how many more are done, one by one.
    """
    current, done = await encryption.prefix(org_id), 0
    for place in PLACES:
        if place.server is not (org_id is None):
            continue
        conditions = [_begin(place, PREFIX) != current, func.length(place.sealed) > 0]
        if org_id is not None:
            conditions.append(place.org_id == org_id)
        async for _ in _reseal_each(database, encryption, place, and_(*conditions)):
            done += 1
            tell(1)
    return done


async def count_by_key(database: Database) -> Mapping[UUID, int]:
    """Return how many values each data key sealed."""
    counts: dict[UUID, int] = {}
    for place in PLACES:
        key = func.substr(place.sealed, 2, PREFIX - 1, type_=LargeBinary)
        query = select(key.label("data_key"), func.count().label("number"))
        query = query.where(_begin(place, 1) == ENVELOPE).group_by(key)
        async with database.statement() as connection:
            for row in (await connection.execute(query)).all():
                key_id = UUID(bytes=row.data_key)
                counts[key_id] = counts.get(key_id, 0) + row.number
    return counts


async def _reseal_each(
    database: Database, encryption: Encryption, place: _Place, condition: ColumnElement[bool]
) -> AsyncIterator[None]:
    """Reseal values one by one, in short statements that hold no lock for long."""
    keys = list(place.table.primary_key)
    query = place.select(*keys, place.sealed.label("sealed_value"), place.org_id.label("owner_id")).where(condition)
    while True:
        async with database.statement() as connection:
            rows = (await connection.execute(query.limit(BATCH))).all()
        if not rows:
            return
        for row in rows:
            name = place.row(row)
            clear = await encryption.open(row.sealed_value, row=name, org_id=row.owner_id)
            sealed = await encryption.seal(clear, row=name, org_id=row.owner_id)
            changed = update(place.table).where(place.is_this(row)).values({place.column: sealed})
            async with database.statement() as connection:
                await connection.execute(changed)
            yield


def _begin(place: _Place, length: int) -> ColumnElement[bytes]:
    return func.substr(place.sealed, 1, literal(length), type_=LargeBinary)
