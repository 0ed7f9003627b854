"""Origins of an answer's columns: the port that lineage implements, and column patterns of rules."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Protocol

from postern.domain.rules.masking import TAG
from postern.domain.targets.target_schema import ColumnRef, Origin
from postern.inspection.lineage.unread import UnreadText
from postern.interception.events import Column

# Origin of each column of an answer, in order; None if unknown.
Sources = tuple[Origin | None, ...]


class Origins(Protocol):
    """Lineage in one session, over what is known of a target. Never raises."""

    def record_statement(self, statement: str) -> None:
        """Record each statement, in order, before it is forwarded."""

    def unread(self, statement: str) -> UnreadText | None:
        """Return the text that `record_statement` would have to resolve for this statement; None if it is known."""

    def of(self, statement: str, columns: tuple[Column, ...]) -> Sources | None:
        """Return the origins of an answer's columns; without `columns` (a copy has no description), as many as it has.

        None if the statement cannot be resolved, or has a different number of columns.
        """

    def tags(self, column: ColumnRef) -> frozenset[str]: ...


class SessionOrigins(Origins, Protocol):
    def record_gap(self) -> None:
        """Record that statements were forwarded without a call of `record_statement`."""


@lru_cache(maxsize=4096)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, text.split("*"))), re.IGNORECASE | re.DOTALL)


class ColumnPatterns:
    """Patterns in the `columns` of a rule, see MaskingRule."""

    def __init__(self, columns: Iterable[str]) -> None:
        patterns = tuple(columns)
        self._tags = [_pattern(text.removeprefix(TAG)) for text in patterns if text.startswith(TAG)]
        parts = [text.split(".") for text in patterns if not text.startswith(TAG)]
        self._names = [_pattern(parts_of_pattern[0]) for parts_of_pattern in parts if len(parts_of_pattern) == 1]
        self._refs = [
            [_pattern(part) for part in parts_of_pattern] for parts_of_pattern in parts if len(parts_of_pattern) > 1
        ]

    @property
    def needs_origins(self) -> bool:
        """Return whether the name in the answer is not enough."""
        return bool(self._tags or self._refs)

    def match_name(self, name: str) -> bool:
        return any(pattern.fullmatch(name) for pattern in self._names)

    def match(self, ref: ColumnRef, tags: frozenset[str]) -> bool:
        """Return whether the patterns match a column of a table."""
        if self.match_name(ref.column) or any(pattern.fullmatch(tag) for pattern in self._tags for tag in tags):
            return True
        for patterns in self._refs:
            parts = (ref.schema, ref.table, ref.column)[-len(patterns) :]
            if all(pattern.fullmatch(part) for pattern, part in zip(patterns, parts, strict=True)):
                return True
        return False
