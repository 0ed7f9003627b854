"""The host key of an SSH target: pinned at the first session, and required from then on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from postern.domain.identity.ssh_key import PublicKey


@dataclass(frozen=True, slots=True)
class HostKey:
    """`place` is the target to which the connection led then, see there. `session_id`: the session that received it."""

    connection_id: UUID
    org_id: UUID
    place: UUID
    key: PublicKey
    pinned_at: datetime
    session_id: UUID | None = None
