"""MongoDB sessions with a pipelining client, with a target that requires TLS, on PostgreSQL's store, and through a
remote agent."""

from __future__ import annotations

import json
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import bson
import psycopg
import pytest
from pymongo.errors import OperationFailure, PyMongoError
from tests.e2e.test_access_rules import tunnelled
from tests.support.agents import AgentProcess, enrolled
from tests.support.certificates import Issued as Certificate
from tests.support.certificates import issue
from tests.support.gateway import Gateway
from tests.support.mongodb import PASSWORD, USER, MongoServer, running_mongodb
from tests.support.mongodb_clients import DATABASE, MongoClient, connect, mongodb_connection
from tests.support.postgres import PostgresServer
from tests.support.promises import PATIENT
from tests.support.protocols import mongodb_test_messages as mg
from tests.support.running import started

from postern.domain.identity.credential import Issued
from postern.domain.rules.guardrail import Rule, RuleType
from postern.interception.events import ClientOutput
from postern.protocols.mongodb.wire import mongodb_messages as m

MAIL = "ada.lovelace@example.org"


def documents(**fields: Any) -> dict[str, Any]:
    """An aggregation that shows a document."""
    return {"aggregate": 1, "pipeline": [{"$documents": [fields]}], "cursor": {}}


# A client that sends requests without waiting for replies


@pytest.fixture(scope="module")
def judged(gateway: Gateway, mongo: MongoServer) -> str:
    """The name of a connection with rules and with masking."""
    name = "mongo-raw"
    connection = mongodb_connection(gateway, name, mongo, redact_enabled=True, redact_types=("EMAIL_ADDRESS",))
    rules = (Rule(RuleType.PATTERN_MATCH, (), "forbidden", "denied"), Rule(RuleType.REQUIRE_WHERE, name="where"))
    fields = {"name": name, "input": rules, "connection_ids": (str(connection.id),)}
    gateway.call(gateway.services.guardrails.create(gateway.admin, fields))
    return name


@pytest.fixture
def raw(gateway: Gateway, judged: str) -> Iterator[socket.socket]:
    """A connection behind a tunnel, which needs no login."""
    with (
        tunnelled(gateway, gateway.admin, judged, protocol="mongodb") as (port, _),
        socket.create_connection(("127.0.0.1", port), timeout=PATIENT) as stream,
    ):
        yield stream
    gateway.all_closed(connection=judged)


def receive(stream: socket.socket, count: int) -> list[tuple[int, dict[str, Any]]]:
    """The next replies: to which request, and the document."""
    found = []
    for _ in range(count):
        head = read(stream, m.HEAD)
        data = head + read(stream, int.from_bytes(head[:4], "little") - m.HEAD)
        found.append((int.from_bytes(data[8:12], "little"), mg.bodies(data)[0]))
    return found


def read(stream: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = stream.recv(size - len(data))
        assert piece, "the connection was closed"
        data += piece
    return data


def is_closed(stream: socket.socket) -> bool:
    """Whether the other side closes it, after whatever else it sends."""
    try:
        while stream.recv(65_536):
            pass
    except ConnectionError:
        pass
    return True


def test_pipelined_commands_are_judged_and_answered_in_order(raw: socket.socket) -> None:
    commands: list[bytes] = []
    for number in range(1, 61):
        match number % 4:
            case 0:
                commands.append(mg.command("find", "forbidden", number))
            case 1:
                commands.append(mg.request({**documents(n=number, mail=MAIL), "$db": DATABASE}, number))
            case 2:
                commands.append(mg.command("hello", 1, number, db="admin"))
            case _:
                commands.append(mg.command("ping", 1, number))
    raw.sendall(b"".join(commands))
    replies = receive(raw, 60)
    assert [to for to, _ in replies] == list(range(1, 61))
    for number, reply in replies:
        match number % 4:
            case 0:
                assert (reply["ok"], reply["code"]) == (0, 13)
            case 1:
                assert reply["cursor"]["firstBatch"] == [{"n": number, "mail": "****@****"}]
            case 2:
                assert reply["msg"] == "isdbgrid"
            case _:
                assert reply["ok"] == 1


def test_command_cut_into_single_bytes_is_answered(raw: socket.socket) -> None:
    for byte in mg.request({**documents(mail=MAIL), "$db": DATABASE}, 7):
        raw.sendall(bytes([byte]))
    assert receive(raw, 1)[0][1]["cursor"]["firstBatch"] == [{"mail": "****@****"}]


FORGED: dict[str, bytes] = {
    "two names": mg.request(mg.pairs(("ping", 1), ("find", "t"), ("ping", 1), ("$db", "shop")), 5),
    "two databases": mg.request(mg.pairs(("ping", 1), ("$db", "shop"), ("$db", "admin")), 5),
    "no database": mg.request({"ping": 1}, 5),
    "a login": mg.command("saslStart", 1, 5, mechanism="SCRAM-SHA-256", payload=b"n,,n=app,r=x", db="admin"),
    "a logout": mg.command("logout", 1, 5, db="admin"),
    "an origin of its own": mg.command(
        "getMore", bson.Int64(5), 5, collection="people", originatingCommand={"find": "harmless"}
    ),
    "documents twice": mg.request(
        {"delete": "t", "deletes": [{"q": {"a": 1}, "limit": 0}], "$db": "shop"},
        5,
        sections=mg.sequence("deletes", {"q": {}, "limit": 0}),
    ),
    "an empty filter among others": mg.request(
        {"delete": "t", "$db": "shop"},
        5,
        sections=mg.sequence("deletes", {"q": {"a": 1}, "limit": 0}, {"q": {}, "limit": 0}),
    ),
    "a repeated filter": mg.request({"delete": "t", "$db": "shop"}, 5, sections=mg.sequence(
        "deletes", mg.pairs(("q", {"a": 1}), ("q", {}), ("limit", 0))
    )),
}  # fmt: skip


@pytest.mark.parametrize("message", FORGED.values(), ids=FORGED.keys())
def test_attack_ambiguous_command_is_denied_and_the_connection_continues(
    raw: socket.socket, mongo: MongoServer, message: bytes
) -> None:
    with mongo.client() as direct:
        direct[DATABASE].t.drop()
        direct[DATABASE].t.insert_one({"_id": 1})
        raw.sendall(mg.command("ping", 1, 4) + message + mg.command("ping", 1, 6))
        (_, _), (first, denied), (second, reply) = receive(raw, 3)
        assert (first, denied["ok"], second, reply["ok"]) == (5, 0, 6, 1)
        assert direct[DATABASE].t.count_documents({}) == 1


BROKEN: dict[str, bytes] = {
    "compressed": mg.raw_message(b"\xdd\x07\0\0" + bytes(9), kind=m.OP_COMPRESSED),
    "an old query": mg.raw_message(bytes(4) + b"shop.$cmd\0" + bytes(8) + bson.encode({"ping": 1}), kind=m.OP_QUERY),
    "a huge length": b"\xff\xff\xff\x7f" + bytes(12),
    "a negative length": b"\xff\xff\xff\xff" + bytes(12),
    "an unknown section": mg.raw_message(bytes(4) + b"\2" + bson.encode({"ping": 1})),
    "two bodies": mg.raw_message(bytes(4) + (b"\0" + bson.encode({"ping": 1, "$db": "shop"})) * 2),
    "a length that leaves the document": mg.raw_message(bytes(4) + b"\0\xff\xff\0\0" + bytes(20)),
}


@pytest.mark.parametrize("message", BROKEN.values(), ids=BROKEN.keys())
def test_attack_broken_message_ends_the_session_and_not_the_worker(
    gateway: Gateway, raw: socket.socket, message: bytes
) -> None:
    raw.sendall(mg.command("ping", 1, 1))
    receive(raw, 1)
    session = gateway.newest("mongo-raw")
    raw.sendall(message)
    assert is_closed(raw)
    assert gateway.finished(session.id).metadata["end_reason"] == "protocol_violation"
    assert gateway.worker.resident()


# A target that wants TLS


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    return issue("localhost")


@pytest.fixture(scope="module")
def encrypted(certificate: Certificate) -> Iterator[MongoServer]:
    with running_mongodb(certificate=certificate) as server:
        yield server


def test_tls_certificate_of_the_target_is_verified(
    gateway: Gateway, encrypted: MongoServer, certificate: Certificate
) -> None:
    full = {"HOST": "localhost", "SSLMODE": "verify-full", "SSLROOTCERT": certificate.authority}
    mongodb_connection(gateway, "mongo-verified", encrypted, secret=full)
    with connect(gateway, gateway.credential("mongo-verified")) as client:
        assert client.admin.command("ping")["ok"] == 1
    mongodb_connection(
        gateway, "mongo-other-ca", encrypted, secret={**full, "SSLROOTCERT": issue("localhost").authority}
    )
    with (
        connect(gateway, gateway.credential("mongo-other-ca")) as client,
        pytest.raises(OperationFailure, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        client.admin.command("ping")


# On PostgreSQL's store


def test_session_and_script_work_with_a_postgres_store(
    target: PostgresServer, direct: psycopg.Connection, mongo: MongoServer
) -> None:
    direct.execute("drop database if exists mongo_store with (force)")
    direct.execute("create database mongo_store")
    gateway = Gateway(store=target.dsn("mongo_store", scheme="postgresql+asyncpg"))
    try:
        gateway.start()
        connection = mongodb_connection(gateway, "orders", mongo, redact_enabled=True)
        gateway.guardrail("no-drop", connection, deny=r'\{"drop"')
        # No text of PostgreSQL's holds a NUL, and what a client says may.
        with connect(gateway, gateway.credential("orders"), appname="größe") as client:
            assert MAIL not in str(client[DATABASE].command(documents(mail=MAIL, text="grüße\0")))
            with pytest.raises(OperationFailure, match="blocked by guardrail"):
                client[DATABASE].command("drop", "a", comment="a\0b")
        session = gateway.newest_finished("orders")
        assert session.metadata["application_name"] == "größe"
        assert session.metrics["refused"] == 1
        assert "grüße" in gateway.text(session.id)
        shown = b"".join(event.data for event in gateway.records(session.id) if isinstance(event, ClientOutput))
        assert MAIL.encode() not in shown
        script = "db.stored.deleteMany({_id: 1}); db.stored.insertOne({_id: 1, a: '\\0'}); db.stored.find()"
        submitted = gateway.call(gateway.services.sessions.submit(gateway.admin, "orders", script, source="127.0.0.1"))
        assert gateway.finished(submitted.id).exit_code == 0
    finally:
        gateway.stop()


# Through an agent elsewhere, and watched


@pytest.mark.slow
def test_session_through_a_remote_agent_is_watched_and_ends_with_the_agent(mongo: MongoServer) -> None:
    with started("--no-demo", again=True) as gateway:
        agent = AgentProcess(enrolled(gateway, "edge"), gateway.folder)
        agent.until_it_serves()
        secrets = {"HOST": "127.0.0.1", "PORT": str(mongo.port), "USER": USER, "PASS": PASSWORD, "DB": DATABASE,
                   "SSLMODE": "disable"}  # fmt: skip
        given = [part for key, value in secrets.items() for part in ("--env", f"{key}={value}")]
        made = gateway.run("connections", "create", "far", "--subtype", "mongodb", "--agent", "edge", *given,
                           "--redact", "EMAIL_ADDRESS")  # fmt: skip
        assert made.returncode == 0, made.stderr
        line = gateway.run("connect", "far", "--native")
        assert line.returncode == 0, line.stderr
        with MongoClient(native(line.stdout)) as client:
            assert MAIL not in str(client[DATABASE].command(documents(mail=MAIL)))
            [session] = gateway.sessions("--connection", "far", "--status", "open")
            watching = subprocess.Popen(
                [sys.executable, "-m", "postern", "sessions", "watch", session["id"]],
                env=gateway.environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            client[DATABASE].command(documents(text="seen by who watches"))
        seen, _ = watching.communicate(timeout=60)
        assert seen.count(b"seen by who watches") >= 2  # the command and its document
        assert b'"firstBatch": [{"mail": "ada' not in seen
        assert json.loads(gateway.run("connections", "test", "far", "--json").stdout) == {"success": True}
        script = f"db.aggregate([{{$documents: [{{mail: {{$concat: ['{MAIL[:5]}', '{MAIL[5:]}']}}}}]}}])"
        done = gateway.run("exec", "far", "-i", script, "--format", "csv")
        assert done.returncode == 0, done.stderr
        assert "****@****" in done.stdout
        again = MongoClient(native(gateway.run("connect", "far", "--native").stdout), retryReads=False)
        with again as client:
            client.admin.command("ping")
            agent.stop(signal.SIGKILL)
            with pytest.raises(PyMongoError):
                client.admin.command("ping")


def native(line: str) -> str:
    """The connection string in the line that `postern connect --native` prints."""
    return next(word for word in shlex.split(line) if re.match("mongodb:", word))


def test_credential_of_a_running_client_is_not_shown_to_the_target(gateway: Gateway, orders: Issued) -> None:
    """The target sees the login of the connection, and neither the gateway's user name nor its password."""
    with connect(gateway, orders) as client:
        status = client.admin.command("connectionStatus")
    assert [user["user"] for user in status["authInfo"]["authenticatedUsers"]] == [USER]
    assert orders.credential.username not in str(status)
