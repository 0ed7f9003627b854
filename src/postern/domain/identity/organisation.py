"""An organisation: owns users, connections, sessions and settings; nothing of one is seen from another."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from postern.domain.identity.principal import DEFAULT_ROLE_GROUPS, RoleGroups

DEFAULT = "default"  # there from the start; its administrators also run the server


MAX_ACCESS_HELP = 300  # characters


@dataclass(frozen=True, slots=True)
class Organisation:
    """`access_help` is what people read where a rule refuses, holds or hides something: how to ask for it. May be
    empty, and may hold a URL. `deleting_at`: since when it is being deleted, which nothing stops. `version` counts
    changes of the others."""

    id: UUID
    name: str
    created_at: datetime
    role_groups: RoleGroups = DEFAULT_ROLE_GROUPS
    access_help: str = ""
    deleting_at: datetime | None = None
    version: int = 1
