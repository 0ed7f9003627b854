"""What lists of guard rails and of masking rules are asked for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RuleFilter:
    """`connection`, by name or identifier: one that they apply to. None: whichever."""

    name: str | None = None
    connection: str | None = None


ALL_RULES = RuleFilter()
