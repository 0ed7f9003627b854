"""The number of terminals in browsers, in this process and for each user."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from postern.errors import TooMany

MOST = 500
MOST_PER_USER = 20


class TerminalLimiter:
    def __init__(self, *, most: int = MOST, most_per_user: int = MOST_PER_USER) -> None:
        self._most = most
        self._most_per_user = most_per_user
        self._open: Counter[UUID] = Counter()

    @property
    def open(self) -> int:
        return self._open.total()

    @contextmanager
    def slot(self, user_id: UUID) -> Iterator[None]:
        """Count one terminal of the user while it is open. Raises TooMany."""
        if self._open[user_id] >= self._most_per_user:
            raise TooMany(f"you already have {self._most_per_user} terminals open, the maximum; close one first")
        if self._open.total() >= self._most:
            raise TooMany("too many terminals are open in this gateway; try again later")
        self._open[user_id] += 1
        try:
            yield
        finally:
            self._open[user_id] -= 1
            if not self._open[user_id]:
                del self._open[user_id]
