"""TCP connections of a test's gateway, and local ports whose clients reach them as somebody who is logged in."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.support.gateway import Gateway

from postern.cli.terminal.forward import PortForward, StreamRequest
from postern.domain.secret import Secret
from postern.domain.targets.connection import Connection, ConnectionType
from postern.wiring import tls


def tcp_connection(
    gateway: Gateway, name: str, port: int, *, secret: dict[str, str] | None = None, **more: Any
) -> Connection:
    """A connection to a service on this machine."""
    values = {"HOST": "127.0.0.1", "PORT": str(port), **(secret or {})}
    fields: dict[str, Any] = {
        "name": name,
        "type": ConnectionType.APPLICATION,
        "subtype": "tcp",
        "agent_id": gateway._agent.id,
        "secret": {f"envvar:{key}": Secret(base64.b64encode(value.encode()).decode()) for key, value in values.items()},
        **more,
    }
    return gateway.call(gateway.services.connections.create(gateway.admin, fields))


@dataclass
class LocalPort:
    """`failures` are the reasons that the command line would show."""

    port: int
    forward: PortForward
    failures: list[str] = field(default_factory=list)


@contextmanager
def local_port(gateway: Gateway, connection: str, token: Secret | None = None, **more: Any) -> Iterator[LocalPort]:
    """A local port as `postern connect` opens it; `more` are fields of the request."""
    authority = tls.authority(gateway.settings)
    assert authority is not None
    url = f"wss://localhost:{gateway.settings.tunnel_port}"
    fields = {"protocol": "tcp", **more}
    request = StreamRequest(url, token or gateway.token, connection, authority.read_text(), **fields)
    failures: list[str] = []
    forward = PortForward(request, failures.append)
    port = gateway.call(forward.start(0))
    try:
        yield LocalPort(port, forward, failures)
    finally:
        gateway.call(forward.stop())
