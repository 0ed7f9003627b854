"""Columns in which nothing is found, searched as one text.

Most columns of most results never contain a value. One search over all of them costs less than one for each. A column
with a candidate is searched alone for some time, so that it does not spoil the search of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from postern.inspection.masking.detector import SEPARATOR
from postern.inspection.masking.detectors import Detectors, Look
from postern.interception.events import Rows

_ALONE = 64  # reads for which a column with a candidate is searched alone


class QuietColumns:
    """The searched columns of one result. `detectors` are those of each column, of all rules."""

    def __init__(self, detectors: Mapping[int, Sequence[Detectors]]) -> None:
        self._groups: dict[tuple[Look, ...], list[int]] = {}  # columns with the same looks
        for column, several in detectors.items():
            looks = [each.first_look() for each in several]
            shared = tuple(dict.fromkeys(look for look in looks if look is not None))
            if None not in looks:
                self._groups.setdefault(shared, []).append(column)
        self._alone: dict[int, int] = {}  # further reads, by column

    def find(self, rows: Rows) -> set[int]:
        """Return columns of these rows in which nothing can be found; not all of them."""
        quiet: set[int] = set()
        for looks, columns in self._groups.items():
            together = [column for column in columns if not self._is_alone(column)]
            if len(together) < 2:
                continue
            texts: list[bytes] = []
            for column in together:
                texts += rows.texts(column)
            if not _may_find(looks, texts):
                quiet.update(together)
                continue
            for column in together:
                if _may_find(looks, rows.texts(column)):
                    self._alone[column] = _ALONE
                else:
                    quiet.add(column)
        return quiet

    def _is_alone(self, column: int) -> bool:
        reads = self._alone.get(column, 0)
        if reads:
            self._alone[column] = reads - 1
        return reads > 0


def _may_find(looks: Sequence[Look], texts: Sequence[bytes]) -> bool:
    joined = SEPARATOR.join(texts)
    return any(look(joined) is not None for look in looks)
