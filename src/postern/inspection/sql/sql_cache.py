"""Cache of judged texts, bounded in number and in characters."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from postern.domain.targets.target_schema import TargetSchema

CACHED_TEXTS = 2_048
CACHED_TEXT_LENGTH = 16 * 1024  # longer texts rarely come twice
CACHED_LENGTH = 4 * 1024 * 1024

Found = TypeVar("Found")


class TextCache(Generic[Found]):
    """Cache by the text and the schema snapshot.

    Calls from several threads can lose an entry, but never return a wrong one.
    """

    def __init__(self) -> None:
        self._found: OrderedDict[tuple[str, TargetSchema | None], Found] = OrderedDict()
        self._length = 0

    def __len__(self) -> int:
        return len(self._found)

    def of(self, text: str, schema: TargetSchema | None, judge: Callable[[str, TargetSchema | None], Found]) -> Found:
        """Return the cached result, or judge the text."""
        result = self.get(text, schema)
        if result is None:
            result = judge(text, schema)
            self.put(text, schema, result)
        return result

    def get(self, text: str, schema: TargetSchema | None) -> Found | None:
        key = (text, schema)
        result = self._found.get(key)
        if result is None:
            return None
        with suppress(KeyError):  # another thread dropped it meanwhile
            self._found.move_to_end(key)
        return result

    def put(self, text: str, schema: TargetSchema | None, result: Found) -> None:
        if len(text) > CACHED_TEXT_LENGTH:
            return
        key = (text, schema)
        if key not in self._found:
            self._length += len(text)
        self._found[key] = result
        while len(self._found) > CACHED_TEXTS or self._length > CACHED_LENGTH:
            (oldest, _), _ = self._found.popitem(last=False)
            self._length -= len(oldest)
