"""The whole schema of a target as one JSON document, for editors that complete names.

Editors ask for it whenever one opens, so documents are cached for half a minute in this process. The cache is asked
only after admission, and never serves a connection that has changed since. The snapshots of rules are a different
reading: they have no types, and the worker that has one is not the process that answers (decision 0105).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from postern.domain.identity.principal import Principal
from postern.domain.targets.target_task import TargetTaskKind
from postern.services.admission import Access
from postern.services.targets.target_tasks import WAIT, TargetTasks
from postern.store.ports.common_ports import Clock

AGE = timedelta(seconds=30)
MAX_CACHED = 32 << 20  # bytes

_Key = tuple[UUID, datetime | None, str | None]


@dataclass(frozen=True, slots=True)
class SchemaDocument:
    """JSON of a schema. `etag` is the same for the same content."""

    content: bytes
    etag: str


@dataclass(frozen=True, slots=True)
class _Entry:
    document: SchemaDocument
    until: datetime


class SchemaDocuments:
    def __init__(self, target_tasks: TargetTasks, access: Access, now: Clock) -> None:
        self._target_tasks = target_tasks
        self._access = access
        self._now = now
        self._entries: OrderedDict[_Key, _Entry] = OrderedDict()
        self._size = 0

    async def get(
        self,
        principal: Principal,
        connection: str,
        database: str | None,
        *,
        source: str,
        wait: float = WAIT,
        fresh: bool = False,
    ) -> SchemaDocument:
        """Return the schema. `fresh`: read it from the target now. Raises as `TargetTasks.ask`."""
        permit = await self._access.admit_target_task(principal, connection, schema=True, source=source)
        key = (permit.connection.id, permit.connection.updated_at, database)
        entry = self._entries.get(key)
        if entry is not None and not fresh and self._now() < entry.until:
            self._entries.move_to_end(key)
            return entry.document
        answer = await self._target_tasks.ask(
            principal,
            str(permit.connection.id),
            TargetTaskKind.SCHEMA,
            {"database": database},
            source=source,
            wait=wait,
        )
        document = await asyncio.to_thread(_make_document, {**answer.result, "truncated": answer.truncated})
        self._store(key, _Entry(document, self._now() + AGE))
        return document

    def _store(self, key: _Key, entry: _Entry) -> None:
        self._drop(key)
        self._entries[key] = entry
        self._size += len(entry.document.content)
        while self._size > MAX_CACHED:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: _Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._size -= len(entry.document.content)


def _make_document(schema: dict[str, Any]) -> SchemaDocument:
    content = json.dumps(schema, ensure_ascii=False, separators=(",", ":")).encode()
    return SchemaDocument(content, f'"{hashlib.sha256(content).hexdigest()[:32]}"')
