"""Literals of scripts: each form, values that are written and read back, and what is not a literal."""

from __future__ import annotations

import math
from typing import Any

import bson
import pytest
from bson import (
    Binary,
    Code,
    DatetimeMS,
    DBRef,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
    json_util,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from postern.protocols.mongodb.queries.mongodb_shell_errors import MAX_DEPTH, ShellError
from postern.protocols.mongodb.queries.mongodb_shell_reader import ShellReader
from postern.protocols.mongodb.queries.mongodb_shell_statements import read_document
from postern.protocols.mongodb.wire.bson_json import write_json

DIGITS = "0123456789abcdef01234567"
SIXTEEN = bytes.fromhex("00112233445566778899aabbccddeeff")


def read(text: str) -> Any:
    reader = ShellReader(text)
    value = reader.value()
    reader.skip()
    assert reader.next == "", f"{reader.text[reader.at :]!r} is left"
    return value


def encoded(value: Any) -> bytes:
    return bson.encode({"": value})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{}", {}),
        ("{a: 1}", {"a": 1}),
        ("{'a': 1, \"b\": 2, $c: 3, d_1: 4, größe: 5}", {"a": 1, "b": 2, "$c": 3, "d_1": 4, "größe": 5}),
        ("{1: 'x', 10: 'y'}", {"1": "x", "10": "y"}),
        ("{a: {b: [1, [2], {}]}}", {"a": {"b": [1, [2], {}]}}),
        ("[1, 2, 3,]", [1, 2, 3]),
        ("{a: 1,}", {"a": 1}),
        ("{ /* one */ a: // two\n 1 }", {"a": 1}),
        ("{\u00a0a\ufeff:\u20281}", {"a": 1}),
        ("{true: 1, null: 2, new: 3}", {"true": 1, "null": 2, "new": 3}),
        ("'it\\'s'", "it's"),
        ('"say \\"hi\\""', 'say "hi"'),
        ("`back\ntick`", "back\ntick"),
        ("`a\r\nb\\r\\n`", "a\nb\r\n"),
        ("`$5 and \\${x}`", "$5 and ${x}"),
        (r"'\n\t\r\b\f\v\0\\\/'", "\n\t\r\b\f\v\0\\/"),
        (r"'\x41\u00e9\u{1F600}\q'", "Aé😀q"),
        (r"'\ud83d\ude00'", "😀"),
        ("'a\\\nb\\\r\nc'", "abc"),
        ("0", 0),
        ("5.0", 5),
        ("-5", -5),
        ("- 5", -5),
        ("+7", 7),
        ("1.5", 1.5),
        (".5", 0.5),
        ("5.", 5),
        ("1e3", 1000),
        ("1.5E-2", 0.015),
        ("1_000", 1000),
        ("0xFF", 255),
        ("0b101", 5),
        ("0o17", 15),
        ("2147483647", 2147483647),
        ("-2147483648", -2147483648),
        ("2147483648", 2147483648.0),
        ("9007199254740992", 9007199254740992.0),
        ("5n", Int64(5)),
        ("-5n", Int64(-5)),
        ("-0", -0.0),
        ("Infinity", math.inf),
        ("-Infinity", -math.inf),
        ("true", True),
        ("false", False),
        ("null", None),
        ("undefined", None),
        ("/ab[/]c\\/d/i", Regex("ab[/]c\\/d", "i")),
        ("/x/", Regex("x", "")),
        ("{a: /'/ , b: \"'\"}", {"a": Regex("'", ""), "b": "'"}),
        ("RegExp('a', 'im')", Regex("a", "im")),
        ("new RegExp('a')", Regex("a", "")),
        (f"ObjectId('{DIGITS}')", ObjectId(DIGITS)),
        (f'new ObjectId("{DIGITS}")', ObjectId(DIGITS)),
        ("ISODate('2026-01-31T12:30:05.123Z')", DatetimeMS(1769862605123)),
        ("ISODate('2026-01-31')", DatetimeMS(1769817600000)),
        ("ISODate('2026-01-31T12:30:05+02:00')", DatetimeMS(1769855405000)),
        ("ISODate('2026-01-31 12:30')", DatetimeMS(1769862600000)),
        ("ISODate('20260131T1230')", DatetimeMS(1769862600000)),
        ("ISODate('1969-12-31T23:59:59.999Z')", DatetimeMS(-1)),
        ("new Date('2026-01-31')", DatetimeMS(1769817600000)),
        ("new Date('2026')", DatetimeMS(1767225600000)),
        ("new Date(0)", DatetimeMS(0)),
        ("new Date(-62135596800001)", DatetimeMS(-62135596800001)),
        ("new Date(1769862605123)", DatetimeMS(1769862605123)),
        ("new Date(2026, 0, 31, 12, 30, 5, 123)", DatetimeMS(1769862605123)),
        ("new Date(2025, 12, 31)", DatetimeMS(1769817600000)),
        ("NumberLong('9223372036854775807')", Int64(9223372036854775807)),
        ("NumberLong(5)", Int64(5)),
        ("Long('5')", Int64(5)),
        ("Long.fromString('-5')", Int64(-5)),
        ("Long.fromNumber(5)", Int64(5)),
        ("NumberInt('5')", 5),
        ("Int32(5)", 5),
        ("Double(5)", 5.0),
        ("NumberDecimal('1.10')", Decimal128("1.10")),
        ("Decimal128('NaN')", Decimal128("NaN")),
        ("UUID('00112233-4455-6677-8899-aabbccddeeff')", Binary(SIXTEEN, 4)),
        ("BinData(0, 'aGk=')", Binary(b"hi", 0)),
        ("BinData(128, '')", Binary(b"", 128)),
        ("HexData(5, '0aff')", Binary(b"\n\xff", 5)),
        ("MD5('0aff')", Binary(b"\n\xff", 5)),
        ("Timestamp(5, 1)", Timestamp(5, 1)),
        ("Timestamp({t: 5, i: 1})", Timestamp(5, 1)),
        ("Timestamp()", Timestamp(0, 0)),
        ("MinKey", MinKey()),
        ("MinKey()", MinKey()),
        ("new MaxKey()", MaxKey()),
        ("DBRef('c', 5)", DBRef("c", 5)),
        ("DBRef('c', 5, 'd')", DBRef("c", 5, "d")),
        ("Code('return 1')", Code("return 1")),
        ("Code('return x', {x: 1})", Code("return x", {"x": 1})),
        (f'{{"$oid": "{DIGITS}"}}', ObjectId(DIGITS)),
        ('{"$numberInt": "5"}', 5),
        ('{"$numberLong": "5"}', Int64(5)),
        ('{"$numberDouble": "5.0"}', 5.0),
        ('{"$numberDouble": "-Infinity"}', -math.inf),
        ('{"$numberDecimal": "5.10"}', Decimal128("5.10")),
        ('{"$date": "2026-01-31T12:30:05.123Z"}', DatetimeMS(1769862605123)),
        ('{"$date": {"$numberLong": "-5"}}', DatetimeMS(-5)),
        ('{"$date": 5}', DatetimeMS(5)),
        ('{"$binary": {"base64": "aGk=", "subType": "00"}}', Binary(b"hi", 0)),
        ('{"$binary": "aGk=", "$type": "80"}', Binary(b"hi", 128)),
        ('{"$uuid": "00112233-4455-6677-8899-aabbccddeeff"}', Binary(SIXTEEN, 4)),
        ('{"$timestamp": {"t": 5, "i": 1}}', Timestamp(5, 1)),
        ('{"$regularExpression": {"pattern": "a", "options": "i"}}', Regex("a", "i")),
        ('{"$code": "x"}', Code("x")),
        ('{"$code": "x", "$scope": {"a": 1}}', Code("x", {"a": 1})),
        ('{"$symbol": "x"}', "x"),
        ('{"$minKey": 1}', MinKey()),
        ('{"$maxKey": 1}', MaxKey()),
        ('{"$undefined": true}', None),
        ('{"$regex": "a", "$options": "i"}', {"$regex": "a", "$options": "i"}),  # an operator
        ('{"$ref": "c", "$id": 5}', {"$ref": "c", "$id": 5}),
        ("{$gt: 5}", {"$gt": 5}),
    ],
)  # fmt: skip
def test_literal_is_read_as_its_value_with_its_type(text: str, value: Any) -> None:
    assert encoded(read(text)) == encoded(value)


def test_nan_is_read_as_a_number() -> None:
    assert math.isnan(read("NaN"))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("ObjectId()", ObjectId),
        ("new ObjectId()", ObjectId),
        ("new ObjectId", ObjectId),
        ("ISODate()", DatetimeMS),
        ("new Date()", DatetimeMS),
        ("new Date", DatetimeMS),
        ("Date()", str),
        ("UUID()", Binary),
    ],
)
def test_constructor_without_argument_makes_a_new_value(text: str, kind: type) -> None:
    assert isinstance(read(text), kind)


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        ("x", 0, "variables"),
        ("x.y", 0, "variables"),
        ("function() {}", 0, "variables, functions"),
        ("() => 1", 0, "a value is expected"),
        ("{a: x}", 4, "'x' is not a literal"),
        ("{a: 1 + 2}", 6, "operators"),
        ("{a: 'x' + 'y'}", 8, "operators"),
        ("{a}", 2, "':' is expected after the field 'a'"),
        ("{...a}", 1, "the name of a field"),
        ("{[a]: 1}", 1, "the name of a field"),
        ("{a: 1, a: 2}", 7, "written twice"),
        ("{'a\\0': 1}", 1, "zero character"),
        ("{a: 1", 5, "'}' is expected"),
        ("[1", 2, "']' is expected"),
        ("{,}", 1, "the name of a field"),
        ("[,]", 1, "a value is expected"),
        ("'abc", 0, "not closed"),
        ("'a\nb'", 0, "not closed"),
        ("`${x}`", 1, "code"),
        ("/a", 0, "not closed"),
        ("/a\n/", 0, "not closed"),
        ("/a/g", 0, "flags"),
        ("/a/ii", 0, "flags"),
        ("/* a", 0, "not closed"),
        (r"'\x4'", 1, "escape"),
        (r"'\u{110000}'", 1, "escape"),
        (r"'\ud83d'", 0, "surrogate"),
        (r"'\07'", 1, "octal"),
        ("010", 0, "not a number"),
        ("0x", 0, "not a number"),
        ("1__0", 0, "not a number"),
        ("5a", 0, "not a number"),
        ("1.5n", 0, "not a number"),
        ("٣", 0, "not a number"),
        ("--5", 0, "a number is expected"),
        ("9007199254740993", 0, "NumberLong"),
        ("99999999999999999999n", 0, "64 bits"),
        ("ObjectId('xyz')", 0, "24 hexadecimal"),
        ("ObjectId('a', 'b')", 0, "0 or 1 arguments"),
        ("ISODate('yesterday')", 0, "not a date"),
        ("ISODate('2026-02-30')", 0, "day"),
        ("NumberLong('5.5')", 0, "64-bit"),
        ("NumberLong('9223372036854775808')", 0, "range"),
        ("NumberInt(2147483648)", 0, "range"),
        ("NumberDecimal('x')", 0, "decimal"),
        ("UUID('x')", 0, "UUID"),
        ("BinData(0, '*')", 0, "base64"),
        ("BinData(256, '')", 0, "subtype"),
        ("HexData(0, 'f')", 0, "hexadecimal"),
        ("Timestamp(-1, 0)", 0, "range"),
        ("new Date('x')", 0, "not a date"),
        ("new Foo()", 0, "'Foo' is not a literal"),
        ("eval('1')", 0, "'eval' is not a literal"),
        ("ObjectId", 0, "not a literal"),
        ('{"$oid": "x"}', 0, "24 hexadecimal"),
        (f'{{"$oid": "{DIGITS}", "a": 1}}', 0, "no other fields"),
        ('{"$date": "x"}', 0, "not a date"),
        ('{"$numberLong": 5}', 0, "text"),
        ('{"$dbPointer": {}}', 0, "not supported"),
        (":x", 0, "placeholder :x has no value"),
        ("{a: :x}", 4, "placeholder :x has no value"),
        ("$1", 0, "not a literal"),
        ("", 0, "a value is expected"),
    ],
)  # fmt: skip
def test_text_that_is_not_a_literal_is_an_error_with_its_place(text: str, at: int, message: str) -> None:
    with pytest.raises(ShellError, match=message) as error:
        read(text)
    assert error.value.offset == at


def test_error_is_located_by_line_and_column() -> None:
    text = "{\n  a: 1,\n  größe: x}"
    with pytest.raises(ShellError) as error:
        read(text)
    assert error.value.describe_place(text).startswith("line 3, column 10: ")


def test_attack_deep_nesting_is_an_error() -> None:
    assert read("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    for opening in ("[", "{a:", "ObjectId("):
        with pytest.raises(ShellError):
            read(opening * 100_000)
    with pytest.raises(ShellError, match="levels"):
        read("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 5}', 5),
        ('{"a": 5.0}', 5.0),
        ('{"a": 5e0}', 5.0),
        ('{"a": -0}', 0),
        ('{"a": 3000000000}', Int64(3000000000)),
        ('{"a": [1, 2.0]}', [1, 2.0]),
        ("{a: 5.0}", 5.0),
        ('{"a": {"$numberLong": "5"}}', Int64(5)),
    ],
)
def test_numbers_of_extended_json_have_the_types_of_its_specification(text: str, value: Any) -> None:
    assert bson.encode(read_document(text)) == bson.encode({"a": value})


@pytest.mark.parametrize("text", ["", "[]", "{} {}", '{"a": 99999999999999999999}', '{"a": 1, "a": 2}', "{", "5"])
def test_text_that_is_not_one_document_of_extended_json_is_an_error(text: str) -> None:
    with pytest.raises(ShellError):
        read_document(text)


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8).filter(
    lambda name: not name.startswith("$")
)
MILLIS = st.integers(-62135596800000, 253402300799999)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**63), 2**63 - 1).map(Int64),
    st.floats(allow_nan=False),
    st.text(max_size=20),
    st.binary(min_size=12, max_size=12).map(ObjectId),
    MILLIS.map(DatetimeMS),
    st.tuples(st.binary(max_size=20), st.sampled_from([0, 5, 6, 128])).map(lambda pair: Binary(*pair)),
    st.uuids().map(lambda value: Binary(value.bytes, 4)),
    st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)).map(lambda pair: Timestamp(*pair)),
    st.decimals(allow_nan=False, places=3, min_value=-(10**9), max_value=10**9).map(Decimal128),
    st.integers(0, 3).map([MinKey(), MaxKey(), Regex("a\\/b'\"", "im"), Code("return 1")].__getitem__),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
DOCUMENTS = st.dictionaries(NAMES, VALUES, max_size=5)


def shell(value: Any, quote: str = "'") -> str:
    """Writes a value as a person would in a shell."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{shell(name)}: {shell(item, quote)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(shell(item, quote) for item in value) + "]"
    if isinstance(value, Code):
        return f"Code({text_literal(str(value), quote)})"
    if isinstance(value, str):
        return text_literal(value, quote)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Int64):
        return f"NumberLong('{value}')"
    if isinstance(value, float):
        return f"Double('{value!r}')" if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, Binary):
        return f"HexData({value.subtype}, '{value.hex()}')"
    if isinstance(value, DatetimeMS):
        return f"new Date({int(value)})"
    if isinstance(value, Timestamp):
        return f"Timestamp({value.time}, {value.inc})"
    if isinstance(value, Regex):
        return f"RegExp({text_literal(value.pattern, quote)}, 'im')"
    names = {ObjectId: "ObjectId", Decimal128: "NumberDecimal"}
    if type(value) in names:
        return f"{names[type(value)]}('{value}')"
    return {type(None): "null", MinKey: "MinKey()", MaxKey: "MaxKey"}.get(type(value), str(value))


def text_literal(text: str, quote: str) -> str:
    escaped = text.replace("\\", "\\\\").replace(quote, "\\" + quote).replace("${", "\\${")
    for sign, name in (("\n", "n"), ("\r", "r"), ("\u2028", "u2028"), ("\u2029", "u2029")):
        escaped = escaped.replace(sign, "\\" + name)
    return quote + escaped + quote


@settings(deadline=None)
@given(VALUES, st.sampled_from("'\"`"))
def test_any_value_written_as_a_literal_is_read_back(value: Any, quote: str) -> None:
    assert encoded(read(shell(value, quote))) == encoded(value)


@settings(deadline=None)
@given(DOCUMENTS)
def test_any_document_written_as_relaxed_extended_json_is_read_back(document: Any) -> None:
    written = write_json(bson.encode(document))
    # Relaxed JSON writes small 64-bit integers as plain numbers, so they lose their type there as everywhere.
    relaxed = json_util.loads(written, json_options=json_util.RELAXED_JSON_OPTIONS)
    assert write_json(bson.encode(read_document(written))) == written
    assert bson.encode(read_document(written)) == bson.encode(relaxed) or "$date" in written or "$binary" in written


@settings(deadline=None)
@given(DOCUMENTS)
def test_any_document_written_as_canonical_extended_json_is_read_back_with_all_types(document: Any) -> None:
    written = json_util.dumps(document, json_options=json_util.CANONICAL_JSON_OPTIONS)
    assert bson.encode(read_document(written)) == bson.encode(document)


@settings(deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_a_value_or_an_error(text: str) -> None:
    for reading in (ShellReader(text).value, lambda: read_document(text)):
        offset = 0
        try:
            reading()
        except ShellError as error:
            offset = error.offset
        assert 0 <= offset <= len(text)
