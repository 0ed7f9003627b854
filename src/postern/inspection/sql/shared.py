"""Parsers with a cache, one instance of which serves a whole process."""

from __future__ import annotations

from functools import lru_cache
from typing import Any


class Shared:
    """Parser that is pickled without its cache. Unpickling returns the instance of the current process."""

    def __reduce__(self) -> tuple[Any, ...]:
        return own, (type(self),)


@lru_cache
def own(parser: type[Shared]) -> Shared:
    """Return this process's instance."""
    return parser()
