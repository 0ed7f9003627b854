"""Documents as rows: columns by path and kind, and changes of their values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import bson
import pytest
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.raw_bson import RawBSONDocument
from hypothesis import given
from hypothesis import strategies as st
from tests.support.mongodb_documents import DOCUMENTS
from tests.support.protocols import mongodb_test_messages as mg

from postern.domain.rules.masking import Strategy
from postern.errors import ProtocolViolation
from postern.inspection.masking.strategies import Substitutes
from postern.interception.events import Change, Column, Fill, Scalar, TextKind
from postern.protocols.mongodb.wire import mongodb_rows
from postern.protocols.mongodb.wire.mongodb_output import MongodbReply
from postern.protocols.mongodb.wire.mongodb_response_queue import FORWARDED, MongodbPendingReply
from postern.protocols.mongodb.wire.mongodb_rows import DocumentPaths, DocumentRows, TooManyFields

_OPTIONS = CodecOptions[dict[str, Any]](datetime_conversion=DatetimeConversion.DATETIME_MS)
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z_0-9]{0,63}")


def _reply(
    *documents: Any, name: str = "find", message: bytes = b"", paths: DocumentPaths | None = None
) -> MongodbReply:
    if not message:
        raw = [each if isinstance(each, bytes) else bson.encode(each) for each in documents]
        message = mg.batch(*[RawBSONDocument(each) for each in raw])
    reply = MongodbReply(message, MongodbPendingReply(FORWARDED, 1, 1, name.encode()))
    reply.inspect(paths or DocumentPaths(), wants_rows=True, wants_output=False)
    reply.next_event()
    return reply


def _rows(reply: MongodbReply) -> DocumentRows:
    assert reply.rows is not None
    return reply.rows


def _columns(*documents: Any) -> list[tuple[str, TextKind, list[bytes]]]:
    rows = _rows(_reply(*documents))
    return [(column.name, column.kind, rows.texts(at)) for at, column in enumerate(rows.columns)]


def _shown(reply: MongodbReply) -> list[dict[str, Any]]:
    (body,) = mg.bodies(reply.render())
    return list(body["cursor"]["firstBatch"])


def _changed(by: Change, *documents: Any) -> list[dict[str, Any]]:
    reply = _reply(*documents)
    for at in range(len(_rows(reply).columns)):
        _rows(reply).change(at, by)
    return _shown(reply)


# A model of the columns, over decoded documents


def _kind(value: Any) -> TextKind:
    if isinstance(value, str):  # also code
        return TextKind.TEXT
    if isinstance(value, bool):
        return TextKind.OPAQUE
    if isinstance(value, int | float | bson.Decimal128):
        return TextKind.NUMBER
    subtype = getattr(value, "subtype", 0)
    if isinstance(value, bytes) and subtype in (0, 2):
        try:
            value.decode()
        except UnicodeDecodeError:
            return TextKind.OPAQUE
        return TextKind.TEXT
    return TextKind.OPAQUE


def _model(path: str, value: Any) -> Iterator[tuple[str, TextKind]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if not _PLAIN.fullmatch(name):
                yield "(field names)", TextKind.TEXT
            yield from _model(f"{path}.{name}" if path else name, inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _model(path, inner)
    else:
        yield path, _kind(value)
        scope = getattr(value, "scope", None)
        if scope is not None:
            yield from _model(path, scope)


# A document with an empty name at its top has paths without a name, which this model does not join in the same way.
_BATCHES = st.lists(DOCUMENTS.filter(lambda document: "" not in bson.decode(document, _OPTIONS)), max_size=4)


@given(_BATCHES)
def test_columns_are_the_paths_and_kinds_in_order_of_appearance(documents: list[bytes]) -> None:
    reply = _reply(*documents)
    decoded = bson.decode(reply.data[21:], _OPTIONS)["cursor"]["firstBatch"]
    expected = list(dict.fromkeys([column for fields in decoded for column in _model("", fields)]))
    found = [(column.name, column.kind) for column in reply.rows.columns] if reply.rows else []
    assert found == expected
    assert (reply.rows.count if reply.rows else 0) == len(documents)


@given(st.lists(DOCUMENTS, min_size=1, max_size=4), st.booleans())
def test_values_that_do_not_change_keep_all_bytes(documents: list[bytes], replaces: bool) -> None:
    reply = _reply(*documents)
    rows = _rows(reply)
    for at in range(len(rows.columns)):
        if replaces:
            rows.replace(at, rows.texts(at))
        else:
            assert rows.change(at, lambda scalar, text: text) == (0, 0)
        assert not int.from_bytes(rows.find_changed_rows(at), "little")
    assert reply.render() == reply.data


@given(st.lists(DOCUMENTS, min_size=1, max_size=4), st.data())
def test_every_change_gives_valid_documents_without_the_old_texts(documents: list[bytes], data: Any) -> None:
    reply = _reply(*documents)
    rows = _rows(reply)
    for at, column in enumerate(rows.columns):
        if column.kind is TextKind.TEXT and data.draw(st.booleans()):
            rows.replace(at, [b"<" + text + b">" for text in rows.texts(at)])
        elif column.kind is TextKind.NUMBER and data.draw(st.booleans()):
            rows.change(at, lambda scalar, text: b"7")
        elif data.draw(st.booleans()):
            rows.change(at, lambda scalar, text: None)
    shown = reply.render()
    again = _reply(message=shown)
    assert _rows(again).count == rows.count
    expected = [rows.texts(at) for at, column in enumerate(rows.columns) if column.kind is TextKind.TEXT]
    found = [texts for _, kind, texts in _columns_of(again) if kind is TextKind.TEXT]
    assert sorted(t for texts in expected for t in texts if t) == sorted(
        t for texts in found for t in texts if t
    ) or any(column.name == "(field names)" for column in rows.columns)


def _columns_of(reply: MongodbReply) -> list[tuple[str, TextKind, list[bytes]]]:
    rows = _rows(reply)
    return [(column.name, column.kind, rows.texts(at)) for at, column in enumerate(rows.columns)]


@given(st.lists(DOCUMENTS, min_size=1, max_size=3))
def test_all_values_can_become_null(documents: list[bytes]) -> None:
    reply = _reply(*documents)
    rows = _rows(reply)
    for at, column in enumerate(rows.columns):
        if column.name != "(field names)":
            rows.change(at, lambda scalar, text: None)

    def check(value: Any) -> None:
        if isinstance(value, dict | list):
            for inner in value.values() if isinstance(value, dict) else value:
                check(inner)
        else:
            assert value is None

    (body,) = mg.bodies(reply.render())
    check(body["cursor"]["firstBatch"])


# Examples


def test_arrays_are_transparent_and_kinds_are_apart() -> None:
    found = _columns({"tags": ["a", 1, ["b"]], "items": [{"sku": "x"}, {"sku": 2}]}, {"tags": "c", "items": None})
    assert found == [
        ("tags", TextKind.TEXT, [b"a", b"b", b"c"]),
        ("tags", TextKind.NUMBER, [b"1"]),
        ("items.sku", TextKind.TEXT, [b"x"]),
        ("items.sku", TextKind.NUMBER, [b"2"]),
        ("items", TextKind.OPAQUE, []),
    ]


def test_names_that_are_not_identifiers_are_texts() -> None:
    found = _columns({"a@example.com": {"x": 1, "y z": "v"}, "5": True, "": 1})
    assert found[0] == ("(field names)", TextKind.TEXT, [b"a@example.com", b"y z", b"5", b""])
    assert ("a@example.com.y z", TextKind.TEXT, [b"v"]) in found


def test_names_of_array_elements_that_are_not_numbers_are_texts() -> None:
    inner = mg.pairs(("0", "x"), ("secret", "y"))
    document = mg.pairs(("a", []))[:-1]
    element = b"\x04a\0" + inner
    document = (len(element) + 5).to_bytes(4, "little") + element + b"\0"
    assert _columns(document) == [
        ("a", TextKind.TEXT, [b"x", b"y"]),
        ("(field names)", TextKind.TEXT, [b"secret"]),
    ]


def test_masked_names_stay_apart() -> None:
    reply = _reply({"a@x.y": 1, "b@x.y": 2, "****2": 3})
    rows = _rows(reply)
    rows.replace(0, [b"****", b"****", b"****2"])
    assert rows.find_changed_rows(0) == b"\1"
    assert _shown(reply) == [{"****": 1, "****3": 2, "****2": 3}]


def test_masked_name_and_its_value_change_together() -> None:
    reply = _reply({"a@x.y": 1, "c": "d"})
    rows = _rows(reply)
    rows.replace(0, [b"****"])
    rows.change(1, lambda scalar, text: None)
    assert _shown(reply) == [{"****": None, "c": "d"}]


@pytest.mark.parametrize(
    ("value", "scalar", "text", "new", "expected"),
    [
        ("a", Scalar.TEXT, b"a", b"bc", "bc"),
        (bson.Code("a"), Scalar.TEXT, b"a", b"bc", bson.Code("bc")),
        (bson.Code("a", {"b": bson.Int64(1)}), Scalar.TEXT, b"a", b"bc", None),
        (5, Scalar.INTEGER, b"5", b"-7", -7),
        (5, Scalar.INTEGER, b"5", b"4294967296", None),
        (5, Scalar.INTEGER, b"5", b"x", None),
        (bson.Int64(5), Scalar.BIGINT, b"5", b"4294967296", bson.Int64(4294967296)),
        (2.5, Scalar.DOUBLE, b"2.5", b"0.0", 0.0),
        (bson.Decimal128("1.50"), Scalar.DECIMAL, b"1.50", b"0", bson.Decimal128("0")),
        (True, Scalar.BOOLEAN, b"t", b"f", False),
        (bson.DatetimeMS(1500), Scalar.MOMENT, b"1970-01-01 00:00:01.500000", b"2001-02-03 04:05:06", None),
        (bson.DatetimeMS(1 << 60), Scalar.OTHER, (1 << 60).to_bytes(8, "little"), b"x", None),
        (bson.Binary.from_uuid(UUID(int=5)), Scalar.UUID, str(UUID(int=5)).encode(), str(UUID(int=6)).encode(), None),
        (b"\xff", Scalar.BYTES, b"\xff", b"", b""),
        (bson.Binary(b"ab", 2), Scalar.BYTES, b"ab", b"abc", bson.Binary(b"abc", 2)),
        (bson.ObjectId(bytes(12)), Scalar.OTHER, bytes(12), b"x", None),
        (bson.MinKey(), Scalar.OTHER, b"", b"x", None),
    ],
)
def test_values_keep_their_type_or_become_null(
    value: Any, scalar: Scalar, text: bytes, new: bytes, expected: Any
) -> None:
    seen: list[tuple[Scalar, bytes]] = []

    def by(kind: Scalar, cell: bytes) -> bytes:
        seen.append((kind, cell))
        return new if (kind, cell) == (scalar, text) else cell

    (shown,) = _changed(by, {"a": value})
    assert (scalar, text) in seen
    if scalar is Scalar.MOMENT:
        expected = bson.decode(bson.encode({"a": bson.DatetimeMS(981173106000)}))["a"]
    if scalar is Scalar.UUID:
        expected = bson.Binary.from_uuid(UUID(int=6))
    if isinstance(value, bson.Code) and value.scope:
        expected = bson.Code("bc", {"b": 1})
    assert shown == {"a": expected}
    assert type(shown["a"]) is type(expected)


def test_null_stays_and_is_not_counted() -> None:
    reply = _reply({"a": None})
    assert _rows(reply).change(0, lambda scalar, text: b"x") == (0, 0)
    assert _shown(reply) == [{"a": None}]


@pytest.mark.parametrize(("constant", "shown"), [(b"****", "****"), (None, None)])
def test_attack_filled_columns_show_neither_type_nor_null(constant: bytes | None, shown: str | None) -> None:
    class Hiding(Fill):
        def __call__(self, scalar: Scalar, value: bytes) -> bytes | None:
            raise AssertionError("a value was read")

        def constant(self, scalar: Scalar) -> tuple[bytes | None] | None:
            return {Scalar.TEXT: (constant,), Scalar.INTEGER: (b"0",)}.get(scalar)

    values = {"a": "x", "b": 5, "c": bson.ObjectId(), "d": None, "e": bson.Int64(5), "f": [True, 2.5]}
    expected = {**dict.fromkeys("abcde", shown), "f": [shown, shown]}
    assert _changed(Hiding(), values) == [expected]


def test_whole_doubles_are_searched_as_digits() -> None:
    assert _columns({"a": [4111111111111111.0, 2.5, float("nan")]}) == [
        ("a", TextKind.NUMBER, [b"4111111111111111", b"2.5", b"nan"])
    ]


def test_replaced_numbers_keep_their_type() -> None:
    reply = _reply({"a": [1.5, 2, bson.Int64(3), bson.Decimal128("4")]})
    _rows(reply).replace(0, [b"1.5", b"0", b"0", b"0"])
    assert _shown(reply) == [{"a": [1.5, 0, bson.Int64(0), bson.Decimal128("0")]}]


def test_replacing_twice_starts_from_the_first_replacement() -> None:
    reply = _reply({"a": ["x", "y"]}, {"a": "z"})
    rows = _rows(reply)
    rows.replace(0, [b"xx", b"y", b"z"])
    assert rows.texts(0) == [b"xx", b"y", b"z"]
    assert rows.find_changed_rows(0) == b"\1"
    rows.replace(0, [b"xx", b"y", b"zz"])
    assert rows.find_changed_rows(0) == b"\2"
    assert _shown(reply) == [{"a": ["xx", "y"]}, {"a": "zz"}]


def test_wrong_number_of_texts_is_an_error() -> None:
    rows = _rows(_reply({"a": "x", "b": None}))
    for column in (0, 1):
        with pytest.raises(ValueError, match="texts given"):
            rows.replace(column, [b"x"] * 2)


def test_expected_columns_are_read_and_others_can_be() -> None:
    rows = _rows(_reply({"a": "x", "b": "y", "c": 1}))
    rows.expect([True, False, False])
    assert rows.texts(0) == [b"x"]
    assert rows.texts(1) == [b"y"]
    assert rows.texts(2) == [b"1"]


def test_alike_replies_share_their_columns() -> None:
    paths = DocumentPaths()
    first, second, third = [_rows(_reply(fields, paths=paths)) for fields in ({"a": 1}, {"a": 2}, {"b": 2})]
    assert first.columns is second.columns
    assert third.columns == (Column("b", TextKind.NUMBER),)


# Bounds


def test_reply_with_too_many_columns_cannot_be_read() -> None:
    fields = {f"f{number}": 1 for number in range(mongodb_rows.MAX_COLUMNS)}
    assert len(_rows(_reply(fields)).columns) == mongodb_rows.MAX_COLUMNS
    with pytest.raises(TooManyFields):
        _reply({**fields, "one": 1})


def test_reply_with_a_long_path_cannot_be_read() -> None:
    with pytest.raises(TooManyFields):
        _reply({"x" * mongodb_rows.MAX_PATH: 1})


def test_paths_of_many_replies_are_forgotten() -> None:
    paths = DocumentPaths()
    for start in range(0, 40_000, 2_000):
        rows = _rows(_reply({f"f{number}": "x" for number in range(start, start + 2_000)}, paths=paths))
        assert rows.columns[0].name == f"f{start}"
        assert rows.texts(1_999) == [b"x"]
        assert len(paths.columns) < 20_000


def _nested(levels: int) -> bytes:
    document = bson.encode({"a": 1})
    for _ in range(levels - 1):
        element = b"\x03a\0" + document
        document = (len(element) + 5).to_bytes(4, "little") + element + b"\0"
    return document


def test_documents_that_are_nested_too_deeply_are_a_violation() -> None:
    assert len(_columns(_nested(200))) == 1
    with pytest.raises(ProtocolViolation):
        _columns(_nested(201))


@given(DOCUMENTS, st.data())
def test_damaged_documents_are_a_violation_or_read(document: bytes, data: Any) -> None:
    """No byte of a document makes anything else than ProtocolViolation, and nothing is read beyond the message."""
    damaged = bytearray(_reply(document).data)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(21, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        reply = _reply(message=bytes(damaged))
        if reply.rows is None:
            return
        rows = reply.rows
        for at, column in enumerate(rows.columns):
            rows.texts(at)
            rows.change(at, lambda scalar, text: b"0" if scalar is not Scalar.TEXT else b"****")
            assert column.name is not None
        reply.render()
    except (ProtocolViolation, TooManyFields):
        pass


def test_computed_values_are_of_one_type() -> None:
    """Attack: whether a sum is a 32-bit number, a 64-bit one or a double shows how large the hidden operand is."""
    numbers = [5, bson.Int64(5), 5.5, bson.Decimal128("5.5"), float("nan")]
    values = [*numbers, bson.Code("return 1"), bson.Code("x", {"y": 1}), None]
    filled = _changed(Substitutes(Strategy.REPLACE, b"").computed, *[{"x": value} for value in values])
    assert filled == [{"x": "****"}] * len(values)
