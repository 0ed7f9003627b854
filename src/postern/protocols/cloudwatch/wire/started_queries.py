"""Queries of Insights that were started through the gateway, so that their results are known to be theirs.

They are remembered for each principal and connection. `cloudwatch_listener` shares them between workers.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

MAX_QUERIES: Final = 1000  # of one principal on one connection
MAX_CHARACTERS: Final = 1 << 20  # … of their texts
_MAX_OWNERS: Final = 1000


class StartedQueries:
    """The texts of requests that started queries, by the query's id. `on_add` is told of each one that is added."""

    def __init__(self) -> None:
        self.on_add: Callable[[str, str], None] | None = None
        self._texts: OrderedDict[str, str] = OrderedDict()
        self._characters = 0

    def add(self, query_id: str, text: str) -> None:
        """Remember a query that was started now."""
        self.remember(query_id, text)
        if self.on_add is not None:
            self.on_add(query_id, text)

    def remember(self, query_id: str, text: str) -> None:
        """Remember a query. The oldest ones are forgotten."""
        self._forget(query_id)
        self._texts[query_id] = text
        self._characters += len(text)
        while len(self._texts) > MAX_QUERIES or self._characters > MAX_CHARACTERS:
            self._forget(next(iter(self._texts)))

    def find(self, query_id: object) -> str:
        """Return the text of the request that started a query; empty if that is unknown."""
        return self._texts.get(query_id, "") if isinstance(query_id, str) else ""

    def _forget(self, query_id: str) -> None:
        self._characters -= len(self._texts.pop(query_id, ""))


class QueryRegistry:
    """Started queries of all principals of one worker."""

    def __init__(self) -> None:
        self._owners: OrderedDict[tuple[str, str], StartedQueries] = OrderedDict()

    def of(self, principal: str, connection: str) -> StartedQueries:
        key = (principal, connection)
        queries = self._owners.get(key)
        if queries is None:
            queries = self._owners[key] = StartedQueries()
            if len(self._owners) > _MAX_OWNERS:
                self._owners.popitem(last=False)
        self._owners.move_to_end(key)
        return queries
