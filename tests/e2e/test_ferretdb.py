"""FerretDB as a target: another implementation of MongoDB's protocol than the one of the other tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pymongo
import pytest
from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure
from tests.support.ferretdb import MECHANISMS, FerretServer, running_ferretdb
from tests.support.gateway import Gateway
from tests.support.mongodb import PASSWORD

pytestmark = pytest.mark.slow

Client = pymongo.MongoClient[dict[str, Any]]


@pytest.fixture(scope="module")
def ferret() -> Iterator[FerretServer]:
    with running_ferretdb() as server:
        yield server


@pytest.fixture(scope="module")
def ferret_gateway(ferret: FerretServer) -> Iterator[Gateway]:
    running = Gateway()
    try:
        running.start()
        for mechanism in MECHANISMS:
            place = {"PORT": str(ferret.port), "USER": mechanism, "PASS": PASSWORD, "SSLMODE": "disable", "DB": ""}
            connection = running.connection(mechanism.lower(), secret=place, subtype="mongodb")
            running.guardrail(f"deny {mechanism}", connection, deny=r'^\{"delete": "forbidden"')
        place["PASS"] = "wrong"
        running.connection("wrong", secret=place, subtype="mongodb")
        yield running
    finally:
        running.stop()


def connect(gateway: Gateway, connection: str, **options: Any) -> Client:
    issued = gateway.credential(connection)
    login: dict[str, Any] = {"username": issued.credential.username, "password": issued.password.reveal()}
    return pymongo.MongoClient("localhost", gateway.settings.mongodb_port, **login, **options)


@pytest.fixture(params=[(mechanism, balanced) for mechanism in MECHANISMS for balanced in (True, False)], ids=str)
def client(ferret_gateway: Gateway, request: pytest.FixtureRequest) -> Iterator[Client]:
    mechanism, balanced = request.param
    with connect(ferret_gateway, mechanism.lower(), loadBalanced=balanced) as client:
        client.drop_database("shop")
        yield client


def test_writes_and_reads_give_the_servers_answers(client: Client) -> None:
    """The server is a standalone one, which knows no retryable writes: those of the driver reach it without."""
    notes = client.shop.notes
    notes.insert_many([{"_id": n, "group": n % 10, "address": {"zip": str(n)}} for n in range(1000)])
    assert notes.update_many({"group": 3}, {"$set": {"group": 30}}).modified_count == 100
    assert notes.delete_many({"group": 4}).deleted_count == 100
    assert sorted(notes.distinct("group")) == [0, 1, 2, 5, 6, 7, 8, 9, 30]
    changed = notes.find_one_and_update({"_id": 7}, {"$inc": {"group": 1}})
    assert changed == {"_id": 7, "group": 7, "address": {"zip": "7"}}
    assert notes.find_one_and_delete({"_id": 8}) == {"_id": 8, "group": 8, "address": {"zip": "8"}}
    assert notes.count_documents({}) == 899
    groups = list(notes.aggregate([{"$group": {"_id": "$group", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}]))
    assert groups[0] == {"_id": 0, "n": 100}


def test_large_result_arrives_in_batches(client: Client) -> None:
    text = "grüße " * 1000
    client.shop.notes.insert_many([{"_id": n, "text": text} for n in range(2000)])
    result = list(client.shop.notes.find({}, batch_size=100).sort("_id", 1))
    assert [note["_id"] for note in result] == list(range(2000))
    assert {note["text"] for note in result} == {text}


def test_duplicate_key_is_the_drivers_own_error(client: Client) -> None:
    notes = client.shop.notes
    notes.insert_one({"_id": 1})
    with pytest.raises(DuplicateKeyError) as failed:
        notes.insert_one({"_id": 1})
    assert failed.value.code == 11000
    with pytest.raises(BulkWriteError) as several:
        notes.insert_many([{"_id": 2}, {"_id": 1}, {"_id": 3}], ordered=False)
    assert several.value.details["nInserted"] == 2
    assert [error["code"] for error in several.value.details["writeErrors"]] == [11000]


def test_denied_command_leaves_the_connection_usable(client: Client) -> None:
    with pytest.raises(OperationFailure, match="denied") as denied:
        client.shop.forbidden.delete_many({})
    assert denied.value.code == 13
    with pytest.raises(OperationFailure) as unknown:
        client.shop.command("noSuchCommand")
    assert unknown.value.code == 59
    assert client.shop.command("ping")["ok"] == 1


def test_wrong_password_at_the_target_is_an_error_of_the_login(ferret_gateway: Gateway) -> None:
    with connect(ferret_gateway, "wrong", loadBalanced=True) as client, pytest.raises(OperationFailure) as failed:
        client.shop.command("ping")
    assert failed.value.code == 96
