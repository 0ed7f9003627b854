"""`GET /metrics` of the API, and what the API counts of itself."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest
from tests.api.conftest import Api, make_api
from tests.support.world import MACHINE

from postern.domain.secret import Secret
from postern.errors import Misconfigured
from postern.metrics.meters import Meters
from postern.services.server.metrics import ServerMetrics, nothing
from postern.services.server.operators import Operators
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


TOKEN = "0123456789abcdef0123456789abcdef"


async def test_attack_the_token_of_the_metrics_opens_nothing_else(sqlite_database: Database) -> None:
    async def gather() -> bytes:
        return b"postern_process_up 1\n"

    api = await make_api(sqlite_database, machine=replace(MACHINE, metrics=gather, metrics_token=Secret(TOKEN)))

    async def status(path: str, value: str) -> int:
        return (await api.nobody.get(path, headers=[(b"authorization", value.encode())])).status_code

    assert await status("/metrics", f"Bearer {TOKEN}") == 200
    for path in ("/sessions", "/users", "/userinfo", "/sinks", "/audit/logs", "/reports/sessions"):
        assert await status(path, f"Bearer {TOKEN}") == 401, path
    for wrong in ("Bearer ", "Bearer", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN, "Bearer é"):
        assert await status("/metrics", wrong) == 401, wrong
    assert (await api.nobody.get("/metrics", headers={"Api-Key": TOKEN})).status_code == 401
    assert (await api.nobody.get("/metrics", params={"token": TOKEN})).status_code == 401


async def test_attack_without_a_token_an_empty_one_is_none(api: Api) -> None:
    for value in ("Bearer ", "Bearer", "bearer  "):
        assert (await api.nobody.get("/metrics", headers={"Authorization": value})).status_code == 401


def test_a_token_that_could_be_guessed_is_refused() -> None:
    with pytest.raises(Misconfigured, match="POSTERN_METRICS_TOKEN"):
        ServerMetrics(nothing, cast("Operators", None), Secret("prometheus"))


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
