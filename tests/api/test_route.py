"""How requests find their route, and what each of them costs in statements and threads."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from fastapi.security.base import SecurityBase
from sqlalchemy import event
from starlette.routing import Match
from tests.api.conftest import Api
from tests.support.application import routed_once

from postern.api.route import Route, eager

pytestmark = pytest.mark.ci

# Without the last one, the web application, which has every path that no other route has.
ROUTES = [route for route in eager(routed_once().routes) if isinstance(route, Route) and route.path.startswith("/api")]


def calls(dependant: Dependant) -> Iterator[Any]:
    for one in dependant.dependencies:
        yield one.call
        yield from calls(one)


def test_nothing_that_a_route_depends_on_runs_in_a_thread() -> None:
    assert len(ROUTES) > 100
    for route in ROUTES:
        for call in (route.endpoint, *calls(route.dependant)):
            assert inspect.iscoroutinefunction(call), f"{route.path}: {call} is no coroutine function"
            assert not isinstance(call, SecurityBase), f"{route.path}: security is described, not depended upon"


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
def test_every_path_finds_the_route_that_the_framework_finds(method: str) -> None:
    filled = {route.path_format.format_map(Filled()) for route in ROUTES}
    for path in {*filled, *(path + "/x" for path in filled), "/", "/api", "/apix/connections", "/connections"}:
        scope = {"type": "http", "method": method, "path": path}
        for route in ROUTES:
            ours, _ = route.matches(dict(scope))
            theirs, _ = APIRoute.matches(route, dict(scope))
            assert ours is theirs, f"{method} {path} and {route.path}"
        assert path not in filled or any(route.matches(dict(scope))[0] is not Match.NONE for route in ROUTES)


def test_a_starting_gateway_builds_no_route_and_imports_no_part_that_few_need() -> None:
    code = (
        "import sys; from postern.api.application import make_application; from postern.api.route import Route\n"
        "routes = [route for route in make_application().router.routes if isinstance(route, Route)]\n"
        "heavy = {'scim2_models', 'alembic'} & set(sys.modules)\n"
        "print(len(routes), sum(route._is_built for route in routes), *heavy)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    routes, built = told.stdout.split()
    assert int(routes) > 100
    assert int(built) == 0


def test_a_route_without_an_attribute_says_so() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ROUTES[0].nothing


class Filled(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return "a-value"


@contextmanager
def statements(api: Api) -> Iterator[list[str]]:
    heard: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        heard.append(statement)

    engine = api.world.database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    yield heard
    event.remove(engine, "before_cursor_execute", note)


async def test_a_token_check_takes_two_statements(api: Api) -> None:
    """Who asks, and their profile; nothing that could tell of a login's end is kept between requests."""
    assert (await api.as_ann.get("/userinfo")).status_code == 200  # reads settings that are kept
    with statements(api) as heard:
        assert (await api.as_ann.get("/userinfo")).status_code == 200
    assert len(heard) == 2
    assert "FROM logins" in heard[0]


async def test_who_asks_is_looked_up_once_for_a_request(api: Api) -> None:
    """A write asks for its caller in the route, and once more for its idempotency key."""
    await api.make_connection()
    with statements(api) as heard:
        answer = await api.as_admin.patch("/connections/shop", json={}, headers={"Idempotency-Key": "once"})
        assert answer.status_code == 200
    assert sum("FROM logins" in statement for statement in heard) == 1


async def test_a_request_never_takes_the_caller_of_another(api: Api) -> None:
    for _ in range(3):
        for client, name in ((api.as_ann, "ann"), (api.as_bob, "bob"), (api.as_admin, "admin")):
            assert (await client.get("/userinfo")).json()["id"] == api.users[name].subject
        assert (await api.nobody.get("/userinfo")).status_code == 401
