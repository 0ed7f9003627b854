"""A whole gateway and an agent send traces to a collector: where time was spent, and no statement text."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import psycopg
import pytest
from tests.support.agents import AgentProcess, connected, connection, enrolled, url_of
from tests.support.collector import Collector, Told, collecting
from tests.support.postgres import PostgresServer
from tests.support.promises import wait_until
from tests.support.running import Gateway, started

PASSWORD = "another long password"
MARK = "the-text-of-a-statement"
OURS = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting() as made:
        yield made


@pytest.fixture(scope="module")
def traced(collector: Collector) -> dict[str, str]:
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_EXPORTER_OTLP_HEADERS": "api-key=a%20secret"}


@pytest.fixture(scope="module")
def gateway(traced: dict[str, str], target: PostgresServer) -> Iterator[Gateway]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in traced.items():
            patch.setenv(name, value)
        with started("--no-demo", again=True) as made:
            made.run("setup", made.told["setup_url"], "--password-stdin", stdin=f"{PASSWORD}\n")
            connection(made, "near", "embedded", target.port)
            yield made


@pytest.fixture(scope="module")
def api(gateway: Gateway) -> httpx.Client:
    client = httpx.Client(base_url=f"{gateway.told['api_url']}/api", timeout=30)
    login = client.post("/localauth/login", json={"email": "admin@localhost", "password": PASSWORD})
    client.headers["Authorization"] = f"Bearer {login.headers['token']}"
    return client


@pytest.fixture(scope="module")
def edge(gateway: Gateway, target: PostgresServer, traced: dict[str, str]) -> Iterator[AgentProcess]:
    made = AgentProcess(enrolled(gateway, "edge"), gateway.folder, environment=traced)
    connection(gateway, "far", "edge", target.port)
    made.until_it_serves()
    yield made
    made.stop()


def test_session_of_a_native_client_is_one_trace(gateway: Gateway, collector: Collector) -> None:
    with connected(gateway, "near") as client:
        client.execute(f"select '{MARK}'")
    (session,) = collector.until(lambda: collector.named("session", postern_connection="near", postern_verb="connect"))
    assert session.parent == ""
    assert (session.process, session.resource["service.name"]) == ("w1", "postern")
    assert session.facts["postern.end_reason"] == "client_closed"
    assert session.facts["postern.operations"] == 1
    assert session.events == ["first byte"]
    assert not session.failed
    collector.until(lambda: [*collector.below(session).values()])
    parts = collector.below(session)
    assert set(parts) == {"session.access", "session.dial"}
    assert parts["session.access"].facts == {"postern.access": "allowed"}
    assert set(collector.below(parts["session.dial"])) == {"agent.secrets", "target.connect", "target.login"}
    shown = gateway.run("sessions", "show", str(session.facts["postern.session.id"]), "--json").stdout
    assert json.loads(shown)["metadata"]["trace_id"] == session.trace


def test_api_request_script_and_agent_continue_the_callers_trace(
    gateway: Gateway, collector: Collector, api: httpx.Client, edge: AgentProcess
) -> None:
    script = {"connection": "far", "script": f"select '{MARK}'"}
    answer = api.post("/sessions", json=script, headers={"traceparent": OURS, "tracestate": "a=b", "baggage": "c=d"})
    assert answer.json()["output_status"] == "success", answer.text
    key = answer.json()["session_id"]
    (session,) = collector.until(lambda: collector.named("session", postern_session_id=key))
    request = _of(collector, "POST /api/sessions", session.parent)
    assert (request.trace, request.parent) == (OURS.split("-")[1], OURS.split("-")[2])
    assert request.raw.trace_state == ""
    assert request.process == "api"
    assert request.facts["http.route"] == "/api/sessions"
    assert request.facts["http.response.status_code"] == 200
    assert request.facts["postern.request.id"] == answer.headers["x-request-id"]
    (agent,) = collector.until(lambda: collector.named("agent.dial", postern_session_id=key))
    assert (agent.process, agent.trace) == ("agent", session.trace)
    assert agent.parent == collector.below(session)["session.dial"].id
    assert set(collector.below(agent)) == {"agent.secrets", "target.connect", "target.login"}
    assert api.get(f"/sessions/{key}").json()["metadata"]["trace_id"] == session.trace
    shown = collector.until(lambda: collector.named("GET /api/sessions/{session_id}"))
    assert not [one for one in shown if key in str(one.raw)]


def test_target_task_belongs_to_the_trace_of_its_request(collector: Collector, api: httpx.Client, edge: object) -> None:
    assert api.get("/connections/far/test").status_code == 200
    (target_task,) = collector.until(lambda: collector.named("target_task", postern_connection="far"))
    request = _of(collector, "GET /api/connections/{nameOrID}/test", target_task.parent)
    assert request.trace == target_task.trace
    collector.until(lambda: [one for one in collector.named("agent.dial") if one.trace == target_task.trace])


def test_archiving_of_a_session_is_traced(gateway: Gateway, collector: Collector) -> None:
    with connected(gateway, "near") as client:
        client.execute("select 1")
    (put, *_) = collector.until(lambda: collector.named("blob.put"))
    assert put.process == "archiver"
    (round_,) = [one for one in collector.until(lambda: collector.named("archive.round")) if one.id == put.parent]
    assert round_.facts["postern.segments.stored"]


def test_unavailable_target_fails_the_span_without_a_message(gateway: Gateway, collector: Collector) -> None:
    connection(gateway, "away", "embedded", 1)
    with pytest.raises(psycopg.OperationalError):
        connected(gateway, "away")
    (session,) = collector.until(lambda: collector.named("session", postern_connection="away"))
    assert (session.failed, session.facts["error.type"]) == (True, "Unavailable")
    assert session.raw.status.message == ""  # an error's text may quote anything


def test_denied_access_fails_the_span_with_its_own_error_type(
    gateway: Gateway, collector: Collector, target: PostgresServer
) -> None:
    connection(gateway, "closed", "embedded", target.port)
    given = url_of(gateway, "closed")
    gateway.run("connections", "update", "closed", "--set", "access_mode_connect=disabled")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(given)
    (access,) = collector.until(lambda: collector.named("session.access", postern_access="denied"))
    (session,) = collector.until(lambda: [one for one in collector.named("session") if one.id == access.parent])
    assert (session.facts["error.type"], access.failed, session.failed) == ("Denied", True, True)
    assert "session.dial" not in collector.below(session)


def test_client_without_a_session_is_counted_with_the_reason(gateway: Gateway, api: httpx.Client) -> None:
    connection(gateway, "nowhere", "embedded", 1)
    with pytest.raises(psycopg.OperationalError):
        connected(gateway, "nowhere")
    counted = 'postern_clients_turned_away_total{process="w1",reason="Unavailable"}'
    wait_until(lambda: counted in api.get("/metrics").text)
    text = api.get("/metrics").text
    assert 'postern_spans_dropped_total{process="w1"} 0.0' in text


def test_unauthenticated_request_cannot_set_its_trace(gateway: Gateway, collector: Collector) -> None:
    address = gateway.told["api_url"]
    given = "00-11111111111111111111111111111111-2222222222222222-01"
    with httpx.Client(base_url=f"{address}/api", headers={"traceparent": given}) as stranger:
        for number in range(100):
            assert stranger.get(f"/users/stranger-{number}", headers={"Authorization": "Bearer x"}).status_code == 401
    found = collector.until(lambda: collector.named("GET /api/users/{nameOrID}", http_response_status_code=401))
    assert all((one.trace, one.parent) != ("1" * 32, "2" * 16) for one in collector.spans)
    assert len(found) <= 50


def test_exported_spans_contain_no_statements_users_or_secrets(collector: Collector) -> None:
    whole = b"".join(collector.bodies)
    assert whole
    for secret in (MARK, "@localhost", PASSWORD, "stranger-1", "select"):
        assert secret.encode() not in whole, secret
    assert collector.headers[0]["api-key"] == "a secret"
    assert set(collector.paths) == {"/v1/traces"}


def _of(collector: Collector, name: str, span: str) -> Told:
    """The request ends after what it asked for."""
    return collector.until(lambda: [one for one in collector.named(name) if one.id == span])[0]
