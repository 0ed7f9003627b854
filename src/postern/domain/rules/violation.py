"""A violation: a rule denied something in a session, warned of it, or held it for a review."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

MAX_STATEMENT = 10_000  # characters that are kept of what was asked
Done = Literal["deny", "warn", "review"]  # what became of it

MAX_RULE, MAX_MESSAGE = 300, 2_000


@dataclass(frozen=True, slots=True)
class Violation:
    """A violation. `number` counts those of a session from 1; `left_out` of them, right before this one, have no
    event of their own. `statement` is None for one in output."""

    id: UUID
    org_id: UUID
    session_id: UUID
    connection_id: UUID
    connection: str
    user: str
    user_id: str
    number: int
    left_out: int
    rule: str
    action: Done
    message: str
    statement: str | None
    at: datetime
