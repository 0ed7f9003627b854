"""Resources, and the tags of connections."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import Field

from postern.api.schemas.common import Answer
from postern.domain.targets.resource import MOST_NAMED, Resource, TagUse


class HeldAnswer(Answer):
    id: UUID
    name: str


class ResourceAnswer(Answer):
    id: UUID
    name: str
    created_at: datetime
    connections: list[HeldAnswer] = Field(description=f"By name, the first {MOST_NAMED} that the caller can see")
    connection_count: int = Field(description="Number that the caller can see")

    @classmethod
    def of(cls, resource: Resource) -> ResourceAnswer:
        answers = [HeldAnswer(id=key, name=name) for key, name in resource.connections.items()]
        return cls(
            id=resource.id,
            name=resource.name,
            created_at=resource.created_at,
            connections=answers,
            connection_count=resource.total,
        )


class TagAnswer(Answer):
    key: str
    value: str
    connection_count: int = Field(description="Number of connections with it that the caller can see")

    @classmethod
    def of(cls, use: TagUse) -> TagAnswer:
        return cls(key=use.key, value=use.value, connection_count=use.connections)
