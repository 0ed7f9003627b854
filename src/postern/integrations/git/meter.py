"""A counter of received bytes."""

from __future__ import annotations

from postern.errors import Invalid


class Meter:
    def __init__(self, most: int) -> None:
        self._most = most
        self.left = most

    def add(self, length: int) -> None:
        """Count bytes. Raises Invalid over the limit."""
        self.left -= length
        if self.left < 0:
            raise Invalid(
                f"the server sent more than {self._most >> 20} MiB, the limit for a "
                "repository; keep runbooks in a separate repository"
            )
