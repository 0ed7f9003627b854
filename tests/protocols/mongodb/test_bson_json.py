"""Extended JSON: the same as `bson.json_util`, for any document that a dictionary can hold."""

from __future__ import annotations

import json
import math
from typing import Any

import bson
import pytest
from bson import json_util
from bson.codec_options import CodecOptions, DatetimeConversion
from hypothesis import given
from tests.support.mongodb_documents import DOCUMENTS
from tests.support.protocols import mongodb_test_messages as mg

from postern.errors import ProtocolViolation
from postern.protocols.mongodb.wire.bson_documents import read_fields
from postern.protocols.mongodb.wire.bson_json import write_command, write_json
from postern.protocols.mongodb.wire.mongodb_messages import parse_message

_AS_NUMBERS = CodecOptions[dict[str, Any]](datetime_conversion=DatetimeConversion.DATETIME_AUTO, tz_aware=True)


@given(DOCUMENTS)
def test_text_is_what_the_library_writes(document: bytes) -> None:
    decoded = bson.decode(document, _AS_NUMBERS)
    expected = json_util.dumps(decoded, json_options=json_util.RELAXED_JSON_OPTIONS)
    assert json.loads(write_json(document)) == json.loads(expected)


@given(DOCUMENTS)
def test_text_is_one_line_and_reads_back(document: bytes) -> None:
    text = write_json(document)
    assert "\n" not in text
    assert json.dumps(json.loads(text), ensure_ascii=False) == text


def _element(kind: int, value: bytes, name: bytes = b"a") -> bytes:
    content = bytes([kind]) + name + b"\0" + value
    return (len(content) + 5).to_bytes(4, "little") + content + b"\0"


def _text(value: bytes) -> bytes:
    return (len(value) + 1).to_bytes(4, "little") + value + b"\0"


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (_element(0x06, b""), '{"a": {"$undefined": true}}'),
        (_element(0x0E, _text(b"x")), '{"a": {"$symbol": "x"}}'),
        (
            _element(0x0C, _text(b"db.c") + bytes(12)),
            '{"a": {"$dbPointer": {"$ref": "db.c", "$id": {"$oid": "000000000000000000000000"}}}}',
        ),
        (_element(0x0B, b"a/b\0mi\0"), '{"a": {"$regularExpression": {"pattern": "a/b", "options": "mi"}}}'),
        (_element(0x01, bson.encode({"a": math.nan})[7:-1]), '{"a": {"$numberDouble": "NaN"}}'),
        (_element(0x01, bson.encode({"a": -math.inf})[7:-1]), '{"a": {"$numberDouble": "-Infinity"}}'),
        (bson.encode({"a": -0.0}), '{"a": -0.0}'),
        (bson.encode({"ä": 'ö"\\\n\u2028'}), '{"ä": "ö\\"\\\\\\n\u2028"}'),
        (bson.encode({"a": bson.DatetimeMS(253402300799999)}), '{"a": {"$date": "9999-12-31T23:59:59.999Z"}}'),
        (bson.encode({"a": bson.DatetimeMS(253402300800000)}), '{"a": {"$date": {"$numberLong": "253402300800000"}}}'),
        (bson.encode({"a": bson.DatetimeMS(-1)}), '{"a": {"$date": {"$numberLong": "-1"}}}'),
        (bson.encode({"a": bson.DatetimeMS(0)}), '{"a": {"$date": "1970-01-01T00:00:00Z"}}'),
        (bson.encode({}), "{}"),
        (bson.encode({"a": [], "b": {}}), '{"a": [], "b": {}}'),
        (mg.pairs(("a", 1), ("a", 2)), '{"a": 1, "a": 2}'),
    ],
)
def test_text_of_rare_values(document: bytes, text: str) -> None:
    assert write_json(document) == text


def test_text_that_is_not_utf8_is_an_error_unless_it_is_replaced() -> None:
    document = _element(0x02, _text(b"\xff"))
    with pytest.raises(UnicodeDecodeError):
        write_json(document)
    assert write_json(document, "replace") == '{"a": "\ufffd"}'


@pytest.mark.parametrize(
    "document",
    [b"", b"\x05\0\0\0", b"\x06\0\0\0\0", b"\x05\0\0\0\1", _element(0x20, b""), _element(0x02, b"\0\0\0\0")],
)
def test_bytes_that_are_no_document_are_a_violation(document: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        write_json(document)


def _command(body: Any, sections: bytes = b"", originating: str = "", **options: Any) -> tuple[str, bool]:
    raw = mg.request(body, sections=sections)
    message = parse_message(raw)
    return write_command(raw, read_fields(raw, message.pos, message.end), message.sequences, originating, **options)


def test_command_has_its_sections_and_then_its_database() -> None:
    body = {"$db": "shop", "insert": "c", "lsid": {"id": 1}, "$clusterTime": {}, "ordered": True}
    text, truncated = _command(body, mg.sequence("documents", {"a": 1}, {"b": "é"}))
    assert text == '{"insert": "c", "ordered": true, "documents": [{"a": 1}, {"b": "é"}], "$db": "shop"}'
    assert not truncated


def test_get_more_has_its_cursor_as_text_and_the_command_that_opened_it() -> None:
    body = {"getMore": bson.Int64(5), "collection": "c", "$db": "shop"}
    text, _ = _command(body, originating='{"find": "c", "$db": "shop"}')
    assert text == (
        '{"getMore": {"$numberLong": "5"}, "collection": "c", '
        '"originatingCommand": {"find": "c", "$db": "shop"}, "$db": "shop"}'
    )


def test_text_longer_than_the_limit_is_cut() -> None:
    text, truncated = _command({"insert": "c", "x": "y" * 100}, max_text=50)
    assert truncated
    assert text.startswith('{"insert": "c"')


def test_empty_command_is_an_empty_object() -> None:
    assert _command({}) == ("{}", False)
