"""The port of one protocol for native clients at one worker, which follows the server's configuration.

A new listener is opened before the old one is closed, and connected clients stay. If it cannot be opened, the old one
remains, and the change is retried.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping

from postern.domain.server import NATIVE, Endpoint, Listener
from postern.errors import Misconfigured, PosternError
from postern.store.ports.common_ports import Signals, Topic

log = logging.getLogger(__name__)

_LOOK_AGAIN = 5.0  # seconds; in case a signal is lost, or an endpoint is still in use
_BACKLOG = 1024

Accept = Callable[[Endpoint], asyncio.Protocol]


class NativeListener:
    """The listener. `name` is that of domain.server.NATIVE. `read_listener` returns the endpoint to open; `accept`
    makes the protocol that serves a client."""

    def __init__(
        self, name: str, read_listener: Callable[[], Awaitable[Listener]], accept: Accept, signals: Signals
    ) -> None:
        self._name = name
        self._wanted = read_listener
        self._accept = accept
        self._endpoint: Endpoint | None = None
        self._server: asyncio.Server | None = None
        self._changed = asyncio.Event()
        signals.subscribe(Topic.SETTINGS_CHANGED, self._look)
        signals.subscribe(Topic.RESUMED, self._look)

    async def start(self, default_endpoint: Endpoint) -> None:
        """Start listening. Raises Misconfigured when `default_endpoint`, the endpoint of this machine's settings,
        is not available. For an endpoint that was chosen through the API it waits instead, so that the API can choose a
        different one."""
        listener = await self._wanted()
        if not listener.enabled:
            return
        try:
            await self._open(listener.endpoint)
        except OSError as error:
            if listener.endpoint == default_endpoint:
                raise Misconfigured(
                    f"port {default_endpoint.port} on {default_endpoint.host} cannot be used ({error.strerror}); "
                    f"set POSTERN_{self._name.upper()}_PORT to a different port"
                ) from error
            log.error("cannot listen on %s (%s); retrying", listener.endpoint, error.strerror)

    async def follow(self) -> None:
        """Follow the configuration until cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), _LOOK_AGAIN)
            self._changed.clear()
            try:
                await self._apply(await self._wanted())
            except PosternError as error:
                log.warning("the server's configuration could not be read: %s", error.message)

    def close(self) -> None:
        server, self._server, self._endpoint = self._server, None, None
        if server is not None:
            server.close()

    async def _apply(self, listener: Listener) -> None:
        if not listener.enabled:
            if self._server is not None:
                log.info("no longer listening for %s clients on %s", NATIVE[self._name], self._endpoint)
            self.close()
            return
        if listener.endpoint == self._endpoint:
            return
        try:
            await self._open(listener.endpoint)
        except OSError as error:
            log.error("cannot listen on %s (%s); retrying", listener.endpoint, error.strerror)

    async def _open(self, endpoint: Endpoint) -> None:
        """Open the endpoint, and close the previous one. Raises OSError."""
        opened = await asyncio.get_running_loop().create_server(
            lambda: self._accept(endpoint), endpoint.host, endpoint.port, reuse_port=True, backlog=_BACKLOG
        )
        self.close()
        self._server, self._endpoint = opened, endpoint
        log.info("listening for %s clients on %s", NATIVE[self._name], endpoint)

    def _look(self, _payload: Mapping[str, str]) -> None:
        self._changed.set()
