"""Where what was shown can be rendered from: a place in a recording at which no answer was under way."""

from __future__ import annotations

from postern.interception.events import Completed, Operation


class ResyncPoint:
    """Tells whether a request has come that was made when all before it were answered. Exchanges count up by one. A
    recording's beginning is such a place: `come`."""

    def __init__(self, *, come: bool = False) -> None:
        self._come = come
        self._answered = -1

    def has_come(self, event: object) -> bool:
        if not self._come:
            if isinstance(event, Completed):
                self._answered = event.exchange
            self._come = isinstance(event, Operation) and event.exchange == self._answered + 1
        return self._come
