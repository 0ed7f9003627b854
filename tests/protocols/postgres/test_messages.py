"""Encoding and parsing of PostgreSQL messages, including malformed ones."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.protocols import postgres_test_messages as pg

from postern.errors import ProtocolViolation
from postern.protocols.postgres.wire import postgres_messages as m

LAYOUTS: dict[str, tuple[bytes, bytes]] = {
    "query": (pg.query("select 1"), b"Q\0\0\0\x0dselect 1\0"),
    "parse": (pg.parse("select $1", "s", [23]), b"P\0\0\0\x16s\0select $1\0\0\x01\0\0\0\x17"),
    "bind": (pg.bind("p", "s", ["a", None], [0, 1], [1]),
             b"B\0\0\0\x1d" b"p\0s\0\0\x02\0\0\0\x01\0\x02\0\0\0\x01a\xff\xff\xff\xff\0\x01\0\x01"),
    "describe statement": (pg.describe_statement("s"), b"D\0\0\0\x07Ss\0"),
    "describe portal": (m.describe_portal(b"p"), b"D\0\0\0\x07Pp\0"),
    "execute": (pg.execute("p", 5), b"E\0\0\0\x0ap\0\0\0\0\x05"),
    "close": (pg.close_portal("p"), b"C\0\0\0\x07Pp\0"),
    "sync": (m.SYNC_MESSAGE, b"S\0\0\0\x04"),
    "flush": (pg.flush(), b"H\0\0\0\x04"),
    "terminate": (m.TERMINATE_MESSAGE, b"X\0\0\0\x04"),
    "function call": (pg.function_call(7, [None]), b"F\0\0\0\x12\0\0\0\x07\0\0\0\x01\xff\xff\xff\xff\0\0"),
    "startup": (m.startup({"user": "ada"}), b"\0\0\0\x12\0\x03\0\0user\0ada\0\0"),
    "cancel": (m.cancel_request(7, b"key!"), b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x07key!"),
    "authentication": (m.authentication(m.AUTH_MD5, b"salt"), b"R\0\0\0\x0c\0\0\0\x05salt"),
    "key": (m.backend_key_data(7, b"key!"), b"K\0\0\0\x0c\0\0\0\x07key!"),
    "parameter": (m.parameter_status("a", "b"), b"S\0\0\0\x08a\0b\0"),
    "ready": (m.ready_for_query(b"T"), b"Z\0\0\0\x05T"),
    "row": (pg.data_row("a", None), b"D\0\0\0\x0f\0\x02\0\0\0\x01a\xff\xff\xff\xff"),
    "complete": (pg.command_complete("BEGIN"), b"C\0\0\0\x0aBEGIN\0"),
    "negotiation": (m.negotiate_protocol_version(m.PROTOCOL_3_2, ["_pq_.x"]),
                    b"v\0\0\0\x13\0\x03\0\x02\0\0\0\x01_pq_.x\0"),
    "error": (m.error_response("42501", "no", hint="ask"),
              b"E\0\0\0\x23SERROR\0VERROR\0C42501\0Mno\0Hask\0\0"),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYOUTS)
def test_message_has_the_documented_bytes(name: str) -> None:
    made, expected = LAYOUTS[name]
    assert made == expected


TEXTS = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=8)
CELLS = st.one_of(st.none(), st.binary(max_size=8))


@given(TEXTS, TEXTS, st.lists(CELLS, max_size=4), st.lists(st.integers(0, 1)), st.lists(st.integers(0, 1)))
def test_bind_message_round_trips(
    portal: str, statement: str, values: list[bytes | None], formats: list[int], results: list[int]
) -> None:
    raw = pg.bind(portal, statement, values, formats, results)
    body = m.parse_bind(raw, 5, len(raw))
    expected = m.BindBody(portal.encode(), statement.encode(), tuple(formats), tuple(values), tuple(results))
    assert body == expected
    with pytest.raises(ProtocolViolation):
        m.parse_bind(raw, 5, len(raw) - 1)
    with pytest.raises(ProtocolViolation):
        m.parse_bind(raw + b"\0", 5, len(raw) + 1)


@given(st.integers(0, 2**32 - 1), st.lists(CELLS, max_size=4))
def test_function_call_message_round_trips(oid: int, arguments: list[bytes | None]) -> None:
    raw = pg.function_call(oid, arguments)
    assert m.parse_function_call(raw, 5, len(raw)) == (oid, tuple(arguments))
    with pytest.raises(ProtocolViolation):
        m.parse_function_call(raw, 5, len(raw) - 1)


OIDS = st.integers(0, 2**32 - 1)


@given(st.lists(st.tuples(TEXTS, OIDS, st.integers(0, 1), OIDS, st.integers(-(2**15), 2**15 - 1)), max_size=5))
def test_row_description_round_trips(fields: list[tuple[str, int, int, int, int]]) -> None:
    body = pg.row_description(*fields)[5:]
    assert m.parse_row_description(body) == tuple(m.PostgresField(*field) for field in fields)
    with pytest.raises(ProtocolViolation):
        m.parse_row_description(body + b"\0")


@given(st.dictionaries(TEXTS.filter(bool), TEXTS, max_size=5))
def test_startup_parameters_round_trip(parameters: dict[str, str]) -> None:
    assert m.parse_parameters(m.startup(parameters)[8:]) == parameters


@given(TEXTS, TEXTS, TEXTS)
def test_error_report_round_trips(text: str, detail: str, hint: str) -> None:
    report = m.parse_report(m.report(b"N", "WARNING", "01000", text, detail, hint)[5:])
    assert report == m.ErrorFields("WARNING", "01000", text, detail, hint)


def test_text_with_a_zero_byte_is_a_protocol_violation() -> None:
    with pytest.raises(ProtocolViolation):
        pg.query("a\0b")
    with pytest.raises(ProtocolViolation):
        m.startup({"user": "a\0b"})
    with pytest.raises(ProtocolViolation):
        m.parameter_status("a\0", "b")


TAGS = [("SELECT 5", 5), ("INSERT 0 3", 3), ("BEGIN", None), ("", None), ("COPY 0", 0), ("CREATE TABLE", None)]


@pytest.mark.parametrize(("tag", "rows"), [*TAGS, ("SELECT " + "9" * 5000, None)])
def test_row_count_is_read_from_the_command_tag(tag: str, rows: int | None) -> None:
    assert m.rows_of(tag) == rows


@given(st.binary(max_size=60))
def test_arbitrary_bytes_parse_or_are_a_protocol_violation(data: bytes) -> None:
    end = len(data)
    for read in (m.parse_bind, m.parse_function_call, m.parse_oids, m.last_cstring, m.read_cstring):
        try:
            read(data, 0, end)
        except ProtocolViolation:
            continue
    for parse in (m.parse_row_description, m.parse_report, m.parse_parameters, m.parse_fields):
        try:
            parse(data)
        except ProtocolViolation:
            continue


def test_truncated_type_oids_are_a_protocol_violation() -> None:
    raw = struct.pack("!H2I", 2, 23, 25)
    assert m.parse_oids(raw, 0, len(raw)) == (23, 25)
    for end in (1, len(raw) - 1):
        with pytest.raises(ProtocolViolation):
            m.parse_oids(raw, 0, end)
