"""The facts about this server that its clients are told; handed in by the composition root, or set while it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from postern.api.depends import services_of


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What stays as it is while the server runs. `host` is the name of this machine for clients; `ca_certificate` is
    PEM text, None when certificates are publicly trusted; `gateway_commands` whether the gateway's own agent runs
    commands, of the default organisation's connections."""

    host: str
    tunnel_url: str
    grpc_url: str
    ca_certificate: str | None
    gateway_commands: bool = False


@dataclass(frozen=True, slots=True)
class Told:
    """`api_url` is without `/api`."""

    api_url: str
    postgres_enabled: bool
    postgres_host: str
    postgres_port: int
    tunnel_url: str
    grpc_url: str
    ca_certificate: str | None
    gateway_commands: bool


async def info_of(request: Request) -> Told:
    """As it is now. Raises Unavailable."""
    info: ServerInfo = request.app.state.info
    config = await services_of(request).server_configs.current()
    return Told(
        api_url=config.api_url,
        postgres_enabled=config.postgres.enabled,
        postgres_host=config.told_host(info.host),
        postgres_port=config.postgres.endpoint.port,
        tunnel_url=info.tunnel_url,
        grpc_url=info.grpc_url,
        ca_certificate=info.ca_certificate,
        gateway_commands=info.gateway_commands,
    )


Info = Annotated[Told, Depends(info_of)]
