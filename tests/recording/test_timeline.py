from __future__ import annotations

from postern.domain.recorded import Exchange, Kind
from postern.interception.events import Completed, Event, Note, Operation, Phase, Refusal, Shown
from postern.recording import timeline
from postern.recording.rendering import Gap

Told = tuple[int, Event | Gap, list[tuple[Kind, bytes]]]


def made(*told: Told, output: int = 100, in_turn: bool = True) -> list[Exchange]:
    return list(timeline.exchanges(told, output, in_turn=in_turn))


def asked(at: int, number: int, text: str = "x") -> Told:
    return at, Operation(number, text), []


def shown(at: int, text: bytes, kind: Kind = "o") -> Told:
    return at, Shown(b""), [(kind, text)]


def test_answers_of_pipelined_requests_find_theirs() -> None:
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


def test_what_an_earlier_error_skipped_has_no_end() -> None:
    found = made(asked(1, 1), asked(1, 2), (2, Completed(1, error="no"), []), asked(5, 3), (6, Completed(3, "OK"), []))
    assert [(one.number, one.error, one.tag, one.duration) for one in found] == [
        (1, "no", "", 0),
        (2, "", "", None),
        (3, "", "OK", 0),
    ]


def test_a_refusal_and_what_the_client_was_told() -> None:
    [first, second] = made(
        asked(1, 1, "drop"),
        (1, Refusal(1, "no drops", "blocked"), []),
        shown(1, b"ERROR: blocked", "e"),
        asked(2, 2),
        (3, Completed(2, "OK"), []),
    )
    assert (first.rule, first.refusal, bytes(first.errors)) == ("no drops", "blocked", b"ERROR: blocked")
    assert (second.refusal, bytes(second.errors)) == ("", b"")


def test_at_a_terminal_output_is_of_the_last_line() -> None:
    found = made(asked(1, 1), shown(2, b"a"), asked(3, 2), shown(4, b"b"), shown(5, b"c"), in_turn=False)
    assert [bytes(one.output) for one in found] == [b"a", b"bc"]


def test_notes_gaps_and_what_nobody_asked_for_stand_in_their_places() -> None:
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


def test_what_is_long_is_cut_and_says_so() -> None:
    most = timeline.STATEMENT
    [one] = made((1, Operation(1, "ä" * most, values=(b"v" * most, b"w", None)), []), shown(2, b"123456"), output=4)
    assert (one.statement, one.statement_size, one.truncated) == ("ä" * (most // 2), 2 * most, True)
    assert one.values == (b"v" * most, b"", None)
    assert (bytes(one.output), one.output_truncated) == (b"1234", True)


def test_bytes_that_no_encoding_explains_are_told_as_they_are() -> None:
    [one] = made(asked(1, 1, "select '\udcff\udc80'"))
    assert (one.statement, one.statement_size) == ("select '\\xff\\x80'", 11)


def test_a_prepared_statement_is_no_run() -> None:
    [one] = made((1, Operation(1, "x", Phase.PREPARE), []))
    assert one.prepared


def test_what_nothing_ends_does_not_wait_for_ever() -> None:
    """Lines of a terminal: memory is bounded however many are typed."""
    waiting = timeline.exchanges((asked(at, at, "x" * 1000) for at in range(10**9)), 0, in_turn=True)
    assert next(waiting).number == 0
    large = timeline.exchanges((asked(at, at, "x" * 10**6) for at in range(10**9)), 0, in_turn=True)
    assert [next(large).number for _ in range(20)] == list(range(20))
