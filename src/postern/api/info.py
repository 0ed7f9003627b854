"""The facts about this server that its clients are told; handed in by the composition root."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """`ca_certificate` is PEM text, None when certificates are publicly trusted."""

    api_url: str
    postgres_host: str
    postgres_port: int
    tunnel_url: str
    ca_certificate: str | None


def info_of(request: Request) -> ServerInfo:
    info: ServerInfo = request.app.state.info
    return info


Info = Annotated[ServerInfo, Depends(info_of)]
