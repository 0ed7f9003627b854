"""Proxy managers."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import Field

from postern.api.schemas.common import Answer, Body
from postern.services.targets.proxy_managers import DEFAULT_SECONDS, ProxyState, ProxyStatus


class ProxyConnectRequest(Body):
    connection_name: str
    port: int = Field(0, description="Port on the machine of the proxy manager; 0 chooses a free one")
    access_duration_seconds: int | None = Field(None, description=f"Default: {DEFAULT_SECONDS}")


class ProxyAnswer(Answer):
    """State of the proxy manager. From `connection_name` on: null while no port is open."""

    id: UUID = Field(description="Of the proxy manager's process")
    status: ProxyStatus
    connection_name: str | None
    connection_type: str | None
    connection_subtype: str | None
    port: int | None = Field(description="Port on which it listens")
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
