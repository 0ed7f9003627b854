from __future__ import annotations

import pytest

from postern.domain.sessions.recorded import Exchange, Kind, MaskedValues
from postern.domain.sessions.results import Mask
from postern.interception.events import ClientOutput, Completed, Event, Mark, Masked, Note, Operation, Phase, Refusal
from postern.recording import recording_timeline
from postern.recording.recording_rendering import Gap

Told = tuple[int, Event | Gap, list[tuple[Kind, bytes]]]


def made(*told: Told, output: int = 100, in_turn: bool = True) -> list[Exchange]:
    return list(recording_timeline.exchanges(told, output, in_turn=in_turn))


def asked(at: int, number: int, text: str = "x") -> Told:
    return at, Operation(number, text), []


def shown(at: int, text: bytes, kind: Kind = "o") -> Told:
    return at, ClientOutput(b""), [(kind, text)]


def test_answers_are_matched_to_pipelined_requests() -> None:
    found = made(
        asked(1, 1, "one"),
        asked(1, 2, "two"),
        shown(2, b"first"),
        (2, Completed(1, "SELECT 1", 1, micros=1), []),
        shown(3, b"second"),
        shown(3, b"bad", "e"),
        (3, Completed(2, error_code="22012", error="division by zero", micros=2), []),
    )
    assert [(one.statement, bytes(one.output), bytes(one.errors), one.duration, one.error) for one in found] == [
        ("one", b"first", b"", 1, ""),
        ("two", b"second", b"bad", 2, "division by zero"),
    ]


def test_statement_skipped_after_an_error_has_no_outcome() -> None:
    found = made(asked(1, 1), asked(1, 2), (2, Completed(1, error="no"), []), asked(5, 3), (6, Completed(3, "OK"), []))
    assert [(one.number, one.error, one.tag, one.duration) for one in found] == [
        (1, "no", "", 0),
        (2, "", "", None),
        (3, "", "OK", 0),
    ]


def test_timeline_shows_the_rule_and_message_of_a_denied_statement() -> None:
    [first, second] = made(
        asked(1, 1, "drop"),
        (1, Refusal(1, "no drops", "blocked"), []),
        shown(1, b"ERROR: blocked", "e"),
        asked(2, 2),
        (3, Completed(2, "OK"), []),
    )
    assert (first.rule, first.refusal, bytes(first.errors)) == ("no drops", "blocked", b"ERROR: blocked")
    assert (second.refusal, bytes(second.errors)) == ("", b"")


def test_masked_values_are_counted_for_their_request_by_rule() -> None:
    people, cards = Mask("people", "hash"), Mask("", "replace", ("CREDIT_CARD",))
    mails = Mask("", "replace", ("EMAIL_ADDRESS",))
    rows = Masked(
        2, 0, 9, 10, [Mark(people, (0, 4), whole=True), Mark(cards, (1,), b"\x05\x02"), Mark(mails, (2,), b"\x01")]
    )
    [first, second] = made(
        asked(1, 1),
        asked(1, 2),
        (2, Masked(1, 0, 9, 0, [Mark(cards, count=7), Mark(people, count=0)]), []),
        (2, Completed(1), []),
        (3, rows, []),
        (3, rows, []),
        (4, Masked(99, 0, 9, 0, [Mark(cards, count=1)]), []),
        (4, Completed(2), []),
        output=0,
    )
    assert first.masked == {("", "replace"): MaskedValues({"CREDIT_CARD"}, 7)}
    assert second.masked == {
        ("people", "hash"): MaskedValues(set(), 40),
        ("", "replace"): MaskedValues({"CREDIT_CARD", "EMAIL_ADDRESS"}, 9),
    }


def test_terminal_output_belongs_to_the_last_line() -> None:
    found = made(asked(1, 1), shown(2, b"a"), asked(3, 2), shown(4, b"b"), shown(5, b"c"), in_turn=False)
    assert [bytes(one.output) for one in found] == [b"a", b"bc"]


def test_notes_gaps_and_unsolicited_output_keep_their_positions() -> None:
    found = made(
        shown(1, b"NOTIFY x"),
        asked(2, 1),
        (3, Gap(2, "it is missing"), []),
        (4, Completed(1, "OK"), []),
        (5, Note("session ended", {"reason": "killed"}), []),
    )
    assert [(one.micros, one.number, one.note) for one in found] == [
        (1, 0, ""),
        (2, 1, ""),
        (3, 0, "[note] segment 2 of the recording cannot be read further: it is missing"),
        (5, 0, "[note] session ended (reason: killed)"),
    ]


def test_long_statements_and_output_are_cut_and_marked() -> None:
    most = recording_timeline.STATEMENT
    [one] = made((1, Operation(1, "ä" * most, values=(b"v" * most, b"w", None)), []), shown(2, b"123456"), output=4)
    assert (one.statement, one.statement_size, one.truncated) == ("ä" * (most // 2), 2 * most, True)
    assert one.values == (b"v" * most, b"", None)
    assert (bytes(one.output), one.output_truncated) == (b"1234", True)


def test_undecodable_bytes_are_escaped() -> None:
    [one] = made(asked(1, 1, "select '\udcff\udc80'"))
    assert (one.statement, one.statement_size) == ("select '\\xff\\x80'", 11)


def test_prepared_statement_is_marked_as_prepared() -> None:
    [one] = made((1, Operation(1, "x", Phase.PREPARE), []))
    assert one.prepared


def test_unfinished_exchanges_are_yielded_when_too_many_wait() -> None:
    """Memory is bounded, however many lines of a terminal are waiting."""
    waiting = recording_timeline.exchanges((asked(at, at, "x" * 1000) for at in range(10**9)), 0, in_turn=True)
    assert next(waiting).number == 0
    large = recording_timeline.exchanges((asked(at, at, "x" * 10**6) for at in range(10**9)), 0, in_turn=True)
    assert [next(large).number for _ in range(20)] == list(range(20))


def test_denial_belongs_to_its_own_request_among_pipelined_requests() -> None:
    found = made(
        asked(1, 1, "select"),
        asked(1, 2, "drop"),
        asked(1, 3, "insert"),
        (1, Note("a note"), []),
        (1, Refusal(2, "no drops", "blocked"), []),
        (2, Completed(1, "OK"), []),
    )
    assert [(one.number, one.rule, one.refusal) for one in found] == [
        (1, "", ""),
        (2, "no drops", "blocked"),
        (3, "", ""),
        (0, "", ""),
    ]


def test_denial_without_a_recorded_statement_is_an_exchange_of_its_own() -> None:
    (one,) = made((7, Refusal(0, "too large", "blocked"), []))
    assert (one.micros, one.number, one.statement, one.rule) == (7, 0, "", "too large")


def test_every_statement_of_a_denied_request_is_denied() -> None:
    found = made(asked(1, 1, "a"), asked(1, 1, "b"), (1, Refusal(1, "no", "blocked"), []))
    assert [(one.statement, one.rule) for one in found] == [("a", "no"), ("b", "no")]


@pytest.mark.parametrize(
    ("pieces", "output", "errors", "truncated"),
    [
        ([("o", b"1234")], b"1234", b"", False),
        ([("o", b"12345")], b"1234", b"", True),
        ([("o", b"1234"), ("o", b"")], b"1234", b"", False),
        ([("o", b"1234"), ("o", b"5")], b"1234", b"", True),
        ([("o", b"12"), ("e", b"34")], b"12", b"34", False),
        ([("e", b"12"), ("o", b"345"), ("e", b"6")], b"34", b"12", True),
        ([("o", b"12345"), ("o", b"67"), ("e", b"8")], b"1234", b"", True),
        ([("s", b"80x24"), ("o", b"1234")], b"1234", b"", False),
    ],
)
def test_output_of_an_exchange_is_cut_at_its_limit(
    pieces: list[tuple[Kind, bytes]], output: bytes, errors: bytes, truncated: bool
) -> None:
    (one,) = made(asked(1, 1), *[shown(2, content, kind) for kind, content in pieces], output=4)
    assert (bytes(one.output), bytes(one.errors), one.output_truncated) == (output, errors, truncated)


@pytest.mark.parametrize(
    ("sizes", "kept", "truncated"),
    [
        ([recording_timeline.STATEMENT], [recording_timeline.STATEMENT], False),
        ([recording_timeline.STATEMENT + 1], [recording_timeline.STATEMENT], True),
        ([recording_timeline.STATEMENT - 1, 1, 0], [recording_timeline.STATEMENT - 1, 1, 0], False),
        ([recording_timeline.STATEMENT - 1, 2], [recording_timeline.STATEMENT - 1, 1], True),
        ([recording_timeline.STATEMENT + 1, 1], [recording_timeline.STATEMENT, 0], True),
    ],
)
def test_bind_values_are_cut_at_their_common_limit(sizes: list[int], kept: list[int], truncated: bool) -> None:
    (one,) = made((1, Operation(1, "x", values=tuple(bytes(size) for size in sizes)), []))
    assert [len(value or b"") for value in one.values] == kept
    assert one.truncated is truncated


def test_statement_is_cut_and_marked_only_over_its_limit() -> None:
    (whole, cut) = made(
        asked(1, 1, "x" * recording_timeline.STATEMENT), asked(1, 2, "x" * (recording_timeline.STATEMENT + 1))
    )
    assert (whole.truncated, cut.truncated) == (False, True)
    assert whole.statement == cut.statement


def test_answer_to_an_unknown_request_is_ignored() -> None:
    found = made(asked(1, 1), (2, Completed(7, "OK"), []), (3, Completed(1, "SELECT 1", 1), []))
    assert [(one.number, one.tag) for one in found] == [(1, "SELECT 1")]


def test_completion_after_that_of_a_later_request_is_ignored() -> None:
    found = made(asked(1, 1), asked(1, 2), (2, Completed(2, "LATE", 5, micros=9), []), (3, Completed(1, "OK"), []))
    assert [(one.number, one.tag, one.ended) for one in found] == [(1, "", True), (2, "LATE", True)]
