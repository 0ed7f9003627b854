"""Parsers with a cache, one instance of which serves a whole process."""

from __future__ import annotations

from typing import Any, Final, TypeVar, cast


class Shared:
    """Parser that is pickled without its cache. Unpickling returns the instance of the current process."""

    def __reduce__(self) -> tuple[Any, ...]:
        return own, (type(self),)


SharedT = TypeVar("SharedT", bound=Shared)

_OWN: Final[dict[type[Shared], Shared]] = {}


def own(parser: type[SharedT]) -> SharedT:
    """Return this process's instance."""
    if parser not in _OWN:
        _OWN[parser] = parser()
    return cast("SharedT", _OWN[parser])
