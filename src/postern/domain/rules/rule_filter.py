"""The filter of lists of named resources."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RuleFilter:
    """`connection`, by name or identifier: only rules that apply to it. `search` is a part of the name or description,
    ignoring case. None: all."""

    name: str | None = None
    connection: str | None = None
    search: str | None = None


ALL_RULES = RuleFilter()
