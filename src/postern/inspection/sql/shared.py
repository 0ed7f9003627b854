"""Parsers of which one serves a whole process, since it keeps what it has read."""

from __future__ import annotations

from functools import lru_cache
from typing import Any


class Shared:
    """Pickled without what it keeps: where it is unpickled, it is that process's own."""

    def __reduce__(self) -> tuple[Any, ...]:
        return own, (type(self),)


@lru_cache
def own(parser: type[Shared]) -> Shared:
    """Return the one of this process."""
    return parser()
