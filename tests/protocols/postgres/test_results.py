"""Recorded bytes read as values, in chunks of any size."""

from __future__ import annotations

import struct

import pytest

from postern.domain.sessions.results import Finished, Problem, Result, ResultColumns, Row
from postern.errors import ProtocolViolation
from postern.protocols.postgres.recorded.postgres_tables import PostgresResults
from postern.protocols.postgres.wire import postgres_messages as m


def described(*fields: tuple[str, int]) -> bytes:
    parts = [m.cstring(name) + struct.pack("!IhIhih", 0, 0, 25, -1, -1, form) for name, form in fields]
    return m.message(b"T", m.INT16.pack(len(fields)), *parts)


def row(*values: bytes | None) -> bytes:
    parts = [m.INT32.pack(-1) if value is None else m.INT32.pack(len(value)) + value for value in values]
    return m.message(b"D", m.INT16.pack(len(values)), *parts)


STREAM = b"".join(
    [
        m.report(b"N", "NOTICE", "00000", "hello"),
        described(("größe", 0), ("b", 0)),
        row("ü\t\n".encode(), None),
        row(b"", b"\\xdead"),
        m.message(b"C", b"SELECT 2\0"),
        m.message(b"C", b"CREATE TABLE\0"),
        m.message(b"E", b"SERROR\0VERROR\0C42601\0Mno\0Dd\0Hh\0P12\0\0"),
        m.ready_for_query(b"I"),
    ]
)
VALUES: list[Result] = [
    Problem("NOTICE", "hello", code="00000", fails=False),
    ResultColumns(("größe", "b"), ("text", "text")),
    Row(("ü\t\n", None)),
    Row(("", "\\xdead")),
    Finished("SELECT 2"),
    Finished("CREATE TABLE"),
    Problem("ERROR", "no", code="42601", detail="d", hint="h", position=12),
]


@pytest.mark.parametrize("step", [1, 3, 11, 10_000])
def test_recorded_values_are_read_from_chunks_of_any_size(step: int) -> None:
    results = PostgresResults()
    assert [one for at in range(0, len(STREAM), step) for one in results.feed(STREAM[at : at + step])] == VALUES


def test_row_too_large_to_read_is_omitted_and_the_next_row_is_read() -> None:
    large = row(b"x" * (17 << 20))
    results = PostgresResults()
    found = [one for at in range(0, len(large), 1 << 20) for one in results.feed(large[at : at + (1 << 20)])]
    assert [one.text for one in found if isinstance(one, Problem)] == [f"a result of {len(large)} bytes is omitted"]
    assert results.feed(row(b"next")) == [Row(("next",))]


def test_binary_value_is_read_as_hexadecimal_text() -> None:
    assert PostgresResults().feed(described(("b", 1)) + row(b"\x00\xff"))[1] == Row(("\\x00ff",))


def test_malformed_recorded_row_is_a_protocol_violation() -> None:
    with pytest.raises(ProtocolViolation):
        PostgresResults().feed(m.message(b"D", b"\0\x05"))
