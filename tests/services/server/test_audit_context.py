"""What a request changed reaches the audit log, without secrets."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from tests.support.world import World

from postern.domain.lists import Page
from postern.services.server.audit_context import AuditContext, collect_change, record_change
from postern.store.ports.server_ports import AuditFilter


async def test_a_trail_keeps_the_first_before_and_the_last_after() -> None:
    record_change({"lost": 1}, {"lost": 2})  # nobody follows
    with collect_change() as trail:
        await asyncio.create_task(_twice())
    assert trail == AuditContext({"n": 1}, {"n": 3})


async def _twice() -> None:
    record_change({"n": 1}, {"n": 2})
    record_change({"n": 2}, {"n": 3})


async def test_resources_are_kept_without_their_secrets(world: World) -> None:
    services = world.services()
    admin = await world.add_user("root", "admin")
    before = await world.add_connection()
    trail = AuditContext(before, replace(before, tags=("a",)))
    await services.audit.record(
        admin,
        claimed="",
        action="update",
        resource_type="connections",
        resource="shop",
        method="PUT",
        path="/api/connections/shop",
        status=200,
        source="::1",
        request_id="r",
        body={},
        audit_context=trail,
    )
    entry = (await services.audit.find(admin, AuditFilter(), Page())).items[0]
    assert entry.before is not None
    assert entry.after is not None
    assert (entry.before["tags"], entry.after["tags"]) == ([], ["a"])
    assert entry.before["secret"] == "[REDACTED]"
    assert entry.before["id"] == str(before.id)
    assert entry.outcome == "success"
