"""The gateway's login at a target: against servers that are scripted, with scramp's SCRAM."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import bson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scramp import ScramMechanism
from tests.support.examples import examples
from tests.support.protocols import mongodb_login_test_messages as mongo
from tests.support.protocols.memory_handshake import MemoryHandshake, pair
from tests.support.protocols.playbook import CHUNKS

from postern.domain.secret import Secret
from postern.errors import PosternError, ProtocolViolation, Unavailable
from postern.protocols.gateway_queries import TargetRefused
from postern.protocols.mongodb.login.mongodb_target_login import (
    MongodbTargetConversation,
    MongodbTargetLogin,
    ServerDescription,
)

USER, PASSWORD = "ann=web,1", "größe\u00adx"
HELLO = {"ismaster": True, "maxWireVersion": 21, "minWireVersion": 0, "ok": 1.0}


@dataclass
class Server:
    """A server with one user. `change` may alter each reply before it is sent; `skips` says whether it knows
    skipEmptyExchange."""

    hello: Mapping[str, Any] = field(default_factory=dict)
    mechanism: str = "SCRAM-SHA-256"
    password: str = PASSWORD
    iterations: int = 4096
    skips: bool = True
    size: int = 0
    change: Callable[[str, dict[str, Any]], dict[str, Any]] = lambda name, document: document
    commands: list[dict[str, Any]] = field(default_factory=list)
    scram: Any = None  # instead of one of its own

    async def serve(self, stream: MemoryHandshake) -> None:
        scram = ScramMechanism("SCRAM-SHA-256" if self.mechanism == "PLAIN" else self.mechanism)
        password = self.password
        if self.mechanism == "SCRAM-SHA-1":
            password = hashlib.md5(f"{USER}:mongo:{password}".encode()).hexdigest()
        known = scram.make_auth_info(password, iteration_count=self.iterations)
        server = self.scram or scram.make_server(lambda user: known)
        number = 0
        while True:
            head = await stream.read(16)
            length, request, opcode = (int.from_bytes(head[at : at + 4], "little") for at in (0, 4, 12))
            body = await stream.read(length - 16)
            number += 1
            document = bson.decode(body[{mongo.OP_QUERY: 23, mongo.OP_MSG: 5}[opcode] :])
            self.commands.append(document)
            name = next(iter(document))
            answer = self.change(name, self._answer(server, name, document))
            make = mongo.answer if opcode == mongo.OP_QUERY else mongo.reply
            data = make(answer, request=number, to=request)
            for at in range(0, len(data), self.size or len(data)):
                stream.write(data[at : at + (self.size or len(data))])
                await asyncio.sleep(0)

    def _answer(self, server: Any, name: str, document: Mapping[str, Any]) -> dict[str, Any]:
        if name == "ismaster":
            return {**HELLO, **self.hello}
        if name == "buildInfo":
            return {"version": "7.0.5", "ok": 1.0}
        if name == "authenticate":
            return {"ok": 1.0}
        assert name in ("saslStart", "saslContinue")
        if self.mechanism == "PLAIN":
            return {"conversationId": 9, "done": True, "payload": b"", "ok": 1.0}
        done, payload = False, b""
        if name == "saslStart":
            assert document["mechanism"] == self.mechanism
            server.set_client_first(document["payload"].decode())
            payload = server.get_server_first().encode()
        elif document["payload"]:
            try:
                server.set_client_final(document["payload"].decode())
            except Exception:
                return {"ok": 0.0, "errmsg": "Authentication failed.", "code": 18, "codeName": "AuthenticationFailed"}
            payload, done = server.get_server_final().encode(), self.skips
        else:
            done = True
        return {"conversationId": 9, "done": done, "payload": payload, "ok": 1.0}


@dataclass(frozen=True)
class Result:
    server: ServerDescription
    parameters: Mapping[str, str]


async def log_in(server: Server, *, verified: bool = False, **options: Any) -> Result:
    ours, theirs = pair()
    login = MongodbTargetLogin(**{"user": USER, "password": Secret(PASSWORD), **options})
    served = asyncio.create_task(server.serve(theirs))
    try:
        async with asyncio.timeout(60):
            conversation = MongodbTargetConversation(ours)
            description = await conversation.hello(login)
            await conversation.authenticate(login, description, verified=verified)
            return Result(description, await conversation.read_parameters(description))
    finally:
        ours.close()
        await asyncio.wait({served}, timeout=60)
        if not served.cancelled() and (error := served.exception()) and not isinstance(error, ConnectionError):
            raise error


OFFERS_256 = {"saslSupportedMechs": ["SCRAM-SHA-1", "SCRAM-SHA-256"]}


@pytest.mark.parametrize("size", CHUNKS)
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-1"])
@pytest.mark.parametrize("skips", [True, False], ids=["no empty round", "empty round"])
async def test_login_by_scram_succeeds(size: int, mechanism: str, skips: bool) -> None:
    server = Server({"saslSupportedMechs": [mechanism]}, mechanism, size=size, skips=skips)
    result = await log_in(server, source="shop", application="orders " + "ö" * 100)
    assert result.parameters["version"] == "7.0.5"
    hello, start = server.commands[:2]
    assert hello["saslSupportedMechs"] == f"shop.{USER}"
    assert "compression" not in hello
    assert hello["client"]["driver"]["name"] == "postern"
    name = hello["client"]["application"]["name"]
    assert name.startswith("orders ö")
    assert len(name.encode()) <= 128
    assert start["$db"] == "shop"
    assert start["options"] == {"skipEmptyExchange": True}


async def test_best_mechanism_is_chosen() -> None:
    assert (await log_in(Server(OFFERS_256))).server.mechanisms == ("SCRAM-SHA-1", "SCRAM-SHA-256")


async def test_server_that_tells_no_mechanism_is_logged_in_to_by_the_older_one() -> None:
    server = Server(mechanism="SCRAM-SHA-1")
    assert (await log_in(server)).server.mechanisms is None


async def test_given_mechanism_is_used_whatever_is_offered() -> None:
    server = Server({"saslSupportedMechs": ["SCRAM-SHA-1"]})
    await log_in(server, mechanism="SCRAM-SHA-256")
    assert "saslSupportedMechs" not in server.commands[0]


async def test_server_with_other_mechanisms_only_is_refused() -> None:
    with pytest.raises(Unavailable, match="no supported authentication mechanism: GSSAPI"):
        await log_in(Server({"saslSupportedMechs": ["GSSAPI"]}))


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-1"])
async def test_wrong_password_is_reported_as_a_refused_login(mechanism: str) -> None:
    with pytest.raises(TargetRefused, match="Authentication failed") as refused:
        await log_in(Server({"saslSupportedMechs": [mechanism]}, mechanism, password="other"))
    assert refused.value.refuses_login
    assert refused.value.code == "28000/18"


async def test_other_errors_keep_their_name_and_number() -> None:
    def fail(name: str, document: dict[str, Any]) -> dict[str, Any]:
        return {"ok": 0, "errmsg": "shutting down", "code": 91, "codeName": "ShutdownInProgress"}

    with pytest.raises(TargetRefused, match="shutting down") as refused:
        await log_in(Server(change=fail))
    assert refused.value.code == "ShutdownInProgress/91"
    assert not refused.value.refuses_login


def in_payload(command: str, old: bytes, new: bytes) -> Callable[[str, dict[str, Any]], dict[str, Any]]:
    """Replace a part of the payload of the reply to a command."""

    def change(name: str, document: dict[str, Any]) -> dict[str, Any]:
        if name == command and old in document.get("payload", b""):
            document["payload"] = document["payload"].replace(old, new)
        return document

    return change


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        (in_payload("saslContinue", b"v=", b"v=AAAA"), Unavailable, "impostor"),
        (in_payload("saslContinue", b"v=", b"e="), Unavailable, "impostor"),
        (in_payload("saslStart", b"r=", b"r=x"), Unavailable, "impostor"),
        (in_payload("saslStart", b",s=", b",s=?"), Unavailable, "impostor"),
        (in_payload("saslStart", b"i=4096", b"i=4095"), Unavailable, "at least 4096 are required"),
        (in_payload("saslStart", b"i=4096", b"i=1"), Unavailable, "at least 4096 are required"),
        (in_payload("saslStart", b"i=4096", b"i=0"), Unavailable, "at least 4096 are required"),
        (in_payload("saslStart", b"i=4096", b"i=1000001"), ProtocolViolation, "too many SCRAM iterations"),
        (in_payload("saslStart", b"i=4096", b"i=" + b"9" * 5000), Unavailable, "impostor"),
        (in_payload("saslStart", b"i=4096", b"i=-1"), Unavailable, "impostor"),
    ],
)
async def test_hostile_scram_of_a_target_is_refused(
    change: Callable[[str, dict[str, Any]], dict[str, Any]], error: type[PosternError], said: str
) -> None:
    with pytest.raises(error, match=said):
        await log_in(Server(OFFERS_256, change=change))


async def test_replayed_challenge_of_another_login_is_refused() -> None:
    first: list[bytes] = []

    def change(name: str, document: dict[str, Any]) -> dict[str, Any]:
        if name == "saslStart":
            first.append(document["payload"])
            document["payload"] = first[0]
        return document

    await log_in(Server(OFFERS_256, change=change))
    with pytest.raises(Unavailable, match="impostor"):
        await log_in(Server(OFFERS_256, change=change))


async def test_target_that_skips_its_signature_is_refused() -> None:
    """Who does not know the password cannot sign, and says that the login is done."""

    def change(name: str, document: dict[str, Any]) -> dict[str, Any]:
        return {"conversationId": 9, "done": True, "payload": b"", "ok": 1} if name == "saslContinue" else document

    with pytest.raises(Unavailable, match="impostor"):
        await log_in(Server(OFFERS_256, change=change))


async def test_login_without_an_end_is_refused() -> None:
    def change(name: str, document: dict[str, Any]) -> dict[str, Any]:
        return {**document, "done": False} if name == "saslContinue" else document

    with pytest.raises(ProtocolViolation, match="did not end the login"):
        await log_in(Server(OFFERS_256, change=change))


async def test_keys_of_a_login_are_derived_once() -> None:
    login = MongodbTargetLogin(USER, Secret(PASSWORD))
    scram = ScramMechanism("SCRAM-SHA-256")
    known = scram.make_auth_info(PASSWORD, iteration_count=4096)
    work = []
    for _ in range(2):
        ours, theirs = pair()
        server = Server(OFFERS_256)
        server.scram = scram.make_server(lambda user: known)
        served = asyncio.create_task(server.serve(theirs))
        conversation = MongodbTargetConversation(ours)
        await conversation.authenticate(login, await conversation.hello(login), verified=False)
        work.append(ours.offloaded)
        served.cancel()
    assert work == [1, 0]


async def test_password_is_sent_to_a_verified_server_only() -> None:
    server = Server()
    with pytest.raises(Unavailable, match="set SSLMODE to verify-full"):
        await log_in(server, mechanism="PLAIN", source="$external")
    assert [next(iter(command)) for command in server.commands] == ["ismaster"]


async def test_login_by_plain_sends_user_and_password() -> None:
    server = Server(mechanism="PLAIN")
    await log_in(server, verified=True, mechanism="PLAIN", source="$external")
    assert server.commands[1]["payload"] == f"\0{USER}\0{PASSWORD}".encode()
    assert server.commands[1]["$db"] == "$external"


async def test_login_by_certificate_names_the_user_if_there_is_one() -> None:
    for user in ("CN=app", ""):
        server = Server()
        await log_in(server, mechanism="MONGODB-X509", user=user, source="$external")
        more = {"user": user} if user else {}
        assert server.commands[1] == {"authenticate": 1, "mechanism": "MONGODB-X509", **more, "$db": "$external"}


async def test_target_without_users_needs_no_login() -> None:
    server = Server()
    await log_in(server, user="")
    assert [next(iter(command)) for command in server.commands] == ["ismaster", "buildInfo"]


@pytest.mark.parametrize(
    ("hello", "kind"),
    [
        ({}, "standalone"),
        ({"setName": "rs0"}, "replica_set"),
        ({"isreplicaset": True}, "replica_set"),
        ({"msg": "isdbgrid"}, "mongos"),
    ],
)
async def test_parameters_tell_what_the_target_is(hello: Mapping[str, Any], kind: str) -> None:
    more = {"maxWriteBatchSize": 1000, "logicalSessionTimeoutMinutes": 30, "maxBsonObjectSize": 7}
    parameters = (await log_in(Server({**hello, **more}), user="")).parameters
    assert parameters == {
        "kind": kind,
        "min_wire_version": "0",
        "max_wire_version": "21",
        "max_document": "7",
        "max_message": "48000000",
        "max_write_batch": "1000",
        "logical_session_timeout": "30",
        "version": "7.0.5",
    }


async def test_server_that_is_too_old_is_refused() -> None:
    with pytest.raises(Unavailable, match=r"upgrade it to MongoDB 3\.6"):
        await log_in(Server({"maxWireVersion": 5}))


async def test_version_that_is_not_told_is_empty() -> None:
    def change(name: str, document: dict[str, Any]) -> dict[str, Any]:
        return {"ok": 0, "errmsg": "no", "code": 13} if name == "buildInfo" else document

    assert (await log_in(Server(change=change), user="")).parameters["version"] == ""


async def test_bytes_behind_the_login_are_refused() -> None:
    ours, theirs = pair()
    login = MongodbTargetLogin("", Secret(""))
    theirs.write(mongo.answer(HELLO, to=1) + mongo.reply({"ok": 1}, to=2) + mongo.reply({"ok": 1}, to=3))
    conversation = MongodbTargetConversation(ours)
    with pytest.raises(ProtocolViolation, match="behind the replies"):
        await conversation.read_parameters(await conversation.hello(login))


@given(st.binary(max_size=200))
@settings(max_examples=examples(200), deadline=None)
def test_arbitrary_bytes_of_a_target_are_an_error(data: bytes) -> None:
    async def meet() -> None:
        ours, theirs = pair()
        theirs.write(data)
        theirs.close()
        await MongodbTargetConversation(ours).hello(MongodbTargetLogin(USER, Secret(PASSWORD)))

    with pytest.raises((PosternError, ConnectionError)):
        asyncio.run(meet())
