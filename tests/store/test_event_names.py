"""Sinks that were made before events had their names of today."""

from __future__ import annotations

import json
from uuid import UUID, uuid4

from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import Connection, insert, select, text
from tests.support.world import START, World

from postern.domain.event import EventKind
from postern.store.database import Database
from postern.store.migrations.versions import v0006_reviews
from postern.store.schema import deliveries, sinks

OLD = ["session.opened", "session.ended", "session.killed", "session.refused", "question.closed", "audit.entry"]


def delivery(sink_id: UUID, org_id: UUID, event: str) -> dict[str, object]:
    body = {"id": "x", "type": event, "data": {"said": f'"type":"{event}"'}}
    return {
        "sink_id": sink_id,
        "org_id": org_id,
        "event_id": uuid4(),
        "event": event,
        "at": START,
        "body": json.dumps(body, separators=(",", ":")),
        "state": "waiting",
        "attempts": 0,
        "error": "",
    }


async def test_sinks_and_what_waits_for_them_have_todays_names(database: Database) -> None:
    world, sink_id = await World.make(database), uuid4()
    sink = {
        "id": sink_id,
        "org_id": world.org_id,
        "name": "siem",
        "kind": "webhook",
        "address": "https://siem.example.com",
        "events": OLD,
        "status": "active",
        "with_script": False,
        "authority": "",
        "secret": b"",
        "created_at": START,
        "updated_at": START,
    }

    def rename(connection: Connection) -> None:
        with Operations.context(MigrationContext.configure(connection)):
            v0006_reviews._rename_events()

    async with database.transaction() as transaction:
        await transaction.execute(insert(sinks).values(sink))
        await transaction.execute(insert(deliveries), [delivery(sink_id, world.org_id, event) for event in OLD])
        await transaction.run_sync(rename)
    (outline,) = await world.stores.sinks.outlines()
    assert outline.events == {
        EventKind.SESSION_OPEN,
        EventKind.SESSION_CLOSE,
        EventKind.SESSION_KILL,
        EventKind.GUARDRAIL_VIOLATION,
        EventKind.REVIEW_APPROVED,
        EventKind.REVIEW_REJECTED,
        EventKind.REVIEW_EXPIRED,
        EventKind.REVIEW_WITHDRAWN,
        EventKind.AUDIT_ENTRY,
    }
    waiting = await world.stores.deliveries.waiting(sink_id, 10)
    assert [one.event for one in waiting] == ["session.open", "session.close", "session.kill", "audit.entry"]
    for one in waiting:
        body = json.loads(one.body)
        assert body["type"] == one.event
        assert body["data"]["said"].startswith('"type":"')
    async with database.statement() as connection:
        assert (await connection.execute(select(text("1")).select_from(deliveries))).all() == [(1,)] * 4
