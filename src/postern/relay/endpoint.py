"""Transport callbacks of one side of a link, passed on to the driver.

They are separate from `driver.py` because that module is compiled, and a compiled class cannot inherit from asyncio's.
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
    """The asyncio protocol of one side of a link, to which the login hands its transport over."""

    def __init__(self, driver: Driver, side: Side) -> None:
        self._driver = driver
        self._side = side
        # Called for every read, so bind the driver's method directly and save one call.
        self.data_received = driver.from_client if side is Side.CLIENT else driver.from_target  # type: ignore[method-assign]

    def tell_first(self, transport: asyncio.Transport, first: Callable[[], None]) -> None:
        """Call `first` before the first bytes are handled, then remove itself."""
        usual = self.data_received

        def receive_first_data(data: bytes) -> None:
            self.data_received = usual  # type: ignore[method-assign]
            transport.set_protocol(self)  # transports cache the callback
            first()
            usual(data)

        self.data_received = receive_first_data  # type: ignore[method-assign]

    def eof_received(self) -> bool:
        return self._driver.handle_eof(self._side)

    def connection_lost(self, error: Exception | None) -> None:
        if isinstance(error, CarrierBroke):
            session, side = self._driver.link.session_id, self._side.value
            log.warning("session %s ends: the connection to its %s failed: %s", session, side, error)
        self._driver.handle_loss(self._side)

    def pause_writing(self) -> None:
        self._driver.throttle(self._side, True)

    def resume_writing(self) -> None:
        self._driver.throttle(self._side, False)


def connect(
    driver: Driver, side: Side, transport: asyncio.Transport, first: Callable[[], None] | None = None
) -> LinkEndpoint:
    """Attach a transport to one side and return its endpoint. `first` is called before the first bytes are handled."""
    driver.attach(side, transport)
    made = LinkEndpoint(driver, side)
    if first is not None:
        made.tell_first(transport, first)
    return made
