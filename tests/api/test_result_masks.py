"""Masked cells of results as JSON: compact, complete and bounded."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from postern.api.sessions.result_answers import ResultWriter
from postern.api.sessions.result_masks import MaskedCells, MaskSummary
from postern.domain.sessions.results import CellMasks, Finished, Mask, Result, ResultColumns, Row

PEOPLE, CARDS = Mask("people", "hash"), Mask("", "replace", ("CREDIT_CARD",))
MASKS = (PEOPLE, CARDS, Mask("cards", "partial", ("CREDIT_CARD", "IBAN_CODE")))
CELLS: st.SearchStrategy[CellMasks] = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(MASKS)), max_size=3, unique=True
).map(tuple)


def cells_of(rows: list[CellMasks], most: int = 10_000) -> dict[str, Any]:
    cells = MaskedCells(most)
    for number, masks in enumerate(rows):
        cells.add(number, masks)
    return cells.finish(len(rows))


def expanded(found: dict[str, Any]) -> list[tuple[int, int, str | None]]:
    return [
        (row, column, found["masks"][number]["rule"], *found["masks"][number]["info_types"])
        for column, first, last, number in found["cells"]
        for row in range(first, last + 1)
    ]


@given(st.lists(CELLS, max_size=12), st.integers(1, 30))
def test_runs_are_the_masked_cells_up_to_the_row_from_which_they_are_incomplete(
    rows: list[CellMasks], most: int
) -> None:
    found = cells_of(rows, most)
    end = len(rows) if found["incomplete_from"] is None else found["incomplete_from"]
    wanted = [
        (row, column, mask.rule or None, *mask.info_types)
        for row, masks in enumerate(rows[:end])
        for column, mask in masks
    ]
    told = [cell for cell in expanded(found) if cell[0] < end]
    assert sorted(told, key=str) == sorted(wanted, key=str)
    assert len(found["cells"]) <= most


def test_masked_column_is_one_run_however_many_blocks_it_came_in() -> None:
    rows: list[CellMasks] = [((1, PEOPLE),)] * 3 + [((1, Mask("people", "hash")),)] * 4 + [((1, PEOPLE), (2, CARDS))]
    assert cells_of(rows)["cells"] == [[1, 0, 7, 0], [2, 7, 7, 1]]


def test_summary_counts_cells_by_rule_and_names_columns() -> None:
    summary = MaskSummary()
    one: CellMasks = ((1, PEOPLE),)
    results: list[Result] = [
        ResultColumns(("a", "b")),
        Row(("1", "2"), one),
        Row(("1", "2"), one),
        Row(("1", "2"), ((0, CARDS), (1, PEOPLE))),
        Row(("1", "2")),
        Finished("SELECT 4"),
        ResultColumns(("c", "d")),
        Row(("1", "2"), one),
    ]
    for result in results:
        summary.add(result)
    assert summary.render() == [
        {"rule": "people", "strategy": "hash", "info_types": [], "columns": ["b", "d"], "cells": 4},
        {"rule": None, "strategy": "replace", "info_types": ["CREDIT_CARD"], "columns": ["a"], "cells": 1},
    ]


def test_summary_of_ten_thousand_columns_is_bounded() -> None:
    summary = MaskSummary()
    summary.add(ResultColumns(tuple(f"c{number}" for number in range(10_000))))
    summary.add(Row((None,) * 10_000, tuple((number, PEOPLE) for number in range(10_000))))
    (entry,) = summary.render()
    assert (len(entry["columns"]), entry["cells"]) == (1_000, 10_000)


def test_fields_tell_type_and_mask_of_each_column() -> None:
    columns = ResultColumns(("a", "b"), ("int4", None), (None, PEOPLE))
    text = "".join(ResultWriter([columns, Row(("1", "x"), ((1, PEOPLE),)), Finished("SELECT 1")]).json())
    (result,) = json.loads(text)
    assert result["columns"] == ["a", "b"]
    assert result["fields"] == [
        {"name": "a", "type": "int4", "masked": None},
        {"name": "b", "type": None, "masked": {"rule": "people", "strategy": "hash"}},
    ]
    assert result["masked"] == {
        "masks": [{"rule": "people", "strategy": "hash", "info_types": []}],
        "cells": [[1, 0, 0, 0]],
        "incomplete_from": None,
    }


def test_limit_also_bounds_the_masked_cells_of_rows_that_are_written() -> None:
    rows = [Row(("x",), ((0, MASKS[number % 2]),)) for number in range(5_000)]
    writer = ResultWriter([ResultColumns(("a",)), *rows, Finished("SELECT 5000")], 10_000)
    text = "".join(writer.json())
    (result,) = json.loads(text)
    assert len(text) < 2 * 10_000 + 500
    assert len(result["masked"]["cells"]) == result["masked"]["incomplete_from"] == 10_000 // 64
    assert 0 < len(result["rows"]) < 5_000
