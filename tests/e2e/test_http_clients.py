"""Real HTTP clients through a gateway to an application on a real server."""

from __future__ import annotations

import asyncio
import hashlib
import json
import ssl
import subprocess
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest
import websockets
from tests.support.gateway import Gateway
from tests.support.http_gateway import BLOCK, WebApp, http_connection, login_of, web_app
from tests.support.promises import wait_until
from tests.support.tcp_gateway import local_port

from postern.api.sessions.result_answers import ResultWriter
from postern.domain.identity.credential import Issued
from postern.domain.rules.masking import TypeGroup
from postern.domain.sessions.session import SessionStatus
from postern.wiring import tls


@pytest.fixture(scope="module")
def app() -> Iterator[WebApp]:
    with web_app() as app:
        yield app


class Opened:
    """A connection to the application with a credential of it."""

    def __init__(self, gateway: Gateway, app: WebApp, **secret: str) -> None:
        self.gateway = gateway
        self.name = f"http-{uuid4().hex[:8]}"
        self.connection = http_connection(gateway, self.name, app.url, secret=secret)
        self.issued: Issued = gateway.credential(self.name)
        self.login = login_of(self.issued)
        self.port = gateway.settings.httpproxy_port
        self.plain = f"http://127.0.0.1:{self.port}"
        self.url = f"https://localhost:{self.port}"
        authority = tls.authority(gateway.settings)
        assert authority is not None
        self.authority = str(authority)
        self.context = ssl.create_default_context(cafile=self.authority)

    def client(self, **more: Any) -> httpx.Client:
        return httpx.Client(base_url=self.url, verify=self.context, auth=self.login, timeout=30, **more)


@pytest.fixture
def opened(gateway: Gateway, app: WebApp) -> Opened:
    return Opened(gateway, app)


def curl(opened: Opened, *arguments: str, user: bool = True) -> subprocess.CompletedProcess[str]:
    login = ["--user", ":".join(opened.login)] if user else []
    words = ["curl", "--silent", "--show-error", "--cacert", opened.authority, *login, *arguments]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


def test_curl_reads_and_writes(opened: Opened) -> None:
    answer = json.loads(curl(opened, f"{opened.url}/echo?a=1").stdout)
    assert (answer["method"], answer["path"], answer["query"]) == ("GET", "/echo", "a=1")
    assert "authorization" not in answer["headers"]
    answer = json.loads(curl(opened, "--data", "x=1", f"{opened.url}/echo").stdout)
    assert (answer["method"], answer["body"]) == ("POST", "x=1")
    refused = curl(opened, "--include", f"{opened.url}/echo", user=False)
    assert "401" in refused.stdout.splitlines()[0]
    assert "Basic realm=" in refused.stdout


def test_one_session_has_all_requests_and_ends_when_it_is_killed(opened: Opened) -> None:
    with opened.client() as client:
        for number in range(20):
            assert client.get(f"/echo?n={number}").json()["query"] == f"n={number}"
        (session,) = opened.gateway.sessions(connection=opened.name)
        assert session.status is SessionStatus.OPEN
        gateway = opened.gateway
        gateway.call(gateway.services.sessions.kill(gateway.admin, session.id))
        finished = gateway.finished(session.id)
        assert finished.metadata["end_reason"] == "killed"
        assert client.get("/echo").status_code == 200
        assert len(gateway.sessions(connection=opened.name)) == 2


def test_credential_of_the_target_is_added_and_that_of_the_client_removed(gateway: Gateway, app: WebApp) -> None:
    opened = Opened(gateway, app, HEADER_AUTHORIZATION="Bearer of-the-target", HEADER_X_API_KEY="k1")
    with opened.client() as client:
        headers = client.get("/echo").json()["headers"]
    assert headers["authorization"] == "Bearer of-the-target"
    assert headers["x-api-key"] == "k1"
    (session,) = gateway.sessions(connection=opened.name)
    assert opened.login[1] not in gateway.text(session.id)


def test_redirects_and_cookies_name_the_gateway(opened: Opened) -> None:
    with opened.client(follow_redirects=False) as client:
        assert client.get("/redirect").headers["location"] == f"{opened.url}/echo?redirected=1"
        client.get("/cookie")
        assert client.get("/cookie").json() == {"own": "1"}


def test_server_sent_events_arrive_at_once_and_end_with_their_client(opened: Opened, app: WebApp) -> None:
    before = app.disconnects
    with opened.client() as client, client.stream("GET", "/events") as response:
        lines = response.iter_lines()
        assert [line for _, line in zip(range(5), lines, strict=False) if line] == ["data: 0", "data: 1", "data: 2"]
    wait_until(lambda: app.disconnects > before or None)


def test_websocket_echoes(opened: Opened) -> None:
    user, password = opened.login

    async def talk() -> list[str]:
        url = f"wss://{user}:{password}@localhost:{opened.port}/ws"
        async with websockets.connect(url, ssl=opened.context) as socket:
            answers = []
            for text in ("one", "two", "x" * 100_000):
                await socket.send(text)
                answers.append(str(await socket.recv()))
            return answers

    assert asyncio.run(talk()) == ["ONE", "TWO", "X" * 100_000]


def test_application_that_breaks_off_is_not_taken_for_complete(opened: Opened) -> None:
    result = curl(opened, f"{opened.url}/broken")
    assert result.stdout == "begun"
    assert result.returncode != 0


def test_application_that_is_away(gateway: Gateway) -> None:
    class Away:
        url = "http://127.0.0.1:1"

    opened = Opened(gateway, Away())  # type: ignore[arg-type]
    for version, line in (("--http1.1", "HTTP/1.1 502"), ("--http2", "HTTP/2 502")):
        answer = curl(opened, "--include", version, f"{opened.url}/")
        assert answer.stdout.startswith(line)
        assert "cannot be reached" in answer.stdout


@pytest.mark.parametrize("http2", [False, True])
def test_rules_hold_for_requests_and_responses(opened: Opened, http2: bool) -> None:
    gateway = opened.gateway
    gateway.guardrail(f"no-{opened.name}", opened.connection, deny="drop everything", deny_output="top secret")
    gateway.masking_rule(
        {
            "name": f"mask-{opened.name}",
            "connection_ids": (str(opened.connection.id),),
            "groups": (TypeGroup("PII", ("EMAIL_ADDRESS",)),),
        }
    )
    with opened.client(http2=http2) as client:
        refused = client.post("/echo", json={"text": "drop everything"})
        assert refused.status_code == 403
        assert "denied" in refused.text
        hidden = client.post("/echo", json={"text": "top " + "secret"})
        assert hidden.status_code != 200 or "top secret" not in hidden.text
        masked = client.post("/echo", json={"text": "alice.miller@example.com"})
        assert masked.status_code == 200
        assert "alice.miller" not in masked.json()["body"]
        assert client.get("/echo").status_code == 200
        assert client.get("/echo").http_version == ("HTTP/2" if http2 else "HTTP/1.1")


def test_script_runs_requests(opened: Opened, app: WebApp) -> None:
    gateway = opened.gateway
    submitted = gateway.services.sessions.submit(gateway.admin, opened.name, "GET /echo?by=script", source="::1")
    session = gateway.call(submitted)
    finished = gateway.finished(session.id)
    assert finished.exit_code == 0
    assert "by=script" in gateway.text(session.id)


def test_results_of_requests_mark_the_masked_cells(opened: Opened) -> None:
    gateway = opened.gateway
    masked = {"redact_enabled": True, "redact_types": ("EMAIL_ADDRESS",)}
    gateway.call(gateway.services.connections.update(gateway.admin, opened.name, masked))
    request = "POST /echo\nContent-Type: application/json\n\n" + json.dumps({"mail": "alice.miller@example.com"})
    submitted = gateway.services.sessions.submit(gateway.admin, opened.name, request, source="::1")
    session = gateway.finished(gateway.call(submitted).id)
    (result,) = json.loads("".join(ResultWriter(gateway.services.sessions.results(session)).json()))
    columns, (row,) = result["columns"], result["rows"]
    assert row[columns.index("method")] == "POST"
    assert "alice.miller" not in row[columns.index("body")]
    assert "example.com" not in json.dumps(result)
    (mask,) = result["masked"]["masks"]
    assert mask["info_types"] == ["EMAIL_ADDRESS"]
    assert result["masked"]["cells"] == [[columns.index("body"), 0, 0, 0]]


def test_plain_text_on_loopback_and_bearer(opened: Opened) -> None:
    token = ".".join(opened.login)
    answer = httpx.get(f"{opened.plain}/echo", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 200
    own = {"Postern-Authorization": f"Bearer {token}", "Authorization": "Bearer of-the-application"}
    assert httpx.get(f"{opened.plain}/echo", headers=own).json()["headers"]["authorization"] == own["Authorization"]


def test_local_port_needs_no_credential(opened: Opened) -> None:
    with local_port(opened.gateway, opened.name, protocol="httpproxy") as local:
        for number in range(5):
            answer = httpx.get(f"http://127.0.0.1:{local.port}/echo?n={number}")
            assert answer.json()["query"] == f"n={number}"
        assert local.failures == []
    assert len(opened.gateway.sessions(connection=opened.name)) == 1


def test_expired_credential_and_revoked_credential_are_refused(opened: Opened) -> None:
    gateway = opened.gateway
    with opened.client() as client:
        assert client.get("/echo").status_code == 200
        credential = opened.issued.credential
        gateway.call(gateway.services.credentials.revoke(gateway.admin, opened.name, str(credential.id)))
        gateway.all_closed(connection=opened.name)
        assert client.get("/echo").status_code in (401, 403)


def test_worker_that_stops_closes_its_sessions(app: WebApp) -> None:
    gateway = Gateway()
    try:
        gateway.start()
        opened = Opened(gateway, app)
        with opened.client() as client:
            client.get("/echo")
            assert gateway.worker.stop() == 0
        (session,) = gateway.sessions(connection=opened.name)
        assert session.status is SessionStatus.DONE
        assert session.metadata["end_reason"] == "gateway_stopped"
    finally:
        gateway.stop()


def _transfer(opened: Opened, blocks: int) -> None:
    digest = hashlib.sha256()

    def body() -> Iterator[bytes]:
        for number in range(blocks):
            block = bytes((number % 253,)) * BLOCK
            digest.update(block)
            yield block

    with opened.client() as client:
        assert client.post("/size", content=body()).json() == {"size": blocks * BLOCK, "sha256": digest.hexdigest()}
        size = 0
        with client.stream("GET", f"/large/{blocks}") as response:
            for part in response.iter_raw():
                size += len(part)
        assert size == blocks * BLOCK


def test_bodies_of_a_few_megabytes(opened: Opened) -> None:
    _transfer(opened, 100)


@pytest.mark.slow
def test_large_bodies_take_constant_memory(opened: Opened) -> None:
    worker = opened.gateway.worker
    _transfer(opened, 100)
    before = worker.resident()
    _transfer(opened, 6_400)
    assert worker.resident() - before < 30 << 20
