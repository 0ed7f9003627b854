"""The SSH gate by itself, with the flow behind it replaced: who was let in, and to what, is written down."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import asyncssh
from tests.support.promises import PATIENT
from tests.support.waiting import somebody

from postern.domain.identity.credential import Grant, Verifier
from postern.domain.identity.principal import Principal
from postern.domain.rules.permit import Permit
from postern.domain.secret import Secret
from postern.domain.sessions.session import Verb
from postern.domain.targets.connection import Extra
from postern.errors import Denied, PosternError, Unauthenticated
from postern.gateway.clients.listener import HandshakeRunner
from postern.gateway.clients.session_setup import ClientSession, SessionSetup
from postern.protocols import scram
from postern.protocols.ssh.listener.ssh_admission import Admission
from postern.protocols.ssh.listener.ssh_clients import ChannelClient
from postern.protocols.ssh.listener.ssh_gate import SshGate
from postern.protocols.ssh.listener.ssh_users import SshAuthenticators
from postern.protocols.terminal import terminal_frames as m
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import Start
from postern.services.bundle import Services
from postern.services.identity.ssh_keys import SshKeys

USER, PASSWORD = "ann-web_1-abc234", "a long enough password"
SALT, ROUNDS = b"0123456789abcdef", 4096


class Flow:
    """Stands for `SessionSetup`: admits everybody, runs nothing, reads `reads` bytes of frames, writes `writes` bytes
    and answers EXIT 0."""

    def __init__(self) -> None:
        self.engine = SimpleNamespace(links=SimpleNamespace(changes=0), turned_away=self._turned_away)
        self.refused: list[PosternError] = []
        self.asked: list[tuple[str, str]] = []  # who was asked for, and to what
        self.started: list[Start] = []
        self.heard = b""
        self.reads = self.writes = 0
        self.act: Callable[[ChannelClient, Start], Awaitable[None]] | None = None  # before that
        self.was_asked = asyncio.Event()
        self.decided = asyncio.Event()
        self.decided.set()
        self.allowed: frozenset[Extra] = frozenset({Extra.FILE_TRANSFER})
        self.subtype, self.protocol = "ssh", "ssh"
        keys = scram.derive(Secret(PASSWORD), SALT, ROUNDS)

        verifier = Verifier(ROUNDS, SALT, hashlib.sha256(keys.client).digest(), keys.server)
        self.grant = Grant(uuid4(), USER, verifier, somebody(), cast(Any, None), None, None)

    def _turned_away(self, error: PosternError) -> None:
        self.refused.append(error)

    async def find_grant(self, username: str) -> Grant | None:
        return self.grant if username == USER else None

    async def permit_of(self, client: ClientSession, grant: Grant) -> Permit:
        return await self._permit(grant.principal, USER)

    async def permit_for(self, client: ClientSession, wanted: Any) -> Permit:
        return await self._permit(wanted.principal, wanted.connection)

    async def _permit(self, principal: Principal, what: str) -> Permit:
        self.asked.append((principal.email, what))
        self.was_asked.set()
        await self.decided.wait()
        connection = SimpleNamespace(name=what, subtype=self.subtype, protocol=self.protocol)
        return cast(Permit, SimpleNamespace(principal=principal, connection=connection, expires_at=None))

    def narrow(self, permit: Permit, modes: tuple[Verb, ...], extra: Extra | None) -> Permit:
        if extra is not None and extra not in self.allowed:
            raise Denied(f"{extra} is disabled")
        return permit

    async def let_in(self, client: ChannelClient, permitted: Awaitable[Permit]) -> Awaitable[None] | None:
        try:
            permit = await permitted
            client.fits(permit.connection)
            start = client.start(permit)
            self.started.append(start)
        except PosternError as error:
            self.refused.append(error)
            client.turn_away(error)
            return None
        if self.act is not None:
            await self.act(client, start)
        self.heard += await client.stream.read(self.reads) if self.reads else b""
        client.stream.write(m.frames(m.STDOUT, bytes(self.writes)) + m.exit_frame(0))
        return asyncio.sleep(0)


class Keys:
    """Stands for `SshKeys`: whose each key is, by its fingerprint."""

    def __init__(self) -> None:
        self.owners: dict[str, Principal] = {}
        self.found: list[str] = []

    def add(self, name: str) -> asyncssh.SSHKey:
        return self.own(name, asyncssh.generate_private_key("ssh-ed25519"))

    def own(self, name: str, key: asyncssh.SSHKey) -> asyncssh.SSHKey:
        self.owners[key.get_fingerprint()] = somebody(name)
        return key

    async def find(self, user: str, fingerprint: str) -> Any:
        self.found.append(fingerprint)
        owner = self.owners.get(fingerprint)
        if owner is None:
            raise Unauthenticated("this key is not registered for this user")
        return SimpleNamespace(principal=owner, means=f"ssh-key:{owner.email}")

    async def record_use(self, holder: Any) -> None:
        """Noted."""

    async def standing(self, holder: Any) -> Any:
        return holder


class Site:
    """`services` are asked of certificates and browsers, where there are any; keys are its own."""

    def __init__(self, services: Services | None = None) -> None:
        self.flow, self.keys = Flow(), Keys()
        self.host_key = asyncssh.generate_private_key("ssh-ed25519")
        private = Secret(self.host_key.export_private_key().decode())
        known = cast(Any, services or SimpleNamespace(ssh_authorities=None, ssh_logins=None))
        proofs = SshAuthenticators(cast(SshKeys, self.keys), known.ssh_authorities, known.ssh_logins)
        self.logins = HandshakeRunner(timeout=PATIENT, most=100, most_per_address=100)
        admission = Admission(cast(SessionSetup, self.flow), self.logins, proofs, decoy_secret=b"decoy")
        self.gate = SshGate(admission, private, login_timeout=PATIENT)
        self.port = 0

    def accept(self) -> StreamHandshake:
        site = self

        class Accepted(StreamHandshake):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                super().connection_made(transport)
                site.logins.start(self, lambda stream: site.gate.native(stream, require_tls=False), site.gate.reject)

        return Accepted()

    async def connect(self, username: str, **options: Any) -> asyncssh.SSHClientConnection:
        options.setdefault("client_keys", [])
        return await asyncssh.connect(
            "127.0.0.1", self.port, username=username, known_hosts=None, agent_path=None, config=None, **options
        )


@asynccontextmanager
async def open_site(services: Services | None = None) -> AsyncIterator[Site]:
    site = Site(services)
    server = await asyncio.get_running_loop().create_server(site.accept, "127.0.0.1", 0)
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        server.close()
        site.gate.close("the test is over")
        await site.logins.stop(1)
