"""A text that lineage has not read yet, for whoever cannot wait for it on the event loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UnreadText:
    """`size` is in characters. `read` reads it here. `task` does so in another process, and `keep` takes its answer."""

    size: int
    read: Callable[[], object]
    make_task: Callable[[], Callable[[], object]]  # packs the schema, which a short text does not need
    keep: Callable[[object], None]

    @property
    def task(self) -> Callable[[], object]:
        return self.make_task()
