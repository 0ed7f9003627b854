"""Masked cells of results, in a compact form for JSON, and as a summary."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from postern.domain.sessions.results import CellMasks, Mask, Result, ResultColumns, Row

MAX_RUNS = 10_000  # of one result
_MAX_COLUMNS = 1_000  # names that a summary lists for a rule


def render_mask(mask: Mask) -> dict[str, Any]:
    return {"rule": mask.rule or None, "strategy": mask.strategy, "info_types": list(mask.info_types)}


class MaskedCells:
    """Masked cells of one result, as runs: `[column, first row, last row, mask]`. A masked column is one run.

    If there would be more than `most` runs, cells from the row `incomplete_from` on are left out.
    """

    def __init__(self, most: int = MAX_RUNS) -> None:
        self.incomplete_from: int | None = None
        self._most = most
        self._numbers: dict[Mask, int] = {}
        self._runs: list[list[int]] = []
        self._latest: dict[tuple[int, int], list[int]] = {}  # the latest run of each column and mask
        self._masks: CellMasks = ()  # of the rows from `_first` on
        self._first = 0

    def add(self, row: int, masks: CellMasks) -> None:
        """Add a row. Rows come in order; most have the masks of the row before, as the same tuple."""
        if masks is self._masks:
            return
        self._close(row)
        self._masks, self._first = masks, row

    def finish(self, rows: int) -> dict[str, Any]:
        """Return the JSON form of a result with that many rows."""
        self._close(rows)
        self._masks = ()
        return {
            "masks": [render_mask(mask) for mask in self._numbers],
            "cells": self._runs,
            "incomplete_from": self.incomplete_from,
        }

    def _close(self, end: int) -> None:
        """Add the rows from `_first` up to `end`, exclusive."""
        if self.incomplete_from is not None:
            return
        for column, mask in self._masks:
            number = self._numbers.setdefault(mask, len(self._numbers))
            run = self._latest.get((column, number))
            if run is not None and run[2] == self._first - 1:
                run[2] = end - 1
            elif len(self._runs) < self._most:
                run = self._latest[column, number] = [column, self._first, end - 1, number]
                self._runs.append(run)
            else:
                self.incomplete_from = self._first
                return


class MaskSummary:
    """What was masked in results, by rule and strategy. `add` takes the results in order."""

    def __init__(self) -> None:
        self._names: tuple[str, ...] = ()
        self._entries: dict[tuple[str, str], _Entry] = {}
        self._masks: CellMasks = ()  # of the latest rows, which are not counted yet
        self._rows = 0

    def add(self, result: Result) -> None:
        if isinstance(result, ResultColumns):
            self._count()
            self._names = result.names
        elif isinstance(result, Row):
            if result.masks is not self._masks:
                self._count()
                self._masks = result.masks
            self._rows += 1

    def _count(self) -> None:
        for column, mask in self._masks:
            entry = self._entries.setdefault((mask.rule, mask.strategy), _Entry())
            entry.add(self._names[column] if column < len(self._names) else "", mask.info_types, self._rows)
        self._masks, self._rows = (), 0

    def render(self) -> list[dict[str, Any]]:
        self._count()
        return [
            {
                "rule": rule or None,
                "strategy": strategy,
                "info_types": sorted(entry.info_types),
                "columns": list(entry.columns),
                "cells": entry.cells,
            }
            for (rule, strategy), entry in self._entries.items()
        ]


class _Entry:
    def __init__(self) -> None:
        self.info_types: set[str] = set()
        self.columns: dict[str, None] = {}
        self.cells = 0

    def add(self, column: str, info_types: Iterable[str], cells: int) -> None:
        self.cells += cells
        self.info_types.update(info_types)
        if column not in self.columns and len(self.columns) < _MAX_COLUMNS:
            self.columns[column] = None
