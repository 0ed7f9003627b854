"""A small populated store with its services, for tests of services, of the API and of workers."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID, uuid4

from argon2 import PasswordHasher
from tests.support.runbooks import FakeFetcher

from postern.domain.addresses import AllowedNetworks
from postern.domain.identity.login import ClientKind
from postern.domain.identity.principal import Account, Principal
from postern.domain.rules.trial import Answered, RecordedStatement, Step
from postern.domain.secret import Secret
from postern.domain.server import NATIVE, Endpoint, Listener, ServerConfig
from postern.domain.sessions.recorded import Exchange, Moment, Tail
from postern.domain.sessions.results import Result
from postern.domain.sessions.session import Session
from postern.domain.targets.agent import Agent, AgentMode
from postern.domain.targets.connection import TERMINAL, Connection, ConnectionType
from postern.errors import NotFound
from postern.integrations.identity.fetch import ProviderFetcher
from postern.integrations.identity.saml_adapter import SamlAdapter
from postern.protocols.registry import PROTOCOLS
from postern.services.bundle import Services, build_services
from postern.services.chat.chat_decisions import ChatFormClient
from postern.services.identity.ldap_login import Ldap
from postern.services.identity.logins.logins import ClientFacts, OpenedLogin
from postern.services.identity.logins.openid_port import OpenId
from postern.services.identity.logins.passwords import Passwords
from postern.services.identity.logins.saml_port import Saml
from postern.services.issues.tracker import Trackers
from postern.services.rules.access_control import AccessControl
from postern.services.rules.network_control import NetworkControl
from postern.services.server.machine_facts import MachineFacts
from postern.services.server.server_features import Features
from postern.services.targets.targets import Abilities
from postern.store.database import Database
from postern.store.encryption import Encryption, LocalMaster
from postern.store.ports.target_ports import Piece
from postern.store.signals import LocalSignals
from postern.store.sql.sql_data_keys import SqlDataKeys
from postern.store.stores import Stores
from postern.wiring.masking_wiring import detected_types, masks
from postern.wiring.parsers import PARSED, ParserJudge

CLIENT = ClientFacts(ClientKind.API, "::1", "a test")
API_URL = "http://localhost:7480"
_TCP_PORT = 7460  # which has no default
_LISTENERS = {name: Listener(True, Endpoint("127.0.0.1", PROTOCOLS[name].port or _TCP_PORT)) for name in NATIVE}
_LOOPBACK = tuple(ipaddress.ip_network(text) for text in ("127.0.0.0/8", "::1/128"))
MACHINE = MachineFacts(
    ServerConfig(_LISTENERS, api_url=API_URL), sink_networks=AllowedNetworks("POSTERN_SINK_NETWORKS", _LOOPBACK)
)
START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@dataclass
class FakeClock:
    """Stands still unless told to; with a `tick` no two moments are the same."""

    now: datetime = START
    tick: timedelta = timedelta(0)

    def __call__(self) -> datetime:
        self.now += self.tick
        return self.now

    def forward(self, **delta: float) -> None:
        self.now += timedelta(**delta)


ReadT = TypeVar("ReadT")


class FakeRecordings:
    """Holds what tests put in."""

    def __init__(self) -> None:
        self.stored: dict[UUID, list[tuple[float, str, bytes]]] = {}
        self.answered: dict[UUID, list[Result]] = {}

    def events(self, session: Session) -> Iterator[tuple[float, str, bytes]]:
        """As the real ones, says only when it is read that there is no recording."""
        if session.id not in self.stored:
            raise NotFound(f"there is no recording of session {session.id}")
        yield from self.stored[session.id]

    def texts(self, session: Session, without: Set[int]) -> Iterator[tuple[int, list[Piece]]]:
        """One segment."""
        if 1 not in without:
            yield 1, [(at, content.decode("utf-8", "replace")) for at, content in self.operations(session)]

    def operations(self, session: Session, since: int = 0) -> Iterator[tuple[float, bytes]]:
        return ((at, content) for at, kind, content in self.events(session) if kind == "i")

    def protocol(self, session: Session) -> str:
        return "postgres"

    def steps(self, session: Session, *, answers: bool) -> Iterator[Step]:
        for at, kind, content in self.events(session):
            if kind == "i":
                yield RecordedStatement(content.decode("utf-8", "replace"), at=at)
            elif answers:
                yield Answered((content,), rows=1, at=at)

    def moments(self, session: Session, since: int = 0) -> Iterator[Moment]:
        return (Moment(round(at * 1000), kind, content) for at, kind, content in self.events(session))  # type: ignore[arg-type]

    def exchanges(self, session: Session, since: int = 0, output: int = 0) -> Iterator[Exchange]:
        for moment in self.moments(session):
            if moment.kind == "i":
                yield Exchange(moment.micros, 1, statement=moment.content.decode(), ended=True)

    def archive(self, session: Session, start: datetime) -> Iterator[bytes]:
        return iter([b'{"log": {}}'])

    def tail(self, session: Session, since: int = 0) -> Tail[Moment]:
        return FakeTail(list(self.moments(session, since)) if session.id in self.stored else [])

    def result_tail(self, session: Session) -> Tail[Result]:
        return FakeTail(self.answered.get(session.id, []))

    def results(self, session: Session) -> Iterator[Result]:
        return iter(self.answered.get(session.id, []))


class FakeTail(Tail[ReadT]):
    """All at once, and nothing after that; tests that watch more have a real library."""

    def __init__(self, items: list[ReadT]) -> None:
        self._items = items

    @property
    def behind(self) -> int:
        return 0

    @property
    def ended(self) -> bool:
        return False

    def read(self, *, settled: bool = False) -> list[ReadT]:
        found, self._items = self._items, []
        return found

    def close(self) -> None:
        """Holds nothing."""


class HeardSignals(LocalSignals):
    """Remembers what was published."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[tuple[str, dict[str, str]]] = []

    def deliver(self, topic: str, payload: Mapping[str, str]) -> None:
        self.heard.append((topic, dict(payload)))
        super().deliver(topic, payload)

    def of(self, topic: str) -> list[dict[str, str]]:
        return [payload for heard, payload in self.heard if heard == topic]


@dataclass
class World:
    database: Database
    stores: Stores
    encryption: Encryption
    org_id: UUID
    master: bytes
    clock: FakeClock = field(default_factory=FakeClock)
    signals: HeardSignals = field(default_factory=HeardSignals)
    recordings: Any = field(default_factory=FakeRecordings)  # or a real library
    openid: OpenId | None = None
    _features: Features | None = None
    saml: Saml | None = None
    ldap: Ldap | None = None
    chats: ChatFormClient | None = None
    trackers: Trackers | None = None
    fetcher: FakeFetcher = field(default_factory=FakeFetcher)

    @classmethod
    async def make(cls, database: Database, master: bytes | None = None) -> World:
        """`master` is the key of a store that was filled before."""
        master = master or os.urandom(32)
        encryption = Encryption(SqlDataKeys(database), LocalMaster(master))
        stores = Stores(database, encryption)
        return cls(database, stores, encryption, (await stores.organisations.default()).id, master)

    async def add_user(self, name: str, *groups: str, password_hash: str | None = None) -> Principal:
        key = uuid4()
        email = f"{name}@example.com"
        principal = Principal(key, self.org_id, str(key), email, name.title(), frozenset(groups))
        await self.stores.principals.add(Account(principal, password_hash), self.clock())
        return principal

    async def add_agent(self, name: str = "embedded", mode: AgentMode = AgentMode.GATEWAY) -> Agent:
        agent = Agent(uuid4(), self.org_id, name, mode, self.clock(), self.clock())
        await self.stores.agents.add(agent)
        return agent

    async def add_connection(self, name: str = "shop", agent: Agent | None = None, **fields: object) -> Connection:
        """A postgres connection unless `fields` say otherwise."""
        agent = agent or await self.add_agent(f"agent-of-{name}")
        defaults: dict[str, object] = {
            "id": uuid4(),
            "type": ConnectionType.DATABASE,
            "subtype": "postgres",
            "resource_name": name,
            "secret": {
                "envvar:HOST": Secret("ZGIuZXhhbXBsZQ=="),
                "envvar:USER": Secret("YXBw"),
                "envvar:DB": Secret("c2hvcA=="),
            },
            "created_at": self.clock(),
            "updated_at": self.clock(),
        }
        values = defaults | fields
        connection = Connection(org_id=self.org_id, name=name, agent_id=agent.id, **values)  # type: ignore[arg-type]
        await self.stores.connections.add(connection)
        return connection

    async def overwrite(self, connection: Connection, **fields: object) -> Connection:
        """Store it with these fields, whatever was changed since it was read."""
        current = await self.stores.connections.get(self.org_id, str(connection.id))
        assert current is not None
        changed = replace(connection, version=current.version, **fields)  # type: ignore[arg-type]
        return await self.stores.connections.update(changed)

    def features(self) -> Features:
        """The same each time, as a process has them."""
        if self._features is None:
            self._features = Features(self.stores.settings, self.signals, self.clock)
        return self._features

    def control(self) -> AccessControl:
        return AccessControl(
            self.stores.access_rules, self.stores.connections, self.features(), self.signals, self.clock
        )

    @property
    def networks(self) -> NetworkControl:
        return NetworkControl(self.stores.network_rules, self.signals, self.clock)

    def services(self, machine: MachineFacts | None = None) -> Services:
        """All services over this store; `postgres` and commands are enforceable, patterns are checked by `re`, and
        hashing is cheap."""
        able = Abilities(
            compiles=compiles,
            masks=masks,
            enforceable=frozenset({"postgres", TERMINAL}),
            parsed=PARSED,
            judge=ParserJudge(),
            types=detected_types(),
        )
        return build_services(
            self.stores,
            self.signals,
            self.recordings,
            self.clock,
            able,
            self.fetcher,
            machine=machine or MACHINE,
            passwords=Passwords(PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)),
            openid=self.openid,
            saml=self.saml or SamlAdapter(ProviderFetcher(), self.clock),
            ldap=self.ldap,
            chats=self.chats,
            trackers=self.trackers,
        )


async def logged_in(
    services: Services, email: str, password: Secret, *, client: ClientFacts = CLIENT, organisation: str | None = None
) -> OpenedLogin:
    """By password alone."""
    opened = await services.local_login.login(email, password, client, organisation=organisation)
    assert isinstance(opened, OpenedLogin)
    return opened


def compiles(pattern: str) -> str | None:
    try:
        re.compile(pattern)
    except re.error as error:
        return str(error)
    return None
