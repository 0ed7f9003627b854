"""A limit on concurrent operations, per user and in total."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from postern.errors import TooMany


class ConcurrencyLimit:
    """Counts within this process. `what` describes the operation in errors: "watch sessions"."""

    def __init__(self, what: str, *, each: int, most: int) -> None:
        self._what = what
        self._each = each
        self._most = most
        self._taken: Counter[UUID] = Counter()

    def require(self, principal_id: UUID) -> None:
        """Raise TooMany when the limit is reached."""
        if self._taken[principal_id] >= self._each:
            raise TooMany(f"you already {self._what} in {self._each} requests; end one of them", retry_after=5)
        if self._taken.total() >= self._most:
            raise TooMany(f"{self._most} clients already {self._what}; try again later", retry_after=30)

    @contextmanager
    def acquire(self, principal_id: UUID) -> Iterator[None]:
        """Hold a slot around an operation. Raises TooMany."""
        self.require(principal_id)
        self._taken[principal_id] += 1
        try:
            yield
        finally:
            self._taken[principal_id] -= 1
            if not self._taken[principal_id]:
                del self._taken[principal_id]
