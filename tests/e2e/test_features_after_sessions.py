"""Protocols × what follows a session, with real clients and targets: search, replay, legal hold, deletion, and an agent
that is restarted in the middle of a request. That each session is proven is in test_proof_of_sessions.py."""

from __future__ import annotations

import base64
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any
from uuid import uuid4

import httpx
import psycopg
import pytest
from tests.support.agents import AgentProcess
from tests.support.aws_ways import Cloudwatch, Dynamodb
from tests.support.features import Http, Mongodb, Mssql, Mysql, Oracle, Postgres, SshCommand, SshShell, Way
from tests.support.gateway import Gateway
from tests.support.mariadb import MariaDbServer
from tests.support.mongodb import MongoServer
from tests.support.mssql_server import SqlServer
from tests.support.oracledb.running_server import OracleTestServer
from tests.support.postgres import PostgresServer
from tests.support.promises import wait_until
from tests.support.whole_site import Targets, WholeSite, whole_site

from postern.domain.sessions.session import Session
from postern.domain.targets.agent import AgentMode

pytestmark = pytest.mark.slow

WAYS: tuple[type[Way], ...] = (
    Postgres,
    Mysql,
    Mssql,
    Oracle,
    Mongodb,
    Http,
    Dynamodb,
    Cloudwatch,
    SshCommand,
    SshShell,
)


@pytest.fixture(scope="module")
def site(
    target: PostgresServer,
    direct: psycopg.Connection,
    maria: MariaDbServer,
    mssql: SqlServer,
    oracle: OracleTestServer,
    mongo: MongoServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[WholeSite]:
    with whole_site(Targets(target, direct, maria, mssql, oracle, mongo), tmp_path_factory.mktemp("after")) as site:
        yield site


@pytest.fixture(scope="module")
def gateway(site: WholeSite) -> Gateway:
    return site.gateway


@pytest.fixture(scope="module")
def api(site: WholeSite) -> httpx.Client:
    return site.administrator


@pytest.fixture(params=WAYS, ids=lambda kind: kind.__name__)
def way(request: pytest.FixtureRequest, site: WholeSite) -> Way:
    return site.ways[request.param]


@pytest.fixture
def name() -> str:
    return f"after-{uuid4().hex[:8]}"


def run_session(gateway: Gateway, way: Way, name: str, *statements: str) -> Session:
    """Run statements in a session of their own, up to its end. The last of them shows `done`."""
    with way.start(gateway.credential(name), *statements, way.shows("done")) as client:
        client.hears("done")
        client.leaves()
    return gateway.newest_finished(name)


def test_session_is_found_by_its_statements(gateway: Gateway, way: Way, name: str, api: httpx.Client) -> None:
    way.connection(name)
    mark = f"found{name[6:]}"
    session = run_session(gateway, way, name, way.makes(mark))

    def found() -> list[dict[str, Any]]:
        answer = api.get("/sessions", params={"search": mark, "expand": "matches"})
        return list(answer.raise_for_status().json()["data"])

    (hit,) = wait_until(lambda: found() or None)
    assert hit["id"] == str(session.id)
    assert any(mark in match["text"] for match in hit["matches"])
    way.clear(mark)


def test_recording_is_replayed_and_downloaded(gateway: Gateway, way: Way, name: str, api: httpx.Client) -> None:
    way.connection(name)
    session = run_session(gateway, way, name, way.shows("grüße"))
    events = api.get(f"/sessions/{session.id}?expand=event_stream").raise_for_status().json()["event_stream"]
    texts = {kind: b"".join(base64.b64decode(data) for _, of, data in events if of == kind) for kind in "io"}
    assert way.shows("grüße").rstrip(";").encode() in texts["i"]
    assert "grüße".encode() in texts["o"]
    link = api.get(f"/sessions/{session.id}", params={"extension": "txt"})
    assert "grüße" in link.raise_for_status().content.decode()


def test_held_session_is_purged_only_after_its_release(
    site: WholeSite, gateway: Gateway, way: Way, name: str, api: httpx.Client
) -> None:
    way.connection(name)
    session = run_session(gateway, way, name, way.shows("kept"))
    path = f"/sessions/{session.id}"
    hold = {"name": "case", "reason": "court order"}
    assert api.post(f"{path}/holds", json=hold).status_code == 201
    purge = {"what": "recording", "reason": "asked to"}
    refused = api.post(f"{path}/purge", json=purge)
    assert refused.status_code == 409
    assert "'case'" in refused.text
    assert api.delete(f"{path}/holds/case").status_code == 204
    wait_until(lambda: api.post(f"{path}/purge", json=purge).is_success or None)
    wait_until(lambda: not list((gateway.home / "recordings").rglob(f"*{session.id}*")) or None)
    gone = api.get(f"{path}?expand=event_stream")
    assert gone.status_code == 410
    assert "purged" in gone.text
    assert site.verify().is_good


class Edge:
    """An agent of its own process, which serves one connection, and can be started again."""

    def __init__(self, gateway: Gateway, name: str) -> None:
        services = gateway.services
        fields = {"name": name, "mode": AgentMode.STANDARD}
        agent = gateway.call(services.agent_keys.create(gateway.admin, fields))
        gateway.call(services.connections.update(gateway.admin, name, {"agent_id": agent.id}))
        self._start = partial(AgentProcess, agent.key.reveal(), gateway.home)
        self.start()

    def start(self) -> None:
        self._process = self._start()
        self._process.until_it_serves()

    def kill(self) -> None:
        self._process.stop(signal.SIGKILL)


@pytest.fixture
def edge(gateway: Gateway, way: Way, name: str) -> Iterator[Edge]:
    way.connection(name)
    edge = Edge(gateway, name)
    yield edge
    edge.kill()


def test_agent_is_restarted_in_the_middle_of_a_request(gateway: Gateway, way: Way, name: str, edge: Edge) -> None:
    """The client is told, or its connection ends. Afterwards it is served again: a client of HTTP as if nothing had
    happened."""
    issued = gateway.credential(name)
    with ExitStack() as stack:
        client = stack.enter_context(way.start(issued, way.shows("begun"), way.sleeps()))
        client.hears("begun")
        edge.kill()
        if way.unavailable:
            client.hears(way.unavailable)
        else:
            client.leaves()
        edge.start()
        if way.unavailable:
            client.says(way.shows("again"))
        else:
            client = stack.enter_context(way.start(issued, way.shows("again")))
        client.hears("again")
        client.leaves()
    gateway.all_closed(connection=name)
    texts = [gateway.text(session.id) for session in gateway.sessions(connection=name)]
    assert "again" in texts[0]
    assert "begun" in "".join(texts)
