"""A text that lineage has not read yet, for whoever cannot wait for it on the event loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Unread:
    """`size` is in characters. `read` reads it here. `task` does so in another process, and `keep` takes its answer."""

    size: int
    read: Callable[[], object]
    task: Callable[[], object]
    keep: Callable[[object], None]
