"""The filter of lists of guardrails and of masking rules."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RuleFilter:
    """`connection`, by name or identifier: only rules that apply to it. None: all."""

    name: str | None = None
    connection: str | None = None


ALL_RULES = RuleFilter()
