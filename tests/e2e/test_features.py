"""Protocols × features, with real clients and real targets: psql, MySQL's command line, python-tds,
python-oracledb, PyMongo, httpx, boto3, OpenSSH.

One list of features, tried on every way in tests/support/features.py; where ways differ, its table says so.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any
from uuid import UUID, uuid4

import httpx
import psycopg
import pytest
import uvicorn
from tests.e2e.test_waiting_clients import person, waiting
from tests.support.application import lent
from tests.support.aws_ways import Cloudwatch, Dynamodb, aws_targets
from tests.support.features import (
    ADVISORY,
    ENFORCED,
    HOLDS,
    Client,
    Http,
    Mongodb,
    Mssql,
    Mysql,
    Oracle,
    Postgres,
    SshCommand,
    SshShell,
    Way,
)
from tests.support.gateway import Gateway
from tests.support.http_gateway import WebApp, web_app
from tests.support.mariadb import MariaDbServer
from tests.support.mongodb import MongoServer
from tests.support.mssql_server import SqlServer
from tests.support.oracledb.running_server import OracleTestServer
from tests.support.postgres import PostgresServer, free_port
from tests.support.promises import IN_TIME, until, wait_until
from tests.support.served import INFO
from tests.support.ssh_clients import Clients
from tests.support.sshds import Sshd, sshd

from postern.domain.identity.credential import Issued
from postern.domain.identity.principal import Principal
from postern.domain.lists import Page
from postern.domain.reviews.review import Review
from postern.domain.rules.guardrail import Action, Rule, RuleType
from postern.domain.sessions.session import Session
from postern.domain.targets.connection import Connection
from postern.errors import NotFound
from postern.interception.events import Refusal

WAYS: tuple[type[Way], ...] = (
    *(Postgres, Mysql, Mssql, Oracle, Mongodb, Http, Dynamodb, Cloudwatch),
    *(SshCommand, SshShell),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture(scope="module")
def web() -> Iterator[WebApp]:
    with web_app() as running:
        yield running


@pytest.fixture(scope="module")
def aws() -> Iterator[Mapping[str, str]]:
    with aws_targets() as addresses:
        yield addresses


@pytest.fixture(scope="module")
def ways(
    gateway: Gateway,
    target: PostgresServer,
    direct: psycopg.Connection,
    maria: MariaDbServer,
    mssql: SqlServer,
    oracle: OracleTestServer,
    mongo: MongoServer,
    server: Sshd,
    web: WebApp,
    aws: Mapping[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Mapping[type[Way], Way]:
    clients, folder = Clients(gateway, tmp_path_factory.mktemp("home")), tmp_path_factory.mktemp("there")
    made: list[Way] = [
        Postgres(gateway, target, direct),
        Mysql(gateway, maria),
        Mssql(gateway, mssql),
        Oracle(gateway, oracle),
        Mongodb(gateway, mongo),
        Http(gateway, web),
        *[kind(gateway, aws[kind.subtype]) for kind in (Dynamodb, Cloudwatch)],
    ]
    made += [kind(gateway, server, clients, folder) for kind in (SshCommand, SshShell)]
    return {type(one): one for one in made}


@pytest.fixture(params=WAYS, ids=lambda kind: kind.__name__)
def way(request: pytest.FixtureRequest, ways: Mapping[type[Way], Way]) -> Way:
    return ways[request.param]


@pytest.fixture(scope="module")
def api(gateway: Gateway) -> Iterator[httpx.Client]:
    """The API on a port, as the administrator."""
    with lent(gateway.services, INFO) as app:
        config = uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, timeout_graceful_shutdown=1)
        serving = uvicorn.Server(config)
        running = asyncio.run_coroutine_threadsafe(serving.serve(), gateway._loop)
        gateway.call(until(lambda: serving.started))
        port = serving.servers[0].sockets[0].getsockname()[1]
        headers = {"Authorization": f"Bearer {gateway.token.reveal()}"}
        with httpx.Client(base_url=f"http://127.0.0.1:{port}/api", headers=headers, timeout=120) as client:
            yield client
        serving.should_exit = True
        running.result(60)


@pytest.fixture
def name(gateway: Gateway, way: Way) -> Iterator[str]:
    """Of a connection that no other test has, and of its guardrail and its user. Nothing is left of them."""
    name = f"ft-{uuid4().hex[:8]}"
    yield name
    services = gateway.services
    rails = gateway.call(services.guardrails.find(gateway.admin, Page(limit=1000))).items
    for removed in (
        *[services.guardrails.remove(gateway.admin, str(rail.id)) for rail in rails if rail.name == name],
        services.connections.remove(gateway.admin, name),
        services.users.remove(gateway.admin, f"{name}@example.com"),
    ):
        with suppress(NotFound):
            gateway.call(removed)
    way.clear(name[3:])


@pytest.fixture
def connection(way: Way, name: str) -> Connection:
    return way.connection(name)


def ends(gateway: Gateway, session: Session, client: Client, words: str) -> str:
    """The client is told why, and the session's row says it; answers the reason there."""
    client.hears(words)
    client.leaves()
    return str(gateway.finished(session.id).metadata["end_reason"])


def busy(gateway: Gateway, way: Way, name: str) -> tuple[Client, Session]:
    """A client that waits for its target, with a credential of its own."""
    client = way.start(gateway.credential(name), way.shows("begun"), way.sleeps())
    client.hears("begun")
    session = gateway.newest(name)
    if way.begins_anew:  # a session that ended before the request came would not be the request's
        wait_until(lambda: len(gateway.operations(session.id)) > 1)
    return client, session


def stream(api: httpx.Client, session: UUID) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and data of each event of a running session."""
    with api.stream("GET", f"/sessions/{session}/stream") as answer:
        assert answer.status_code == 200
        event = ""
        for line in answer.iter_lines():
            field, _, value = line.partition(": ")
            if field == "event":
                event = value
            elif field == "data":
                yield event, json.loads(value)


# What is kept of it


def test_session_is_recorded(gateway: Gateway, way: Way, connection: Connection) -> None:
    assert HOLDS[way.row]["recording"] == {ENFORCED}
    with way.start(gateway.credential(connection.name), way.shows("grüße")) as client:
        client.hears("grüße")
        client.leaves()
    session = gateway.newest_finished(connection.name)
    assert (session.user, session.connection_subtype) == (gateway.admin.email, connection.subtype)
    assert session.metadata["end_reason"] in way.ended
    assert session.metadata["client_address"]
    assert way.shows("grüße").rstrip(";") in "\n".join(gateway.operations(session.id))
    assert "grüße" in gateway.text(session.id)
    assert session.metrics["operations"] >= 1


def test_session_is_watched_live_by_the_api(
    gateway: Gateway, way: Way, connection: Connection, api: httpx.Client
) -> None:
    client, session = busy(gateway, way, connection.name)
    with client:
        shown, kinds = b"", set()
        for event, data in stream(api, session.id):
            if event == "event":
                shown += base64.b64decode(data["payload"])
                kinds.add(data["type"])
                if way.shows("begun").rstrip(";").encode() in shown and b"begun" in shown:
                    break
        assert {"i", "o"} <= kinds
        assert api.get(f"/sessions/{session.id}").json()["status"] == "open"


# What is hidden and refused


def test_output_is_masked(gateway: Gateway, way: Way, name: str) -> None:
    assert ENFORCED in HOLDS[way.row]["masking"]
    way.connection(name, redact_enabled=True, redact_types=("EMAIL_ADDRESS",))
    with way.start(gateway.credential(name), way.shows("ok ann@example.com"), way.shows("done")) as client:
        assert "ann@example.com" not in client.hears("done")
        assert "ok " in client.leaves()
    session = gateway.newest_finished(name)
    assert "ok ann@" not in gateway.text(session.id)
    assert session.metrics["data_masking"]["info_types"]["EMAIL_ADDRESS"] >= 1


def test_guardrail_on_input_denies_a_statement_and_the_session_continues(
    gateway: Gateway, way: Way, connection: Connection
) -> None:
    rail = gateway.guardrail(connection.name, connection, deny=f"forbidden_{connection.name[3:]}")
    table = rail.input[0].pattern_regex
    with way.start(gateway.credential(connection.name), way.makes(table)) as client:
        assert way.refusal in client.hears(f'blocked by guardrail "{rail.name}"')
        client.leaves()
    assert not way.is_made(table)
    session = gateway.newest_finished(connection.name)
    assert session.metrics["refused"] == 1
    refusals = [event for event in gateway.records(session.id) if isinstance(event, Refusal)]
    assert [rail.name in refusal.message for refusal in refusals] == [True]
    with way.start(gateway.credential(connection.name), way.shows("goes on")) as client:
        client.hears("goes on")


def test_guardrail_on_typed_lines_can_be_bypassed_only_where_the_table_says_so(
    gateway: Gateway, way: Way, connection: Connection
) -> None:
    """Where it is advisory, the line is denied, and the same action in another form is not."""
    word = f"forbidden_{connection.name[3:]}"
    gateway.guardrail(connection.name, connection, deny=word)
    is_advice = ADVISORY in HOLDS[way.row]["guardrails on input"]
    assert (way.round(word) is not None) == is_advice
    with way.start(gateway.credential(connection.name), *way.programs) as client:
        client.says(way.shows("ready"))
        client.hears("ready")  # a shell that still starts would end with the line that is refused
        client.says(way.makes(f"{word}_kept"))
        assert way.refusal in client.hears(f'blocked by guardrail "{connection.name}"')
        if is_advice:
            type_until_done(client, way.round(f"{word}_made") or "", lambda: way.is_made(f"{word}_made"))
        client.says(way.shows("done"))
        client.hears("done")
        client.leaves()
    assert not way.is_made(f"{word}_kept")
    assert way.is_made(f"{word}_made") == is_advice


def type_until_done(client: Client, line: str, is_done: Callable[[], bool]) -> None:
    """Type the line again until it has run. A busy shell may lose a line that comes directly after a refused one, as a
    person would see and repeat."""

    def typed() -> bool:
        client.says(line)
        with suppress(AssertionError):
            wait_until(is_done, 2)
        return is_done()

    wait_until(typed)


def test_guardrail_on_output_blocks_the_output(gateway: Gateway, way: Way, connection: Connection) -> None:
    assert ENFORCED in HOLDS[way.row]["guardrails on output"]
    rail = gateway.guardrail(connection.name, connection, deny_output="top-secret")
    with way.start(gateway.credential(connection.name), way.shows("top-secret")) as client:
        assert way.refusal in client.hears(f'blocked by guardrail "{rail.name}"')
        assert "top-secret" not in client.leaves()
    session = gateway.newest_finished(connection.name)
    assert "top-secret" not in gateway.text(session.id)
    assert session.metrics["refused"] == 1


# Who has to agree


@pytest.fixture
def asks(gateway: Gateway, way: Way, name: str) -> Iterator[tuple[Client, Review]]:
    """A client that waits to be let in to a connection with reviewers, and what it waits for."""
    assert ENFORCED in HOLDS[way.row]["reviews"]
    way.connection(name, reviewers=("admin",))
    ann = person(gateway, f"{name}@example.com", "dev")
    with way.start(gateway.credential(name, principal=ann), way.shows("it works")) as client:
        review = waiting(gateway, ann)
        if not way.is_silent:
            client.hears(f"postern reviews approve {review.id}")
        yield client, review


def test_waiting_client_is_admitted_once_its_review_is_approved(
    gateway: Gateway, way: Way, name: str, asks: tuple[Client, Review], api: httpx.Client
) -> None:
    client, review = asks
    assert api.put(f"/reviews/{review.id}", json={"status": "APPROVED"}).status_code == 200
    client.hears("it works")
    client.leaves()
    assert gateway.newest_finished(name).review_id == review.id


def test_waiting_client_receives_the_rejection_and_its_reason(
    gateway: Gateway, way: Way, name: str, asks: tuple[Client, Review], api: httpx.Client
) -> None:
    client, review = asks
    decision = {"status": "REJECTED", "rejection_reason": "use the replica"}
    assert api.put(f"/reviews/{review.id}", json=decision).status_code == 200
    client.hears("use the replica")
    assert "it works" not in client.leaves()
    assert client.process.returncode != 0
    assert gateway.newest_finished(name).metadata["end_reason"] == "rejected"


def asked_about(gateway: Gateway, connection: Connection, word: str) -> tuple[Principal, Issued]:
    """Somebody, and what they come by, of whom a rule about text asks for a review of what has `word` in it."""
    rule = Rule(RuleType.PATTERN_MATCH, (), word, "four eyes", action=Action.REVIEW)
    fields = {"name": connection.name, "input": (rule,), "connection_ids": (str(connection.id),)}
    gateway.call(gateway.services.guardrails.create(gateway.admin, fields))
    ann = person(gateway, f"{connection.name}@example.com", "dev")
    return ann, gateway.credential(connection.name, principal=ann)


@pytest.mark.parametrize("choice", ["APPROVED", "REJECTED"])
def test_statement_is_held_until_the_review_is_decided(
    gateway: Gateway, way: Way, connection: Connection, api: httpx.Client, choice: str
) -> None:
    table = f"held_{connection.name[3:]}"
    ann, issued = asked_about(gateway, connection, table)
    with way.start(issued, way.makes(table), way.shows("behind it")) as client:
        review = waiting(gateway, ann)
        assert not way.is_made(table)
        decision = {"status": choice, "comment": "because"}
        assert api.put(f"/reviews/{review.id}", json=decision).status_code == 200
        if choice == "APPROVED":
            client.hears("behind it")
        else:
            assert way.refusal in client.hears("because")
        client.leaves()
    assert way.is_made(table) == (choice == "APPROVED")


def test_review_of_typed_lines_can_be_bypassed_only_where_the_table_says_so(
    gateway: Gateway, way: Way, connection: Connection, api: httpx.Client
) -> None:
    """Where it is advisory, the line is held, and the same action in another form is not."""
    word = f"held_{connection.name[3:]}"
    ann, issued = asked_about(gateway, connection, word)
    is_advice = ADVISORY in HOLDS[way.row]["reviews"]
    assert (way.round(word) is not None) == is_advice
    with way.start(issued, *way.programs) as client:
        client.says(way.shows("ready"))
        client.hears("ready")
        client.says(way.makes(f"{word}_typed"))
        review = waiting(gateway, ann)
        assert not way.is_made(f"{word}_typed")
        assert api.put(f"/reviews/{review.id}", json={"status": "APPROVED"}).status_code == 200
        client.says(way.shows("behind it"))
        client.hears("behind it")
        assert way.is_made(f"{word}_typed")
        client.says(way.round(f"{word}_made") or "", way.shows("done"))
        client.hears("done")
        client.leaves()
    assert way.is_made(f"{word}_made") == is_advice


# What ends it


def test_session_is_killed_by_the_api(gateway: Gateway, way: Way, connection: Connection, api: httpx.Client) -> None:
    assert HOLDS[way.row]["kill"] == {ENFORCED}
    client, session = busy(gateway, way, connection.name)
    with client:
        assert api.post(f"/sessions/{session.id}/kill").status_code == 204
        assert ends(gateway, session, client, "this session was killed") == "killed"
    assert "this session was killed" in gateway.text(session.id)


def test_session_ends_at_the_max_duration(
    gateway: Gateway, way: Way, connection: Connection, api: httpx.Client
) -> None:
    """The credential is older than the limit: a later one would itself expire at that limit."""
    issued = gateway.credential(connection.name)
    assert api.patch(f"/connections/{connection.name}", json={"access_max_duration": 5}).status_code == 200
    with way.start(issued, way.sleeps()) as client:
        client.hears("maximum duration")
        client.leaves()
    assert gateway.newest_finished(connection.name).metadata["end_reason"] == "expired"


def test_session_ends_when_its_credential_expires(gateway: Gateway, way: Way, connection: Connection) -> None:
    for seconds in IN_TIME:
        with way.start(gateway.credential(connection.name, seconds=seconds), way.sleeps()) as client:
            client.hears("expired")
            client.leaves()
        if gateway.sessions(connection=connection.name):
            break
    assert gateway.newest_finished(connection.name).metadata["end_reason"] == "expired"


def test_session_ends_when_its_credential_is_revoked(
    gateway: Gateway, way: Way, connection: Connection, api: httpx.Client
) -> None:
    client, session = busy(gateway, way, connection.name)
    with client:
        path = f"/connections/{connection.name}/credentials/{session.credential_id}/revoke"
        assert api.post(path).status_code == 204
        assert ends(gateway, session, client, "revoked") == "revoked"


def test_session_ends_when_its_access_mode_is_disabled(
    gateway: Gateway, way: Way, connection: Connection, api: httpx.Client
) -> None:
    client, session = busy(gateway, way, connection.name)
    with client:
        change = {f"access_mode_{way.mode}": "disabled"}
        assert api.patch(f"/connections/{connection.name}", json=change).status_code == 200
        assert ends(gateway, session, client, f"access mode {way.mode} is disabled") == "revoked"


def test_session_ends_when_a_network_rule_excludes_its_address(
    gateway: Gateway, way: Way, connection: Connection, api: httpx.Client
) -> None:
    client, session = busy(gateway, way, connection.name)
    rule = {"name": connection.name, "connection_names": [connection.name], "allowed_networks": ["192.0.2.0/24"]}
    with client:
        assert api.post("/network-rules", json=rule).status_code == 201
        reason = f"cannot be used from your address 127.0.0.1 (network rule '{connection.name}')"
        assert ends(gateway, session, client, reason) == "revoked"
    with way.start(gateway.credential(connection.name), way.sleeps()) as later:
        later.hears("cannot be used from your address 127.0.0.1")
        later.leaves()
    assert api.delete(f"/network-rules/{connection.name}").status_code == 204


@pytest.fixture(scope="module")
def impatient(gateway: Gateway) -> Iterator[Mapping[str, int]]:
    """Ports of a worker that ends what is idle for three seconds."""
    names = (
        "postgres",
        "mysql",
        "mssql",
        "oracledb",
        "mongodb",
        "httpproxy",
        "dynamodb",
        "cloudwatch",
        "ssh",
        "tunnel",
    )
    ports = {name: free_port() for name in names}
    worker = gateway.add_worker("ft-idle", idle_timeout=3, **{f"{name}_port": port for name, port in ports.items()})
    yield ports
    worker.stop()
    del gateway.workers["ft-idle"]


@pytest.mark.slow
def test_session_ends_at_the_idle_timeout(
    gateway: Gateway, way: Way, connection: Connection, impatient: Mapping[str, int]
) -> None:
    statements = (way.shows("begun"), *way.stays)
    with way.start(gateway.credential(connection.name), *statements, ports=impatient) as client:
        client.hears("begun")
        assert gateway.newest_finished(connection.name).metadata["end_reason"] == "idle"
        client.says(way.shows("too late"))
        client.hears(way.idle)
        client.leaves()
