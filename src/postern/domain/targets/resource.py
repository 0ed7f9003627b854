"""A Resource: a target of several connections, such as one database that some read and others write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

# Of one resource; how many there are is said besides.
MOST_NAMED = 100


@dataclass(frozen=True, slots=True)
class Resource:
    """`connections` are names by identifier, MOST_NAMED of them at most, by name; `total` is their number."""

    id: UUID
    org_id: UUID
    name: str
    created_at: datetime
    connections: Mapping[UUID, str] = field(default_factory=dict)
    total: int = 0


@dataclass(frozen=True, slots=True)
class TagUse:
    """A tag of connections, and how many have it."""

    key: str
    value: str
    connections: int
