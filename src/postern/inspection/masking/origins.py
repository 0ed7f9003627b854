"""Origins of an answer's columns: the port that lineage implements, and column patterns of rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final, Protocol, runtime_checkable

from postern.domain.rules.masking import TAG
from postern.domain.targets.target_schema import ColumnRef, Origin, TargetSchema
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


SessionLineages = Callable[[Callable[[], TargetSchema | None]], SessionOrigins]
"""Makes the lineage of a session, by the function that returns the current snapshot of the target's catalogue, or None
if it could not be read."""


@runtime_checkable
class DocumentOrigins(Protocol):
    """Lineage of answers whose rows can have different columns, as documents have."""

    def shape(self, statement: str) -> frozenset[ColumnRef] | None:
        """Return the columns whose values decide which columns, and how many elements, a row has; None if unknown.

        They show in an answer even if every value in it is masked.
        """


@lru_cache(maxsize=4096)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, text.split("*"))), re.IGNORECASE | re.DOTALL)


_REMEMBERED: Final = 4096  # columns, per rule
_TREE: Final = "*"


class ColumnPatterns:
    """Patterns in the `columns` of a rule, see MaskingRule.

    A column can be a path of field names (`address.zip`). Its names are those of its schema, its table and the fields,
    each divided at dots, and a pattern matches if it is the end of these names, or of those of a field around it:
    `address` and `customers.address` also match `address.zip`. A path that ends with `*` stands for everything in a
    field, so that a pattern for something in it matches too. Results are cached: an answer can have hundreds of paths.
    """

    def __init__(self, columns: Iterable[str]) -> None:
        patterns = tuple(columns)
        self._tags = [_pattern(text.removeprefix(TAG)) for text in patterns if text.startswith(TAG)]
        parts = [text.split(".") for text in patterns if not text.startswith(TAG)]
        self._names = [_pattern(parts_of_pattern[0]) for parts_of_pattern in parts if len(parts_of_pattern) == 1]
        self._refs = [
            [_pattern(part) for part in parts_of_pattern] for parts_of_pattern in parts if len(parts_of_pattern) > 1
        ]
        self._matched_names: dict[str, bool] = {}
        self._matched: dict[tuple[ColumnRef, frozenset[str]], bool] = {}

    @property
    def needs_origins(self) -> bool:
        """Return whether the name in the answer is not enough."""
        return bool(self._tags or self._refs)

    def match_name(self, name: str) -> bool:
        matched = self._matched_names.get(name)
        if matched is None:
            matched = self._match_name(name)
            if len(self._matched_names) >= _REMEMBERED:
                self._matched_names.clear()
            self._matched_names[name] = matched
        return matched

    def match(self, ref: ColumnRef, tags: frozenset[str]) -> bool:
        """Return whether the patterns match a column of a table."""
        key = (ref, tags)
        matched = self._matched.get(key)
        if matched is None:
            matched = self._match(ref, tags)
            if len(self._matched) >= _REMEMBERED:
                self._matched.clear()
            self._matched[key] = matched
        return matched

    def _match_name(self, name: str) -> bool:
        fields = (name, *name.split(".")) if "." in name else (name,)
        return any(pattern.fullmatch(field) for pattern in self._names for field in fields)

    def _match(self, ref: ColumnRef, tags: frozenset[str]) -> bool:
        if any(pattern.fullmatch(tag) for pattern in self._tags for tag in tags):
            return True
        if self.match_name(ref.column) or any(
            _is_end(patterns, (ref.schema, ref.table, ref.column)) for patterns in self._refs
        ):
            return True
        is_tree = ref.column == _TREE or ref.column.endswith(f".{_TREE}")
        if not is_tree and "." not in ref.column and "." not in ref.table:
            return False
        if is_tree and self._names:
            return True  # some field in it can have any name
        place = [ref.schema, *ref.table.split(".")]
        names = place + ref.column.split(".")[: -1 if is_tree else None]
        return any(
            any(_is_end(patterns, names[:end]) for end in range(len(place) + 1, len(names) + 1))
            or (is_tree and any(_is_end(patterns[:count], names) for count in range(1, len(patterns))))
            for patterns in self._refs
        )


def _is_end(patterns: Sequence[re.Pattern[str]], names: Sequence[str]) -> bool:
    """Return whether the patterns match the last names. Patterns for more names than there are match by their last."""
    compared = patterns[-len(names) :]
    return all(pattern.fullmatch(name) for pattern, name in zip(compared, names[-len(compared) :], strict=True))
