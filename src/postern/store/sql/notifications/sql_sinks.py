"""Sinks, their secrets sealed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import select

from postern.domain.event import EventKind
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
from postern.errors import TooMany
from postern.store.database import Database
from postern.store.encryption import Encryption
from postern.store.prepared import Row
from postern.store.schema.server_tables import sinks
from postern.store.schema.target_tables import connections
from postern.store.sql.resource_table import ResourceTable

_PLAIN = ("name", "address", "with_script", "authority", "updated_at")
_SET = (*_PLAIN, "kind", "status")
_FIXED = ("id", "org_id", "created_at", "delivered_at", "managed_by", "version")
_NO_TROUBLE = {"failures": 0, "failing_since": None, "error": "", "next_at": None}


class SqlSinks(ResourceTable[Sink]):
    """Deliveries write into these rows, too. That is not an administrator's change, so the version stays."""

    table, noun = sinks, "sink"
    most, full = 20, TooMany

    def __init__(self, database: Database, encryption: Encryption) -> None:
        super().__init__(database)
        self._encryption = encryption

    async def read(self, row: Row) -> Sink:
        return await sink_of(row, self._encryption)

    async def outlines(self) -> list[SinkOutline]:
        names = ("id", "org_id", "events", "with_script", "created_at", "scope")
        query = select(*(sinks.c[name] for name in names))
        alive = sinks.c.status != SinkStatus.GONE
        async with self._database.statement() as connection:
            rows = (await connection.execute(query.where(alive))).mappings().all()
        return [
            SinkOutline(**{**row, "events": frozenset(map(EventKind, row["events"])), "scope": _scope_of(row["scope"])})
            for row in rows
        ]

    async def tags_of(self, connection_ids: Sequence[UUID]) -> Mapping[UUID, Mapping[str, str]]:
        query = select(connections.c.id, connections.c.connection_tags).where(connections.c.id.in_(connection_ids))
        async with self._database.statement() as connection:
            return {row.id: row.connection_tags for row in (await connection.execute(query)).all()}

    async def values(self, resource: Sink) -> dict[str, Any]:
        sink = resource
        clear = {
            "secrets": [[secret.value.reveal(), secret.until and secret.until.isoformat()] for secret in sink.secrets],
            "headers": {name: value.reveal() for name, value in sink.headers.items()},
            "keys": {name: value.reveal() for name, value in sink.keys.items()},
        }
        sealed = await self._encryption.seal(json.dumps(clear).encode(), row=f"sinks/{sink.id}", org_id=sink.org_id)
        listed = {"events": list(sink.events), "options": dict(sink.options), "secret": sealed}
        scope = asdict(sink.scope) if sink.scope != EVERYTHING else {}
        return {name: getattr(sink, name) for name in _SET} | listed | {"scope": scope} | _NO_TROUBLE


async def sink_of(row: Row, encryption: Encryption) -> Sink:
    opened = await encryption.open(row["secret"], row=f"sinks/{row['id']}", org_id=row["org_id"])
    clear = json.loads(opened)
    secrets = [
        SigningSecret(Secret(value), datetime.fromisoformat(until) if until else None)
        for value, until in clear["secrets"]
    ]
    return Sink(
        **{name: row[name] for name in (*_FIXED, *_PLAIN)},
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


def _scope_of(values: Mapping[str, Any]) -> SinkScope:
    if not values:
        return EVERYTHING
    return SinkScope(tuple(values["connections"]), values["connection_tags"], tuple(values["groups"]))
