"""A question: a statement that a guard rail holds until somebody has looked at it."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

WAITS = timedelta(minutes=10)
MAX_STATEMENT = 10_000  # characters that are kept of what is asked about
MAX_COMMENT = 500


class Decision(StrEnum):
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"  # nobody answered until the deadline, which refuses it
    WITHDRAWN = "withdrawn"  # whoever asked has gone, or has given it up


@dataclass(frozen=True, slots=True)
class Question:
    """`asker` is a subject; `reviewers` are the groups that may decide besides administrators; `until` is the deadline.
    The last three are empty as long as nobody has decided."""

    id: UUID
    org_id: UUID
    session_id: UUID
    connection: str
    asker: str
    asker_email: str
    rule: str
    reason: str
    statement: str
    reviewers: tuple[str, ...]
    asked_at: datetime
    until: datetime
    decision: Decision | None = None
    decided_by: str = ""
    comment: str = ""

    def may_decide(self, subject: str, groups: Set[str], *, is_admin: bool) -> bool:
        """Nobody decides on what is their own."""
        return subject != self.asker and (is_admin or not groups.isdisjoint(self.reviewers))
