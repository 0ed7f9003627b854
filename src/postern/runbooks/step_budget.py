"""Step counter of one rendering: it yields to other work, and is stopped if it takes too long."""

from __future__ import annotations

from collections.abc import Callable

_EACH = 16  # small steps between two checks


class StepBudget:
    """Step counter that calls `rest` at intervals. An exception in `rest` stops the rendering."""

    def __init__(self, rest: Callable[[], None] | None = None) -> None:
        self._rest = rest
        self._steps = 0

    def step(self) -> None:
        """Count a small, frequent step."""
        self._steps += 1
        if not self._steps % _EACH:
            self.check()

    def check(self) -> None:
        """Call `rest`, before a longer step."""
        if self._rest is not None:
            self._rest()
