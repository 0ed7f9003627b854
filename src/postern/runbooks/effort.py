"""How one rendering lets others have their turn, and hears that it takes too long."""

from __future__ import annotations

from collections.abc import Callable

_EACH = 16  # small steps between two calls


class Effort:
    """`rest` is called now and then; what it raises ends the rendering."""

    def __init__(self, rest: Callable[[], None] | None = None) -> None:
        self._rest = rest
        self._steps = 0

    def step(self) -> None:
        """For what is small and frequent."""
        self._steps += 1
        if not self._steps % _EACH:
            self.check()

    def check(self) -> None:
        """For what takes longer."""
        if self._rest is not None:
            self._rest()
