"""An Agent: the process near the targets. The embedded one lives in the gateway's own processes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

# An agent says "I live" every few seconds; after this silence it counts as gone.
ALIVE_FOR = timedelta(seconds=15)


@dataclass(frozen=True, slots=True)
class Agent:
    id: UUID
    org_id: UUID
    name: str
    mode: str  # "embedded" or "standard"
    last_seen: datetime | None
    created_at: datetime

    def is_online(self, now: datetime) -> bool:
        return self.last_seen is not None and now - self.last_seen < ALIVE_FOR
