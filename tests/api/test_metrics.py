"""`GET /metrics` of the API, and what the API counts of itself."""

from __future__ import annotations

from dataclasses import replace

from tests.api.conftest import Api, make_api
from tests.support.world import MACHINE

from postern.metrics.meters import Meters
from postern.store.database import Database


async def test_attack_53_metrics_are_for_who_runs_the_server(sqlite_database: Database) -> None:
    async def gather() -> bytes:
        return b"postern_process_up 1\n"

    api = await make_api(sqlite_database, machine=replace(MACHINE, metrics=gather))
    assert (await api.nobody.get("/metrics")).status_code == 401
    assert (await api.as_ann.get("/metrics")).status_code == 403
    key = (await api.as_admin.post("/api-keys", json={"name": "prometheus", "groups": ["auditor"]})).json()["key"]
    answer = await api.nobody.get("/metrics", headers={"Authorization": f"Bearer {key}"})
    assert (answer.status_code, answer.text) == (200, "postern_process_up 1\n")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"


async def test_requests_are_counted_by_route_never_by_path(api: Api) -> None:
    api.app.state.meters = meters = Meters()
    try:
        await api.make_connection()
        for path in ("/connections/shop", "/connections/nothing", "/nowhere/a", "/nowhere/b"):
            await api.as_admin.get(path)
    finally:
        api.app.state.meters = None
    found = {tuple(labels): value for labels, value in meters.snapshot()["postern_api_requests"]}
    assert found == {
        ("POST", "/api/connections", "201"): 1,
        ("GET", "/api/connections/{nameOrID}", "200"): 1,
        ("GET", "/api/connections/{nameOrID}", "404"): 1,
        ("GET", "none", "404"): 2,
    }
    ((_, buckets),) = [one for one in meters.snapshot()["postern_api_request_seconds"] if one[0] == ["GET"]]
    assert sum(buckets[:-1]) == 4
