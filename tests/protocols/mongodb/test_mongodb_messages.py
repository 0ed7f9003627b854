"""The messages of logins, and what large replies say while they pass."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import bson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.mongodb_documents import DOCUMENTS
from tests.support.protocols import mongodb_test_messages as mg

from postern.errors import ProtocolViolation
from postern.protocols.mongodb.wire import bson_documents as documents
from postern.protocols.mongodb.wire import mongodb_messages as m
from postern.protocols.mongodb.wire.mongodb_output import ReplyFacts, read_facts
from postern.protocols.mongodb.wire.mongodb_reply_scanner import ReplyScanner

HELLO = bson.encode({"isMaster": 1, "helloOk": True})


def test_first_message_and_its_reply_are_read_back() -> None:
    message = m.encode_query(5, HELLO)
    assert m.parse_query(message) == (b"admin.$cmd", HELLO)
    reply = m.encode_query_reply(5, HELLO)
    assert m.parse_query_reply(reply) == HELLO
    assert int.from_bytes(reply[8:12], "little") == 5
    assert m.read_size(reply, 0) == len(reply)
    assert m.read_size(message, 0) == len(message)


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_damaged_first_messages_are_a_violation(cut: int) -> None:
    for read, message in (
        (m.parse_query, m.encode_query(5, HELLO)),
        (m.parse_query_reply, m.encode_query_reply(5, HELLO)),
    ):
        for damaged in (message[:-cut], message + b"\0" * cut):
            with pytest.raises(ProtocolViolation):
                read(damaged)


def test_message_and_its_sections_are_read_back() -> None:
    sections = mg.sequence("documents", {"a": 1}, {"b": 2})
    raw = m.encode_message(7, 3, HELLO, flags=m.MORE_TO_COME, sections=sections)
    message = m.parse_message(raw)
    assert (message.request_id, message.response_to, message.flags) == (7, 3, m.MORE_TO_COME)
    assert raw[message.pos : message.end] == HELLO
    (sequence,) = message.sequences
    assert sequence.name == b"documents"
    assert raw[sequence.pos : sequence.end] == bson.encode({"a": 1}) + bson.encode({"b": 2})


def test_error_is_a_document_as_servers_send_it() -> None:
    error = bson.decode(m.error_document("it is denied.", m.UNAUTHORIZED, "Ask."))
    assert error == {"ok": 0.0, "errmsg": "it is denied. Ask.", "code": 13, "codeName": "Unauthorized"}
    assert bson.decode(m.error_document("x", m.TOO_LARGE))["errmsg"] == "x"
    assert bson.decode(m.ok_document()) == {"ok": 1.0}


# Documents


@given(DOCUMENTS)
def test_fields_are_those_of_the_document(document: bytes) -> None:
    documents.check_document(document, 0, len(document))
    fields = documents.read_fields(document, 0, len(document))
    assert documents.count_elements(document, 0, len(document)) == len(fields)
    assert documents.find_repeated(fields) is None
    assert documents.encode_document(*[document[field.start : field.end] for field in fields]) == document
    for field in fields:
        assert documents.find_field(fields, field.name) is field
        rest = documents.without_fields(document, 0, len(document), fields, frozenset({field.name}))
        documents.check_document(rest, 0, len(rest))
        assert [left.name for left in documents.read_fields(rest, 0, len(rest))] == [
            other.name for other in fields if other is not field
        ]
    more = documents.with_element(document, 0, len(document), documents.element(documents.NULL, b"more", b""))
    documents.check_document(more, 0, len(more))
    assert documents.read_fields(more, 0, len(more))[-1].name == b"more"


@given(DOCUMENTS, st.data())
def test_damaged_document_is_a_violation_or_still_one(document: bytes, data: Any) -> None:
    damaged = bytearray(document)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    raw = bytes(damaged)
    try:
        documents.check_document(raw, 0, len(raw))
    except ProtocolViolation:
        return
    for field in documents.read_fields(raw, 0, len(raw)):
        assert 0 < field.start < field.value <= field.end < len(raw)


def test_numbers_of_all_types_are_read() -> None:
    values = {"a": 5, "b": bson.Int64(1 << 40), "c": 2.0, "d": True, "e": "5", "f": 2.5, "g": float("nan"), "h": 1e300}
    raw = bson.encode(values)
    fields = documents.read_fields(raw, 0, len(raw))
    assert [documents.integer_at(raw, field) for field in fields] == [5, 1 << 40, 2, None, None, None, None, None]
    assert [documents.number_at(raw, field) for field in fields[:6]] == [5.0, float(1 << 40), 2.0, 1.0, None, 2.5]


# Large replies


def _facts(facts: ReplyFacts) -> tuple[Any, ...]:
    return facts.succeeded, int(facts.rows), facts.cursor, facts.has_cursor, facts.code


_REPLIES = [
    {"cursor": {"firstBatch": [{"a": 1}, {"b": [1, 2]}], "id": bson.Int64(-5), "ns": "a.b"}, "ok": 1.0},
    {"cursor": {"id": bson.Int64(0), "ns": "a.b", "nextBatch": []}, "ok": 1, "n": 7},
    {"cursor": {}, "ok": 1.0},
    {"n": 5, "ok": True},
    {"ok": 0.0, "code": 13, "errmsg": "x"},
    {"ok": 0.0},
    {},
    {"cursor": 5, "ok": 1.0},
]


@pytest.mark.parametrize("fields", _REPLIES)
@given(document=DOCUMENTS, size=st.integers(1, 50))
def test_passing_reply_says_what_a_whole_one_says(fields: dict[str, Any], document: bytes, size: int) -> None:
    reply = bson.encode(fields)
    own = {b"ok", b"n", b"code", b"cursor", b"values", b"lastErrorObject"}
    others = documents.read_fields(document, 0, len(document))
    raw = documents.encode_document(
        *[document[field.start : field.end] for field in others if field.name not in own], reply[4:-1]
    )
    scanner = ReplyScanner(len(raw))
    for start in range(0, len(raw), size):
        assert not scanner.is_complete
        scanner.feed(raw[start : start + size])
    assert scanner.is_complete
    assert _facts(scanner.facts) == _facts(read_facts(raw, documents.read_fields(raw, 0, len(raw))))


@given(document=DOCUMENTS, data=st.data())
def test_damaged_passing_reply_is_a_violation_or_passes(document: bytes, data: Any) -> None:
    """The values that are skipped are not checked: no interceptor looks at them."""
    damaged = bytearray(document)
    damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    size = data.draw(st.integers(1, 50))
    scanner = ReplyScanner(len(damaged))
    with suppress(ProtocolViolation):
        for start in range(0, len(damaged), size):
            scanner.feed(bytes(damaged[start : start + size]))
