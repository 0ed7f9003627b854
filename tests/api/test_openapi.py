"""The description is complete and true: whatever it allows is answered as it says."""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any
from uuid import uuid4

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests.api.conftest import Api, make_api
from tests.support.examples import THOROUGH
from tests.support.target_tasks import SMALL, answer_target_tasks

from postern.store.database import Database

pytestmark = pytest.mark.slow

BOUNDED = settings(
    max_examples=6 if THOROUGH else 2,  # per operation and mode
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]

# What ends the login that the test has, or may ask more of it than a token.
ENDING = ("/logout", "/rotate", "/serverconfig/auth", "/orgs/self")


async def test_schema_names_are_short_and_unique(api: Api) -> None:
    schemas = api.app.openapi()["components"]["schemas"]
    assert [name for name in schemas if "__" in name] == [], "two models share a name: rename one of them"
    assert schemas["HTTPError"]["required"] == ["message"]


@pytest.mark.parametrize(
    ("schema", "field", "values"),
    [
        ("ConnectionAnswer", "subtype", {"", "postgres", "mysql", "mongodb", "mssql", "oracledb", "tcp", "ssh"}),
        ("ConnectionRequest", "subtype", {"", "postgres", "httpproxy", "dynamodb", "cloudwatch", None}),
        ("SessionAnswer", "connection_subtype", {"", "postgres", "mysql"}),
        ("SessionAnswer", "type", {"database", "application", "custom"}),
        ("TimeWindowAnswer", "type", {"time_range"}),
        ("TimeWindowRequest", "type", {"time_range"}),
    ],
)
async def test_fields_with_fixed_values_list_them(api: Api, schema: str, field: str, values: set[str | None]) -> None:
    described = api.app.openapi()["components"]["schemas"][schema]["properties"][field]
    assert values <= set(described["enum"])


async def test_deprecated_fields_are_marked(api: Api) -> None:
    description = api.app.openapi()
    deprecated = {
        (name, field)
        for name, schema in description["components"]["schemas"].items()
        for field, described in schema.get("properties", {}).items()
        if described.get("deprecated")
    }
    assert deprecated == {
        ("ConnectionAnswer", "tags"),
        ("CatalogueAnswer", "tags"),
        ("ConnectionRequest", "tags"),
        ("ConnectionPatch", "tags"),
        ("SessionAnswer", "labels"),
        ("FoundAnswer", "labels"),
    }
    parameters = description["paths"]["/api/connections"]["get"]["parameters"]
    assert [one["name"] for one in parameters if one.get("deprecated")] == ["tags"]


async def test_the_description_is_complete(api: Api) -> None:
    description = api.app.openapi()
    assert description["openapi"].startswith("3.1")
    operations = [one for methods in description["paths"].values() for one in methods.values()]
    ids = [one["operationId"] for one in operations]
    assert len(set(ids)) == len(ids)
    for one in operations:
        assert len(one["tags"]) == 1, one["operationId"]
        success = [status for status in one["responses"] if status < "400"]
        assert success, one["operationId"]
        assert {"400", "422", "500", "503"} <= set(one["responses"]), one["operationId"]
        assert "401" in one["responses"] or not one.get("security"), one["operationId"]
        for status, response in one["responses"].items():
            if status >= "400":
                schema = response["content"]["application/json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/HTTPError"}, (one["operationId"], status)
    secured = {one["operationId"] for one in operations if one.get("security")}
    open_to_all = {
        "healthz",
        "readyz",
        "public_server_info",
        "download_session",
        "describe_download",
        "login",
        "local_login",
        "register",
        "second_factor",
        "set_up",
    }
    open_to_all |= {"callback", "exchange", "begin_device_login", "device_token", "device_page", "confirm_device"}
    open_to_all |= {"ssh_login_page", "confirm_ssh_login_on_page", "exchange_token"}
    open_to_all |= {"web_login_page", "web_login", "web_second_factor", "web_set_up_page", "web_set_up"}
    open_to_all |= {"saml_login", "saml_callback", "saml_metadata"}
    open_to_all |= {"slack_interaction", "review_page", "decide_on_page"}
    assert set(ids) - secured == open_to_all
    tags = {one["tags"][0] for one in operations}
    assert tags == {
        "Authentication",
        "User Management",
        "Server Management",
        "Connections",
        "Reports",
        "Agents",
        "Guard Rails",
        "Issue Templates",
        "Masking",
        "Proxy Manager",
        "Reviews",
        "Runbooks",
        "Sessions",
        "SCIM",
        "Organization Management",
        "Features",
    }


@pytest.fixture
def loop_thread() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop beside the test, since Hypothesis calls tests that are not coroutines."""
    loop = asyncio.new_event_loop()
    with ThreadPoolExecutor(1) as thread:
        thread.submit(loop.run_forever)
        yield loop
        loop.call_soon_threadsafe(loop.stop)


def populated(database: Database, loop: asyncio.AbstractEventLoop) -> tuple[Api, dict[str, str]]:
    """An API, and values for path parameters that exist in it."""

    async def make() -> tuple[Api, dict[str, str]]:
        api = await make_api(database, exec_wait=0.01, stream_life=0.01)
        await api.make_connection()
        answer_target_tasks(api.world, api.services.target_tasks, SMALL)
        guardrail = await api.make_guardrail()
        issued = (await api.as_admin.post("/connections/shop/credentials")).json()
        run = (await api.as_admin.post("/sessions", json={"connection": "shop", "script": "select 1"})).json()
        known = {"connection": "shop", "nameOrID": "shop"}
        known |= {"name": "script-runs"}
        known |= {"id": guardrail["id"], "credential_id": issued["id"], "session_id": run["session_id"]}
        for path, body in (
            ("/serviceaccounts", {"subject": "shop"}),
            ("/machineidentities", {"name": "shop2", "connection_names": ["shop"]}),
            ("/users/groups", {"name": "shop"}),
            ("/api-keys", {"name": "ci"}),
        ):
            assert (await api.as_admin.post(path, json=body)).status_code == 201
        known["name"] = "shop2"
        return api, known | {"agent_id": str(api.agent.id)}

    return asyncio.run_coroutine_threadsafe(make(), loop).result(30)


@pytest.mark.parametrize("engine_name", ["postgres"])  # the stricter one about texts and numbers
def test_whatever_is_sent_is_answered_as_described(database_url: str, loop_thread: asyncio.AbstractEventLoop) -> None:
    def run(coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, loop_thread).result(30)

    database = Database(database_url)
    api, known = populated(database, loop_thread)
    statuses: Counter[int] = Counter()

    def send(request: requests.PreparedRequest) -> httpx.Response:
        headers = {str(name): str(value) for name, value in request.headers.items() if name != "Authorization"}
        if headers.get("Idempotency-Key", "").isalnum():  # as a client would: a new one for each request
            headers["Idempotency-Key"] = uuid4().hex
        content = request.body.encode() if isinstance(request.body, str) else request.body
        assert content is None or isinstance(content, bytes)
        answer = run(api.as_admin.request(str(request.method), str(request.url), headers=headers, content=content))
        assert isinstance(answer, httpx.Response)
        statuses[answer.status_code] += 1
        return answer

    description = copy.deepcopy(api.app.openapi())
    for methods in description["paths"].values():
        for operation in methods.values():
            operation.pop("security", None)  # always sent here; without it: test_access_control.py
    schema = schemathesis.openapi.from_dict(description)
    checked = 0
    results = [result for result in schema.get_all_operations() if isinstance(result, Ok)]
    # While there is something to delete, a script that runs, and somebody to do it.
    results.sort(
        key=lambda result: (
            result.ok().path.endswith(ENDING),
            result.ok().method == "delete",
            result.ok().path.endswith("/kill"),
        )
    )
    for result, mode in product(results, GenerationMode):
        checked += 1

        @BOUNDED
        @given(case=result.ok().as_strategy(generation_mode=mode), use_known=st.booleans())
        def check(case: schemathesis.Case[Any], use_known: bool) -> None:
            if use_known:
                given_ones = case.path_parameters or {}
                case.path_parameters = {name: known.get(name, value) for name, value in given_ones.items()}
                if isinstance(case.body, dict):
                    case.body |= {name: known[name] for name in case.body if name in known}
            answer = send(requests.Request(**case.as_transport_kwargs(base_url="http://localhost")).prepare())
            case.validate_response(answer, checks=CHECKS)

        with contextlib.suppress(Unsatisfiable):  # an operation without parameters cannot be called wrongly
            check()
    assert checked == 2 * sum(map(len, api.app.openapi()["paths"].values()))
    assert set(statuses) >= {200, 201, 202, 204, 400, 401, 404, 422}, statuses
    run(database.close())
