"""The gate: monitors, which never log in, tunnels, and what clients are told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import bson
import pytest
from tests.support.protocols import mongodb_login_test_messages as mongo
from tests.support.waiting import Line, somebody

from postern.domain.identity.credential import Grant
from postern.domain.identity.principal import Principal
from postern.domain.secret import Secret
from postern.errors import Denied, PosternError, ProtocolViolation, TooMany, Unauthenticated, Unavailable
from postern.gateway.clients.listener import ConnectionLimiter, HandshakeRunner
from postern.gateway.clients.session_setup import ClientSession, SessionSetup
from postern.gateway.clients.tunnel_request import TunnelRequest
from postern.protocols.gateway_queries import TargetRefused
from postern.protocols.mongodb import mongodb_listener
from postern.protocols.mongodb.login.mongodb_target_login import MongodbTargetConversation, MongodbTargetLogin
from postern.protocols.mongodb.mongodb_listener import MongodbGate
from postern.relay.relay_handshake import StreamHandshake
from postern.services.identity.credentials import make_verifier

USER, PASSWORD = "ann-orders-abc234", "a long enough password"
VERIFIER = make_verifier(Secret(PASSWORD))
HELLO = mongo.command({"hello": 1})


@dataclass
class Fronts:
    """Stands for `SessionSetup`. `failure` is what a client is told in place of its welcome."""

    failure: PosternError | None = None
    refused: list[PosternError] = field(default_factory=list)
    clients: list[ClientSession] = field(default_factory=list)
    requests: list[TunnelRequest] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.engine = SimpleNamespace(links=SimpleNamespace(changes=7), turned_away=self.refused.append)

    async def find_grant(self, username: str) -> Grant | None:
        return Grant(uuid4(), USER, VERIFIER, somebody(), cast(Any, None), None, None) if username == USER else None

    async def by_credential(self, client: ClientSession, grant: Grant | None) -> Awaitable[None] | None:
        client.stream.on_known()
        self.clients.append(client)
        if self.failure is not None:
            client.turn_away(self.failure)
            return None
        client.welcome(cast(Any, SimpleNamespace(parameters={})))
        return self._stay()

    async def by_tunnel(self, client: ClientSession, request: TunnelRequest) -> Awaitable[None] | None:
        self.requests.append(request)
        return await self.by_credential(client, None)

    async def _stay(self) -> None:
        await self.ended.wait()


class Port:
    """The gate behind a listener. `most` are its logins at once."""

    def __init__(self, fronts: Fronts, *, most: int = 100, timeout: float = 60.0, monitors: int = 100) -> None:
        limiter = ConnectionLimiter(most=monitors, most_per_address=monitors)
        self.gate = MongodbGate(cast(SessionSetup, fronts), version="6.0", decoy_secret=b"decoy", monitors=limiter)
        self.logins = HandshakeRunner(timeout=timeout, most=most, most_per_address=most)

    def connect(self, request: TunnelRequest | None = None) -> Peer:
        stream = StreamHandshake()
        peer = Peer(stream)

        async def serve(stream: StreamHandshake) -> Awaitable[None] | None:
            if request is not None:
                return await self.gate.serve_tunnel(stream, request)
            return await self.gate.native(stream, require_tls=False)

        self.logins.start(stream, serve, self.gate.reject)
        return peer


class Peer:
    """A client in memory, on the other end of the line."""

    def __init__(self, stream: StreamHandshake) -> None:
        self.stream = stream
        self.line = Line(stream)
        self._requests = 0

    @property
    def is_closed(self) -> bool:
        return self.line.is_closing()

    def send(self, document: Mapping[str, Any], **more: Any) -> None:
        self._requests += 1
        self.stream.data_received(mongo.command(document, request=self._requests, **more))

    async def receive(self) -> dict[str, Any]:
        for _ in range(200):
            if self.line.written:
                to, document = mongo.parse(self.line.take())
                assert to == self._requests
                return document
            await asyncio.sleep(0.005)
        raise AssertionError("there is no reply")

    async def ask(self, document: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        self.send(document, **more)
        return await self.receive()

    async def closes(self) -> None:
        for _ in range(400):
            if self.is_closed:
                return
            await asyncio.sleep(0.005)
        raise AssertionError("the connection is still open")


async def log_in(peer: Peer, password: str = PASSWORD) -> None:
    """With the gateway's own login at targets, over the line."""

    class OnLine:
        async def peek(self, size: int) -> bytes:
            for _ in range(400):
                if len(peer.line.written) >= size:
                    return bytes(peer.line.written[:size])
                if peer.is_closed:
                    raise ConnectionResetError
                await asyncio.sleep(0.005)
            raise AssertionError("there is no reply")

        async def read(self, size: int) -> bytes:
            data = await self.peek(size)
            del peer.line.written[:size]
            return data

        def write(self, data: bytes) -> None:
            peer.stream.data_received(data)

        async def offload(self, work: Any) -> Any:
            return work()

    conversation, login = MongodbTargetConversation(cast(Any, OnLine())), MongodbTargetLogin(USER, Secret(password))
    await conversation.authenticate(login, await conversation.hello(login), verified=False)


async def test_monitor_stays_beyond_the_deadline_of_logins() -> None:
    port = Port(Fronts(), timeout=0.05)
    monitor = port.connect()
    assert (await monitor.ask({"hello": 1}))["maxWireVersion"] == 17
    await asyncio.sleep(0.2)
    assert (await monitor.ask({"hello": 1}))["ok"] == 1
    assert not monitor.is_closed
    monitor.line.close()
    await port.logins.stop(1.0)


async def test_monitors_keep_no_login_out() -> None:
    fronts = Fronts()
    port = Port(fronts, most=2)
    for _ in range(20):
        await port.connect().ask({"hello": 1})
    await log_in(port.connect())
    assert len(fronts.clients) == 1
    await port.logins.stop(0.0)


async def test_logins_that_begin_after_a_hello_work_when_no_more_monitors_are_accepted() -> None:
    """Drivers begin their login with the hello."""
    fronts = Fronts()
    port = Port(fronts, monitors=2)
    monitors = [port.connect() for _ in range(3)]
    for monitor in monitors[:2]:
        assert (await monitor.ask({"hello": 1}))["ok"] == 1
    answer = await monitors[2].ask({"hello": 1})
    assert answer["ok"] == 0
    assert "add loadBalanced=true" in answer["errmsg"]
    await monitors[2].closes()
    assert not monitors[0].is_closed
    assert isinstance(fronts.refused[0], TooMany)
    speculative = {"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": b"n,,n=ann,r=abc"}
    answer = await port.connect().ask({"hello": 1, "speculativeAuthenticate": speculative})
    assert answer["speculativeAuthenticate"]["payload"].startswith(b"r=abc")
    monitors[0].line.close()
    await monitors[0].closes()
    await asyncio.sleep(0.01)
    following = port.connect()
    await following.ask({"hello": 1})
    await asyncio.sleep(0.05)
    assert not following.is_closed
    await port.logins.stop(0.0)


async def test_silent_monitor_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mongodb_listener, "LONGEST_SILENCE", 0.02)
    port = Port(Fronts())
    monitor = port.connect()
    await monitor.ask({"hello": 1})
    await monitor.closes()


async def test_old_monitor_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mongodb_listener, "LONGEST_MONITOR", 0.0)
    monitor = Port(Fronts()).connect()
    await monitor.ask({"hello": 1})
    await monitor.closes()


async def test_client_that_asks_too_often_is_closed() -> None:
    fronts = Fronts()
    monitor = Port(fronts).connect()
    monitor.stream.data_received(HELLO * 1000)
    await monitor.closes()
    assert isinstance(fronts.refused[0], ProtocolViolation)
    assert monitor.line.written.count(b"isdbgrid") < 200


async def test_client_that_does_not_read_its_replies_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mongodb_listener, "_MAX_UNREAD", 2000)
    fronts = Fronts()
    monitor = Port(fronts).connect()
    monitor.stream.data_received(HELLO * 40)
    await monitor.closes()
    assert "does not read" in fronts.refused[0].message


async def test_login_long_after_the_hello_is_denied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mongodb_listener, "LOGIN_GRACE", 0.0)
    fronts = Fronts()
    with pytest.raises(TargetRefused, match="did not log in within"):
        await log_in(Port(fronts).connect())
    assert isinstance(fronts.refused[0], Denied)
    assert not fronts.clients


async def test_login_after_the_hello_has_a_deadline_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mongodb_listener, "LOGIN_GRACE", 0.3)
    client = Port(Fronts()).connect()
    await client.ask({"hello": 1})
    start = {"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": b"n,,n=ann,r=abc"}
    assert (await client.ask(start))["done"] is False
    await client.closes()


async def test_login_that_was_welcomed_has_no_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mongodb_listener, "LOGIN_GRACE", 0.3)
    fronts = Fronts()
    port = Port(fronts)
    client = port.connect()
    await log_in(client)
    await asyncio.sleep(0.5)
    assert not client.is_closed
    await port.logins.stop(0.0)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (Unavailable("the target does not answer"), 96, "the target does not answer"),
        (Denied("no"), 13, "no"),
        (TooMany("later"), 96, "later"),
        (TargetRefused("Authentication failed.", "28000/18"), 96, "the target did not accept the gateway's own login"),
        (TargetRefused("not primary", "NotWritablePrimary/10107"), 10107, "not primary"),
        (TargetRefused("not primary", "strange"), 96, "not primary"),
    ],
)
async def test_errors_behind_the_proof_reach_the_client(error: PosternError, code: int, said: str) -> None:
    with pytest.raises(TargetRefused, match=said) as refused:
        await log_in(Port(Fronts(failure=error)).connect())
    assert refused.value.code.endswith(f"/{code}")


@pytest.mark.parametrize("old", [True, False])
async def test_rejected_client_is_told_why_in_place_of_the_reply(old: bool) -> None:
    gate = Port(Fronts()).gate
    stream = StreamHandshake()
    line = Line(stream)
    stream.data_received(mongo.query({"isMaster": 1}) if old else HELLO)
    await gate.reject(stream, TooMany("the gateway accepts no more clients now"))
    assert mongo.parse(line.take()) == (
        1,
        {
            "ok": 0.0,
            "errmsg": "the gateway accepts no more clients now",
            "code": 96,
            "codeName": "OperationFailed",
        },
    )


async def test_session_knows_its_client() -> None:
    fronts = Fronts()
    port = Port(fronts)
    client = port.connect()
    about = {"application": {"name": "orders"}, "driver": {"name": "nodejs", "version": "6.20"}}
    await client.ask({"hello": 1, "loadBalanced": True, "client": about})
    await log_in(client)
    session = fronts.clients[0]
    assert session.metadata == {"client_address": "10.0.0.1", "client_tls": "no", "application_name": "orders"}
    permit = cast(Any, SimpleNamespace(principal=somebody()))
    assert session.start(permit).parameters == {"application": "orders", "load_balanced": "yes"}
    assert session.start(permit).database is None
    with pytest.raises(Denied, match="not 'mongodb'"):
        session.fits(cast(Any, SimpleNamespace(name="shop", subtype="tcp")))
    session.check()
    client.send({"find": "customers"})
    with pytest.raises(ProtocolViolation):
        session.check()
    await port.logins.stop(0.0)


def request(standing: Principal | PosternError | None = None) -> TunnelRequest:
    person = somebody()

    async def ask() -> Principal:
        if isinstance(standing, PosternError):
            raise standing
        return standing or person

    return TunnelRequest(person, "login:1", "orders", 0, ask)


async def test_tunnel_is_dialled_for_its_first_command_only() -> None:
    fronts, now = Fronts(), somebody("bob")
    port = Port(fronts, timeout=0.05)
    client = port.connect(request(now))
    for _ in range(3):
        assert (await client.ask({"hello": 1, "loadBalanced": True}))["ok"] == 1
    await asyncio.sleep(0.2)
    assert not fronts.requests
    command = mongo.command({"find": "customers"}, request=9)
    client.stream.data_received(command)
    await asyncio.sleep(0.05)
    assert fronts.requests[0].principal is now
    assert fronts.requests[0].since == 7
    assert client.stream.unread() == command
    assert not client.line.written
    fronts.clients[0].check()
    await port.logins.stop(0.0)


async def test_tunnel_that_begins_with_a_large_command_is_dialled() -> None:
    fronts = Fronts()
    port = Port(fronts)
    client = port.connect(request())
    command = mongo.command({"insert": "customers", "documents": [{"text": "x" * 200_000}]})
    client.stream.data_received(command[:1000])
    await asyncio.sleep(0.05)
    assert len(fronts.requests) == 1
    assert client.stream.unread() == command[:1000]
    await port.logins.stop(0.0)


@pytest.mark.parametrize("speculative", [True, False])
async def test_tunnel_client_with_a_credential_is_told_to_leave_it_out(speculative: bool) -> None:
    client = Port(Fronts()).connect(request())
    start = {"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": b"n,,n=ann,r=abc"}
    hello = await client.ask({"hello": 1, **({"speculativeAuthenticate": start} if speculative else {})})
    assert hello["ok"] == 1
    assert "speculativeAuthenticate" not in hello
    answer = await client.ask(start)
    assert answer["code"] == 18
    assert "leave the user name, the password and authMechanism out" in answer["errmsg"]
    await client.closes()


async def test_tunnel_whose_login_has_ended_is_denied() -> None:
    fronts = Fronts()
    client = Port(fronts).connect(request(Unauthenticated("your login has ended; log in again")))
    await client.ask({"hello": 1})
    assert await client.ask({"find": "customers"}) == {
        "ok": 0.0,
        "errmsg": "your login has ended; log in again",
        "code": 18,
        "codeName": "AuthenticationFailed",
    }
    await client.closes()
    assert not fronts.requests


async def test_tunnel_whose_target_fails_is_told_so_in_the_reply_to_its_first_command() -> None:
    client = Port(Fronts(failure=Unavailable("no such host"))).connect(request())
    await client.ask({"hello": 1})
    assert (await client.ask({"find": "customers"}))["errmsg"] == "no such host"


async def test_unacknowledged_write_is_never_answered() -> None:
    fronts = Fronts(failure=Unavailable("no such host"))
    client = Port(fronts).connect(request())
    client.send({"insert": "customers"}, flags=mongo.MORE_TO_COME)
    await client.closes()
    assert fronts.requests
    assert not client.line.written


async def test_tunnel_that_goes_while_it_waits_leaves_nothing_behind() -> None:
    port = Port(Fronts())
    client = port.connect(request())
    await client.ask({"hello": 1})
    assert port.gate._tunnels.taken == 1
    client.line.close()
    await asyncio.sleep(0.05)
    assert port.gate._tunnels.taken == 0


def test_version_that_is_not_known_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"'3\.6' is not one of 4\.4"):
        MongodbGate(cast(SessionSetup, Fronts()), version="3.6", decoy_secret=b"")


def test_messages_of_tests_are_bson() -> None:
    assert bson.decode(HELLO[21:]) == {"hello": 1, "$db": "admin"}
