"""Messages to the service manager that started this process, as sd_notify(3) describes: with `Type=notify` systemd
waits until the gateway is ready, and with `WatchdogSec=` it restarts a supervisor that hangs."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Mapping

log = logging.getLogger(__name__)

READY, STOPPING, ALIVE = "READY=1", "STOPPING=1", "WATCHDOG=1"


class ServiceManager:
    """The service manager that `environ` names; without one, nothing is sent."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        address = environ.get("NOTIFY_SOCKET", "")
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        watched = environ.get("WATCHDOG_PID") in (None, str(os.getpid()))
        self._watchdog = int(environ.get("WATCHDOG_USEC", "0")) / 1_000_000 if watched and address else 0.0

    def notify(self, state: str) -> None:
        """Send a state. Errors are ignored: the gateway also serves without a service manager."""
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.sendto(state.encode(), self._address)
        except OSError as error:
            log.warning("the service manager at %s cannot be notified: %s", self._address, error.strerror)

    async def keep_alive(self) -> None:
        """Send a heartbeat twice in each period of the watchdog, until cancelled; return at once without one."""
        while self._watchdog:
            self.notify(ALIVE)
            await asyncio.sleep(self._watchdog / 2)
