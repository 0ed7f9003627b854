"""Text that lineage has not resolved yet, for callers that cannot wait on the event loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UnreadText:
    """Pending work for a text. `size` is in characters. `read` does it here; `task` does it in another process, and
    `keep` accepts the result.
    """

    size: int
    read: Callable[[], object]
    make_task: Callable[[], Callable[[], object]]  # pickles the schema, which a short text does not need
    keep: Callable[[object], None]

    @property
    def task(self) -> Callable[[], object]:
        return self.make_task()
