"""What session rules read of a recording: statements with bind values, and answers as texts and rows."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from tests.support.protocols import postgres_test_messages as pg

from postern.domain.rules.trial import Answered, LostPart, RecordedStatement, Step
from postern.interception.events import ClientOutput, Completed, Event, Note, Operation, Phase, Refusal
from postern.protocols.postgres.recorded.postgres_answer_reader import PostgresAnswers
from postern.protocols.terminal.terminal_frames import STDOUT, frame
from postern.protocols.terminal.terminal_text import TerminalTextRenderer
from postern.recording.recorder import OUTPUT_LIMIT_REACHED
from postern.recording.recording_rendering import Gap
from postern.recording.steps import LineAnswers, steps

TABLE = pg.row_description(("a", 25), ("b", 23))


def read(*events: Event | Gap, answers: bool = True) -> list[Step]:
    records = ((at * 1000, event) for at, event in enumerate(events))
    return list(steps(records, PostgresAnswers if answers else None, framed=False))


def answered(found: Iterable[Step]) -> list[tuple[tuple[bytes, ...], int, bool]]:
    return [(one.texts, one.rows, one.ends) for one in found if isinstance(one, Answered)]


def test_recorded_statement_has_its_bind_values_and_phase() -> None:
    found = read(
        Operation(1, "select $1", Phase.PREPARE),
        Operation(2, "select $1", values=(b"x", None)),
        Operation(3, "insert", truncated=True),
        answers=False,
    )
    assert found == [
        RecordedStatement("select $1", prepared=True, at=0.0),
        RecordedStatement("select $1", (b"x", None), at=1.0),
        RecordedStatement("insert", truncated=True, at=2.0),
    ]


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_answer_is_read_however_its_bytes_were_split(cut: int) -> None:
    stream = TABLE + pg.data_row(b"one", b"1") + pg.data_row(b"two", None) + pg.command_complete("SELECT 2")
    found = read(
        Operation(1, "select"), ClientOutput(stream[:cut]), ClientOutput(stream[cut:]), Completed(1, "SELECT 2")
    )
    assert answered(found) == [((b"one", b"1"), 1, False), ((b"two",), 1, False), ((), 0, True)]


def test_binary_cells_are_read_by_their_type_or_by_themselves() -> None:
    described = pg.row_description(("n", 23, 1))
    four = (7).to_bytes(4, "big")
    assert answered(read(ClientOutput(described + pg.data_row(four))))[0][0] == (b"7",)
    assert answered(read(ClientOutput(pg.data_row(b"plain text"))))[0][0] == (b"plain text",)


def test_copy_data_and_errors_are_read_as_texts() -> None:
    error = pg.error("relation secret does not exist", "42P01")
    found = answered(read(ClientOutput(pg.copy_data(b"a\tb\n") + error)))
    assert found[0] == ((b"a\tb\n",), 1, False)
    assert b"relation secret does not exist" in found[1][0]


def test_gateway_message_is_not_read_as_an_answer() -> None:
    """A rule about `drop` must not match the error that quotes it; the record of it follows the output."""
    refused = 'blocked by guardrail "care" (rule "1"): "drop" matches it'
    said = pg.error(refused, "42501")
    found = read(
        Operation(1, "drop table x"), ClientOutput(said), Refusal(1, "care / 1", refused), Operation(2, "select 1")
    )
    assert answered(found) == [((), 0, True)]
    found = read(Operation(1, "drop table x"), Note(refused, {"rule": "care / 1"}), ClientOutput(said))
    assert answered(found) == [((), 0, True)]


def test_gaps_and_output_limits_are_reported_and_reading_continues() -> None:
    whole = TABLE + pg.data_row(b"x", b"1") + pg.command_complete("SELECT 1")
    found = read(
        Operation(1, "select"),
        ClientOutput(whole[:10]),
        Gap(2, "it is missing"),
        ClientOutput(b"nonsense that is the rest of something"),
        Completed(1, "SELECT 1"),
        Operation(2, "select"),
        ClientOutput(whole),
        Note(OUTPUT_LIMIT_REACHED, {}),
    )
    assert [one.reason for one in found if isinstance(one, LostPart)] == [
        "segment 2 cannot be read: it is missing",
        "the output was only partly recorded",
    ]
    assert answered(found) == [((b"x", b"1"), 1, False), ((), 0, True)]


def test_invalid_messages_are_reported() -> None:
    found = read(ClientOutput(b"D\0\0\0\x06\0\x01"), ClientOutput(TABLE + pg.data_row(b"x", b"1")))
    assert [type(one) for one in found] == [LostPart]


def test_terminal_output_is_split_into_lines() -> None:
    records: list[tuple[int, Event | Gap]] = [(0, Operation(1, "ls")), (1, ClientOutput(frame(STDOUT, b"one\ntwo\n")))]
    found = list(steps(iter(records), lambda: LineAnswers(TerminalTextRenderer()), framed=True))
    assert answered(found) == [((b"one", b"two"), 0, False)]
