"""How much there is of everything, and how often each figure is measured in a round."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WebSizes:
    """`rows` and `columns` are those of a large result; `recorded` is a terminal's output in bytes, `hour` its length
    in seconds. `repeats` are visits and clicks, `keys` keystrokes."""

    sessions: int
    tables: int
    table_columns: int
    rows: int
    columns: int
    recorded: int
    hour: int
    repeats: int
    keys: int


FULL = WebSizes(
    sessions=10_000,
    tables=2_000,
    table_columns=20,
    rows=100_000,
    columns=50,
    recorded=16 << 20,
    hour=3_600,
    repeats=7,
    keys=60,
)
SMALL = WebSizes(
    sessions=5_000,
    tables=20,
    table_columns=5,
    rows=2_000,
    columns=10,
    recorded=1 << 18,
    hour=60,
    repeats=1,
    keys=4,
)
