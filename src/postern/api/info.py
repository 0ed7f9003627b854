"""Facts about this server for its clients; set by the composition root, or while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends
from starlette.requests import HTTPConnection

from postern.api.depends import services_of
from postern.services.identity.app_logins import AppAddresses


@dataclass(frozen=True, slots=True)
class StaticServerInfo:
    """Facts that do not change while the server runs. `host` is the name of this machine for clients; `ca_certificate`
    is PEM text, None if certificates are publicly trusted; `gateway_commands`: whether the built-in agent runs
    commands of the default organisation's connections. `ssh_host_key` is public, in OpenSSH's form."""

    host: str
    tunnel_url: str
    grpc_url: str
    ca_certificate: str | None
    gateway_commands: bool = False
    ssh_host_key: str = ""


@dataclass(frozen=True, slots=True)
class NativePort:
    """Where the listener for one protocol's native clients is."""

    enabled: bool
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class ServerAddresses:
    """`api_url` is without `/api`; `native` has the names of domain.server.NATIVE; `apps` are the addresses of HTTP
    applications."""

    api_url: str
    native: Mapping[str, NativePort]
    tunnel_url: str
    grpc_url: str
    ca_certificate: str | None
    gateway_commands: bool
    ssh_host_key: str = ""
    apps: AppAddresses | None = None


async def info_of(request: HTTPConnection) -> ServerAddresses:
    """Return the current facts. Raises Unavailable."""
    info: StaticServerInfo = request.app.state.info
    config = await services_of(request).server_configs.current()
    return ServerAddresses(
        api_url=config.api_url,
        native={
            name: NativePort(listener.enabled, config.client_host(name, info.host), listener.endpoint.port)
            for name, listener in config.listeners.items()
        },
        tunnel_url=info.tunnel_url,
        grpc_url=info.grpc_url,
        ca_certificate=info.ca_certificate,
        gateway_commands=info.gateway_commands,
        ssh_host_key=info.ssh_host_key,
        apps=await services_of(request).app_logins.addresses(),
    )


Info = Annotated[ServerAddresses, Depends(info_of)]
