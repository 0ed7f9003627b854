"""Recorded replies rendered as text, as tables and as input of rules, in chunks of any size."""

from __future__ import annotations

from typing import Any

import bson
import pytest
from bson import Binary, Code, DatetimeMS, Decimal128, Int64, ObjectId, Regex, Timestamp
from bson.raw_bson import RawBSONDocument
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.protocols.mongodb_test_replies import batch, error, ok, reply

from postern.domain.rules.trial import Answered
from postern.domain.sessions.results import Finished, Problem, Result, ResultColumns, Row
from postern.errors import ProtocolViolation
from postern.protocols.mongodb.recorded.mongodb_answer_reader import MongodbAnswers
from postern.protocols.mongodb.recorded.mongodb_tables import MAX_COLUMNS, MIXED, OTHER_FIELDS, MongodbResults
from postern.protocols.mongodb.recorded.mongodb_text_renderer import MongodbTextRenderer

STEPS = pytest.mark.parametrize("step", [1, 3, 11, 10_000])
ID = ObjectId("0123456789abcdef01234567")
FAILED = {"index": 1, "code": 11000, "errmsg": 'duplicate key: { email: "größe" }', "keyValue": {"email": "größe"}}
PARTS: list[tuple[bytes, str, list[Result], list[Answered]]] = [
    (
        batch([{"a": "größe\n", "b": 5}, {"b": None, "c": {"d": [1.5, "x"]}}]),
        '{"a": "größe\\n", "b": 5}\n{"b": null, "c": {"d": [1.5, "x"]}}\n2 documents\n',
        [
            ResultColumns(("a", "b", "c"), ("string", "int", "object")),
            Row(("größe\n", "5", None)),
            Row((None, None, '{"d": [1.5, "x"]}')),
            Finished("2 documents"),
        ],
        [
            Answered(("größe\n".encode(), b"5"), rows=1),
            Answered((b"1.5", b"x"), rows=1),
            Answered((), ends=True),
        ],
    ),
    (
        batch([{"a": 1}], 7) + batch([{"b": 2, "a": "x"}], 7, first=False) + batch([{"a": 3}], first=False),
        '{"a": 1}\n{"b": 2, "a": "x"}\n{"a": 3}\n3 documents\n',
        [
            ResultColumns(("a", OTHER_FIELDS), ("int", "object")),
            Row(("1", None)),
            Row(("x", '{"b": 2}')),
            Row(("3", None)),
            Finished("3 documents"),
        ],
        [
            Answered((b"1",), rows=1),
            Answered((b"2", b"x"), rows=1),
            Answered((b"3",), rows=1),
            Answered((), ends=True),
        ],
    ),
    (
        batch([]),
        "0 documents\n",
        [ResultColumns((), ()), Finished("0 documents")],
        [Answered((), ends=True)],
    ),
    (
        batch([], 5) + batch([{"a": 1}], first=False),
        '{"a": 1}\n1 document\n',
        [ResultColumns((OTHER_FIELDS,), ("object",)), Row(('{"a": 1}',)), Finished("1 document")],
        [Answered((b"1",), rows=1), Answered((), ends=True)],
    ),
    (
        ok(values=["x", 5, {"a": 1}]),
        '"x"\n5\n{"a": 1}\n3 values\n',
        [
            ResultColumns(("values",), (MIXED,)),
            Row(("x",)),
            Row(("5",)),
            Row(('{"a": 1}',)),
            Finished("3 values"),
        ],
        [
            Answered((b"x",), rows=1),
            Answered((b"5",), rows=1),
            Answered((b"1",), rows=1),
            Answered((), ends=True),
        ],
    ),
    (
        ok(values=[]),
        "0 values\n",
        [ResultColumns(("values",), (None,)), Finished("0 values")],
        [Answered((), ends=True)],
    ),
    (
        ok(lastErrorObject={"n": 1, "updatedExisting": True}, value={"a": 1}),
        '{"a": 1}\n1 document\n',
        [ResultColumns(("a",), ("int",)), Row(("1",)), Finished("1 document")],
        [Answered((b"1",), rows=1), Answered((), ends=True)],
    ),
    (
        ok(lastErrorObject={"n": 0}, value=None),
        "0 documents\n",
        [ResultColumns((), ()), Finished("0 documents")],
        [Answered((), ends=True)],
    ),
    (
        ok(n=3, nModified=2, electionId=ID, opTime={"t": 1}, operationTime=Timestamp(1, 1)),
        '{"n": 3, "nModified": 2}\n',
        [Finished('{"n": 3, "nModified": 2}')],
        [Answered((), ends=True)],
    ),
    (
        ok(n=1, upserted=[{"index": 0, "_id": 5}]),
        '{"n": 1, "upserted": [{"index": 0, "_id": 5}]}\n',
        [Finished('{"n": 1, "upserted": [{"index": 0, "_id": 5}]}')],
        [Answered((), ends=True)],
    ),
    (ok(), "ok\n", [Finished("ok")], [Answered((), ends=True)]),
    (
        reply({"db": "shop", "objects": 5, "ok": 1, "$clusterTime": {"x": 1}, "operationTime": Timestamp(1, 1)}),
        '{"db": "shop", "objects": 5}\n1 document\n',
        [ResultColumns(("db", "objects"), ("string", "int")), Row(("shop", "5")), Finished("1 document")],
        [Answered((b"shop", b"5"), rows=1), Answered((), ends=True)],
    ),
]
FAILURES: list[tuple[bytes, str, str, list[Result], list[Answered]]] = [
    (
        error("not authorized"),
        "",
        "ERROR 13 (Unauthorized): not authorized\n",
        [Problem("ERROR", "not authorized", code="Unauthorized")],
        [Answered((b"not authorized",), ends=True)],
    ),
    (
        reply({"ok": 0, "errmsg": "no", "code": 5}),
        "",
        "ERROR 5: no\n",
        [Problem("ERROR", "no", code="5")],
        [Answered((b"no",), ends=True)],
    ),
    (
        ok(n=1, writeErrors=[FAILED, {**FAILED, "index": 2}]),
        '{"n": 1}\n',
        'ERROR operation 2: 11000: duplicate key: { email: "größe" }\n'
        'ERROR operation 3: 11000: duplicate key: { email: "größe" }\n',
        [
            Problem("NOTE", '{"n": 1}', fails=False),
            Problem("ERROR", 'operation 2: duplicate key: { email: "größe" }', code="11000", fails=False),
            Problem("ERROR", 'operation 3: duplicate key: { email: "größe" }', code="11000"),
        ],
        [Answered(('duplicate key: { email: "größe" }'.encode(),) * 2, ends=True)],
    ),
    (
        ok(writeConcernError={"code": 64, "codeName": "WriteConcernTimeout", "errmsg": "timeout"}),
        "",
        "ERROR write concern: 64 (WriteConcernTimeout): timeout\n",
        [Problem("ERROR", "write concern: timeout", code="WriteConcernTimeout")],
        [Answered((b"timeout",), ends=True)],
    ),
]
STREAM = b"".join([*(part for part, *_ in PARTS), *(part for part, *_ in FAILURES)])


def read(reader: Any, data: bytes, step: int) -> list[Any]:
    return [each for at in range(0, len(data), step) for each in reader.feed(data[at : at + step])]


@pytest.mark.parametrize(("data", "text"), [(data, text) for data, text, *_ in PARTS])
@STEPS
def test_recorded_replies_are_rendered_as_documents_in_lines(data: bytes, text: str, step: int) -> None:
    pieces = read(MongodbTextRenderer(), data, step)
    assert b"".join(piece for _, piece in pieces).decode() == text
    assert {kind for kind, _ in pieces} == {"o"}


@pytest.mark.parametrize(("data", "output", "errors"), [(data, text, errors) for data, text, errors, *_ in FAILURES])
@STEPS
def test_recorded_errors_are_rendered_as_errors(data: bytes, output: str, errors: str, step: int) -> None:
    pieces = read(MongodbTextRenderer(), data, step)
    for kind, text in (("o", output), ("e", errors)):
        assert b"".join(piece for found, piece in pieces if found == kind).decode() == text


@pytest.mark.parametrize(
    ("data", "results"),
    [*((data, results) for data, _, results, _ in PARTS), *((data, results) for data, _, _, results, _ in FAILURES)],
)
@STEPS
def test_recorded_replies_are_read_as_tables(data: bytes, results: list[Result], step: int) -> None:
    assert read(MongodbResults(), data, step) == results


@pytest.mark.parametrize(
    ("data", "answers"),
    [*((data, answers) for data, _, _, answers in PARTS), *((data, answers) for data, _, _, _, answers in FAILURES)],
)
@STEPS
def test_recorded_replies_are_read_as_input_of_rules(data: bytes, answers: list[Answered], step: int) -> None:
    assert read(MongodbAnswers(), data, step) == answers


@STEPS
def test_whole_session_is_read_in_order(step: int) -> None:
    expected = [*(each for _, _, results, _ in PARTS for each in results)]
    expected += [each for _, _, _, results, _ in FAILURES for each in results]
    assert read(MongodbResults(), STREAM, step) == expected


def test_incomplete_reply_is_rendered_as_its_size() -> None:
    renderer = MongodbTextRenderer()
    assert renderer.feed(batch([{"a": "x"}])[:-20]) == []
    ((kind, text),) = renderer.rest()
    assert kind == "o"
    assert text.endswith(b" bytes of a reply]\n")
    assert renderer.rest() == []


@pytest.mark.parametrize(
    ("value", "cell", "kind"),
    [
        ("it's", "it's", "string"),
        ("", "", "string"),
        (5, "5", "int"),
        (Int64(5), "5", "long"),
        (1.5, "1.5", "double"),
        (5.0, "5.0", "double"),
        (float("nan"), "NaN", "double"),
        (float("-inf"), "-Infinity", "double"),
        (Decimal128("1.10"), "1.10", "decimal"),
        (True, "true", "bool"),
        (None, None, None),
        (ID, "0123456789abcdef01234567", "objectId"),
        (DatetimeMS(1769862605123), "2026-01-31T12:30:05.123Z", "date"),
        (DatetimeMS(0), "1970-01-01T00:00:00Z", "date"),
        (DatetimeMS(-1), '{"$date": {"$numberLong": "-1"}}', "date"),
        (Binary(bytes(range(16)), 4), "00010203-0405-0607-0809-0a0b0c0d0e0f", "binData"),
        (Binary(b"hi", 0), '{"$binary": {"base64": "aGk=", "subType": "00"}}', "binData"),
        (Timestamp(5, 1), '{"$timestamp": {"t": 5, "i": 1}}', "timestamp"),
        (Regex("a", "i"), '{"$regularExpression": {"pattern": "a", "options": "i"}}', "regex"),
        (Code("x"), "x", "javascript"),
        ([1, "x"], '[1, "x"]', "array"),
        ({"a": {}}, '{"a": {}}', "object"),
        ({}, "{}", "object"),
    ],
)
def test_value_is_shown_as_plain_text_or_as_extended_json(value: Any, cell: str | None, kind: str | None) -> None:
    columns, row, _ = MongodbResults().feed(batch([{"größe": value}]))
    assert columns == ResultColumns(("größe",), (kind,))
    assert row == Row((cell,))


def test_column_with_values_of_several_types_is_mixed() -> None:
    columns, *_ = MongodbResults().feed(batch([{"a": 1, "b": None}, {"a": "x", "b": 5}, {}]))
    assert columns == ResultColumns(("a", "b"), (MIXED, "int"))


def test_fields_beyond_the_most_columns_are_among_the_other_fields() -> None:
    columns, row, _ = MongodbResults().feed(batch([{f"f{number}": number for number in range(MAX_COLUMNS + 2)}]))
    assert isinstance(columns, ResultColumns)
    assert isinstance(row, Row)
    assert (len(columns.names), columns.names[-1]) == (MAX_COLUMNS + 1, OTHER_FIELDS)
    assert row.cells[-1] == f'{{"f{MAX_COLUMNS}": {MAX_COLUMNS}, "f{MAX_COLUMNS + 1}": {MAX_COLUMNS + 1}}}'


def test_repeated_field_shows_its_first_value() -> None:
    one, two = bson.encode({"a": 1}), bson.encode({"a": 2})
    document = (len(one) + len(two) - 5).to_bytes(4, "little") + one[4:-1] + two[4:-1] + b"\0"
    data = batch([RawBSONDocument(document)])
    assert MongodbResults().feed(data)[1] == Row(("1",))
    assert b"".join(text for _, text in MongodbTextRenderer().feed(data)).startswith(b'{"a": 1, "a": 2}')


def test_next_batch_without_a_first_one_is_a_table_of_its_own() -> None:
    data = batch([{"a": 1}], 5, first=False)
    assert MongodbResults().feed(data) == [ResultColumns(("a", OTHER_FIELDS), ("int", "object")), Row(("1", None))]


def test_batch_after_an_error_is_a_table_of_its_own() -> None:
    results = MongodbResults()
    results.feed(batch([{"a": 1}], 5) + error("no"))
    columns, *_ = results.feed(batch([{"b": 1}], first=False))
    assert columns == ResultColumns(("b",), ("int",))


def test_searched_texts_are_those_of_all_levels() -> None:
    document = {
        "a": "x",
        "b": [{"c": "y", "d e": True}, Decimal128("1.10")],
        "e": Binary(b"text", 0),
        "f": Binary(b"\xff", 0),
        "g": Binary(b"skipped", 5),
        "h": Code("code", {"i": "scope"}),
        "ann@example.com": ID,
    }
    (answer, _) = MongodbAnswers().feed(batch([document]))
    assert answer.texts == (b"x", b"y", b"d e", b"1.10", b"text", b"code", b"scope", b"ann@example.com")


def test_columns_of_paths_are_found_by_their_first_field() -> None:
    results = MongodbResults()
    results.feed(batch([{"a": {"b": 1}, "c.d": 1, "e": 1}]))
    assert results.find_columns(["a.b", "a", "c.d", "c.d.x", "e.f.g"]) == (0, 1, 2)
    assert results.find_columns(["a.b", "e"], whole=True) == (2,)
    assert results.find_columns(["x.y", "(field names)"]) == ()
    results.feed(batch([{"a": 1}], 5))
    assert results.find_columns(["x.y", "a"]) == (1, 0)
    results.feed(ok(values=[1]))
    assert results.find_columns(["a.b"]) == results.find_columns(["a.b"], whole=True) == (0,)


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        bytes(16),
        ok()[:12] + b"\xdc\x07\0\0" + ok()[16:],
        reply({"a": 1}),
        reply({"ok": "yes"}),
    ],
    ids=["another protocol", "no length", "compressed", "no ok", "ok is a text"],
)
def test_bytes_that_are_not_replies_are_a_violation(data: bytes) -> None:
    for reader in (MongodbTextRenderer(), MongodbResults(), MongodbAnswers()):
        with pytest.raises(ProtocolViolation):
            reader.feed(data)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_recording_is_read_or_a_violation(data: st.DataObject) -> None:
    damaged = bytearray(STREAM)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    for reader in (MongodbTextRenderer(), MongodbResults(), MongodbAnswers()):
        try:
            reader.feed(bytes(damaged))
        except ProtocolViolation:
            continue


@given(st.binary(max_size=200))
def test_arbitrary_recorded_bytes_are_read_or_a_violation(data: bytes) -> None:
    for reader in (MongodbTextRenderer(), MongodbResults(), MongodbAnswers()):
        try:
            reader.feed(data)
        except ProtocolViolation:
            continue
