"""Statements whose lineage is compared with a server, from `cases.sql`.

A line is one case; ` ;; ` separates the statements of a session, of which the last answer counts. Conditions hold
for every value of a changed column: a filter is not lineage.
"""

from __future__ import annotations

from pathlib import Path

CASES: tuple[tuple[str, ...], ...] = tuple(
    tuple(part.strip() for part in line.split(";;"))
    for line in Path(__file__).with_name("cases.sql").read_text().splitlines()
)
