"""A query that the gateway itself sends, with chunked answers and protocol violations of the target."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.errors import ProtocolViolation
from postern.protocols.gateway_queries import Row
from postern.protocols.mysql.queries.mysql_query import MysqlQuery
from postern.protocols.mysql.wire import mysql_messages as m

COLUMNS = (m.MysqlField("a", m.VAR_STRING), m.MysqlField("b", m.VAR_STRING))
ROWS = (("grüße".encode(), None), (b"", b"x" * 300))


def result(*rows: tuple[bytes | None, ...], status: int = m.AUTOCOMMIT) -> bytes:
    parts = [m.packet(1, b"\x02"), m.column(2, COLUMNS[0]), m.column(3, COLUMNS[1]), m.eof(4)]
    parts += [m.text_row(5 + number, row) for number, row in enumerate(rows)]
    return b"".join([*parts, m.eof(5 + len(rows), status)])


@pytest.mark.parametrize("step", [1, 2, 3, 7, 64, 10_000])
def test_rows_of_a_query_are_read_from_chunks_of_any_size(step: int) -> None:
    query = MysqlQuery("select ?", ["x"])
    answer = result(*ROWS)
    rows: list[Row] = []
    for at in range(0, len(answer), step):
        rows += query.feed(answer[at : at + step])
    assert rows == [("grüße", None), ("", "x" * 300)]
    assert query.finished
    assert query.error is None


def test_query_reads_no_byte_beyond_its_answer() -> None:
    query, answer, pos = MysqlQuery("select 1"), result(*ROWS) + b"the next answer", 0
    while not query.finished:
        needs = query.needs
        query.feed(answer[pos : pos + needs])
        pos += needs
    assert answer[pos:] == b"the next answer"


@given(st.lists(st.none() | st.text(max_size=20), max_size=4))
def test_bind_value_is_sent_as_a_hex_literal(values: list[str | None]) -> None:
    sent = MysqlQuery("select " + ", ".join(["?"] * len(values)), values).start()
    assert sent[4] == m.COM_QUERY
    expected = ["null" if value is None else f"_utf8mb4 x'{value.encode().hex()}'" for value in values]
    assert sent[5:].decode("ascii") == "select " + ", ".join(expected)


def test_query_with_fewer_values_than_placeholders_raises() -> None:
    with pytest.raises(ProtocolViolation):
        MysqlQuery("select ?, ?", ["x"]).start()


def test_error_finishes_the_query() -> None:
    query = MysqlQuery("select x")
    assert query.feed(m.err(1, 1054, "42S22", "Unknown column 'x'")) == []
    assert query.finished
    assert query.error is not None
    assert (query.error.message, query.error.code) == ("Unknown column 'x'", "42S22/1054")


def test_error_between_rows_finishes_the_query() -> None:
    query = MysqlQuery("select x")
    rows = query.feed(result(*ROWS)[:-9] + m.err(7, 1317, "70100", "Query execution was interrupted"))
    assert (len(rows), query.finished) == (2, True)
    assert query.error is not None


def test_ok_packet_finishes_a_query_without_rows() -> None:
    query = MysqlQuery("set names utf8mb4")
    assert query.feed(m.ok(1)) == []
    assert query.finished


@pytest.mark.parametrize(
    "data",
    [
        m.local_infile(1, b"/etc/passwd"),
        b"\xff\xff\xff\x01" + b"x" * 100,
        m.packet(1, b""),
        m.packet(1, m.lenenc(5000)),
        result(*ROWS)[:-9] + m.packet(7, b"\x05ab"),
        m.packet(1, b"\x01") + m.packet(2, b"\x03de"),
    ],
    ids=["a file request", "a huge packet", "an empty packet", "5000 columns", "a short row", "a short column"],
)
def test_malformed_answer_to_a_query_is_a_protocol_violation(data: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        MysqlQuery("select 1").feed(data)
