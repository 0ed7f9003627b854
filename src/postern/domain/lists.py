"""How lists are cut into pages: one way for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Item = TypeVar("Item", covariant=True)

DEFAULT_LIMIT, MAX_LIMIT = 50, 100
MAX_OFFSET = 1_000_000


@dataclass(frozen=True, slots=True)
class Page:
    """A piece of a list: `limit` items from `offset` on."""

    limit: int = DEFAULT_LIMIT
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Listed(Generic[Item]):
    """One page, in an order that does not change between pages, and how many there are over all pages."""

    items: Sequence[Item]
    total: int
