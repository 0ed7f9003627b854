"""Facets: which values the items of a list have, and how many items have each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MAX_VALUES = 100
MAX_COUNTED = 10_000  # items of a list that grows with use, the newest


@dataclass(frozen=True, slots=True)
class FacetValue:
    value: str
    count: int


@dataclass(frozen=True, slots=True)
class Facet:
    """The values of one field, the most frequent first; `is_cut`: there are more than MAX_VALUES."""

    values: Sequence[FacetValue]
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class Facets:
    """Facets of a list that grows with use. `is_capped`: only the newest MAX_COUNTED items were looked at."""

    fields: Mapping[str, Facet]
    is_capped: bool = False
