"""An organisation: it owns users, connections, sessions and settings, and sees nothing of another one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from postern.domain.identity.principal import DEFAULT_ROLE_GROUPS, RoleGroups

DEFAULT = "default"  # there from the start; its administrators also run the server


MAX_ACCESS_HELP = 300  # characters


@dataclass(frozen=True, slots=True)
class Organisation:
    """`access_help` is shown where a rule denies, holds or masks something: how to get access.

    It may be empty, and may hold a URL. `deleting_at`: when its deletion was requested, which cannot be undone.
    `version` counts changes of the other fields.
    """

    id: UUID
    name: str
    created_at: datetime
    role_groups: RoleGroups = DEFAULT_ROLE_GROUPS
    access_help: str = ""
    deleting_at: datetime | None = None
    version: int = 1
