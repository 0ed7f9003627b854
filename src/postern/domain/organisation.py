"""An organisation: owns users, connections, sessions and settings; nothing of one is seen from another."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from postern.domain.principal import DEFAULT_ROLE_GROUPS, RoleGroups

DEFAULT = "default"  # there from the start; its administrators also run the server


@dataclass(frozen=True, slots=True)
class Organisation:
    id: UUID
    name: str
    created_at: datetime
    role_groups: RoleGroups = DEFAULT_ROLE_GROUPS
