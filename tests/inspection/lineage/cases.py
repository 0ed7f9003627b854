"""Statements whose lineage is checked against a server, from `cases.sql`.

A line is one case; ` ;; ` parts the statements of a session, of which the last one's answer counts. Conditions hold
whatever a column is changed to: what filters is not lineage.
"""

from __future__ import annotations

from pathlib import Path

CASES: tuple[tuple[str, ...], ...] = tuple(
    tuple(part.strip() for part in line.split(";;"))
    for line in Path(__file__).with_name("cases.sql").read_text().splitlines()
)
