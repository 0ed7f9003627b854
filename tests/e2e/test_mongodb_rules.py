"""Guardrails, masking, reviews, recordings, scripts, previews and target tasks for MongoDB."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pymongo
import pytest
from pymongo.errors import OperationFailure, PyMongoError
from pymongo.write_concern import WriteConcern
from tests.e2e.test_access_rules import tunnelled
from tests.e2e.test_script_previews import RULES, compare, ruled
from tests.e2e.test_waiting_clients import person
from tests.support.gateway import Gateway
from tests.support.mongodb import MongoServer
from tests.support.mongodb_clients import DATABASE, MongoClient, carried_uri, connect, mongodb_connection
from tests.support.postgres import free_port
from tests.support.promises import wait_until
from tests.support.shelf import shelve

from postern.api.sessions.result_answers import ResultWriter
from postern.domain.identity.credential import Issued
from postern.domain.lists import Page
from postern.domain.reviews.review import Choice, Review
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.rules.guardrail import Action, Rule, RuleType
from postern.domain.rules.masking import Strictness
from postern.domain.secret import Secret
from postern.domain.sessions.session import Session
from postern.domain.targets.command import Invocation
from postern.domain.targets.connection import Connection
from postern.domain.targets.target_task import TargetTaskKind
from postern.errors import Malformed
from postern.interception.events import ClientOutput
from postern.services.runbooks.runs import RunRequest
from postern.store.ports.review_ports import ReviewFilter

MAIL, CARD, SURNAME = "ada.lovelace@example.org", "4111 1111 1111 1111", "Lovelace"
PEOPLE = 500


@pytest.fixture
def direct(mongo: MongoServer) -> Iterator[MongoClient]:
    with mongo.client() as connected:
        yield connected


@pytest.fixture(scope="module")
def people(mongo: MongoServer) -> None:
    with mongo.client() as direct:
        shop = direct[DATABASE]
        for name in ("people", "many", "salaries", "pay", "pay_of_pay"):
            shop.drop_collection(name)
        shop.many.insert_many({"_id": n} for n in range(PEOPLE + 200))
        shop.people.insert_many(
            {
                "_id": n,
                "name": {"first": "Ada", "last": SURNAME},
                "mail": f"{n}{MAIL}",
                "cards": [{"number": CARD}],
                "note": f"note {n}",
            }
            for n in range(1, PEOPLE + 1)
        )
        shop.salaries.insert_one({"_id": 1, "amount": 77665})
        shop.create_collection("pay", viewOn="salaries", pipeline=[{"$project": {"amount": 1}}])
        shop.create_collection("pay_of_pay", viewOn="pay", pipeline=[])


@pytest.fixture(scope="module")
def guarded(gateway: Gateway, mongo: MongoServer, people: None) -> Connection:
    connection = mongodb_connection(gateway, "mongo-guarded", mongo)
    rules = (
        Rule(RuleType.PATTERN_MATCH, (), r'\{"drop"', "no drops"),
        Rule(RuleType.REQUIRE_WHERE, name="where"),
        Rule(RuleType.PATTERN_MATCH, (), "watched", "watch", action=Action.WARN),
        Rule(RuleType.PATTERN_MATCH, (), "four_eyes", "four eyes", action=Action.REVIEW),
        Rule(RuleType.DENY_STATEMENTS, objects=("shop.salaries",), name="no salaries"),
    )
    fields = {
        "name": "mongo rules",
        "input": rules,
        "output": (
            Rule(RuleType.PATTERN_MATCH, (), "top-secret", "hidden"),
            Rule(RuleType.MAX_ROWS, most=PEOPLE, name="rows"),
        ),
        "connection_ids": (str(connection.id),),
    }
    gateway.call(gateway.services.guardrails.create(gateway.admin, fields))
    return connection


@pytest.fixture
def client(gateway: Gateway, guarded: Connection) -> Iterator[MongoClient]:
    with connect(gateway, gateway.credential(guarded.name)) as connected:
        yield connected


def refused(work: Callable[[], Any]) -> str:
    with pytest.raises(PyMongoError) as caught:
        work()
    assert not isinstance(caught.value, OperationFailure) or caught.value.code == 13
    return str(caught.value)


def execute(gateway: Gateway, script: str, connection: str = "orders", invocation: Invocation | None = None) -> Session:
    invocation = invocation or Invocation()
    submitted = gateway.call(
        gateway.services.sessions.submit(gateway.admin, connection, script, source="127.0.0.1", invocation=invocation)
    )
    return gateway.finished(submitted.id)


def results(gateway: Gateway, session: Session) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads("".join(ResultWriter(gateway.services.sessions.results(session)).json()))
    return found


def shown(gateway: Gateway, session: Session) -> bytes:
    return b"".join(event.data for event in gateway.records(session.id) if isinstance(event, ClientOutput))


def aggregate(*stages: dict[str, Any]) -> dict[str, Any]:
    return {"aggregate": "people", "pipeline": list(stages), "cursor": {}}


# Guardrails


def test_denied_command_did_not_run_and_the_connection_continues(client: MongoClient, direct: MongoClient) -> None:
    kept, there = client[DATABASE].kept, direct[DATABASE].kept
    there.drop()
    there.insert_one({"_id": 1})
    assert 'blocked by guardrail "mongo rules"' in refused(kept.drop)
    for denied in (
        lambda: kept.delete_many({}),
        lambda: kept.update_many({}, {"$set": {"a": 1}}),
        lambda: kept.bulk_write([pymongo.InsertOne({"_id": 2}), pymongo.DeleteMany({})]),
        lambda: client.bulk_write([pymongo.DeleteMany({}, namespace=f"{DATABASE}.kept")]),
    ):
        refused(denied)
    assert {"_id": 1} in list(there.find())
    assert not there.count_documents({"a": 1})
    assert kept.delete_many({"_id": 1}).deleted_count == 1


def test_denied_write_without_acknowledgement_gets_no_reply_and_does_not_run(
    client: MongoClient, direct: MongoClient
) -> None:
    direct[DATABASE].quiet.drop()
    direct[DATABASE].quiet.insert_one({"_id": 1})
    quiet = client[DATABASE].get_collection("quiet", write_concern=WriteConcern(w=0))
    quiet.delete_many({})
    quiet.insert_one({"_id": 2})
    assert client.admin.command("ping")["ok"] == 1
    wait_until(lambda: direct[DATABASE].quiet.count_documents({}) == 2)


@pytest.mark.parametrize(
    "command",
    [
        {"find": "salaries"},
        {"find": "pay_of_pay"},
        aggregate({"$unionWith": "pay"}),
        {
            "aggregate": "people",
            "pipeline": [{"$lookup": {"from": "salaries", "pipeline": [], "as": "x"}}],
            "cursor": {},
        },
        {"explain": {"find": "salaries"}},
        {"distinct": "salaries", "key": "amount"},
        {"count": "salaries"},
        {"findAndModify": "salaries", "query": {"_id": 1}, "update": {"$set": {"amount": 1}}},
        {"renameCollection": "shop.salaries", "to": "shop.x"},
        {"create": "pay_now", "viewOn": "salaries", "pipeline": []},
        aggregate({"$out": "salaries"}),
    ],
    ids=lambda command: json.dumps(command)[:40],
)
def test_rule_about_a_collection_denies_every_way_to_it(
    client: MongoClient, direct: MongoClient, command: dict[str, Any]
) -> None:
    database = client.admin if "renameCollection" in command else client[DATABASE]
    assert "no salaries" in refused(lambda: database.command(command))
    assert direct[DATABASE].salaries.find_one() == {"_id": 1, "amount": 77665}


def test_denied_reply_is_not_shown_and_not_recorded(gateway: Gateway, client: MongoClient) -> None:
    pipeline = [{"$documents": [{"a": {"$concat": ["top", "-secret"]}}]}]
    assert "hidden" in refused(lambda: client[DATABASE].command("aggregate", 1, pipeline=pipeline, cursor={}))
    assert client.admin.command("ping")["ok"] == 1
    client.close()
    assert b"top-secret" not in shown(gateway, gateway.newest_finished("mongo-guarded"))


@pytest.mark.parametrize("size", [50, 10_000])
def test_documents_of_all_batches_count_against_one_limit(client: MongoClient, size: int) -> None:
    assert len(list(client[DATABASE].people.find(batch_size=size))) == PEOPLE
    with pytest.raises(OperationFailure, match=f"more than {PEOPLE} rows"):
        list(client[DATABASE].many.find(batch_size=size))


def test_warning_of_a_guardrail_is_recorded(gateway: Gateway, client: MongoClient) -> None:
    assert client[DATABASE].people.find_one({"note": "watched"}) is None
    client.close()
    session = gateway.newest_finished("mongo-guarded")
    assert session.metrics["warned"] == 1
    assert "watch" in gateway.text(session.id)


def pending(gateway: Gateway) -> list[Review]:
    wanted = ReviewFilter(status=ReviewStatus.PENDING)
    return list(gateway.call(gateway.services.reviews.find(gateway.admin, wanted, Page())).items)


def test_held_command_runs_if_approved_and_fails_if_rejected(
    gateway: Gateway, client: MongoClient, direct: MongoClient
) -> None:
    """A second administrator decides, and sees how many documents it would change."""
    other = person(gateway, "mongo-second@example.com", "admin")
    held = direct[DATABASE].held
    for choice in (Choice.REJECTED, Choice.APPROVED):
        held.drop()
        held.insert_many([{"_id": n, "kind": "four_eyes"} for n in range(42)] + [{"_id": 99}])
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(client[DATABASE].held.delete_many, {"kind": "four_eyes"})
            [review] = wait_until(lambda: pending(gateway))
            assert not waiting.done()
            counted = wait_until(lambda: pending(gateway)[0].estimate)
            assert "42" in json.dumps(counted, default=str)
            gateway.call(gateway.services.reviews.decide(other, str(review.id), choice, comment="because"))
            if choice is Choice.APPROVED:
                assert waiting.result(60).deleted_count == 42
            else:
                assert "because" in refused(partial(waiting.result, 60))
        assert held.count_documents({}) == (1 if choice is Choice.APPROVED else 43)


def test_approval_of_a_command_is_valid_for_all_batches_of_its_cursor(gateway: Gateway, client: MongoClient) -> None:
    other = person(gateway, "mongo-third@example.com", "admin")
    with ThreadPoolExecutor(1) as pool:
        found = client[DATABASE].people.find({"note": {"$ne": "four_eyes"}}, batch_size=100)
        waiting = pool.submit(list, found)
        [review] = wait_until(lambda: pending(gateway))
        gateway.call(gateway.services.reviews.decide(other, str(review.id), Choice.APPROVED))
        wait_until(lambda: waiting.done() or pending(gateway))
        again = pending(gateway)
        for each in again:
            gateway.call(gateway.services.reviews.decide(other, str(each.id), Choice.REJECTED))
        assert not again
        assert len(waiting.result(60)) == PEOPLE


# Masking


@pytest.fixture(scope="module")
def masked(gateway: Gateway, mongo: MongoServer, people: None) -> Issued:
    """E-mail addresses and cards by their form, and everything below `name` by its path."""
    types = ("EMAIL_ADDRESS", "CREDIT_CARD")
    connection = mongodb_connection(gateway, "mongo-masked", mongo, redact_enabled=True, redact_types=types)
    gateway.masking_rule(
        {
            "name": "mongo-columns",
            "columns": (f"{DATABASE}.people.name",),
            "strictness": Strictness.STRICT,
            "connection_ids": (str(connection.id),),
        }
    )
    return gateway.credential(connection.name)


def test_masked_documents_keep_everything_else(gateway: Gateway, masked: Issued, direct: MongoClient) -> None:
    with connect(gateway, masked) as client:
        found = list(client[DATABASE].people.find(batch_size=90))
    assert len(found) == PEOPLE
    assert not any(secret in str(found) for secret in (MAIL, CARD, SURNAME, "Ada"))
    for now, was in zip(found, direct[DATABASE].people.find(), strict=True):
        assert now.keys() == was.keys()
        assert (now["_id"], now["note"], now["name"].keys()) == (was["_id"], was["note"], was["name"].keys())
    session = gateway.newest_finished("mongo-masked")
    counted = session.metrics["data_masking"]["info_types"]
    assert (counted["CREDIT_CARD"], counted["EMAIL_ADDRESS"]) == (PEOPLE, PEOPLE)
    assert not any(secret.encode() in shown(gateway, session) for secret in (MAIL, CARD, SURNAME))


@pytest.mark.parametrize(
    "command",
    [
        {"find": "people", "projection": {"who": "$name.last"}, "limit": 1},
        {"distinct": "people", "key": "name.last"},
        {"distinct": "people", "key": "mail"},
        {"findAndModify": "people", "query": {"_id": 1}, "update": {"$set": {"note": "note 1"}}},
        aggregate({"$project": {"x": {"$concat": ["a", "$name.last"]}}}),
        aggregate({"$group": {"_id": "$name.last"}}),
        aggregate({"$replaceRoot": {"newRoot": "$name"}}),
        aggregate({"$project": {"x": {"$objectToArray": "$name"}}}),
        aggregate({"$project": {"x": {"$arrayToObject": [[["$name.last", 1]]]}}}, {"$limit": 1}),
        aggregate({"$addFields": {"x": "$$ROOT"}}),
        aggregate({"$project": {"x": {"$toUpper": "$name.last"}, "y": {"$substrCP": ["$name.last", 1, 4]}}}),
        aggregate({"$sortByCount": "$name.first"}),
        aggregate({"$unionWith": {"coll": "people", "pipeline": [{"$project": {"z": "$name"}}]}}),
        aggregate({"$lookup": {"from": "people", "localField": "_id", "foreignField": "_id", "as": "again"}}),
        aggregate({"$facet": {"a": [{"$project": {"b": "$name.last"}}]}}),
        aggregate({"$changeStream": {"fullDocument": "updateLookup"}}),
        {"explain": {"find": "people", "filter": {"name.last": SURNAME[:3]}}},
        {"insert": "people", "documents": [{"_id": 1, "mail": MAIL}]},
    ],
    ids=lambda command: json.dumps(command)[:60],
)
def test_masked_value_is_not_shown_however_it_is_queried(
    gateway: Gateway, masked: Issued, command: dict[str, Any]
) -> None:
    with connect(gateway, masked) as client:
        try:
            said = str(client[DATABASE].command(command))
        except OperationFailure as error:
            said = str(error.details)
        assert client.admin.command("ping")["ok"] == 1
    said = said.lower()
    assert not any(secret.lower() in said for secret in (MAIL, CARD, SURNAME, "'ada'", "ovel"))
    session = gateway.newest_finished("mongo-masked")
    assert not any(secret in shown(gateway, session).lower() for secret in (b"lovelace@", CARD.encode()))


def test_next_batch_that_another_worker_gets_is_masked_or_denied(
    gateway: Gateway, masked: Issued, guarded: Connection, people: None
) -> None:
    """The other worker does not know which command opened the cursor."""
    second, port = other_worker(gateway, "mongo-elsewhere")
    try:
        for issued, expected in ((masked, "mongo-columns"), (gateway.credential(guarded.name), "loadBalanced=true")):
            with connect(gateway, issued) as client, connect(gateway, issued, port=port) as other:
                found = client[DATABASE].command("find", "people", batchSize=2)["cursor"]
                try:
                    said = str(other[DATABASE].command("getMore", found["id"], collection="people"))
                except OperationFailure as error:
                    said = str(error)
                    assert expected in said
                assert not any(secret in said for secret in (MAIL, CARD, SURNAME, "'Ada'"))
    finally:
        second.stop()
        del gateway.workers["mongo-elsewhere"]


def other_worker(gateway: Gateway, name: str) -> tuple[Any, int]:
    ports = {f"{protocol}_port": free_port() for protocol in ("postgres", "mysql", "mongodb", "ssh", "tunnel")}
    return gateway.add_worker(name, **ports), ports["mongodb_port"]


# Reviews at login, and tunnels


def test_client_waits_at_login_for_its_review_and_is_then_admitted_or_rejected(
    gateway: Gateway, mongo: MongoServer
) -> None:
    dba = person(gateway, "mongo-dba@example.com", "mongo-dba")
    ann = person(gateway, "mongo-ann@example.com", "dev")
    mongodb_connection(gateway, "mongo-asked", mongo, reviewers=("mongo-dba",))
    issued = gateway.credential("mongo-asked", principal=ann)
    for choice in (Choice.REJECTED, Choice.APPROVED):
        with connect(gateway, issued) as client, ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(client.admin.command, "ping")
            [review] = wait_until(lambda: pending(gateway))
            assert not waiting.done()
            gateway.call(gateway.services.reviews.decide(dba, str(review.id), choice, comment="not today"))
            if choice is Choice.REJECTED:
                with pytest.raises(OperationFailure, match="not today"):
                    waiting.result(60)
            else:
                assert waiting.result(60)["ok"] == 1


def test_port_of_postern_connect_needs_no_password(gateway: Gateway, orders: Issued, people: None) -> None:
    with tunnelled(gateway, gateway.admin, "orders", protocol="mongodb") as (port, _):
        with MongoClient(carried_uri(port)) as client:
            assert client[DATABASE].people.count_documents({}) == PEOPLE
        login: dict[str, Any] = {"username": "me", "password": "x", "authMechanism": "SCRAM-SHA-256"}
        with MongoClient(carried_uri(port), **login) as client, pytest.raises(OperationFailure, match="by its tunnel"):
            client.admin.command("ping")
    assert gateway.newest_finished("orders").user == gateway.admin.email


# Recordings and scripts


def test_recording_shows_commands_results_and_errors(gateway: Gateway, orders: Issued, people: None) -> None:
    with connect(gateway, orders) as client:
        client[DATABASE].people.find_one({"_id": 1}, {"note": 1})
        with pytest.raises(OperationFailure):
            client[DATABASE].command("größe")
    session = gateway.newest_finished("orders")
    asked = '{"find": "people", "filter": {"_id": 1}, "projection": {"note": 1}, "limit": 1, "singleBatch": true, '
    assert any(text.startswith(asked) for text in gateway.operations(session.id))
    text = gateway.text(session.id)
    assert '{"_id": 1, "note": "note 1"}\n1 document\n' in text
    assert "ERROR 59 (CommandNotFound)" in text


def test_script_returns_the_result_of_each_statement(gateway: Gateway, orders: Issued, direct: MongoClient) -> None:
    direct[DATABASE].made.drop()
    script = """
        db.made.insertMany([{_id: 1}, {_id: 2, name: 'grüße;'}]); // a comment; with a semicolon
        db.made.find({_id: {$gt: 1}});
        db.made.updateMany({}, {$inc: {n: 1}});
        {"find": "made", "sort": {"_id": -1}, "$db": "shop"}
        show collections
    """
    session = execute(gateway, script)
    assert (session.exit_code, session.metadata["end_reason"]) == (0, "completed"), gateway.text(session.id)
    inserted, found, updated, raw, _ = results(gateway, session)
    assert '"n": 2' in inserted["tag"]
    assert (found["columns"], found["rows"]) == (["_id", "name"], [["2", "grüße;"]])
    assert '"nModified": 2' in updated["tag"]
    assert raw["rows"] == [["2", "grüße;", "1"], ["1", None, "1"]]
    assert direct[DATABASE].made.count_documents({"n": 1}) == 2


def test_script_ends_at_its_first_error(gateway: Gateway, orders: Issued, direct: MongoClient) -> None:
    direct[DATABASE].half.drop()
    session = execute(gateway, "db.half.insertOne({_id: 1}); db.half.insertOne({_id: 1}); db.half.insertOne({_id: 2})")
    assert session.exit_code == 1
    assert "11000" in gateway.text(session.id)
    assert direct[DATABASE].half.count_documents({}) == 1


def test_denied_script_runs_nothing_of_the_denied_statement(
    gateway: Gateway, guarded: Connection, direct: MongoClient
) -> None:
    direct[DATABASE].kept.insert_one({"x": 1})
    session = execute(gateway, "db.kept.deleteMany({})", guarded.name)
    assert (session.exit_code, session.metrics["refused"]) == (1, 1)
    assert direct[DATABASE].kept.count_documents({"x": 1}) >= 1


def test_results_are_masked_as_json_and_csv(gateway: Gateway, masked: Issued) -> None:
    session = execute(gateway, "db.people.find().limit(2)", "mongo-masked")
    assert session.exit_code == 0, gateway.text(session.id)
    [table] = results(gateway, session)
    assert len(table["rows"]) == 2
    written = "".join(ResultWriter(gateway.services.sessions.results(session)).csv())
    rows = list(csv.reader(io.StringIO(written, newline="")))
    assert rows[0] == table["columns"] == ["_id", "name", "mail", "cards", "note"]
    assert rows[1][4] == "note 1"
    assert "****" in written
    assert not any(secret in written + json.dumps(table) for secret in (MAIL, CARD, SURNAME, "Ada"))


def test_parameters_of_a_script_become_texts(gateway: Gateway, orders: Issued, people: None) -> None:
    hostile = '\'}); db.people.drop(); // {"$gt": 1} ü'
    invocation = Invocation(parameters={"a": hostile, "n": 3})
    script = "db.aggregate([{$documents: [{a: :a, n: :n}]}]); db.people.find({_id: :n}, {note: 1})"
    session = execute(gateway, script, invocation=invocation)
    assert session.exit_code == 0, gateway.text(session.id)
    assert [each["rows"] for each in results(gateway, session)] == [[[hostile, "3"]], [["3", "note 3"]]]


def test_runbook_runs_with_its_parameters(gateway: Gateway, orders: Issued, people: None) -> None:
    files = {"find.runbook.js": "db.people.find({note: {{ .note | type `textarea` | squote }}}, {note: 1})"}
    gateway.call(shelve(gateway.stores, gateway.admin.org_id, files))
    for note, rows in (("note 7", [["7", "note 7"]]), ("'}, {}); db.people.drop(); //", [])):
        wanted = RunRequest("orders", "find.runbook.js", parameters={"note": Secret(note)})
        submitted = gateway.call(
            gateway.services.runbook_runs.submit(gateway.admin, wanted, source="127.0.0.1", means="login:1")
        )
        session = gateway.finished(submitted.id)
        assert (session.exit_code, [each["rows"] for each in results(gateway, session)]) == (0, [rows])


SCRIPTS = (
    "db.orders.find()",
    "db.orders.deleteMany({})",
    "db.orders.deleteMany({_id: -1})",
    "db.orders.find({a: 'four_eyes'})",
    "db.orders.find({a: 'watched'})",
    "db.orders.find({a: 'watched'}); db.orders.deleteMany({})",
    "db.orders.find({a: 'do not'})",
    "use vault\ndb.pay.find()",
    "use vault\ndb.salary.find({_id: 1})",
    "use vault\ndb.orders.aggregate([{$lookup: {from: 'salary', localField: 'a', foreignField: 'b', as: 'c'}}])",
    '{"count": "orders"}',
)


@pytest.fixture(scope="module")
def ruled_connections(gateway: Gateway, mongo: MongoServer) -> None:
    with mongo.client() as direct:
        direct.vault.salary.insert_one({"_id": 1})
        direct.vault.create_collection("pay", viewOn="salary", pipeline=[])
    for name, rules in RULES.items():
        ruled(gateway, mongodb_connection(gateway, f"mongo-{name}", mongo), rules)


@pytest.mark.slow
@pytest.mark.parametrize("rules", RULES)
def test_preview_tells_what_a_run_tells(gateway: Gateway, ruled_connections: None, rules: str) -> None:
    outcomes = {script: compare(gateway, f"mongo-{rules}", script) for script in SCRIPTS}
    assert set(outcomes.values()) >= ({"allow"} if rules == "free" else {"allow", "deny"})


# Target tasks


def target_task(gateway: Gateway, kind: TargetTaskKind, connection: str = "orders", **given: str | None) -> Any:
    return gateway.call(
        gateway.services.target_tasks.ask(gateway.admin, connection, kind, given, source="127.0.0.1")
    ).result


def test_target_tasks_list_databases_collections_and_fields(
    gateway: Gateway, orders: Issued, people: None, mongo: MongoServer
) -> None:
    assert target_task(gateway, TargetTaskKind.TEST) == {"success": True}
    assert DATABASE in target_task(gateway, TargetTaskKind.DATABASES)["databases"]
    [schema] = target_task(gateway, TargetTaskKind.TABLES)["schemas"]
    assert schema["name"] == DATABASE
    assert "people" in schema["tables"]
    columns = target_task(gateway, TargetTaskKind.COLUMNS, table="people")["columns"]
    assert {"name.last", "mail", "cards.number"} <= {column["name"] for column in columns}
    mongodb_connection(gateway, "mongo-wrong", mongo, secret={"PASS": "wrong"})
    with pytest.raises(Malformed, match="refused"):
        target_task(gateway, TargetTaskKind.TEST, "mongo-wrong")
