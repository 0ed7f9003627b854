"""Detectors whose matches are replaced by a strategy, instead of the fixed replacement of their kind."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from postern.domain.rules.masking import CustomType, InfoType, MaskingRule, Strategy
from postern.domain.sessions.results import Mask
from postern.inspection.masking.detector import Found, MaskedText, Span
from postern.inspection.masking.detectors import ROUNDS, Detectors, Look, detectors_for
from postern.inspection.masking.joined_texts import Hits, mask_texts
from postern.inspection.masking.json_documents import mask_documents
from postern.inspection.masking.kinds.card import is_card
from postern.inspection.masking.scalars import mask_addresses, mask_numbers
from postern.inspection.masking.strategies import Substitutes
from postern.interception.events import Change, Scalar

_MASKS = 256  # sets of types found together
_NUMBERS = frozenset({Scalar.SMALLINT, Scalar.INTEGER, Scalar.BIGINT, Scalar.DECIMAL})
_TEXTS = frozenset({Scalar.TEXT, Scalar.BYTES, Scalar.OTHER})


def _lies_within(spans: list[Span], start: int, end: int) -> bool:
    place = bisect_right(spans, (start, sys.maxsize)) - 1
    return place >= 0 and end <= spans[place][1]


class _Changed:
    """Text with replaced parts, from left to right. `made` are the parts that earlier rounds inserted."""

    def __init__(self, text: bytes, new_spans: list[Span]) -> None:
        self._text = text
        self._made = new_spans
        self._next = 0  # index in `made`
        self._read = 0  # position in the text
        self._size = 0  # size of the parts
        self._parts: list[bytes] = []
        self._spans: list[Span] = []

    def put(self, start: int, end: int, new: bytes) -> None:
        self._keep(start)
        self._parts.append(new)
        self._spans.append((self._size, self._size + len(new)))
        self._size += len(new)
        self._read = end

    def finish(self) -> tuple[bytes, list[Span]]:
        """Return the text, and the positions of the inserted parts."""
        self._keep(len(self._text))
        return b"".join(self._parts), self._spans

    def _keep(self, end: int) -> None:
        """Copy the unchanged text before `end`."""
        shift = self._size - self._read
        while self._next < len(self._made) and self._made[self._next][1] <= end:
            first, last = self._made[self._next]
            if first >= self._read:
                self._spans.append((first + shift, last + shift))
            self._next += 1
        self._parts.append(self._text[self._read : end])
        self._size += end - self._read


class Substituting(Detectors):
    """Detectors of `finder` with other replacements. Can be used wherever Detectors are."""

    __slots__ = ("_finder", "_substitutes")

    def __init__(self, finder: Detectors, substitutes: Substitutes) -> None:
        self.types = finder.types
        self._finder = finder
        self._substitutes = substitutes

    def worth(self, text: bytes) -> list[int]:
        return self._finder.worth(text)

    def first_look(self) -> Look | None:
        return self._finder.first_look()

    def may_find(self, text: bytes) -> bool:
        return self._finder.may_find(text)

    def are_quoted(self, worth: Sequence[int], documents: bytes) -> bool:
        return self._finder.are_quoted(worth, documents)

    def find_cells(self, joined: bytes) -> list[Span] | None:
        return self._finder.find_cells(joined)

    def find(self, text: bytes) -> list[Found]:
        return self._finder.find(text)

    def mask_column(self, texts: Sequence[bytes], joined: bytes) -> None:
        return None

    def mask(self, text: bytes, worth: Sequence[int] | None = None) -> Iterator[tuple[str, MaskedText]]:
        """Mask values, as often as that reveals another one. Replacements are known by position, and skipped in later
        rounds.
        """
        inserted: list[Span] = []
        for _ in range(ROUNDS):
            counts: dict[str, tuple[int, int]] = {}
            changed = _Changed(text, inserted)
            for match in self.find(text):
                old = text[match.start : match.end]
                if _lies_within(inserted, match.start, match.end):
                    continue
                new = self._substitutes.replace_found(match.type, old)
                if new == old:
                    continue
                changed.put(match.start, match.end, new)
                hits, size = counts.get(match.type, (0, 0))
                counts[match.type] = (hits + 1, size + len(old))
            if not counts:
                return
            text, inserted = changed.finish()
            for kind, (hits, size) in counts.items():
                yield kind, MaskedText(text, hits, size)


class ValueSearch:
    """Value search of one rule, with its replacements. `rule` is the rule's name, empty without one."""

    def __init__(
        self,
        types: frozenset[InfoType],
        custom: tuple[CustomType, ...],
        threshold: float,
        substitutes: Substitutes,
        rule: str = "",
    ) -> None:
        self._rule = rule
        self._masks: dict[frozenset[str], Mask] = {}
        self._types = types
        self._custom = custom
        self._threshold = threshold
        self.substitutes = substitutes
        self.strategy = substitutes.strategy

    def detectors(self, column: str = "") -> Detectors:
        """Return detectors for a column of that name, or for texts without a column."""
        finder = detectors_for(self._types, self._custom, self._threshold, column)
        return finder if self.strategy is Strategy.REPLACE else Substituting(finder, self.substitutes)

    def mask_of(self, found: Iterable[str]) -> Mask:
        """Return the mask of a value in which these types were found."""
        types = frozenset(found)
        mask = self._masks.get(types)
        if mask is None:
            if len(self._masks) >= _MASKS:
                self._masks.clear()
            mask = self._masks[types] = Mask(self._rule, self.strategy.value, tuple(sorted(map(str, types))))
        return mask

    def change(self, detectors: Detectors, hits: Hits) -> Change:
        """Return the change for values that become NULL or other values of their type, if something is found in
        them.
        """

        def by(scalar: Scalar, value: bytes) -> bytes | None:
            if scalar in _TEXTS:
                masked = mask_texts(detectors, [value], hits)
            elif scalar is Scalar.JSON:
                masked = mask_documents(detectors, [value], hits)
            elif scalar in _NUMBERS:
                masked = mask_numbers(detectors, [value], hits)
            elif scalar is Scalar.ADDRESS:
                masked = mask_addresses(detectors, [value], hits)
            else:
                return value
            if masked is None:
                return value
            new = self.substitutes.change(scalar, value)
            while new is not None and scalar in _NUMBERS and is_card(new):
                new = self.substitutes.change(scalar, new)
            return new

        return by


def search_of(rule: MaskingRule, substitutes: Substitutes) -> ValueSearch:
    return ValueSearch(rule.types, rule.custom_types, rule.threshold, substitutes, rule.name)
