"""An agent and a worker's tunnel endpoint, joined by a real tunnel over TLS, in front of a real PostgreSQL."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import cast
from uuid import uuid4

import psycopg
import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from tests.support.gateway import running
from tests.support.postgres import PostgresServer
from tests.support.promises import until, wait_until

from postern.agent.agent_policy import LocalPolicy
from postern.agent.agent_tunnels import AgentTunnels as OutputBuffer
from postern.agent.secret_files import SecretFiles
from postern.agent.secrets import Resolver
from postern.agent.serve import Orders
from postern.agent.target_dialer import TargetDialer
from postern.domain.identity.principal import Principal
from postern.domain.rules.permit import Permit, seal
from postern.domain.rules.policy import Policy
from postern.domain.secret import Secret
from postern.domain.sessions.session import Verb
from postern.domain.targets.agent import Agent, AgentMode
from postern.domain.targets.connection import Connection, ConnectionType
from postern.errors import Denied, Unauthenticated, Unavailable
from postern.gateway.agent_dialers import RemoteAgents
from postern.gateway.clients.listener import HandshakeRunner
from postern.gateway.clients.tunnel_endpoint import TunnelEndpoint
from postern.gateway.gateway_tunnels import GatewayTunnels
from postern.gateway.link_registry import LinkRegistry
from postern.protocols.gateway_queries import TargetRefused
from postern.relay.relay_target import Start, Target
from postern.services.identity.logins.authentication import Authentication
from postern.services.targets.terminal_attestations import TerminalAttestations
from postern.transport import certificates, websocket
from postern.transport.certificates import TlsFiles

pytestmark = pytest.mark.ci

ORG, AGENT = uuid4(), uuid4()
SECRET = Secret("xagt-" + "a" * 43)


class Enrolment:
    """Knows one agent."""

    async def enrol(self, secret: Secret, *, name: str | None, address: str) -> Agent:
        if secret != SECRET:
            raise Unauthenticated("this agent key is not known here")
        return Agent(AGENT, ORG, "edge", AgentMode.STANDARD, None, datetime.now(UTC))


@dataclass
class Worker:
    """One relay worker's door on a port of its own."""

    name: str
    material: TlsFiles
    tunnels: GatewayTunnels = field(default_factory=lambda: GatewayTunnels(wait=1))

    async def start(self, port: int = 0) -> None:
        logins = HandshakeRunner(timeout=60, most=100, most_per_address=100)
        nobody, links = cast("Authentication", None), cast("LinkRegistry", None)
        self.door = TunnelEndpoint(
            worker=self.name,
            authentication=nobody,
            attestations=cast("TerminalAttestations", None),
            agents=Enrolment(),
            tunnels=self.tunnels,
            carriers={},
            runners={},
            links=links,
            logins=logins,
        )
        context = self.material.server_context()
        self.server = await websocket.serve(self.door.accept_tunnel, "127.0.0.1", port, context)
        self.port = int(self.server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        self.server.close()
        self.door.close("the gateway is stopping")

    async def until_there(self, instances: int = 1) -> None:
        await until(lambda: len(self.tunnels._instances.get(AGENT, {})) == instances)


class AgentHere:
    def __init__(self, material: TlsFiles, policy: LocalPolicy | None = None, secret: Secret = SECRET) -> None:
        self.orders = Orders(TargetDialer(Resolver(None, SecretFiles({})), policy or LocalPolicy()))
        authority = x509.load_pem_x509_certificate(material.authority.read_bytes()).public_bytes(Encoding.DER)
        self.held = OutputBuffer(secret, authority, {"instance": str(uuid4())}, self.orders)

    def want(self, *workers: Worker) -> None:
        self.held.want(f"wss://127.0.0.1:{workers[0].port}", frozenset(worker.name for worker in workers))


@pytest.fixture(scope="module")
def event_loop_policy() -> uvloop.EventLoopPolicy:
    """The event loop that the gateway and its agents run on."""
    return uvloop.EventLoopPolicy()


@pytest.fixture
def material(tmp_path: Path) -> TlsFiles:
    return certificates.ensure(tmp_path / "tls", ["127.0.0.1"])


@pytest.fixture
async def worker(material: TlsFiles) -> AsyncIterator[Worker]:
    worker = Worker("one", material)
    await worker.start()
    yield worker
    await worker.stop()


@pytest.fixture
async def agent(worker: Worker, material: TlsFiles) -> AsyncIterator[AgentHere]:
    """It holds a tunnel to the worker."""
    here = AgentHere(material)
    here.want(worker)
    await worker.until_there()
    yield here
    await here.held.close("done")


def permit_for(server: PostgresServer, **secret: str) -> Permit:
    given = {"HOST": "127.0.0.1", "PORT": str(server.port), "USER": "postgres", "DB": "postgres"} | secret
    stored = {f"envvar:{name}": Secret(base64.b64encode(value.encode()).decode()) for name, value in given.items()}
    connection = Connection(uuid4(), ORG, "shop", ConnectionType.DATABASE, "postgres", AGENT, secret=stored)
    ann = Principal(uuid4(), ORG, "ann", "ann@example.com", "Ann")
    return Permit(ann, connection, Policy(), Verb.CONNECT, "192.0.2.1", None, None, seal())


async def dial(worker: Worker, permit: Permit, timeout: float = 60) -> Target:
    start = Start(parameters={"application_name": "through the tunnel"})
    return await RemoteAgents(worker.tunnels, timeout=timeout).dial(permit, start, uuid4())


async def query(target: Target, text: bytes = b"select 'it is me'") -> bytes:
    """The first bytes of the answer, up to ReadyForQuery."""
    body = text + b"\0"
    target.stream.write(b"Q" + (len(body) + 4).to_bytes(4, "big") + body)
    heard = b""
    async with asyncio.timeout(60):
        while not heard.endswith(b"Z\0\0\0\x05I"):
            heard += await target.stream.read(1)
    return heard


async def test_agent_logs_in_to_the_target_and_then_pipes_bytes(
    worker: Worker, agent: AgentHere, postgres_server: PostgresServer
) -> None:
    target = await dial(worker, permit_for(postgres_server))
    assert target.parameters["application_name"] == "through the tunnel"
    assert target.process > 0
    assert b"it is me" in await query(target)
    assert agent.orders.running == 1
    target.stream.close()
    async with asyncio.timeout(60):
        await agent.orders.idle.wait()


async def test_running_statement_is_cancelled_through_the_agent(
    worker: Worker, agent: AgentHere, postgres_server: PostgresServer
) -> None:
    permit = permit_for(postgres_server)
    target = await dial(worker, permit)
    asked = asyncio.ensure_future(query(target, b"select 'through an agent', pg_sleep(300)"))
    with psycopg.connect(postgres_server.dsn(), autocommit=True) as direct:
        await asyncio.to_thread(wait_until, lambda: running(direct, "through an agent"))
    await RemoteAgents(worker.tunnels, timeout=60).cancel(permit, target)
    assert b"canceling statement" in await asked
    target.stream.close()


async def test_login_error_of_the_target_reaches_the_gateway_unchanged(
    worker: Worker, agent: AgentHere, postgres_server: PostgresServer
) -> None:
    with pytest.raises(TargetRefused, match="nowhere") as refused:
        await dial(worker, permit_for(postgres_server, DB="nowhere"))
    assert refused.value.code == "3D000"
    with pytest.raises(Unavailable, match="cannot be reached"):
        await dial(worker, permit_for(postgres_server, PORT="1"))
    with pytest.raises(Unavailable, match="no secret 'envvar:USER'"):
        await dial(worker, permit_for(postgres_server, USER=""))


async def test_agent_policy_denies_a_connection(
    worker: Worker, material: TlsFiles, postgres_server: PostgresServer
) -> None:
    agent = AgentHere(material, LocalPolicy(connections=("billing",)))
    agent.want(worker)
    await worker.until_there()
    with pytest.raises(Denied, match="agent's policy"):
        await dial(worker, permit_for(postgres_server))
    await agent.held.close("done")


async def test_login_to_a_silent_target_times_out(worker: Worker, agent: AgentHere) -> None:
    silent = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    server = PostgresServer(port=silent.sockets[0].getsockname()[1])
    with pytest.raises(Unavailable, match=r"did not answer within 1 second"):
        await dial(worker, permit_for(server), timeout=1)
    silent.close()


async def test_missing_agent_is_waited_for_and_then_reported_as_offline(
    worker: Worker, material: TlsFiles, postgres_server: PostgresServer
) -> None:
    with pytest.raises(Unavailable, match="offline"):
        await dial(worker, permit_for(postgres_server))
    worker.tunnels._wait = 60
    waiting = asyncio.ensure_future(dial(worker, permit_for(postgres_server)))
    await asyncio.sleep(0.1)
    agent = AgentHere(material)
    agent.want(worker)
    (await waiting).stream.close()
    await agent.held.close("done")


async def test_unknown_agent_key_gets_no_tunnel(worker: Worker, material: TlsFiles) -> None:
    agent = AgentHere(material, secret=Secret("xagt-" + "b" * 43))
    agent.want(worker)
    await asyncio.sleep(0.5)
    assert not worker.tunnels.agents
    assert not agent.held.held
    await agent.held.close("done")


async def test_newest_tunnel_of_an_instance_replaces_only_its_older_one(
    worker: Worker, material: TlsFiles, postgres_server: PostgresServer
) -> None:
    first, second = AgentHere(material), AgentHere(material)
    for agent in (first, second):
        agent.want(worker)
    await worker.until_there(2)
    again = OutputBuffer(SECRET, first.held._authority, first.held._hello, first.orders)
    again.want(f"wss://127.0.0.1:{worker.port}", frozenset({"one"}))
    await until(lambda: not first.held.held and bool(again.held))
    await first.held.close("it was replaced")
    await worker.until_there(2)
    (await dial(worker, permit_for(postgres_server))).stream.close()
    for held in (again, second.held):
        await held.close("done")


async def test_agent_opens_one_tunnel_to_each_worker_behind_one_address(
    material: TlsFiles, postgres_server: PostgresServer
) -> None:
    workers = [Worker("one", material), Worker("two", material), Worker("three", material)]
    await workers[0].start()
    for worker in workers[1:]:
        await worker.start(workers[0].port)
    agent = AgentHere(material)
    agent.want(*workers)
    for worker in workers:
        await worker.until_there()
        (await dial(worker, permit_for(postgres_server))).stream.close()
    assert agent.held.held == {"one", "two", "three"}
    await workers[1].stop()
    workers[1] = Worker("four", material)
    await workers[1].start(workers[0].port)
    agent.want(*workers)
    await workers[1].until_there()
    await agent.held.close("done")
    for worker in workers:
        await worker.stop()


async def test_draining_agent_accepts_no_new_targets_and_waits_for_running_ones(
    worker: Worker, material: TlsFiles, postgres_server: PostgresServer
) -> None:
    agent = AgentHere(material)
    agent.want(worker)
    await worker.until_there()
    target = await dial(worker, permit_for(postgres_server))
    closing = asyncio.ensure_future(agent.held.close("the agent is stopping", grace=60))
    await until(lambda: all(mux.drained for mux in worker.tunnels._instances[AGENT].values()))
    with pytest.raises(Unavailable, match="offline"):
        await dial(worker, permit_for(postgres_server))
    assert b"it is me" in await query(target)
    assert not closing.done()
    target.stream.close()
    async with asyncio.timeout(60):
        await closing


async def test_attack_instances_per_agent_key_are_limited(
    worker: Worker, material: TlsFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postern.gateway.gateway_tunnels.MOST_INSTANCES", 2)
    several = [AgentHere(material) for _ in range(2)]
    for here in several:
        here.want(worker)
    await worker.until_there(2)
    late = AgentHere(material)
    late.want(worker)
    await asyncio.sleep(0.5)
    known = worker.tunnels._instances[AGENT]
    assert len(known) == 2
    assert late.held._hello["instance"] not in known
    await several[0].held.close("done")
    await until(lambda: late.held._hello["instance"] in worker.tunnels._instances[AGENT])
    for here in (*several[1:], late):
        await here.held.close("done")
