"""Scripts: what is sent after which reply, and how they end."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Int64
from tests.support.protocols.mongodb_test_replies import batch, error, ok, reply, sent_documents

from postern.domain.sessions.script_parameters import BoundScript, Placeholder
from postern.errors import Invalid, ProtocolViolation
from postern.protocols.gateway_queries import ScriptInSteps
from postern.protocols.mongodb.queries.mongodb_script import MongodbScript

STEPS = pytest.mark.parametrize("step", [1, 3, 17, 100_000])


def run(script: MongodbScript, *replies: bytes, step: int = 100_000) -> list[dict[str, Any]]:
    """Answers each request in turn. Returns what was sent."""
    sent = script.start()
    documents = sent_documents(sent)
    for answer in replies:
        assert sent, "it is answered, and has sent nothing"
        sent = b"".join(script.feed(answer[at : at + step]) for at in range(0, len(answer), step))
        documents += sent_documents(sent)
    return documents


def names(documents: list[dict[str, Any]]) -> list[str]:
    return [next(iter(document)) for document in documents]


@STEPS
def test_statements_run_one_after_another_to_the_end(step: int) -> None:
    script = MongodbScript("use shop\ndb.a.drop(); db.b.find()\n{ping: 1}")
    sent = run(script, ok(ns="shop.a"), batch([{"a": 1}]), ok(), step=step)
    assert names(sent) == ["drop", "find", "ping"]
    assert [document["$db"] for document in sent] == ["shop", "shop", "shop"]
    assert (script.finished, script.leaves, script.exit_code()) == (True, True, 0)


@STEPS
def test_cursor_is_read_to_its_end(step: int) -> None:
    script = MongodbScript("db.c.find().batchSize(2); db.d.drop()")
    script.use_database("shop")
    sent = run(
        script,
        batch([{"a": 1}, {"a": 2}], 5, ns="shop.c"),
        batch([{"a": 3}], 5, first=False),
        batch([], 0, first=False),
        ok(),
        step=step,
    )
    more = {"getMore": 5, "collection": "c", "batchSize": 2, "$db": "shop"}
    assert sent == [
        {"find": "c", "filter": {}, "batchSize": 2, "$db": "shop"},
        more,
        more,
        {"drop": "d", "$db": "shop"},
    ]
    assert isinstance(sent[1]["getMore"], Int64)
    assert script.exit_code() == 0


def test_cursor_is_read_in_the_namespace_that_the_reply_names() -> None:
    script = MongodbScript("db.getSiblingDB('x').aggregate([{$currentOp: {}}])")
    sent = run(script, batch([{}], 5, ns="admin.$cmd.aggregate"), batch([{}], first=False))
    assert sent[1] == {"getMore": 5, "collection": "$cmd.aggregate", "$db": "admin"}


def test_batch_of_an_explicit_getmore_is_not_followed() -> None:
    script = MongodbScript('{"getMore": {"$numberLong": "5"}, "collection": "c"}')
    assert names(run(script, batch([{}], 5, first=False))) == ["getMore"]
    assert script.exit_code() == 0


@pytest.mark.parametrize(
    "failing",
    [
        error("no"),
        ok(n=0, writeErrors=[{"index": 0, "code": 11000, "errmsg": "duplicate"}]),
        ok(n=1, writeConcernError={"code": 64, "errmsg": "timeout"}),
    ],
    ids=["an error", "a write error", "a write concern"],
)
@STEPS
def test_script_ends_at_the_first_error(failing: bytes, step: int) -> None:
    script = MongodbScript("db.a.drop(); db.c.insertOne({}); db.b.drop()")
    assert names(run(script, ok(), failing, step=step)) == ["drop", "insert"]
    assert (script.finished, script.leaves, script.exit_code()) == (True, True, 1)


def test_error_of_a_getmore_ends_the_script() -> None:
    script = MongodbScript("db.c.find(); db.b.drop()")
    run(script, batch([{}], 5), error("cursor id 5 not found", 43, "CursorNotFound"))
    assert (script.finished, script.exit_code()) == (True, 1)


@pytest.mark.parametrize(("ordered", "expected"), [("true", ["insert"]), ("false", ["insert", "delete"])])
def test_bulk_write_without_order_goes_on_after_an_error(ordered: str, expected: list[str]) -> None:
    operations = "[{insertOne: {document: {}}}, {deleteOne: {filter: {}}}]"
    script = MongodbScript(f"db.c.bulkWrite({operations}, {{ordered: {ordered}}}); db.d.drop()")
    failing = ok(n=0, writeErrors=[{"index": 0, "code": 11000, "errmsg": "duplicate"}])
    assert names(run(script, failing, *([ok(n=1)] if ordered == "false" else []))) == expected
    assert (script.finished, script.exit_code()) == (True, 1)


def test_script_that_lost_its_connection_has_failed() -> None:
    script = MongodbScript("db.c.find()")
    script.start()
    assert (script.finished, script.leaves, script.exit_code()) == (False, False, 1)


@pytest.mark.parametrize(("name", "database"), [("shop", "shop"), ("", "test")])
def test_script_without_use_runs_in_the_default_database(name: str, database: str) -> None:
    script = MongodbScript("db.a.drop(); db.a.renameCollection('b'); use x; db.a.drop()")
    assert isinstance(script, ScriptInSteps)
    script.use_database(name)
    sent = run(script, ok(), ok(), ok())
    assert [document["$db"] for document in sent] == [database, "admin", "x"]
    assert sent[1]["to"] == f"{database}.b"


def test_script_in_an_unknown_database_must_begin_with_use() -> None:
    script = MongodbScript("db.a.drop()")
    script.use_database(None)
    for work in (script.start, script.requests):
        with pytest.raises(Invalid, match="begin with `use NAME`"):
            work()
    script = MongodbScript("use x\ndb.a.drop()")
    script.use_database(None)
    assert script.start()


def test_requests_of_a_preview_are_all_commands_with_their_places() -> None:
    text = "use x; db.a.drop(); db.c.bulkWrite([{insertOne: {document: {}}}, {deleteOne: {filter: {}}}])"
    requests = MongodbScript(text).requests()
    assert [text[request.start : request.end][:9] for request in requests] == ["db.a.drop", "db.c.bulk", "db.c.bulk"]
    sent = sent_documents(b"".join(request.data for request in requests))
    assert names(sent) == ["drop", "insert", "delete"]
    assert {document["$db"] for document in sent} == {"x"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no statement"),
        ("use x", "no statement"),
        ("// db.a.drop()", "no statement"),
        ("db.a.drop(); x", "line 1, column 14: 'x' is not supported"),
        ("db.a.drop()\n\n  db.b.find({a: 1 + 2})", "line 3, column 19: "),
        ("db.a.find({a: :b})", "the placeholder :b has no value"),
        ("db.a.insertOne({a: '" + "x" * (49 << 20) + "'})", "larger than"),
    ],
)
def test_script_that_cannot_be_sent_is_invalid_with_its_place(text: str, message: str) -> None:
    for work in (MongodbScript(text).start, lambda: MongodbScript(text).use_database("shop")):
        with pytest.raises(Invalid, match=message) as invalid:
            work()
        assert invalid.value.field == "script"


def test_parameters_keep_their_types() -> None:
    text = "db.c.find({a: :a, b: :b, c: :c, d: :d, e: :e, f: NumberLong(:b)})"
    values: list[tuple[str, Any]] = [("a", "5"), ("b", 5), ("c", 1.5), ("d", True), ("e", None)]
    places = [
        Placeholder(text.index(f": :{name}") + 2, text.index(f": :{name}") + 4, name, str(value), value)
        for name, value in values
    ]
    at = text.index("(:b") + 1
    script = MongodbScript(BoundScript(text, (*places, Placeholder(at, at + 2, "b", "5", 5))))
    (sent,) = run(script)
    assert sent["filter"] == {"a": "5", "b": 5, "c": 1.5, "d": True, "e": None, "f": 5}
    assert isinstance(sent["filter"]["f"], Int64)


def test_parameter_with_more_than_64_bits_is_invalid() -> None:
    with pytest.raises(Invalid, match="64 bits"):
        MongodbScript(BoundScript("db.c.find({a: :a})", (Placeholder(14, 16, "a", "x", 1 << 63),))).start()


@pytest.mark.parametrize(
    "data",
    [
        b"\x05\0\0\0" + bytes(20),
        reply({"n": 1}),
        ok()[:12] + b"\x01\0\0\0" + ok()[16:],
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
    ],
    ids=["a short message", "no ok", "an old message", "another protocol"],
)
def test_malformed_reply_to_a_script_is_a_protocol_violation(data: bytes) -> None:
    script = MongodbScript("db.c.drop()")
    script.start()
    with pytest.raises(ProtocolViolation):
        script.feed(data)
    assert script.exit_code() == 1
