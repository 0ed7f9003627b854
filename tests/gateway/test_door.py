"""Tunnels of users to a worker: who can hold one, and how many."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast
from uuid import uuid4

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from postern.domain.identity.principal import Principal
from postern.domain.secret import Secret
from postern.errors import Denied, PosternError, Unavailable
from postern.gateway.clients import tunnel_endpoint as doors
from postern.gateway.clients.listener import HandshakeRunner
from postern.gateway.clients.tunnel_endpoint import TunnelEndpoint, TunnelEnroller
from postern.gateway.gateway_protocols import TunnelGate
from postern.gateway.gateway_tunnels import GatewayTunnels
from postern.gateway.link_registry import LinkRegistry
from postern.services.identity.logins.authentication import MUST_ENROL, Authentication, Caller
from postern.services.targets.terminal_attestations import TerminalAttestations
from postern.transport import certificates, websocket
from postern.transport.mux import Mux

ANN = Caller(Principal(uuid4(), uuid4(), "ann", "ann@example.com", "Ann"))
BOB = Caller(Principal(uuid4(), uuid4(), "bob", "bob@example.com", "Bob"))


@dataclass
class People:
    """Knows Ann and Bob by their names."""

    refusal: PosternError | None = None

    async def caller(self, token: Secret, *, address: str) -> Caller:
        if self.refusal is not None:
            raise self.refusal
        return {"ann": ANN, "bob": BOB}[token.reveal()]


@dataclass
class Place:
    port: int
    authority: bytes
    people: People
    held: list[Mux] = field(default_factory=list)

    async def dial(self, who: str) -> Mux:
        """Raises Unavailable, with what the door says."""
        _, made = await websocket.connect(
            f"wss://127.0.0.1:{self.port}",
            token=who,
            ca=self.authority,
            protocol=lambda: Mux(dialler=True, hello={}, on_open=lambda incoming: None),
        )
        mux = cast("Mux", made)
        await mux.greeting
        self.held.append(mux)
        return mux


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    material = certificates.ensure(tmp_path / "tls", ["127.0.0.1"])
    people = People()
    logins = HandshakeRunner(timeout=60, most=100, most_per_address=100)
    authentication, enrolment = cast("Authentication", people), cast("TunnelEnroller", None)
    carriers = {"postgres": cast("TunnelGate", None)}
    links = cast("LinkRegistry", None)
    door = TunnelEndpoint(
        worker="one",
        authentication=authentication,
        attestations=cast("TerminalAttestations", None),
        agents=enrolment,
        tunnels=GatewayTunnels(wait=1),
        carriers=carriers,
        runners={},
        links=links,
        logins=logins,
    )
    server = await websocket.serve(door.accept_tunnel, "127.0.0.1", 0, material.server_context())
    authority = x509.load_pem_x509_certificate(material.authority.read_bytes()).public_bytes(Encoding.DER)
    yield Place(int(server.sockets[0].getsockname()[1]), authority, people)
    server.close()
    door.close("done")
    await logins.stop(1)


async def test_attack_tunnels_per_user_are_limited(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors, "MOST_TUNNELS", 3)
    for _ in range(3):
        await place.dial("ann")
    with pytest.raises(Unavailable, match="3 tunnels"):
        await place.dial("ann")
    await place.dial("bob")
    place.held[0].close("done")
    async with asyncio.timeout(60):
        await _again(place)


async def _again(place: Place) -> None:
    while True:
        try:
            await place.dial("ann")
            return
        except Unavailable:
            await asyncio.sleep(0.02)


async def test_reason_of_a_denied_tunnel_reaches_the_client(place: Place) -> None:
    place.people.refusal = Denied(MUST_ENROL)
    with pytest.raises(Unavailable, match="requires a second factor"):
        await place.dial("ann")
