"""The real application over a real SQLite store, called in process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from tests.support.application import application
from tests.support.oidc_site import Site, make_site, provider_for_site
from tests.support.openid import OpenIdProvider
from tests.support.spooled import library
from tests.support.templates import filled_world
from tests.support.world import World, logged_in

from postern.api.application import serve
from postern.api.info import StaticServerInfo
from postern.domain.identity.principal import Principal
from postern.domain.secret import Secret
from postern.domain.targets.agent import Agent
from postern.recording.recording_library import RecordingLibrary
from postern.services.bundle import Services
from postern.services.server.machine_facts import MachineFacts
from postern.store.database import Database

INFO = StaticServerInfo(
    host="localhost",
    tunnel_url="wss://localhost:7443",
    grpc_url="grpcs://localhost:7444",
    ca_certificate="-----BEGIN CERTIFICATE-----",
    ssh_host_key="ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
)
PASSWORD = "a long enough password"


# What a connection to a database needs in its secret: HOST db.example, USER app.
TARGET = {"envvar:HOST": "ZGIuZXhhbXBsZQ==", "envvar:USER": "YXBw"}


@dataclass
class Api:
    """A gateway with an admin, an auditor, two users and an agent; `as_admin` and so on are clients with a token."""

    world: World
    services: Services
    app: FastAPI
    agent: Agent
    nobody: httpx.AsyncClient
    as_admin: httpx.AsyncClient
    as_auditor: httpx.AsyncClient
    as_ann: httpx.AsyncClient
    as_bob: httpx.AsyncClient
    users: dict[str, Principal]

    def connection_body(self, name: str = "shop", **changes: Any) -> dict[str, Any]:
        """All that a request must have."""
        modes = ("access_mode_connect", "access_mode_exec", "access_mode_runbooks", "access_schema")
        body = {"name": name, "type": "database", "subtype": "postgres", "agent_id": str(self.agent.id)}
        return body | dict.fromkeys(modes, "enabled") | changes

    def wait_for_no_run(self) -> None:
        """Scripts are answered with 202 at once, for tests in which nothing runs them."""
        serve(self.app, self.services, INFO, exec_wait=0.01, stream_life=5.0)

    async def make_connection(self, name: str = "shop", **changes: Any) -> dict[str, Any]:
        answer = await self.as_admin.post("/connections", json=self.connection_body(name, **changes))
        assert answer.status_code == 201, answer.text
        made: dict[str, Any] = answer.json()
        return made

    async def make_guardrail(self, name: str = "no drops", **changes: Any) -> dict[str, Any]:
        body = {"name": name, "input": {"rules": [{"type": "deny_words_list", "words": ["drop"]}]}} | changes
        answer = await self.as_admin.post("/guardrails", json=body)
        assert answer.status_code == 201, answer.text
        made: dict[str, Any] = answer.json()
        return made

    async def make_masking_rule(self, name: str = "customer data", **changes: Any) -> dict[str, Any]:
        body = {"name": name, "columns": ["email"]} | changes
        answer = await self.as_admin.post("/datamasking-rules", json=body)
        assert answer.status_code == 201, answer.text
        made: dict[str, Any] = answer.json()
        return made


@dataclass(frozen=True)
class People:
    """Who there is in each test, with their tokens, and the first agent."""

    users: dict[str, Principal]
    tokens: dict[str, Secret]
    agent: Agent


async def make_people(world: World) -> People:
    services = world.services()
    first = await services.accounts.ensure_first_admin()
    assert first is not None
    token = (await logged_in(services, *first)).token
    admin = (await services.authentication.caller(token, address="::1")).principal
    users, tokens = {"admin": admin}, {"admin": token}
    for name, groups in (("auditor", ("auditor",)), ("ann", ("dba",)), ("bob", ())):
        fields = {"email": f"{name}@example.com", "name": name, "groups": groups, "password": Secret(PASSWORD)}
        users[name] = (await services.users.create(admin, fields)).principal
        tokens[name] = (await logged_in(services, users[name].email, Secret(PASSWORD))).token
    return People(users, tokens, await world.add_agent())


async def make_api(
    database: Database,
    *,
    exec_wait: float = 5.0,
    stream_life: float = 5.0,
    machine: MachineFacts | None = None,
    master: bytes | None = None,
    recordings: RecordingLibrary | None = None,
) -> Api:
    if master is None:
        world, people = await filled_world(database, make_people)
    else:
        world = await World.make(database, master)
        people = await make_people(world)
    world.recordings = recordings or world.recordings
    services = world.services(machine)
    app = application(services, INFO, exec_wait=exec_wait, stream_life=stream_life)

    def client(name: str | None = None) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {people.tokens[name].reveal()}"} if name else {}
        transport = httpx.ASGITransport(app)
        return httpx.AsyncClient(transport=transport, base_url="http://localhost/api", headers=headers)

    return Api(
        world=world,
        services=services,
        app=app,
        agent=people.agent,
        nobody=client(),
        as_admin=client("admin"),
        as_auditor=client("auditor"),
        as_ann=client("ann"),
        as_bob=client("bob"),
        users=dict(people.users),
    )


@pytest.fixture
async def api(sqlite_database: Database) -> Api:
    return await make_api(sqlite_database)


def message(answer: httpx.Response, status: int) -> str:
    """The error's text, after checking status and shape."""
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["message"]
    text: str = answer.json()["message"]
    return text


@pytest.fixture
def provider() -> Iterator[OpenIdProvider]:
    """A real OpenID provider on loopback."""
    with provider_for_site() as running:
        yield running


@pytest.fixture
async def site(sqlite_database: Database, provider: OpenIdProvider) -> Site:
    """Our API in front of it."""
    return await make_site(sqlite_database, provider)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
async def real(sqlite_database: Database, home: Path) -> Api:
    """With a real library."""
    return await make_api(sqlite_database, recordings=library(home), stream_life=20.0)
