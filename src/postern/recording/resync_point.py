"""Resynchronisation point: no answer in flight, so that rendering can start here."""

from __future__ import annotations

from postern.interception.events import Completed, Operation


class ResyncPoint:
    """Detector of a request that was sent after all earlier ones were answered. Exchanges count up by one.

    The start of a recording is such a point (`come`).
    """

    def __init__(self, *, come: bool = False) -> None:
        self._come = come
        self._answered = -1

    def has_come(self, event: object) -> bool:
        if not self._come:
            if isinstance(event, Completed):
                self._answered = event.exchange
            self._come = isinstance(event, Operation) and event.exchange == self._answered + 1
        return self._come
