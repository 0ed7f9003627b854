"""Every route is authenticated unless it is listed here, every write is audited, and no answer leaks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from uuid import uuid4

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute
from tests.api.conftest import TARGET, Api, message

from postern.api.audited import AuditedRoute
from postern.api.middleware import MAX_BODY
from postern.api.route import eager
from postern.domain.lists import Page
from postern.store.ports.server_ports import AuditEntry, AuditFilter

OPEN = {
    ("GET", "/api/openapi.json"),
    ("GET", "/api/healthz"),
    ("GET", "/api/readyz"),
    ("GET", "/api/publicserverinfo"),
    ("GET", "/api/login"),
    ("POST", "/api/localauth/login"),
    ("POST", "/api/federation/login"),
    ("GET", "/api/callback"),
    ("POST", "/api/login/exchange"),
    ("GET", "/api/saml/login"),
    ("POST", "/api/saml/callback"),
    ("GET", "/api/saml/metadata"),
    ("POST", "/api/login/device"),
    ("POST", "/api/login/device/token"),
    ("GET", "/api/login/device"),  # a page: it leads to login
    ("GET", "/api/web/login"),  # the form itself, and what it and its second step send
    ("GET", "/api/web/setup"),
    ("POST", "/api/web/login"),
    ("POST", "/api/web/second-factor"),
    ("POST", "/api/web/setup"),
    ("GET", "/api/login/ssh"),  # the same
    ("GET", "/api/reviews/page/{id}"),  # a page: it leads to login
    ("POST", "/api/localauth/register"),
    ("POST", "/api/localauth/second-factor"),
    ("POST", "/api/localauth/setup"),
    ("GET", "/api/sessions/{session_id}/download"),  # by its signed link: test_session_downloads.py
    ("HEAD", "/api/sessions/{session_id}/download"),
}


def operations(app: FastAPI) -> list[tuple[str, str]]:
    """Every (method, path) the app answers, from its own description and from its routes."""
    described = {(method.upper(), path) for path, methods in app.openapi()["paths"].items() for method in methods}
    return sorted(described)


async def test_every_route_needs_a_token_unless_it_is_open(api: Api) -> None:
    checked = 0
    for method, path in operations(api.app):
        if (method, path) in OPEN:
            continue
        filled = path.replace("{session_id}", str(uuid4())).replace("{credential_id}", str(uuid4()))
        url = "http://localhost" + filled.replace("{", "").replace("}", "")
        for headers in ({}, {"Authorization": "Bearer x.y.z"}, {"Authorization": "Basic eDp5"}):
            answer = await api.nobody.request(method, url, json={}, headers=headers)
            if path.startswith("/api/scim/"):
                assert (answer.status_code, answer.json()["status"]) == (401, "401"), (method, path)
            else:
                assert message(answer, 401), (method, path)
            assert answer.headers["www-authenticate"] == "Bearer"
        checked += 1
    assert checked == len(set(operations(api.app)) - OPEN)


def leaves(routes: Sequence[BaseRoute]) -> Iterator[BaseRoute]:
    """All routes, those of included routers and those that are loaded at the first request too."""
    for route in eager(routes):
        inner = getattr(route, "original_router", None)
        if inner is None:
            yield route
        else:
            yield from leaves(inner.routes)


TERMINAL = "/api/connections/{nameOrID}/terminal"  # a WebSocket, which OpenAPI cannot describe


async def test_no_route_is_missing_from_the_description(api: Api) -> None:
    """The walk above relies on the description: a route hidden from it would escape the walk."""
    described = [route for route in leaves(api.app.routes) if isinstance(route, APIRoute)]
    pages = [route for route in described if not route.path.startswith("/api/")]
    # For an ACME server, and the web application for people who are not logged in.
    assert [route.path for route in pages] == ["/.well-known/acme-challenge/{token}", "/{path:path}"]
    described = [route for route in described if route not in pages]
    assert all(route.include_in_schema for route in described)
    assert sum(len(route.methods or ()) for route in described) == len(operations(api.app))
    others = [route for route in leaves(api.app.routes) if not isinstance(route, APIRoute)]
    assert [getattr(route, "path", None) for route in others] == ["/api/openapi.json", TERMINAL]


# Writes that leave no entry in the audit log, each with its reason.
UNAUDITED: dict[tuple[str, str], str] = {
    ("POST", "/api/datamasking-rules/test"): "it only reads",
    ("POST", "/api/guardrails/test"): "it only reads",
    ("POST", "/api/connections/{nameOrID}/preview"): "it only reads, and authors ask for it while they type",
    ("POST", "/api/runbooks/render"): "it only reads, and a form asks for it after each change",
    (
        "POST",
        "/api/integrations/tracker/issuetemplates/preview",
    ): "it only reads, and a form asks for it after each change",
    ("POST", "/api/guardrails/simulate"): "it only reads",
    ("POST", "/api/guardrails/{nameOrID}/simulate"): "it only reads",
}


async def test_every_write_is_audited(api: Api) -> None:
    """Walks the description; a new write is audited, or says above why not."""
    routes = [route for route in leaves(api.app.routes) if isinstance(route, APIRoute)]
    audited = {
        (method, route.name)  # which is its operation id (app.py)
        for route in routes
        if isinstance(route, AuditedRoute)
        for method in route.methods or ()
    }
    writing = 0
    for path, methods in api.app.openapi()["paths"].items():
        for method, operation in methods.items():
            if method.upper() not in {"POST", "PUT", "PATCH", "DELETE"} or (method.upper(), path) in UNAUDITED:
                continue
            assert (method.upper(), operation["operationId"]) in audited, f"{method.upper()} {path}"
            writing += 1
    assert writing > 20


async def test_open_routes_answer_without_token(api: Api) -> None:
    assert (await api.nobody.get("/healthz")).json() == {"liveness": "OK"}
    shown = (await api.nobody.get("/publicserverinfo")).json()
    assert shown == {
        "auth_method": "local",
        "setup_required": False,
        "idp_provider_name": "",
        "methods": [{"kind": "local", "name": "Password", "url": "/api/localauth/login"}],
    }
    assert "publicserverinfo" in message(await api.nobody.get("/login"), 400)
    assert (await api.nobody.get("/openapi.json")).json()["openapi"].startswith("3.1")


async def test_security_headers_and_no_cross_origin(api: Api) -> None:
    for answer in (
        await api.nobody.get("/healthz", headers={"Origin": "https://evil.example"}),
        await api.nobody.get("/connections", headers={"Origin": "https://evil.example"}),
        await api.nobody.get("/nothing"),
    ):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"
        assert len(answer.headers["x-request-id"]) == 32
        assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_unknown_paths_and_methods_have_the_one_shape(api: Api) -> None:
    assert message(await api.as_admin.get("/nothing"), 404) == "there is no resource at /api/nothing; check the path"
    answer = await api.as_admin.patch("/guardrails")
    assert "PATCH is not allowed" in message(answer, 405)
    assert answer.headers["allow"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"{", "the body is not valid JSON"),
        (b"[]", "body: "),
        (b"null", "body: "),
        (b"", "body: is required"),
        (b"\xff", "the body is not valid JSON"),
        (b'{"name": "\\ud800"}', "name: contains"),
        (b'{"\\u0000": 1}', "body: the name of a field"),
        (b"[" * 100_000, "the body is not valid JSON"),
        (b'{"name": ' + b"[" * 900 + b"]" * 900 + b"}", "name: "),
    ],
)
async def test_bodies_that_cannot_be_read(api: Api, content: bytes, says: str) -> None:
    headers = {"Content-Type": "application/json"}
    answer = await api.as_admin.post("/guardrails", content=content, headers=headers)
    assert message(answer, 400).startswith(says)


async def test_bodies_have_a_limit_announced_or_not(api: Api) -> None:
    body = b'"' + b"x" * MAX_BODY + b'"'

    async def chunks() -> object:
        for start in range(0, len(body), 65_536):
            yield body[start : start + 65_536]

    headers = {"Content-Type": "application/json"}
    for content in (body, chunks()):
        answer = await api.as_admin.post("/guardrails", content=content, headers=headers)  # type: ignore[arg-type]
        assert "larger than" in message(answer, 413)


async def test_nul_in_path_or_query_is_refused(api: Api) -> None:
    for path in ("/connections/a%00b", "/connections?name=%00"):
        assert "NUL" in message(await api.as_admin.get(path), 400)


async def test_a_failure_inside_shows_nothing_but_a_request_id(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: object) -> None:
        raise RuntimeError("the password is hunter2")

    monkeypatch.setattr(api.services.guardrails, "find", fail)
    answer = await api.as_admin.get("/guardrails")
    said = message(answer, 500)
    assert "hunter2" not in said
    assert answer.headers["x-request-id"] in said
    assert answer.headers["x-request-id"] in caplog.text


async def test_the_request_log_has_no_secrets(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="postern.api")
    body = {"email": "ann@example.com", "password": "hunter2 hunter2"}
    await api.nobody.post("/localauth/login?password=hunter2", json=body)
    await api.as_ann.get("/userinfo")
    assert "POST /api/localauth/login 401" in caplog.text
    assert "GET /api/userinfo 200" in caplog.text
    assert "user=ann@example.com" in caplog.text
    assert "hunter2" not in caplog.text
    assert api.as_ann.headers["authorization"] not in caplog.text


async def newest(api: Api, limit: int = 100) -> list[AuditEntry]:
    return list((await api.services.audit.find(api.users["admin"], AuditFilter(), Page(limit))).items)


async def entries(api: Api) -> list[tuple[str, str, str, str, int]]:
    found = await newest(api, 100)
    return [(one.actor_email, one.action, one.resource_type, one.resource, one.status) for one in reversed(found)]


async def test_writes_leave_entries_and_secrets_do_not(api: Api) -> None:
    api.world.clock.tick = timedelta(milliseconds=1)
    secret = TARGET | {"envvar:PASS": "aHVudGVyMg=="}
    await api.make_connection(secret=secret)
    await api.as_ann.put("/connections/shop", json=api.connection_body(secret=secret))
    await api.as_ann.post("/connections/shop/credentials", json={})
    await api.as_admin.delete("/connections/nothing")
    wrong = {"email": "ann@example.com", "password": "hunter2 hunter2"}
    await api.nobody.post("/localauth/login", json=wrong)
    await api.as_ann.get("/connections")
    assert await entries(api) == [
        ("admin@localhost", "create", "connections", "shop", 201),
        ("ann@example.com", "update", "connections", "shop", 403),
        ("ann@example.com", "create", "connections/credentials", "shop", 201),
        ("admin@localhost", "delete", "connections", "nothing", 404),
        ("ann@example.com", "login", "localauth", "", 401),
    ]
    found = await newest(api, 100)
    assert found[-1].body["secret"] == "[REDACTED]"
    assert found[-1].body["name"] == "shop"
    assert found[0].body == {"email": "ann@example.com", "password": "[REDACTED]"}
    assert found[0].actor_id is None
    assert "aHVudGVyMg==" not in str(found)


async def test_strangers_leave_no_entries_but_tries_to_log_in(api: Api) -> None:
    body = {"email": "ann@example.com", "password": "wrong"}
    message(await api.nobody.post("/connections", json=body), 401)
    message(await api.nobody.delete("/connections/shop"), 401)
    message(await api.nobody.post("/localauth/login", json={}), 400)
    for _ in range(12):
        await api.nobody.post("/localauth/login", json=body)
    assert await entries(api) == [("ann@example.com", "login", "localauth", "", 401)] * 10


async def test_scripts_are_kept_with_their_session_only(api: Api) -> None:
    api.world.clock.tick = timedelta(milliseconds=1)
    await api.make_connection(access_mode_exec="disabled")
    await api.as_ann.post("/sessions", json={"connection": "shop", "script": "select 'ä'"})
    found = await newest(api, 1)
    assert found[0].body == {"connection": "shop", "script": "[11 bytes]"}
