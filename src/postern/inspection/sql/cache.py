"""What was said of the texts judged last, bounded in number and in characters."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

CACHED_TEXTS = 1024
CACHED_TEXT_LENGTH = 16 * 1024
CACHED_LENGTH = 2 * 1024 * 1024

Found = TypeVar("Found")


class TextCache(Generic[Found]):
    """Texts longer than CACHED_TEXT_LENGTH are not kept: they hardly come twice."""

    def __init__(self) -> None:
        self._found: OrderedDict[str, Found] = OrderedDict()
        self._length = 0

    def __len__(self) -> int:
        return len(self._found)

    def get(self, text: str) -> Found | None:
        if text not in self._found:
            return None
        self._found.move_to_end(text)
        return self._found[text]

    def put(self, text: str, found: Found) -> None:
        if len(text) > CACHED_TEXT_LENGTH or text in self._found:
            return
        self._found[text] = found
        self._length += len(text)
        while len(self._found) > CACHED_TEXTS or self._length > CACHED_LENGTH:
            oldest, _ = self._found.popitem(last=False)
            self._length -= len(oldest)
