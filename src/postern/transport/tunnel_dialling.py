"""Dialling a tunnel: how a command line, and the API's process for a browser, reach a relay worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

from postern.domain.secret import Secret
from postern.transport import websocket
from postern.transport.mux import Incoming, Mux
from postern.transport.stream import Stream


@dataclass(frozen=True, slots=True)
class TunnelAddress:
    """Where tunnels are served: `url` is `wss://HOST:PORT`; `authority` is PEM text, empty for the system's CAs. The
    certificate must be valid for `server_name`, if it differs from the URL's host."""

    url: str
    authority: str
    server_name: str | None = None


async def dial_tunnel(address: TunnelAddress, token: Secret) -> Mux:
    """Return a tunnel on which streams can be opened. Raises Unavailable."""
    _, protocol = await websocket.connect(
        address.url,
        token=token.reveal(),
        ca=address.authority or None,
        protocol=lambda: Mux(dialler=True, hello={}, on_open=_refuse),
        server_name=address.server_name,
    )
    tunnel = cast("Mux", protocol)
    try:
        await tunnel.greeting
    except asyncio.CancelledError:
        tunnel.close("the client has stopped waiting")
        raise
    return tunnel


@asynccontextmanager
async def open_stream(
    address: TunnelAddress, token: Secret, request: Mapping[str, Any], protocol: asyncio.Protocol
) -> AsyncIterator[Stream]:
    """Open a stream on a tunnel of its own, which is closed afterwards. Raises Refused, Unavailable."""
    tunnel = await dial_tunnel(address, token)
    try:
        stream, _ = await tunnel.open(request, protocol)
        yield stream
    finally:
        tunnel.close("its client has disconnected")


def _refuse(incoming: Incoming) -> None:
    incoming.refuse("Denied", "a gateway opens no streams to its clients")
