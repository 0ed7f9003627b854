"""A review rule: the approvals required to open a connection or run something on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from postern.domain.identity.principal import Principal
from postern.domain.sessions.session import Verb
from postern.domain.targets.connection import Connection


class AccessType(StrEnum):
    """What a rule covers: connecting (`jit`), running scripts (`command`), or both."""

    JIT = "jit"
    COMMAND = "command"
    BOTH = "jit_command"

    def is_for(self, verb: Verb) -> bool:
        return self is AccessType.BOTH or self is (AccessType.JIT if verb is Verb.CONNECT else AccessType.COMMAND)


@dataclass(frozen=True, slots=True)
class ReviewRule:
    """Applies to the connections listed, and to those that carry all of `connection_tags`; an empty map names nothing.

    It requires approval from members of `required_groups`, from all users when empty; members of `skip_groups` are
    exempt. `reviewers_groups` review: `min_approvals` people of any of them, or, where `all_groups`, one person for
    each group besides. Members of `force_groups` can approve alone. `max_duration` limits access, in seconds.
    """

    id: UUID
    org_id: UUID
    name: str
    access_type: AccessType
    reviewers_groups: tuple[str, ...]
    description: str = ""
    connection_ids: frozenset[UUID] = frozenset()
    connection_tags: Mapping[str, str] = field(default_factory=dict)
    required_groups: frozenset[str] = frozenset()
    skip_groups: frozenset[str] = frozenset()
    force_groups: tuple[str, ...] = ()
    all_groups: bool = False
    min_approvals: int = 1
    max_duration: int | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    version: int = 1
    connection_names: tuple[str, ...] = field(default=(), compare=False)  # sorted, as they were read
    managed_by: str | None = None

    def covers(self, connection: Connection) -> bool:
        """Return whether it applies to this connection, for any principal."""
        return connection.is_named(self.org_id, self.connection_ids, self.connection_tags)

    def requires_approval_of(self, principal: Principal) -> bool:
        """Return whether it requires approval from this principal. Administrators and auditors are no exception."""
        if self.skip_groups & principal.groups:
            return False
        return not self.required_groups or bool(self.required_groups & principal.groups)
