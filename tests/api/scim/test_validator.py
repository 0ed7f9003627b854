"""An independent SCIM client and validator, over HTTP, against the running application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx2
import pytest
import uvicorn
from scim2_client.engines.httpx2 import SyncSCIMClient
from scim2_tester import Status, check_server
from tests.api.conftest import Api, make_api
from tests.support.promises import until

from postern.store.database import Database

pytestmark = pytest.mark.ci

SETTLED = {Status.SUCCESS, Status.SKIPPED, Status.COMPLIANT, Status.ACCEPTABLE}


@pytest.fixture
async def served(database: Database) -> AsyncIterator[tuple[Api, str]]:
    """An API on loopback, and an administrator's key."""
    api = await make_api(database)
    made = await api.as_admin.post("/api-keys", json={"name": "scim", "groups": ["admin"]})
    server = uvicorn.Server(uvicorn.Config(api.app, host="127.0.0.1", port=0, log_config=None, lifespan="off"))
    task = asyncio.create_task(server.serve())
    await until(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    api.app.state.port = port
    yield api, made.json()["key"]
    server.should_exit = True
    await task


async def test_a_validator_finds_nothing(served: tuple[Api, str]) -> None:
    api, key = served
    base = f"http://127.0.0.1:{api.app.state.port}/api/scim/v2"

    def check() -> list[str]:
        with httpx2.Client(base_url=base, headers={"Authorization": f"Bearer {key}"}) as client:
            results = check_server(SyncSCIMClient(client))
        assert len(results) > 50
        return [
            f"{one.status.name} {one.title} {one.resource_type}: {one.reason}"
            for one in results
            if one.status not in SETTLED
        ]

    found = await asyncio.to_thread(check)
    assert not found, "\n".join(found)
