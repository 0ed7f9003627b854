"""A relay worker, as the other processes know it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

# A worker says "I live" every five seconds; after this silence agents no longer dial it.
LIVES_FOR = timedelta(seconds=15)


@dataclass(frozen=True, slots=True)
class RelayWorker:
    """`id` is that of one life of the process; `name`, such as w1, is reused by the next."""

    id: UUID
    name: str
    started_at: datetime
    last_seen: datetime
