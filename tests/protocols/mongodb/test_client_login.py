"""Clients' logins at the gateway, with a client that is not ours: scramp's SCRAM and hand-written messages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scramp import ScramClient, ScramException
from tests.support.examples import examples
from tests.support.protocols import mongodb_login_test_messages as mongo
from tests.support.protocols.memory_handshake import MemoryHandshake, pair
from tests.support.protocols.playbook import CHUNKS

from postern.domain.secret import Secret
from postern.errors import Denied, PosternError, ProtocolViolation, Unauthenticated
from postern.protocols.mongodb.login.mongodb_client_login import MAX_REJECTED, ClientMetadata, MongodbClientLogin
from postern.protocols.mongodb.login.mongodb_hello import SERVICE_ID, HelloFacts
from postern.protocols.verifiers import decoy
from postern.services.identity.credentials import make_verifier

USER, PASSWORD = "ann=web,1", "correct horse"
VERIFIER = make_verifier(Secret(PASSWORD))
FACTS = HelloFacts.of_version("7.0").with_connection(7)


@dataclass
class Gateway:
    """The gateway, up to the moment when the client has authenticated."""

    require_tls: bool = False
    users: Mapping[str, Any] = field(default_factory=lambda: {USER: VERIFIER})
    error: PosternError | None = None
    login: MongodbClientLogin | None = None
    reached: asyncio.Event = field(default_factory=asyncio.Event)  # the target

    async def serve(self, stream: MemoryHandshake) -> None:
        login = self.login = MongodbClientLogin(stream, FACTS)
        try:
            await login.encrypt(require_tls=self.require_tls)
            attempt = None
            while attempt is None:
                attempt = await login.answer_next()
            await login.authenticate(attempt, self.users.get(attempt.user) or decoy(attempt.user, b"secret"))
            await self.reached.wait()
            login.welcome()
        except PosternError as error:
            self.error = error
            login.turn_away(18, "AuthenticationFailed", error.message)
            stream.close()


class Client:
    """The client's end. `size`: how its messages are cut."""

    def __init__(self, stream: MemoryHandshake, size: int = 0) -> None:
        self.stream = stream
        self._size = size
        self._requests = 0

    async def send(self, data: bytes) -> None:
        step = self._size or max(1, len(data))
        for at in range(0, len(data), step):
            self.stream.write(data[at : at + step])
            await asyncio.sleep(0)

    async def receive(self) -> dict[str, Any]:
        head = await self.stream.read(4)
        data = head + await self.stream.read(int.from_bytes(head, "little") - 4)
        to, document = mongo.parse(data)
        assert to == self._requests
        return document

    async def ask(self, document: Mapping[str, Any], *, old: bool = False, database: str = "shop") -> dict[str, Any]:
        self._requests += 1
        make = mongo.query if old else mongo.command
        more: dict[str, Any] = {} if old else {"database": database}
        await self.send(make(document, request=self._requests, **more))
        return await self.receive()


Converse = Callable[[Client], Awaitable[Any]]


async def meet(gateway: Gateway, converse: Converse, *, size: int = 0, tls: bool = False) -> Any:
    """Run both ends, and return what the client got."""
    ours, theirs = pair(tls=tls)
    served = asyncio.create_task(gateway.serve(ours))
    try:
        return await asyncio.wait_for(converse(Client(theirs, size)), 60)
    finally:
        theirs.close()
        if not gateway.reached.is_set():
            served.cancel()
        await asyncio.wait({served}, timeout=60)


def sasl_start(scram: ScramClient, *, skips: bool = True) -> dict[str, Any]:
    options = {"options": {"skipEmptyExchange": True}} if skips else {}
    return {"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": scram.get_client_first().encode(), **options}


def scram_of(user: str = USER, password: str = PASSWORD) -> ScramClient:
    return ScramClient(["SCRAM-SHA-256"], user, password)


async def finish(client: Client, scram: ScramClient, challenge: Mapping[str, Any], *, skips: bool = True) -> None:
    """From the challenge on, until the login has ended."""
    assert challenge["done"] is False
    assert challenge["conversationId"] == 1
    scram.set_server_first(challenge["payload"].decode())
    proof = {"saslContinue": 1, "conversationId": 1, "payload": scram.get_client_final().encode()}
    answer = await client.ask(proof)
    assert answer.get("ok") == 1, answer
    scram.set_server_final(answer["payload"].decode())
    assert answer["done"] is skips
    if not skips:
        assert await client.ask({"saslContinue": 1, "conversationId": 1, "payload": b""}) == {
            "conversationId": 1,
            "done": True,
            "payload": b"",
            "ok": 1.0,
        }


def reached(**options: Any) -> Gateway:
    gateway = Gateway(**options)
    gateway.reached.set()
    return gateway


@pytest.mark.parametrize("size", CHUNKS)
@pytest.mark.parametrize("old", [True, False], ids=["OP_QUERY", "OP_MSG"])
@pytest.mark.parametrize("skips", [True, False], ids=["no empty round", "empty round"])
async def test_client_logs_in_after_its_hello(size: int, old: bool, skips: bool) -> None:
    async def converse(client: Client) -> None:
        hello = await client.ask({"isMaster": 1, "saslSupportedMechs": f"shop.{USER}"}, old=old)
        assert hello["saslSupportedMechs"] == ["SCRAM-SHA-256"]
        assert "speculativeAuthenticate" not in hello
        scram = scram_of()
        await finish(client, scram, await client.ask(sasl_start(scram, skips=skips)), skips=skips)

    gateway = reached()
    await meet(gateway, converse, size=size)
    assert gateway.error is None


@pytest.mark.parametrize("size", CHUNKS)
@pytest.mark.parametrize("old", [True, False], ids=["OP_QUERY", "OP_MSG"])
async def test_client_logs_in_with_its_hello(size: int, old: bool) -> None:
    async def converse(client: Client) -> None:
        scram = scram_of()
        start = {**sasl_start(scram), "db": "any"}
        hello = await client.ask({"hello": 1, "helloOk": True, "speculativeAuthenticate": start}, old=old)
        assert hello["maxWireVersion"] == 21
        assert "ok" not in hello["speculativeAuthenticate"]
        await finish(client, scram, hello["speculativeAuthenticate"])

    gateway = reached()
    await meet(gateway, converse, size=size)
    assert gateway.error is None


async def test_last_reply_waits_until_the_target_is_reached() -> None:
    gateway = Gateway()

    async def converse(client: Client) -> None:
        scram = scram_of()
        challenge = await client.ask(sasl_start(scram))
        finishing = asyncio.create_task(finish(client, scram, challenge))
        for _ in range(50):
            await asyncio.sleep(0)
        assert not client.stream.buffered
        assert not finishing.done()
        gateway.reached.set()
        await finishing

    await meet(gateway, converse)


async def test_error_before_the_target_is_reached_takes_the_place_of_the_last_reply() -> None:
    gateway = Gateway()

    async def converse(client: Client) -> dict[str, Any]:
        scram = scram_of()
        scram.set_server_first((await client.ask(sasl_start(scram)))["payload"].decode())
        proof = {"saslContinue": 1, "conversationId": 1, "payload": scram.get_client_final().encode()}
        asking = asyncio.create_task(client.ask(proof))
        for _ in range(50):
            await asyncio.sleep(0)
        assert gateway.login is not None
        gateway.login.turn_away(96, "OperationFailed", "the target does not answer")
        return await asking

    assert await meet(gateway, converse) == {
        "ok": 0.0,
        "errmsg": "the target does not answer",
        "code": 96,
        "codeName": "OperationFailed",
    }


@pytest.mark.parametrize(
    ("user", "password"), [(USER, "wrong"), ("nobody", PASSWORD)], ids=["wrong password", "unknown user"]
)
async def test_wrong_password_and_unknown_user_are_told_the_same(user: str, password: str) -> None:
    async def converse(client: Client) -> None:
        scram = scram_of(user, password)
        with pytest.raises(AssertionError, match=r"'code': 18, 'codeName': 'AuthenticationFailed'"):
            await finish(client, scram, await client.ask(sasl_start(scram)))

    gateway = reached()
    await meet(gateway, converse)
    assert isinstance(gateway.error, Unauthenticated)
    assert gateway.error.message.startswith("the user name or password is wrong")


async def test_unknown_user_always_gets_the_same_salt() -> None:
    salts = set()

    async def converse(client: Client) -> None:
        scram = scram_of("nobody")
        challenge = (await client.ask(sasl_start(scram)))["payload"].decode()
        salts.add(challenge.split(",")[1])

    for _ in range(3):
        await meet(reached(), converse)
    assert len(salts) == 1


async def test_replayed_login_is_denied() -> None:
    said: list[bytes] = []

    async def converse(client: Client) -> None:
        send = client.send

        async def keep(data: bytes) -> None:
            said.append(data)
            await send(data)

        client.send = keep  # type: ignore[method-assign]
        scram = scram_of()
        await finish(client, scram, await client.ask(sasl_start(scram)))

    async def replay(client: Client) -> None:
        for data in said:
            await client.send(data)
        for at, _ in enumerate(said):
            client._requests = at + 1
            answer = await client.receive()
        assert answer["code"] == 18

    await meet(reached(), converse)
    gateway = reached()
    await meet(gateway, replay)
    assert isinstance(gateway.error, Unauthenticated)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-1", "PLAIN", "MONGODB-X509", "GSSAPI", 7])
async def test_other_mechanisms_are_denied_with_the_name_of_the_supported_one(mechanism: object) -> None:
    async def converse(client: Client) -> dict[str, Any]:
        speculative = {"saslStart": 1, "mechanism": mechanism, "payload": b"\0a\0b", "db": "admin"}
        hello = await client.ask({"hello": 1, "speculativeAuthenticate": speculative})
        assert "speculativeAuthenticate" not in hello
        return await client.ask({"saslStart": 1, "mechanism": mechanism, "payload": b"\0a\0b"})

    answer = await meet(reached(), converse)
    assert (answer["code"], answer["codeName"]) == (18, "AuthenticationFailed")
    assert "authMechanism=SCRAM-SHA-256" in answer["errmsg"]


async def test_login_by_certificate_is_denied_with_the_name_of_the_supported_mechanism() -> None:
    answer = await meet(reached(), lambda client: client.ask({"authenticate": 1, "mechanism": "MONGODB-X509"}))
    assert "authMechanism=SCRAM-SHA-256" in answer["errmsg"]


async def test_commands_before_the_login_are_rejected_and_bounded() -> None:
    async def converse(client: Client) -> list[dict[str, Any]]:
        assert await client.ask({"ping": 1}) == {"ok": 1.0}
        answers = [await client.ask({"find": "customers"}) for _ in range(MAX_REJECTED - 1)]
        await client.send(mongo.command({"find": "customers"}, request=client._requests + 1))
        with pytest.raises(ConnectionError):
            await client.stream.read(1 << 20)
        return answers

    gateway = reached()
    answers = await meet(gateway, converse)
    expected = {"ok": 0.0, "errmsg": "Command find requires authentication", "code": 13, "codeName": "Unauthorized"}
    assert answers == [expected] * (MAX_REJECTED - 1)
    assert isinstance(gateway.error, Unauthenticated)


async def test_hello_tells_a_mongos_without_hosts() -> None:
    async def converse(client: Client) -> tuple[dict[str, Any], dict[str, Any]]:
        older = await client.ask({"isMaster": 1, "helloOk": True, "compression": ["zlib"]}, old=True)
        return older, await client.ask({"hello": 1, "loadBalanced": True, "topologyVersion": {}})

    older, newer = await meet(reached(), converse)
    facts = {
        "msg": "isdbgrid",
        "maxBsonObjectSize": 16777216,
        "maxMessageSizeBytes": 48000000,
        "maxWriteBatchSize": 100000,
        "connectionId": 7,
        "minWireVersion": 0,
        "maxWireVersion": 21,
        "readOnly": False,
        "logicalSessionTimeoutMinutes": 30,
        "ok": 1.0,
    }
    assert older == {"ismaster": True, "helloOk": True, **facts}
    assert newer == {"isWritablePrimary": True, "serviceId": SERVICE_ID, **facts}


async def test_client_without_tls_is_told_that_it_is_required() -> None:
    gateway = reached(require_tls=True)
    answer = await meet(gateway, lambda client: client.ask({"isMaster": 1}, old=True))
    assert isinstance(gateway.error, Denied)
    assert "add tls=true to the connection string" in answer["errmsg"]


async def test_tls_begins_without_negotiation() -> None:
    async def converse(client: Client) -> None:
        client.stream.write(b"\x16\x03\x01")  # what is in it is the stream's
        for _ in range(10):
            await asyncio.sleep(0)
        assert client.stream.peer.encrypted
        client.stream.peer.take()
        await client.ask({"hello": 1, "client": {"application": {"name": "shop"}, "driver": {"name": "x"}}})

    gateway = reached(require_tls=True)
    await meet(gateway, converse, tls=True)
    assert gateway.login is not None
    assert gateway.login.metadata == ClientMetadata("shop", "x", encrypted=True)


async def test_tls_that_is_not_offered_ends_the_connection() -> None:
    async def converse(client: Client) -> None:
        client.stream.write(b"\x16\x03\x01\x02\0\x01\0\x01")
        with pytest.raises(ConnectionError):
            await client.stream.read(1)

    gateway = reached()
    await meet(gateway, converse)
    assert isinstance(gateway.error, ProtocolViolation)


@pytest.mark.parametrize("length", [0x16, 0x116, 0x316])
async def test_message_whose_length_looks_like_tls_is_read(length: int) -> None:
    """Only the three first bytes of a TLS record are distinct from a length."""
    base = len(mongo.command({"ping": 1, "comment": ""}))
    data = mongo.command({"ping": 1, "comment": "x" * max(0, length - base)})
    assert data[0] == 0x16 or length == 0x16

    async def converse(client: Client) -> None:
        client._requests = 1
        await client.send(data)
        assert await client.receive() == {"ok": 1.0}

    await meet(reached(), converse, tls=True)


@pytest.mark.parametrize(
    "metadata",
    [7, {"application": 7}, {"application": {"name": 7}}, {"driver": {"name": "a\0b" * 200}}, {"application": []}],
)
async def test_metadata_of_any_type_is_accepted(metadata: object) -> None:
    gateway = reached()
    await meet(gateway, lambda client: client.ask({"hello": 1, "client": metadata}))
    assert gateway.error is None
    assert gateway.login is not None
    assert "\0" not in gateway.login.metadata.driver
    assert len(gateway.login.metadata.driver) <= 200


def nested(levels: int) -> bytes:
    inner = b"\x05\0\0\0\0"
    for _ in range(levels):
        inner = (len(inner) + 8).to_bytes(4, "little") + b"\x03a\0" + inner + b"\0"
    return inner


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0\0\0\0",
        b"\0\0\0\0\0",
        b"\0\0\0\0\0\xff\xff\xff\x7f\0",
        b"\0\0\0\0\0\xff\xff\xff\xff\0",
        b"\0\0\0\0\x02\x05\0\0\0\0",
        b"\0\0\0\0\0\x05\0\0\0\0\0\x05\0\0\0\0",
        b"\0\0\0\0\x01\x05\0\0\0\0",
        b"\0\0\0\0\0\x10\0\0\0\x02a\0\x04\0\0\0\xff\xff\xff\0\0",
        b"\0\0\0\0\0" + nested(6000),
        b"\x04\0\0\0\0\x05\0\0\0\0",
    ],
)
async def test_message_that_cannot_be_read_ends_the_connection(body: bytes) -> None:
    async def converse(client: Client) -> None:
        await client.send(mongo.message(body))
        with pytest.raises(ConnectionError):
            await client.stream.read(1)

    gateway = reached()
    await meet(gateway, converse)
    assert isinstance(gateway.error, ProtocolViolation)


@given(st.binary(max_size=200))
@settings(max_examples=examples(200), deadline=None)
def test_arbitrary_bytes_never_log_in(data: bytes) -> None:
    async def converse(client: Client) -> None:
        await client.send(data)
        await client.send(mongo.header(1))

    gateway = reached()
    asyncio.run(meet(gateway, converse))
    assert gateway.error is None or isinstance(gateway.error, ProtocolViolation | Unauthenticated | Denied)


async def test_client_notices_a_gateway_that_does_not_know_its_verifier() -> None:
    """The signature proves that the gateway has the credential's verifier."""
    other = make_verifier(Secret(PASSWORD))

    async def converse(client: Client) -> None:
        scram = scram_of()
        challenge = await client.ask(sasl_start(scram))
        scram.set_server_first(challenge["payload"].decode())
        with pytest.raises(ScramException):
            scram.set_server_final("v=" + other.server_key.hex())

    await meet(reached(), converse)
