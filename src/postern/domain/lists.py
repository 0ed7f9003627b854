"""Pagination of lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Generic, TypeVar
from uuid import UUID

Item = TypeVar("Item", covariant=True)

DEFAULT_LIMIT, MAX_LIMIT = 50, 100
MAX_OFFSET = 100_000  # of lists of what people administer
MAX_LONG_OFFSET = 10_000  # of lists that grow with use: the store reads each row that it leaves out
COUNT_CAP = 10_000  # rows that Count.CAPPED counts at most
EXACT_CAP = 1_000_000  # rows that Count.EXACT counts at most


class Count(StrEnum):
    """How a total is counted: up to EXACT_CAP, not at all, or up to COUNT_CAP."""

    EXACT = "exact"
    NONE = "none"
    CAPPED = "capped"


@dataclass(frozen=True, slots=True)
class Position:
    """The position of an item in a list that is sorted by a timestamp and an identifier.

    `section` is for lists that consist of several sorted lists in turn, such as reviews: pending ones first. A list
    that is sorted by a number has it as `id`.
    """

    at: datetime
    id: UUID
    section: int = 0


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list: `limit` items from `offset` on; in long lists also those after a position, however many were
    added before it."""

    limit: int = DEFAULT_LIMIT
    offset: int = 0
    after: Position | None = None
    count: Count = Count.EXACT


@dataclass(frozen=True, slots=True)
class Listed(Generic[Item]):
    """One page, in a stable order, and the total over all pages."""

    items: Sequence[Item]
    total: int


@dataclass(frozen=True, slots=True)
class Stretch(Generic[Item]):
    """One page of a list that may be too long to count. `next` is where the next one begins, None at the end.

    A stretch may hold less than its limit, or nothing, and go on: then one call has looked at as many rows as it can.
    `total` is None where it was not counted; a capped total is a lower bound.
    """

    items: Sequence[Item]
    total: int | None
    total_is_capped: bool = False
    next: Position | None = None
