"""Row values: conversion to text and back, and masking, in text rows and binary rows."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.mysql_links import links, sent
from tests.support.protocols import mysql_test_messages as my

from postern.errors import ProtocolViolation
from postern.interception.events import Event, Rows, Scalar, TextKind
from postern.interception.pipeline import BatchNeed, SessionView
from postern.interception.verdicts import FORWARD, REPLACE, Verdict
from postern.protocols.mysql.wire import mysql_messages as m
from postern.protocols.mysql.wire.mysql_rows import MysqlLayout, MysqlRows
from postern.protocols.mysql.wire.mysql_types import kind_of, scalar_of
from postern.protocols.mysql.wire.mysql_values import binary_texts, pack_value, plain
from postern.protocols.wire_base import Side

TEXTS = {
    "tiny": (m.TINY, "-128"),
    "short": (m.SHORT, "-300"),
    "year": (m.YEAR, "2024"),
    "medium": (m.INT24, "-70000"),
    "long": (m.LONG, "70000"),
    "longlong": (m.LONGLONG, "-5000000000"),
    "float": (m.FLOAT, "1.5"),
    "double": (m.DOUBLE, "0.1"),
    "date": (m.DATE, "2024-02-29"),
    "midnight": (m.DATETIME, "2024-02-29 00:00:00"),
    "moment": (m.TIMESTAMP, "2024-02-29 01:02:03.000004"),
    "time": (m.TIME, "01:02:03"),
    "time with more": (m.TIME, "01:02:03.500000"),
    "decimal": (m.NEWDECIMAL, "-12.50"),
    "text": (m.VAR_STRING, "größe"),
    "document": (m.JSON, '{"a": 1}'),
}


@pytest.mark.parametrize("name", TEXTS)
def test_binary_value_round_trips_as_text(name: str) -> None:
    kind, text = TEXTS[name]
    assert plain(kind, False, pack_value(kind, False, text.encode())) == text.encode()


def test_binary_times_dates_and_zero_values_are_read_as_text() -> None:
    assert plain(m.TIME, False, struct.pack("<BIBBBI", 1, 34, 22, 59, 59, 5)) == b"-838:59:59.000005"
    assert plain(m.TIME, False, b"") == b"00:00:00"
    assert plain(m.DATE, False, b"") == b"0000-00-00"
    assert plain(m.DATETIME, False, struct.pack("<HBB", 2024, 1, 2)) == b"2024-01-02 00:00:00"


def test_unsigned_integer_is_read_as_unsigned() -> None:
    assert plain(m.LONGLONG, True, b"\xff" * 8) == b"18446744073709551615"
    assert plain(m.LONGLONG, False, b"\xff" * 8) == b"-1"


@pytest.mark.parametrize(("kind", "data"), [(m.LONG, b"abc"), (m.DATE, b"abc"), (m.TIME, b"abc"), (m.DOUBLE, b"")])
def test_binary_value_of_a_wrong_size_is_a_protocol_violation(kind: int, data: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        plain(kind, False, data)


@pytest.mark.parametrize(("kind", "text"), [(m.TINY, b"300"), (m.LONG, b"x"), (m.DATE, b"now"), (m.FLOAT, b"1e99")])
def test_value_that_does_not_fit_its_type_raises(kind: int, text: bytes) -> None:
    try:
        pack_value(kind, False, text)
    except ValueError:
        return
    pytest.fail("it was packed")


FIELDS = tuple([m.MysqlField(name, kind) for name, (kind, _) in TEXTS.items()])


@given(st.lists(st.booleans(), min_size=len(TEXTS), max_size=len(TEXTS)))
def test_binary_row_is_read_and_rejected_with_a_wrong_length(nulls: list[bool]) -> None:
    cells = [(kind, None if null else text) for (kind, text), null in zip(TEXTS.values(), nulls, strict=True)]
    payload = my.AnswerPackets().binary_row(*cells).bytes[4:]
    wanted = tuple([None if text is None else text.encode() for _, text in cells])
    assert binary_texts(payload, FIELDS) == wanted
    for cut in (payload[:-1], payload + b"x"):
        with pytest.raises(ProtocolViolation):
            binary_texts(cut, FIELDS)


@given(st.binary(max_size=80))
def test_arbitrary_bytes_are_read_as_a_row_or_a_violation(payload: bytes) -> None:
    for binary in (True, False):
        rows = MysqlRows(1, MysqlLayout(FIELDS, binary), b"", 1, 1, whole=payload)
        try:
            rows.texts(0)
        except ProtocolViolation:
            continue


def test_column_has_the_kind_and_scalar_of_its_type() -> None:
    assert [kind_of(field) for field in FIELDS[:8]] == [TextKind.OPAQUE] * 5 + [TextKind.NUMBER] + [TextKind.OPAQUE] * 2
    assert [kind_of(field) for field in FIELDS[-3:]] == [TextKind.NUMBER, TextKind.TEXT, TextKind.JSON]
    assert scalar_of(m.MysqlField("a", m.LONGLONG, m.UNSIGNED)) is Scalar.DECIMAL
    assert scalar_of(m.MysqlField("a", m.BLOB, collation=63)) is Scalar.BYTES
    assert scalar_of(m.MysqlField("a", m.BLOB, collation=45)) is Scalar.TEXT
    assert scalar_of(m.MysqlField("a", m.GEOMETRY)) is Scalar.OTHER


class Changes:
    """Replaces every value by the entry of `to` for its scalar, or by NULL without an entry."""

    name = "changes"
    wants: frozenset[type[Event]] = frozenset({Rows})
    batch_need: BatchNeed = BatchNeed.NONE

    def __init__(self, to: dict[Scalar, bytes]) -> None:
        self.to = to
        self.seen: list[tuple[Scalar, bytes]] = []

    def by(self, scalar: Scalar, value: bytes) -> bytes | None:
        self.seen.append((scalar, value))
        return self.to.get(scalar)

    def see(self, event: Event, session: SessionView) -> Verdict:
        assert isinstance(event, Rows)
        found = [event.change(column, self.by) for column in range(len(event.columns))]
        return REPLACE if any(count for count, _ in found) else FORWARD


TO = {
    Scalar.SMALLINT: b"7", Scalar.INTEGER: b"8", Scalar.BIGINT: b"9", Scalar.DECIMAL: b"0.5", Scalar.REAL: b"2.5",
    Scalar.DOUBLE: b"3.5", Scalar.DATE: b"2000-01-01", Scalar.TIMESTAMP: b"2000-01-01 00:00:00",
    Scalar.TIME: b"00:00:01", Scalar.TEXT: b"masked", Scalar.JSON: b"{}", Scalar.BYTES: b"\0", Scalar.BITS: b"101",
}  # fmt: skip
CHANGED = (
    "7", "7", "7", "8", "8", "9", "2.5", "3.5", "2000-01-01", "2000-01-01 00:00:00", "2000-01-01 00:00:00", "00:00:01",
    "00:00:01", "0.5", "masked", "{}",
)  # fmt: skip


def changed(fields: tuple[m.MysqlField, ...], rows: my.AnswerPackets, binary: bool, to: dict[Scalar, bytes]) -> bytes:
    """Return the answer with these rows as the client receives it."""
    link = links(Changes(to))()
    if binary:
        link.receive(Side.CLIENT, my.prepare("select"))
        link.receive(Side.TARGET, my.AnswerPackets().prepared(1).bytes)
        link.receive(Side.CLIENT, my.execute(1))
    else:
        link.receive(Side.CLIENT, my.query("select"))
    return sent(link.receive(Side.TARGET, rows.bytes), Side.CLIENT)


@pytest.mark.parametrize("binary", [True, False], ids=["prepared", "query"])
def test_masked_value_of_each_type_is_encoded_in_its_format(binary: bool) -> None:
    given, wanted, gone = [my.AnswerPackets().columns(*FIELDS) for _ in range(3)]
    if binary:
        given.binary_row(*TEXTS.values()).eof()
        wanted.binary_row(*[(kind, text) for (kind, _), text in zip(TEXTS.values(), CHANGED, strict=True)]).eof()
        gone.binary_row(*[(kind, None) for kind, _ in TEXTS.values()]).eof()
    else:
        given.row(*[text for _, text in TEXTS.values()]).eof()
        wanted.row(*CHANGED).eof()
        gone.row(*[None for _ in CHANGED]).eof()
    assert changed(FIELDS, given, binary, TO) == wanted.bytes
    assert changed(FIELDS, given, binary, {}) == gone.bytes


def test_masked_bits_keep_the_size_of_their_column() -> None:
    field = m.MysqlField("a", m.BIT, collation=63)
    given = my.AnswerPackets().columns(field).row(b"\x01\xff").eof()
    assert changed((field,), given, False, TO) == my.AnswerPackets().columns(field).row(b"\x00\x05").eof().bytes
    too_many = {Scalar.BITS: b"1" * 17}
    assert changed((field,), given, False, too_many) == my.AnswerPackets().columns(field).row(None).eof().bytes


def test_invalid_replacement_value_becomes_null() -> None:
    field = m.MysqlField("a", m.DATE)
    given = my.AnswerPackets().columns(field).row("0000-00-00").eof()
    assert changed((field,), given, False, TO) == my.AnswerPackets().columns(field).row(None).eof().bytes
    kept = changed((field,), given, False, {Scalar.OTHER: b"0000-00-00"})
    assert kept == given.bytes


def test_column_layout_contains_the_origin_of_a_column() -> None:
    layout = MysqlLayout(
        (m.MysqlField("alias", 3, database="shop", table="i", org_table="items", org_name="size"),), False
    )
    (column,) = layout.columns
    assert (column.name, column.origin) == ("alias", ("shop", "items", "size"))
    assert MysqlLayout((m.MysqlField("sum", 3),), False).columns[0].origin is None
