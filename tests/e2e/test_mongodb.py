"""Unmodified MongoDB clients, through the gateway, to a real server: they get the server's own replies."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import bson
import gridfs
import pymongo
import pytest
from pymongo.errors import (
    AutoReconnect,
    BulkWriteError,
    ConnectionFailure,
    DocumentTooLarge,
    DuplicateKeyError,
    OperationFailure,
    PyMongoError,
)
from tests.support.clients import clean_environment
from tests.support.gateway import Gateway
from tests.support.mongodb import MongoServer, mongosh, running_mongodb
from tests.support.mongodb_clients import DATABASE, MongoClient, connect, mongodb_connection, uri
from tests.support.postgres import free_port
from tests.support.promises import wait_until

from postern.domain.identity.credential import Issued
from postern.protocols.clients import NativeCredential
from postern.protocols.mongodb.mongodb_client import mongosh_line
from postern.wiring import tls

NETWORK = (AutoReconnect, ConnectionFailure)


@pytest.fixture(params=[False, True], ids=["balanced", "monitors"])
def monitors(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def client(gateway: Gateway, orders: Issued) -> Iterator[MongoClient]:
    with connect(gateway, orders) as connected:
        yield connected


@pytest.fixture
def direct(mongo: MongoServer) -> Iterator[MongoClient]:
    with mongo.client() as connected:
        yield connected


def refused(work: Callable[[], Any]) -> OperationFailure:
    with pytest.raises(OperationFailure) as caught:
        work()
    return caught.value


# Clients


def test_pymongo_runs_commands_and_gets_the_servers_errors(
    gateway: Gateway, orders: Issued, direct: MongoClient, monitors: bool
) -> None:
    with connect(gateway, orders, monitors=monitors) as client:
        people = client[DATABASE].basic
        people.drop()
        document = {"_id": 1, "name": "grüße 🦊", "n": bson.Int64(1 << 40), "at": [{"x": 1.5}, None], "b": b"\0\xff"}
        assert people.insert_one(document).inserted_id == 1
        assert people.find_one() == direct[DATABASE].basic.find_one() == document
        assert people.update_many({"_id": 1}, {"$set": {"n": 2}}).modified_count == 1
        assert people.find_one_and_update({"_id": 1}, {"$inc": {"n": 1}}) == {**document, "n": 2}
        assert people.count_documents({}) == people.estimated_document_count() == 1
        assert people.distinct("name") == direct[DATABASE].basic.distinct("name") == ["grüße 🦊"]
        assert list(people.aggregate([{"$group": {"_id": "$name", "n": {"$sum": 1}}}])) == [{"_id": "grüße 🦊", "n": 1}]
        people.create_index("name", unique=True)
        assert {index["name"] for index in people.list_indexes()} == {"_id_", "name_1"}
        with pytest.raises(DuplicateKeyError):
            people.insert_one({"_id": 1})
        assert refused(lambda: client.admin.command("noSuchThing")).code == 59
        with pytest.raises(BulkWriteError) as caught:
            people.bulk_write(
                [pymongo.InsertOne({"_id": 2, "name": "b"}), pymongo.InsertOne({"_id": 2}), pymongo.DeleteOne({})],
                ordered=False,
            )
        assert (caught.value.details["nInserted"], caught.value.details["nRemoved"]) == (1, 1)
        assert "basic" in client[DATABASE].list_collection_names()
        assert DATABASE in client.list_database_names()
        assert client[DATABASE].command("explain", {"find": "basic"})["ok"] == 1
        assert client.server_info()["version"]


def test_async_pymongo_runs_commands(gateway: Gateway, orders: Issued) -> None:
    async def run() -> list[Any]:
        async with pymongo.AsyncMongoClient[dict[str, Any]](uri(gateway, orders)) as client:
            await client[DATABASE].by_async.drop()
            await client[DATABASE].by_async.insert_many([{"_id": n} for n in range(300)])
            return [each["_id"] async for each in client[DATABASE].by_async.find({}, batch_size=7)]

    assert gateway.call(run()) == list(range(300))


def test_client_sees_the_gateway_as_one_mongos(
    gateway: Gateway, orders: Issued, mongo: MongoServer, monitors: bool
) -> None:
    """No address of the target reaches the client."""
    with connect(gateway, orders, monitors=monitors) as client:
        for name in ("hello", "isMaster"):
            hello = client.admin.command(name)
            assert hello["msg"] == "isdbgrid"
            assert not {"hosts", "setName", "me", "primary"} & hello.keys()
            assert str(mongo.port) not in str(hello)
        kind = client.topology_description.topology_type_name
        assert kind == ("Sharded" if monitors else "LoadBalanced")


def test_client_that_names_a_replica_set_learns_that_there_is_none(gateway: Gateway, orders: Issued) -> None:
    options: dict[str, Any] = {"replicaSet": "rs0", "serverSelectionTimeoutMS": 2000}
    with connect(gateway, orders, monitors=True, **options) as client, pytest.raises(ConnectionFailure):
        client.admin.command("ping")


@pytest.mark.slow
@pytest.mark.skipif(mongosh() is None, reason="no mongosh: scripts/install-services mongosh gets it from npm")
def test_printed_mongosh_command_works_as_pasted(gateway: Gateway, orders: Issued, tmp_path: Any) -> None:
    authority = tls.authority(gateway.settings)
    line = mongosh_line(
        NativeCredential(
            orders.credential.username, orders.password, "localhost", gateway.settings.mongodb_port, DATABASE, authority
        )
    )
    script = "db.pasted.insertOne({n: 41}); print('there are', db.pasted.countDocuments({}) > 0)"
    done = subprocess.run(
        f'{line.replace("mongosh", str(mongosh()), 1)} --quiet --eval "{script}"',
        shell=True,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=clean_environment(HOME=str(tmp_path), MONGOSH_DISABLE_TELEMETRY="1"),
    )
    assert "there are true" in done.stdout, done.stdout + done.stderr
    session = next(each for each in gateway.sessions(connection="orders") if "mongosh" in str(each.metadata))
    assert gateway.finished(session.id).metadata["client_tls"] == "yes"


def test_transactions_commit_and_abort(client: MongoClient, direct: MongoClient) -> None:
    moved = client[DATABASE].moved
    moved.drop()
    direct[DATABASE].create_collection("moved")
    with client.start_session() as session:
        with session.start_transaction():
            moved.insert_one({"_id": 1}, session=session)
            assert direct[DATABASE].moved.count_documents({}) == 0
        assert direct[DATABASE].moved.count_documents({}) == 1
        session.start_transaction()
        moved.insert_one({"_id": 2}, session=session)
        session.abort_transaction()
        assert direct[DATABASE].moved.distinct("_id") == [1]
        session.with_transaction(lambda own: moved.insert_one({"_id": 3}, session=own))
    assert direct[DATABASE].moved.distinct("_id") == [1, 3]


def test_retried_write_runs_once(gateway: Gateway, orders: Issued, direct: MongoClient) -> None:
    with connect(gateway, orders, retryWrites=True, retryReads=True) as client:
        client[DATABASE].retried.drop()
        client[DATABASE].retried.insert_one({"_id": 1})
        command = {"insert": "retried", "documents": [{"_id": 2}], "txnNumber": bson.Int64(99)}
        with client.start_session() as session:
            for _ in range(2):
                assert client[DATABASE].command(command, session=session)["n"] == 1
    assert direct[DATABASE].retried.count_documents({}) == 2


def test_change_stream_shows_changes_and_resumes(client: MongoClient, direct: MongoClient) -> None:
    watched = client[DATABASE].changing
    watched.drop()
    direct[DATABASE].create_collection("changing")
    with watched.watch() as changes:
        direct[DATABASE].changing.insert_one({"_id": 1})
        assert changes.next()["fullDocument"] == {"_id": 1}
        token = changes.resume_token
    direct[DATABASE].changing.insert_one({"_id": 2})
    with watched.watch(resume_after=token) as changes:
        assert changes.next()["fullDocument"] == {"_id": 2}


def test_file_of_20_mb_is_stored_and_read_by_gridfs(client: MongoClient, direct: MongoClient) -> None:
    data = os.urandom(1 << 20) * 20
    stored = gridfs.GridFS(client[DATABASE], "files").put(data, filename="grüße")
    assert gridfs.GridFS(direct[DATABASE], "files").get(stored).read() == data
    with gridfs.GridFS(client[DATABASE], "files").get(stored) as file:
        assert file.filename == "grüße"
        assert file.read() == data


def test_documents_and_messages_of_many_megabytes_pass_unchanged(client: MongoClient, direct: MongoClient) -> None:
    large = client[DATABASE].large
    large.drop()
    text = "x" * ((16 << 20) - 100)
    large.insert_one({"_id": 0, "text": text})
    large.insert_many([{"_id": n, "text": str(n) * (1 << 20)} for n in range(1, 21)])  # 20 MB or more in one message
    assert direct[DATABASE].large.count_documents({}) == 21
    found = list(large.find(sort=[("_id", 1)]))
    assert found[0]["text"] == text
    assert [len(each["text"]) for each in found[1:]] == [len(str(n)) << 20 for n in range(1, 21)]
    with pytest.raises(DocumentTooLarge):
        large.insert_one({"text": "x" * (20 << 20)})
    assert large.count_documents({}) == 21
    large.drop()


# Cursors


@pytest.fixture(scope="module")
def numbers(mongo: MongoServer) -> int:
    with mongo.client() as direct:
        direct[DATABASE].numbers.drop()
        direct[DATABASE].numbers.insert_many([{"_id": n, "text": f"row {n}"} for n in range(1000)])
    return 1000


def test_cursor_of_many_batches_is_read_to_its_end(
    gateway: Gateway, orders: Issued, numbers: int, monitors: bool
) -> None:
    with connect(gateway, orders, monitors=monitors) as client:
        found = [each["_id"] for each in client[DATABASE].numbers.find(batch_size=70)]
    assert found == list(range(numbers))
    session = gateway.newest_finished("orders")
    more = [text for text in gateway.operations(session.id) if text.startswith('{"getMore"')]
    assert len(more) >= numbers // 70
    assert all('"originatingCommand": {"find": "numbers"' in text for text in more)


def test_cursors_wander_between_the_connections_of_a_pool(
    gateway: Gateway, orders: Issued, numbers: int, monitors: bool
) -> None:
    with connect(gateway, orders, monitors=monitors, maxPoolSize=8) as client, ThreadPoolExecutor(8) as pool:
        cursors = [client[DATABASE].numbers.find(batch_size=10) for _ in range(8)]

        def read(cursor: Any) -> int:
            for _ in range(10):
                next(cursor)
            return sum(1 for _ in cursor) + 11

        for cursor in cursors:
            next(cursor)
        assert list(pool.map(read, cursors)) == [numbers] * 8
    gateway.all_closed(connection="orders")


def test_cursor_ends_when_it_is_closed(client: MongoClient, numbers: int) -> None:
    cursor = client[DATABASE].numbers.find(batch_size=10)
    next(cursor)
    number = cursor.cursor_id
    cursor.close()
    assert refused(lambda: client[DATABASE].command("getMore", bson.Int64(number or 0), collection="numbers")).code in (
        13,  # its command is unknown to the gateway
        43,  # and it is unknown to the server
    )


# Who is let in


@pytest.mark.parametrize("user", ["issued", "unknown"])
def test_wrong_password_and_unknown_user_get_the_same_error(gateway: Gateway, orders: Issued, user: str) -> None:
    wrong: dict[str, Any] = {"password": "wrong"} | ({"username": "nobody-knows-this"} if user == "unknown" else {})
    with connect(gateway, orders, **wrong) as client:
        error = refused(lambda: client.admin.command("ping"))
    assert (error.code, "the user name or password is wrong" in str(error)) == (18, True)


def test_revoked_credential_is_rejected(gateway: Gateway, orders: Issued) -> None:
    issued = gateway.credential("orders")
    for _ in range(2):
        with connect(gateway, issued) as client:
            assert client.admin.command("ping")["ok"] == 1
    gateway.call(gateway.services.credentials.revoke(gateway.admin, "orders", issued.credential.id))
    with connect(gateway, issued) as client:
        error = refused(lambda: client.admin.command("ping"))
    assert (error.code, "revoked" in str(error)) == (13, True)


def test_credential_of_a_connection_of_another_subtype_is_rejected(gateway: Gateway) -> None:
    with connect(gateway, gateway.credential("target")) as client:
        assert "is of subtype 'postgres', not 'mongodb'" in str(refused(lambda: client.admin.command("ping")))


@pytest.mark.parametrize(
    ("secret", "said"),
    [
        ({"PASS": "wrong"}, "the target did not accept the gateway's own login"),
        ({"PORT": "unused"}, "cannot be reached"),
    ],
    ids=["wrong target password", "target unreachable"],
)
def test_failed_target_login_is_reported_to_the_client(
    gateway: Gateway, mongo: MongoServer, secret: dict[str, str], said: str
) -> None:
    name = f"mongo-broken-{next(iter(secret)).lower()}"
    secret = {key: str(free_port()) if value == "unused" else value for key, value in secret.items()}
    mongodb_connection(gateway, name, mongo, secret=secret)
    with connect(gateway, gateway.credential(name)) as client:
        assert said in str(refused(lambda: client.admin.command("ping")))
    assert gateway.newest_finished(name).metadata["end_reason"] == "failed"


# What is stopped


@pytest.mark.parametrize("is_running", [True, False], ids=["while it runs", "idle"])
def test_target_that_dies_is_a_lost_connection_to_clients(gateway: Gateway, is_running: bool) -> None:
    name = f"mongo-dies-{is_running}".lower()
    with running_mongodb() as server, ThreadPoolExecutor(1) as pool:
        mongodb_connection(gateway, name, server)
        with connect(gateway, gateway.credential(name)) as client:
            client.admin.command("ping")
            waiting = pool.submit(watch, client) if is_running else None
            wait_until(lambda: not is_running or awaits(server))
            assert server._process is not None
            os.kill(server._process.pid, signal.SIGKILL)
            server._process.wait()
            with pytest.raises((*NETWORK, OperationFailure)) as caught:
                waiting.result(60) if waiting is not None else client.admin.command("ping")
    assert "target" in str(caught.value) or isinstance(caught.value, NETWORK)
    reasons = {gateway.finished(each.id).metadata["end_reason"] for each in gateway.sessions(connection=name)}
    assert "target_closed" in reasons


def test_client_connects_again_by_itself_once_the_target_is_back(gateway: Gateway) -> None:
    with running_mongodb() as server:
        mongodb_connection(gateway, "mongo-restarts", server)
        issued = gateway.credential("mongo-restarts")
        with connect(gateway, issued, retryReads=True, retryWrites=True) as client:
            client[DATABASE].kept.insert_one({"_id": 1})
            server._end()
            server._run(["--auth"])
            server._wait_until_ready(time.monotonic() + 60)

            def answers() -> bool:
                try:
                    return client[DATABASE].kept.count_documents({}) == 1
                except PyMongoError:
                    return False

            wait_until(answers)


def watch(client: MongoClient) -> Any:
    """Waits for a change that does not come."""
    with client[DATABASE].never_changes.watch(max_await_time_ms=600_000) as changes:
        return changes.next()


def awaits(server: MongoServer) -> bool:
    """Whether somebody waits for a change."""
    with server.client() as client:
        return any(
            "getMore" in operation.get("command", {}) for operation in client.admin.command("currentOp")["inprog"]
        )


def test_killed_session_ends_its_command_at_the_target(gateway: Gateway, orders: Issued, mongo: MongoServer) -> None:
    with connect(gateway, orders) as client, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(watch, client)
        wait_until(lambda: awaits(mongo))
        session = gateway.newest("orders")
        gateway.call(gateway.services.sessions.kill(gateway.admin, session.id))
        assert "this session was killed" in str(refused(lambda: waiting.result(60)))
    assert gateway.finished(session.id).metadata["end_reason"] == "killed"
    wait_until(lambda: not awaits(mongo))


def test_disconnected_clients_session_ends(gateway: Gateway, orders: Issued) -> None:
    client = connect(gateway, orders)
    client.admin.command("ping")
    session = gateway.newest("orders")
    client.close()
    assert gateway.finished(session.id).metadata["end_reason"] == "client_closed"
