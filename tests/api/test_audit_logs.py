"""The audit log over HTTP: who changed what, and how it was before."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest
from tests.api.conftest import PASSWORD, TARGET, Api, message

from postern.services.server.audit_context import AuditContext


async def find(api: Api, **filters: str) -> list[dict[str, Any]]:
    answer = await api.as_auditor.get("/audit/logs", params=filters)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["data"]
    return found


async def test_every_filter_finds_what_it_says(api: Api) -> None:
    api.world.clock.tick = timedelta(milliseconds=1)
    await api.make_connection()
    await api.as_ann.post("/connections/shop/credentials", json={})
    await api.as_ann.put("/connections/shop", json=api.connection_body())
    await api.nobody.post("/localauth/login", json={"email": "eve@example.com", "password": "x"})
    everything = await find(api)
    assert len(everything) == 4
    made = everything[-1]
    cases: list[tuple[dict[str, str], int]] = [
        ({"actor_subject": api.users["ann"].subject}, 2),
        ({"actor_email": "eve@example.com"}, 1),
        ({"resource_type": "connections"}, 2),
        ({"resource": "shop"}, 3),
        ({"action": "update"}, 1),
        ({"http_method": "POST"}, 3),
        ({"http_status": "403"}, 1),
        ({"http_path": "/api/connections/shop"}, 1),
        ({"client_ip": "127.0.0.1"}, 4),
        ({"client_ip": "192.0.2.1"}, 0),
        ({"outcome": "failure"}, 2),
        ({"outcome": "success", "action": "create"}, 2),
        ({"created_after": made["created_at"]}, 4),
        ({"created_before": made["created_at"]}, 1),
        ({"limit": "1", "offset": "3"}, 1),
    ]
    for filters, count in cases:
        assert len(await find(api, **filters)) == count, filters
    listed = (await api.as_auditor.get("/audit/logs?limit=1")).json()
    assert (listed["total"], listed["has_next_page"]) == (4, True)
    one = await api.as_auditor.get(f"/audit/logs/{made['id']}")
    assert one.json() == made


async def test_facets_count_the_values_of_matching_entries(api: Api) -> None:
    await api.make_guardrail()
    message(await api.as_ann.post("/guardrails", json={"name": "x"}), 403)
    shown = (await api.as_auditor.get("/audit/logs/facets?resource_type=guardrails")).json()
    counts = {name: {one["value"]: one["count"] for one in facet["values"]} for name, facet in shown["facets"].items()}
    assert counts == {
        "action": {"create": 2},
        "resource_type": {"guardrails": 2},
        "actor_email": {api.users["admin"].email: 1, "ann@example.com": 1},
        "http_method": {"POST": 2},
        "outcome": {"failure": 1, "success": 1},
    }
    assert shown["is_capped"] is False
    failed = (await api.as_auditor.get("/audit/logs/facets?outcome=failure&fields=actor_email")).json()["facets"]
    assert failed == {"actor_email": {"values": [{"value": "ann@example.com", "count": 1}], "is_cut": False}}
    message(await api.as_ann.get("/audit/logs/facets"), 403)
    message(await api.as_admin.get("/audit/logs/facets?fields=body"), 422)


async def test_only_admins_and_auditors_read_it(api: Api) -> None:
    await api.make_connection()
    entry = (await find(api))[0]
    for path in ("/audit/logs", f"/audit/logs/{entry['id']}"):
        message(await api.as_ann.get(path), 403)
        assert (await api.as_admin.get(path)).status_code == 200
    message(await api.as_admin.get("/audit/logs/nothing"), 404)


@pytest.mark.parametrize(
    "query", ["created_after=1", "created_before=soon", "http_status=1", "outcome=maybe", "limit=0"]
)
async def test_filters_that_mean_nothing(api: Api, query: str) -> None:
    message(await api.as_admin.get(f"/audit/logs?{query}"), 422)


async def test_what_the_machines_own_commands_did_is_there(api: Api) -> None:
    trail = AuditContext({"auth_method": "oidc"}, {"auth_method": "local"})
    await api.services.audit.on_host(
        "postern auth reset", action="reset", resource_type="serverconfig/auth", audit_context=trail
    )
    (entry,) = await find(api, http_method="COMMAND")
    assert (entry["action"], entry["http_path"], entry["outcome"]) == ("reset", "postern auth reset", "success")
    assert (entry["actor_subject"].startswith("host:"), entry["actor_id"], entry["client_ip"]) == (True, None, "host")
    assert (entry["before"], entry["after"]) == (trail.before, trail.after)


Step = Callable[[Api], Awaitable[httpx.Response]]
CHANGES: list[tuple[str, Step, bool, bool]] = [
    ("POST /connections", lambda api: api.as_admin.post("/connections", json=api.connection_body("new")), False, True),
    (
        "PUT /connections",
        lambda api: api.as_admin.put("/connections/shop", json=api.connection_body() | {"description": "x"}),
        True,
        True,
    ),
    ("PATCH /connections", lambda api: api.as_admin.patch("/connections/shop", json={"tags": ["a"]}), True, True),
    ("DELETE /connections", lambda api: api.as_admin.delete("/connections/shop"), True, False),
    ("POST /guardrails", lambda api: api.as_admin.post("/guardrails", json={"name": "new"}), False, True),
    ("POST /users", lambda api: api.as_admin.post("/users", json={"email": "eve@example.com"}), False, True),
    ("PUT /users", lambda api: api.as_admin.put("/users/ann@example.com", json={"name": "Ann"}), True, True),
    ("POST /credentials", lambda api: api.as_ann.post("/connections/shop/credentials"), False, True),
    ("POST /orgs", lambda api: api.as_admin.post("/orgs", json={"name": "acme", "admin_email": "x@y"}), False, True),
    ("PUT /orgs/self", lambda api: api.as_admin.put("/orgs/self", json={"auditor_role_name": "x"}), True, True),
    (
        "PUT /feature-flags",
        lambda api: api.as_admin.put("/feature-flags/api-keys", json={"enabled": False}),
        True,
        True,
    ),
    ("PUT /serverconfig/misc", lambda api: api.as_admin.put("/serverconfig/misc", json={}), True, True),
    (
        "PUT /serverconfig/auth",
        lambda api: api.as_admin.put("/serverconfig/auth", json={"auth_method": "local"}),
        True,
        True,
    ),
    (
        "POST /sessions",
        lambda api: api.as_ann.post("/sessions", json={"connection": "shop", "script": "x"}),
        False,
        True,
    ),
]


@pytest.mark.parametrize(("step", "had", "has"), [case[1:] for case in CHANGES], ids=[case[0] for case in CHANGES])
async def test_a_change_is_kept_with_before_and_after(api: Api, step: Step, had: bool, has: bool) -> None:
    await api.make_connection(secret=TARGET | {"envvar:PASS": "aHVudGVyMg=="})
    api.world.clock.forward(seconds=1)
    api.wait_for_no_run()
    answer = await step(api)
    assert answer.is_success, answer.text
    entry = (await api.as_admin.get("/audit/logs?limit=1")).json()["data"][0]
    assert (entry["before"] is not None, entry["after"] is not None) == (had, has)
    assert "aHVudGVyMg==" not in str(entry)
    for secret in ("password", "setup_token"):
        assert answer.status_code == 204 or str(answer.json().get(secret, PASSWORD)) not in str(entry)


async def test_guardrails_credentials_and_sessions_are_kept_when_they_end(api: Api) -> None:
    api.wait_for_no_run()
    api.world.clock.tick = timedelta(milliseconds=1)
    await api.make_connection()
    rule = await api.make_guardrail()
    await api.as_admin.put(f"/guardrails/{rule['id']}", json={"name": "other"})
    await api.as_admin.delete(f"/guardrails/{rule['id']}")
    issued = (await api.as_ann.post("/connections/shop/credentials")).json()
    await api.as_ann.post(f"/connections/shop/credentials/{issued['id']}/revoke")
    run = (await api.as_ann.post("/sessions", json={"connection": "shop", "script": "select 1"})).json()
    await api.as_admin.post(f"/sessions/{run['session_id']}/kill")
    changed, removed = (await find(api, resource=rule["id"]))[::-1]
    assert (changed["before"]["name"], changed["after"]["name"]) == ("no drops", "other")
    assert (removed["before"]["name"], removed["after"]) == ("other", None)
    (revoked,) = await find(api, action="revoke")
    assert revoked["before"]["revoked_at"] is None
    assert revoked["after"]["revoked_at"] is not None
    (killed,) = await find(api, action="kill")
    assert killed["after"]["detail"] == "killed by admin@localhost"
