"""The key by which an SSH target shows who it is: pinned when it is met first, and held to from then on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from postern.domain.identity.ssh_key import PublicKey


@dataclass(frozen=True, slots=True)
class HostKey:
    """`place` is the connection's, see there: the key is that of where it led then. `session_id`: who met it."""

    connection_id: UUID
    org_id: UUID
    place: UUID
    key: PublicKey
    pinned_at: datetime
    session_id: UUID | None = None
