"""Where the columns of an answer come from: the port that lineage fills, and what rules about columns make of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Protocol

from postern.domain.rules.masking import TAG
from postern.domain.targets.target_schema import ColumnRef, Origin
from postern.inspection.lineage.unread import UnreadText
from postern.interception.events import Column

# The origin of each column of an answer, in order; None for one whose origin cannot be known.
Sources = tuple[Origin | None, ...]


class Origins(Protocol):
    """Lineage over what is known of a target, in one session. Never raises."""

    def asked(self, statement: str) -> None:
        """Told of each statement, in the order of asking, before it is let through."""

    def unread(self, statement: str) -> UnreadText | None:
        """What `asked` would have to read for this statement; None where that is known."""

    def of(self, statement: str, columns: tuple[Column, ...]) -> Sources | None:
        """Of the answer to a statement; without `columns` (a copy has no description) as many as it has. None when
        the statement cannot be judged, or there is another number of them."""

    def tags(self, column: ColumnRef) -> frozenset[str]: ...


class SessionOrigins(Origins, Protocol):
    def missed(self) -> None:
        """Record that statements were let through of which `asked` was not told."""


@lru_cache(maxsize=4096)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, text.split("*"))), re.IGNORECASE | re.DOTALL)


class ColumnPatterns:
    """The `columns` of a rule, see MaskingRule."""

    def __init__(self, columns: Iterable[str]) -> None:
        given = tuple(columns)
        self._tags = [_pattern(text.removeprefix(TAG)) for text in given if text.startswith(TAG)]
        parts = [text.split(".") for text in given if not text.startswith(TAG)]
        self._names = [_pattern(one[0]) for one in parts if len(one) == 1]
        self._refs = [[_pattern(part) for part in one] for one in parts if len(one) > 1]

    @property
    def needs_origins(self) -> bool:
        """Whether the name in the answer is not enough."""
        return bool(self._tags or self._refs)

    def match_name(self, name: str) -> bool:
        return any(pattern.fullmatch(name) for pattern in self._names)

    def match(self, ref: ColumnRef, tags: frozenset[str]) -> bool:
        """Whether a column of a table is meant."""
        if self.match_name(ref.column) or any(pattern.fullmatch(tag) for pattern in self._tags for tag in tags):
            return True
        for patterns in self._refs:
            parts = (ref.schema, ref.table, ref.column)[-len(patterns) :]
            if all(pattern.fullmatch(part) for pattern, part in zip(patterns, parts, strict=True)):
                return True
        return False
