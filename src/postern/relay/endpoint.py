"""One side's transport callbacks, passed on to the driver.

Apart from `driver.py` because that file is compiled, and a compiled class cannot inherit from asyncio's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from postern.errors import CarrierBroke
from postern.protocols.wire_base import Side
from postern.relay.driver import Driver

log = logging.getLogger(__name__)


class LinkEndpoint(asyncio.Protocol):
    """Made for one side of a link; the transport is handed over to it."""

    def __init__(self, driver: Driver, side: Side) -> None:
        self._driver = driver
        self._side = side
        # The callback of every read: one call less than a method of our own.
        self.data_received = driver.from_client if side is Side.CLIENT else driver.from_target  # type: ignore[method-assign]

    def tell_first(self, transport: asyncio.Transport, first: Callable[[], None]) -> None:
        """Calls `first` when the first bytes come, and is as it was from then on."""
        usual = self.data_received

        def told(data: bytes) -> None:
            self.data_received = usual  # type: ignore[method-assign]
            transport.set_protocol(self)  # transports keep the callback
            first()
            usual(data)

        self.data_received = told  # type: ignore[method-assign]

    def eof_received(self) -> bool:
        return self._driver.finished(self._side)

    def connection_lost(self, error: Exception | None) -> None:
        if isinstance(error, CarrierBroke):
            session, side = self._driver.link.session_id, self._side.value
            log.warning("session %s ends: what carries its %s was given up: %s", session, side, error)
        self._driver.lost(self._side)

    def pause_writing(self) -> None:
        self._driver.throttle(self._side, True)

    def resume_writing(self) -> None:
        self._driver.throttle(self._side, False)


def connect(
    driver: Driver, side: Side, transport: asyncio.Transport, first: Callable[[], None] | None = None
) -> LinkEndpoint:
    """The endpoint to hand the transport over to. `first` wants to know of its first bytes."""
    driver.attach(side, transport)
    made = LinkEndpoint(driver, side)
    if first is not None:
        made.tell_first(transport, first)
    return made
