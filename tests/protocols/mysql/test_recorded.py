"""Recorded bytes rendered as text, as values and as rule input, in chunks of any size; and script answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.domain.rules.trial import Answered
from postern.domain.sessions.results import Finished, Problem, Result, ResultColumns, Row
from postern.errors import ProtocolViolation
from postern.protocols.mysql.queries.mysql_script import MysqlScript
from postern.protocols.mysql.recorded.mysql_answer_reader import MysqlAnswers
from postern.protocols.mysql.recorded.mysql_tables import MysqlResults
from postern.protocols.mysql.recorded.mysql_text_renderer import MysqlTextRenderer
from postern.protocols.mysql.wire import mysql_messages as m

FIELDS = (m.MysqlField("größe", m.VAR_STRING), m.MysqlField("b", m.VAR_STRING))


def result(*rows: tuple[bytes | None, ...], status: int = m.AUTOCOMMIT) -> bytes:
    parts = [m.packet(1, b"\x02"), *(m.column(2, field) for field in FIELDS), m.eof(4)]
    return b"".join([*parts, *(m.text_row(5, row) for row in rows), m.eof(6, status)])


PREPARED = m.packet(1, b"\0\x01\0\0\0\x02\0\x01\0\0\0\0")
STREAM = b"".join(
    [
        result(("ü\t\n".encode(), None), (b"", b"\\xdead"), status=m.AUTOCOMMIT | m.MORE_RESULTS),
        m.ok(7, m.Done(1, info=m.lenenc_text(b"Rows matched: 1  Changed: 1  Warnings: 0"))),
        m.ok(1, m.Done(2)),
        PREPARED + m.column(2, FIELDS[0]) + m.eof(3) + m.column(4, FIELDS[0]) + m.column(5, FIELDS[1]) + m.eof(6),
        m.column(1, FIELDS[0]) + m.eof(2),  # COM_FIELD_LIST
        m.packet(1, b"Uptime: 3  Threads: 1"),
        m.err(1, 1146, "42S02", "Table 'shop.none' doesn't exist"),
    ]
)
TEXT = [
    ("o", "größe\tb\nü\\t\\n\tNULL\n\t\\\\xdead\n2 rows in set\n".encode()),
    ("o", b"Query OK, 1 row affected, Rows matched: 1  Changed: 1  Warnings: 0\nQuery OK, 2 rows affected\n"),
    ("o", b"0 rows in set\nUptime: 3  Threads: 1\n"),
    ("e", b"ERROR 1146 (42S02): Table 'shop.none' doesn't exist\n"),
]
VALUES: list[Result] = [
    ResultColumns(("größe", "b"), ("varchar(0)", "varchar(0)")),
    Row(("ü\t\n", None)),
    Row(("", "\\xdead")),
    Finished("2 rows in set"),
    Finished("Query OK, 1 row affected, Rows matched: 1  Changed: 1  Warnings: 0"),
    Finished("Query OK, 2 rows affected"),
    Finished("0 rows in set"),
    Problem("ERROR", "Table 'shop.none' doesn't exist", code="42S02"),
]
ANSWERS = [
    Answered(("ü\t\n".encode(),), rows=1),
    Answered((b"", b"\\xdead"), rows=1),
    Answered((), ends=True),
    Answered((b"Rows matched: 1  Changed: 1  Warnings: 0",), ends=True),
    Answered((), ends=True),
    Answered((), ends=True),
    Answered((b"Uptime: 3  Threads: 1",), ends=True),
    Answered((b"Table 'shop.none' doesn't exist",), ends=True),
]
STEPS = pytest.mark.parametrize("step", [1, 3, 11, 10_000])


@STEPS
def test_recorded_mysql_answers_are_rendered_as_text(step: int) -> None:
    lens, text = MysqlTextRenderer(), {"o": b"", "e": b""}
    for at in range(0, len(STREAM), step):
        for kind, piece in lens.feed(STREAM[at : at + step]):
            text[kind] += piece
    assert text["o"] == b"".join(piece for kind, piece in TEXT if kind == "o")
    assert text["e"] == TEXT[-1][1]


@STEPS
def test_recorded_mysql_answers_are_read_as_values(step: int) -> None:
    results = MysqlResults()
    found = [one for at in range(0, len(STREAM), step) for one in results.feed(STREAM[at : at + step])]
    assert found == VALUES


@STEPS
def test_recorded_mysql_answers_are_read_as_input_of_rules(step: int) -> None:
    answers = MysqlAnswers()
    found = [one for at in range(0, len(STREAM), step) for one in answers.feed(STREAM[at : at + step])]
    assert found == ANSWERS


def test_truncated_row_is_rendered_up_to_its_end() -> None:
    lens = MysqlTextRenderer()
    whole = result((b"first", b"second"))
    lens.feed(whole[:-12])
    assert lens.rest() == [("o", b"first\tsec\n")]
    assert lens.rest() == []


def test_row_of_several_packets_is_omitted_with_a_note() -> None:
    long = m.text_row(5, (b"x" * (17 << 20), None))
    stream = result()[:-9] + long + m.text_row(9, (b"a", b"b")) + m.eof(10)
    shown = b"".join(text for _, text in MysqlTextRenderer().feed(stream))
    assert shown == "größe\tb\n[a row of 17825802 bytes]\na\tb\n2 rows in set\n".encode()
    assert Problem("NOTE", "a result of 17825802 bytes is omitted", fails=False) in MysqlResults().feed(stream)
    [lost] = [one for one in MysqlAnswers().feed(stream) if one.lost]
    assert lost.lost == "a row of 17825802 bytes"


@given(st.binary(max_size=200))
def test_arbitrary_recorded_bytes_are_read_or_a_violation(data: bytes) -> None:
    for reader in (MysqlTextRenderer(), MysqlResults(), MysqlAnswers()):
        try:
            reader.feed(data)
        except ProtocolViolation:
            continue


@STEPS
def test_script_finishes_after_its_last_result(step: int) -> None:
    answer = result((b"a", None), status=m.AUTOCOMMIT | m.MORE_RESULTS) + m.ok(7)
    script = MysqlScript("select größe; do 1")
    assert script.start() == m.query("select größe; do 1".encode())
    replies = [script.feed(answer[at : at + step]) for at in range(0, len(answer), step)]
    assert b"".join(replies) == m.QUIT
    assert (script.finished, script.exit_code()) == (True, 0)


def test_script_finishes_at_the_first_error() -> None:
    script = MysqlScript("select 1; select x")
    assert script.feed(result(status=m.AUTOCOMMIT | m.MORE_RESULTS)) == b""
    assert script.exit_code() == 1
    assert script.feed(m.err(7, 1054, "42S22", "Unknown column 'x'")) == m.QUIT
    assert (script.finished, script.exit_code()) == (True, 1)
