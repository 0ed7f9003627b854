"""Results with the masks that were recorded before their output."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from postern.domain.sessions.results import CUT, Finished, Mask, Problem, Result, ResultColumns, Row
from postern.errors import ProtocolViolation
from postern.interception.events import ClientOutput, Completed, Event, Mark, Masked, Note
from postern.recording.recorded_results import RecordedResults
from postern.recording.recorder import OUTPUT_LIMIT_REACHED
from postern.recording.recording_rendering import Gap

PEOPLE, CARDS = Mask("people", "hash"), Mask("", "replace", ("CREDIT_CARD",))
PAIR = ResultColumns(("a", "b"), ("int4", None))


class Lines:
    """A protocol of lines: `T` are columns, `D x` is a row, `N` a notice, `C` the end, `!` an offence."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[Result]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [self._result(line) for line in lines]

    def _result(self, line: bytes) -> Result:
        if line == b"!":
            raise ProtocolViolation("no")
        if line == b"N":
            return Problem("NOTICE", "n", fails=False)
        if line == b"T":
            return PAIR
        return Finished("C") if line == b"C" else Row((line[2:].decode(), None))


def read(*events: Event | Gap) -> list[Result]:
    results = RecordedResults(Lines())
    return [result for event in events for result in results.take(event)] + list(results.rest())


def test_masks_belong_to_the_rows_of_their_part_of_the_output() -> None:
    whole, some = Mark(PEOPLE, (1,), whole=True), Mark(CARDS, (0,), b"\x05")
    output = b"T\nD 1\nC\nT\nD 2\nD 3\nD 4\nC\nD 5\n"
    first, second = output.index(b"D 1"), output.index(b"D 2")
    found = read(
        Masked(1, first, 4, 1, [whole]), Masked(1, second, 12, 3, [whole, some]), ClientOutput(output), Completed(1)
    )
    assert found == [
        ResultColumns(PAIR.names, PAIR.types, (None, PEOPLE)),
        Row(("1", None), ((1, PEOPLE),)),
        Finished("C"),
        ResultColumns(PAIR.names, PAIR.types, (None, PEOPLE)),
        Row(("2", None), ((0, CARDS), (1, PEOPLE))),
        Row(("3", None), ((1, PEOPLE),)),
        Row(("4", None), ((0, CARDS), (1, PEOPLE))),
        Finished("C"),
        Row(("5", None)),
    ]


def test_row_that_began_in_an_earlier_output_does_not_shift_masks() -> None:
    """As after a change of the rules in the middle of a result, before which rows passed without being read."""
    found = read(
        ClientOutput(b"T\nD "), Masked(1, 2, 8, 2, [Mark(CARDS, (0,), b"\x02")]), ClientOutput(b"1\nD 2\nD 3\n")
    )
    assert [(row.cells[0], row.masks) for row in found if isinstance(row, Row)] == [
        ("1", ()),
        ("2", ()),
        ("3", ((0, CARDS),)),
    ]


def test_columns_wait_for_the_first_row_and_notices_do_not() -> None:
    results = RecordedResults(Lines())
    assert list(results.take(ClientOutput(b"T\nN\n"))) == [Problem("NOTICE", "n", fails=False)]
    list(results.take(Masked(1, 0, 4, 1, [Mark(PEOPLE, (0,), whole=True)])))
    columns, _ = results.take(ClientOutput(b"D 1\n"))
    assert isinstance(columns, ResultColumns)
    assert columns.masks == (PEOPLE, None)


def test_mark_of_found_values_in_all_rows_is_not_one_of_the_column() -> None:
    columns, row = read(Masked(1, 2, 4, 1, [Mark(CARDS, (0,))]), ClientOutput(b"T\nD 1\n"))
    assert (columns, row) == (PAIR, Row(("1", None), ((0, CARDS),)))


@pytest.mark.parametrize(
    "end",
    [
        Note(OUTPUT_LIMIT_REACHED, {"limit": "9"}),
        Gap(2, "it is missing"),
        ClientOutput(b"!\n"),
    ],
    ids=str,
)
def test_columns_without_rows_are_not_lost_where_reading_ends(end: Event | Gap) -> None:
    columns, problem = read(ClientOutput(b"T\n"), end)
    assert columns == PAIR
    assert isinstance(problem, Problem)
    assert problem.severity == CUT


def test_marks_of_output_that_was_cut_are_harmless() -> None:
    """The output has fewer bytes, rows and columns than its marks."""
    marks = [Mark(PEOPLE, (0, 9), whole=True), Mark(CARDS, (700,), b"\xff\xff")]
    found = read(Masked(1, 2, 999, 99, marks), ClientOutput(b"T\nD 1\nD"))
    assert found == [
        ResultColumns(PAIR.names, PAIR.types, (PEOPLE, None)),
        Row(("1", None), ((0, PEOPLE), (9, PEOPLE), (700, CARDS))),
    ]


class Parts(Lines):
    """The same, but the wire has columns `a.x`, `a.y` and `b`, of which the first two are parts of the column `a`."""

    def find_columns(self, names: Sequence[str], *, whole: bool = False) -> tuple[int, ...]:
        found = ["ab".index(name if whole else name[0]) for name in names if not whole or name in "ab"]
        return tuple(dict.fromkeys(found))


def test_marks_with_names_belong_to_the_columns_that_show_them() -> None:
    marks = [
        Mark(PEOPLE, (0, 1, 2), whole=True, names=("a.x", "a.y", "b")),
        Mark(CARDS, (0,), b"\x02", names=("a.x",)),
        Mark(CARDS, (1,), b"\x03", names=("a.y",)),
        Mark(CARDS, (7,), b"\x03", names=()),
    ]
    results = RecordedResults(Parts())
    events = (Masked(1, 2, 8, 2, marks), ClientOutput(b"T\nD 1\nD 2\n"))
    assert [result for event in events for result in results.take(event)] == [
        ResultColumns(PAIR.names, PAIR.types, (None, PEOPLE)),
        Row(("1", None), ((0, CARDS), (0, PEOPLE), (1, PEOPLE))),
        Row(("2", None), ((0, CARDS), (0, PEOPLE), (1, PEOPLE))),
    ]


def test_marks_with_names_are_numbers_for_a_reader_without_names() -> None:
    marks = [Mark(PEOPLE, (1,), whole=True, names=("a.x",))]
    columns, row = read(Masked(1, 2, 4, 1, marks), ClientOutput(b"T\nD 1\n"))
    assert (columns, row) == (ResultColumns(PAIR.names, PAIR.types, (None, PEOPLE)), Row(("1", None), ((1, PEOPLE),)))
