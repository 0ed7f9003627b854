"""A query that the gateway itself sends, with chunked answers and protocol violations of the target."""

from __future__ import annotations

import pytest

from postern.errors import ProtocolViolation
from postern.protocols.gateway_queries import Row
from postern.protocols.postgres.queries.postgres_query import PostgresQuery, cells
from postern.protocols.postgres.wire import postgres_messages as m


def data_row(*values: bytes | None) -> bytes:
    parts = [m.INT32.pack(-1) if value is None else m.INT32.pack(len(value)) + value for value in values]
    return m.message(b"D", m.INT16.pack(len(values)), *parts)


ANSWER = b"".join(
    [
        m.message(b"1"),
        m.message(b"2"),
        m.message(b"T", m.INT16.pack(0)),
        data_row("grüße".encode(), None),
        data_row(b"", b"x" * 300),
        m.message(b"C", b"SELECT 2\0"),
        m.ready_for_query(b"I"),
    ]
)


@pytest.mark.parametrize("step", [1, 2, 3, 7, 64, 10_000])
def test_rows_of_a_query_are_read_from_chunks_of_any_size(step: int) -> None:
    query = PostgresQuery("select $1", ["x"])
    rows: list[Row] = []
    for at in range(0, len(ANSWER), step):
        rows += query.feed(ANSWER[at : at + step])
    assert rows == [("grüße", None), ("", "x" * 300)]
    assert query.finished
    assert query.error is None


def test_bind_value_is_sent_as_a_value_in_a_bind_message() -> None:
    sent = PostgresQuery("select $1, $2", ["'; drop table x; --", None]).start()
    tags = []
    pos = 0
    while pos < len(sent):
        tags.append(chr(sent[pos]))
        size = int.from_bytes(sent[pos + 1 : pos + 5], "big") + 1
        if sent[pos] == m.BIND:
            assert m.parse_bind(sent, pos + 5, pos + size).values == (b"'; drop table x; --", None)
        pos += size
    assert tags == ["P", "B", "D", "E", "S"]


def test_error_of_a_query_is_available_after_ready() -> None:
    query = PostgresQuery("select x")
    assert query.feed(m.error_response("42703", "column x does not exist", hint="look")) == []
    assert not query.finished
    query.feed(m.ready_for_query(b"I"))
    assert query.finished
    assert query.error is not None
    assert (query.error.code, query.error.hint) == ("42703", "look")


@pytest.mark.parametrize(
    "data",
    [b"D\xff\xff\xff\xff", b"D\0\0\0\x03", m.message(b"D", b"\0\x02\0\0"), m.message(b"G"), m.message(b"D", b"\0\0x")],
    ids=["a huge message", "a length below the minimum", "a short row", "a copy", "a row with extra bytes"],
)
def test_malformed_answer_to_a_query_is_a_protocol_violation(data: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        PostgresQuery("select 1").feed(data)


def test_cell_longer_than_its_row_is_a_protocol_violation() -> None:
    with pytest.raises(ProtocolViolation):
        cells(m.INT16.pack(1) + m.INT32.pack(100) + b"short")


def test_statement_with_a_zero_byte_is_a_protocol_violation() -> None:
    with pytest.raises(ProtocolViolation):
        PostgresQuery("select 1\0; drop table x").start()
