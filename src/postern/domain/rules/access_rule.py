"""An access rule: which groups see and use which connections (spec 1 and 2.6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from postern.domain.targets.connection import Connection


@dataclass(frozen=True, slots=True)
class AccessRule:
    """Members of any of `groups` can see and use the connections listed, and those that carry all of `connection_tags`.

    An empty map names nothing. Rules only allow: none denies what another allows.
    """

    id: UUID
    org_id: UUID
    name: str
    description: str = ""
    groups: frozenset[str] = frozenset()
    connection_ids: frozenset[UUID] = frozenset()
    connection_tags: Mapping[str, str] = field(default_factory=dict)
    created_at: datetime | None = None
    updated_at: datetime | None = None
    version: int = 1
    connection_names: tuple[str, ...] = field(default=(), compare=False)  # sorted, as they were read
    managed_by: str | None = None

    def covers(self, connection: Connection) -> bool:
        """Return whether it applies to this connection, for any principal."""
        return connection.is_named(self.org_id, self.connection_ids, self.connection_tags)
