"""What a request changed, for the audit log: services say it where they do it.

The API opens a trail around each write; a service that changes a resource calls `changed`. Outside of a trail
(the command line of the server, tests) that does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class Trail:
    """The resource as it was and as it is: dataclasses of the domain, or mappings. None where there is nothing."""

    before: object | None = None
    after: object | None = None


_current: ContextVar[Trail | None] = ContextVar("postern_trail", default=None)


@contextmanager
def follow() -> Iterator[Trail]:
    trail = Trail()
    token = _current.set(trail)
    try:
        yield trail
    finally:
        _current.reset(token)


def changed(before: object | None, after: object | None) -> None:
    """Of several changes in one request the first `before` and the last `after` are kept."""
    trail = _current.get()
    if trail is None:
        return
    if trail.before is None:
        trail.before = before
    trail.after = after
