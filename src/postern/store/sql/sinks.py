"""Sinks, their secrets sealed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from postern.domain.event import EventKind
from postern.domain.lists import Listed, Page
from postern.domain.secret import Secret
from postern.domain.sink import (
    EVERYTHING,
    SigningSecret,
    Sink,
    SinkKind,
    SinkOutline,
    SinkScope,
    SinkStatus,
    Trouble,
)
from postern.errors import Conflict, NotFound, TooMany
from postern.store.database import Database
from postern.store.encryption import Encryption
from postern.store.prepared import Row
from postern.store.schema.server import sinks
from postern.store.schema.targets import connections
from postern.store.sql.locking import one_at_a_time
from postern.store.sql.rows import as_uuid, count_of

_PLAIN = ("id", "org_id", "name", "address", "with_script", "authority", "created_at", "updated_at", "delivered_at")


class SqlSinks:
    def __init__(self, database: Database, encryption: Encryption) -> None:
        self._database = database
        self._encryption = encryption

    async def find(self, org_id: UUID, page: Page) -> Listed[Sink]:
        own = sinks.c.org_id == org_id
        shown = select(*sinks.c).where(own).order_by(sinks.c.name).limit(page.limit).offset(page.offset)
        async with self._database.statement() as connection:
            rows = (await connection.execute(shown)).mappings().all()
            total = (await connection.execute(count_of(sinks, own))).scalar_one()
        return Listed([await sink_of(row, self._encryption) for row in rows], total)

    async def get(self, org_id: UUID, name_or_id: str) -> Sink | None:
        key = as_uuid(name_or_id)
        named = sinks.c.name == name_or_id
        wanted = select(*sinks.c).where(sinks.c.org_id == org_id, named if key is None else named | (sinks.c.id == key))
        async with self._database.statement() as connection:
            rows = (await connection.execute(wanted)).mappings().all()
        row = next((row for row in rows if row["name"] == name_or_id), rows[0] if rows else None)
        return None if row is None else await sink_of(row, self._encryption)

    async def add(self, sink: Sink, most: int) -> None:
        values = await self._values(sink)
        try:
            async with self._database.transaction() as transaction:
                await one_at_a_time(transaction)
                there = (await transaction.execute(count_of(sinks, sinks.c.org_id == sink.org_id))).scalar_one()
                if there >= most:
                    raise TooMany(f"an organisation may have {most} sinks; delete one first")
                await transaction.execute(insert(sinks).values(values))
        except IntegrityError:
            raise _taken(sink) from None

    async def update(self, sink: Sink) -> None:
        values = await self._values(sink) | {"failures": 0, "failing_since": None, "error": "", "next_at": None}
        try:
            async with self._database.statement() as connection:
                done = await connection.execute(update(sinks).where(sinks.c.id == sink.id).values(values))
        except IntegrityError:
            raise _taken(sink) from None
        if done.rowcount != 1:
            raise NotFound(f"there is no sink {sink.name!r} any more")

    async def remove(self, sink_id: UUID) -> None:
        async with self._database.statement() as connection:
            await connection.execute(delete(sinks).where(sinks.c.id == sink_id))

    async def outlines(self) -> list[SinkOutline]:
        shown = ("id", "org_id", "events", "with_script", "created_at", "scope")
        wanted = select(*(sinks.c[name] for name in shown))
        alive = sinks.c.status != SinkStatus.GONE
        async with self._database.statement() as connection:
            rows = (await connection.execute(wanted.where(alive))).mappings().all()
        return [
            SinkOutline(**{**row, "events": frozenset(map(EventKind, row["events"])), "scope": _scope_of(row["scope"])})
            for row in rows
        ]

    async def tags_of(self, connection_ids: Sequence[UUID]) -> Mapping[UUID, Mapping[str, str]]:
        wanted = select(connections.c.id, connections.c.connection_tags).where(connections.c.id.in_(connection_ids))
        async with self._database.statement() as connection:
            return {row.id: row.connection_tags for row in (await connection.execute(wanted)).all()}

    async def _values(self, sink: Sink) -> dict[str, Any]:
        clear = {
            "secrets": [[one.value.reveal(), one.until and one.until.isoformat()] for one in sink.secrets],
            "headers": {name: value.reveal() for name, value in sink.headers.items()},
            "keys": {name: value.reveal() for name, value in sink.keys.items()},
        }
        sealed = await self._encryption.seal(json.dumps(clear).encode(), row=f"sinks/{sink.id}", org_id=sink.org_id)
        values = {name: getattr(sink, name) for name in _PLAIN if name != "delivered_at"}
        lists = {"events": list(sink.events), "kind": sink.kind, "status": sink.status}
        chosen = {"options": dict(sink.options), "scope": asdict(sink.scope) if sink.scope != EVERYTHING else {}}
        return values | lists | chosen | {"secret": sealed}


async def sink_of(row: Row, encryption: Encryption) -> Sink:
    opened = await encryption.open(row["secret"], row=f"sinks/{row['id']}", org_id=row["org_id"])
    clear = json.loads(opened)
    secrets = [
        SigningSecret(Secret(value), datetime.fromisoformat(until) if until else None)
        for value, until in clear["secrets"]
    ]
    return Sink(
        **{name: row[name] for name in _PLAIN},
        kind=SinkKind(row["kind"]),
        events=tuple(map(EventKind, row["events"])),
        status=SinkStatus(row["status"]),
        secrets=tuple(secrets),
        headers={name: Secret(value) for name, value in clear["headers"].items()},
        # A row from before there were chats has none.
        keys={name: Secret(value) for name, value in clear.get("keys", {}).items()},
        options=row["options"],
        scope=_scope_of(row["scope"]),
        trouble=Trouble(row["failures"], row["failing_since"], row["error"], row["next_at"]),
    )


def _scope_of(kept: Mapping[str, Any]) -> SinkScope:
    if not kept:
        return EVERYTHING
    return SinkScope(tuple(kept["connections"]), kept["connection_tags"], tuple(kept["groups"]))


def _taken(sink: Sink) -> Conflict:
    return Conflict(f"name: there is a sink {sink.name!r} already", field="name")
