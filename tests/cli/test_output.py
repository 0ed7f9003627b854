from __future__ import annotations

import json

import pytest

from postern.cli import printing


def test_a_table_is_aligned_and_on_lines_of_its_own(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    printing.table(["name", "tags"], [["shop", {"a": 1}], ["a\nb\x1b[2J", None]], "none")
    assert capsys.readouterr().out == "NAME         TAGS\nshop         a=1\na\\nb\\x1b[2J  -\n"


def test_a_table_that_is_piped_is_tabs(capsys: pytest.CaptureFixture[str]) -> None:
    printing.table(["name", "tags"], [["shop", {"a": 1}], ["a\nb\tc", None]], "none")
    assert capsys.readouterr().out == "shop\ta=1\na\\nb\\tc\t-\n"


def test_an_empty_table_is_said_where_no_program_reads_it(capsys: pytest.CaptureFixture[str]) -> None:
    printing.table(["name"], [], "nothing there")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "nothing there\n")


def test_json_is_the_value_as_it_came(capsys: pytest.CaptureFixture[str]) -> None:
    printing.emit({"a": ["ü", None]}, True, lambda _: pytest.fail("not for people"))
    assert json.loads(capsys.readouterr().out) == {"a": ["ü", None]}


def test_fields_leave_out_what_is_empty(capsys: pytest.CaptureFixture[str]) -> None:
    printing.fields([("id", 1), ("nothing", None), ("long name", False), ("zero", 0), ("none", [])])
    assert capsys.readouterr().out == "id         1\nlong name  no\nzero       0\n"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0004, "0.4 ms"), (1.5, "1.5 s"), (119.9, "119.9 s"), (300, "5 min"), (3600 * 2 + 180, "2 h 03 min")],
)
def test_spans_are_told_in_fitting_units(seconds: float, text: str) -> None:
    assert printing.span(seconds) == text


def test_a_duration_is_between_two_api_times() -> None:
    assert printing.duration("2026-01-02T03:04:05Z", "2026-01-02T03:04:06.5+00:00") == "1.5 s"
    assert printing.duration("2026-01-02T03:04:05Z", None) == "-"
