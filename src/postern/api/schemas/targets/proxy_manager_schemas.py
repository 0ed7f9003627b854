"""Proxy managers."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import Field

from postern.api.schemas.common import Answer, Body
from postern.services.targets.proxy_managers import DEFAULT_SECONDS, ProxyState, ProxyStatus


class ProxyConnectRequest(Body):
    connection_name: str
    port: int = Field(0, description="Of the machine that the proxy manager runs on; 0 takes a free one")
    access_duration_seconds: int | None = Field(None, description=f"{DEFAULT_SECONDS} when left out")


class ProxyAnswer(Answer):
    """From `connection_name` on: null while it is ready."""

    id: UUID = Field(description="Of the process that attends")
    status: ProxyStatus
    connection_name: str | None
    connection_type: str | None
    connection_subtype: str | None
    port: int | None = Field(description="That it listens on")
    access_duration_seconds: int | None
    connected_at: datetime | None

    @classmethod
    def of(cls, state: ProxyState) -> ProxyAnswer:
        return cls(
            id=state.id,
            status=state.status,
            connection_name=state.connection_name,
            connection_type=state.connection_type,
            connection_subtype=state.connection_subtype,
            port=state.port,
            access_duration_seconds=state.access_duration_seconds,
            connected_at=state.connected_at,
        )
