"""A question: a statement that a guard rail holds until somebody has looked at it."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

WAITS = timedelta(minutes=10)
KEPT = timedelta(days=90)  # behind its deadline; it goes sooner with its session, or with its recording
MAX_STATEMENT = 10_000  # characters that are kept of what is asked about
MAX_COMMENT = 500

# Who asks and gives up, again and again, fills neither the store nor the list of those who decide.
MAX_OF_SESSION = 100  # in all
MAX_OF_ASKER = 20  # that wait
MAX_OF_ORGANISATION = 1_000  # that wait


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

    def may_decide(self, subject: str, groups: Set[str], *, is_admin: bool, own: bool = False) -> bool:
        """Nobody decides on what is their own, unless their organisation lets them (`own`)."""
        return (own or subject != self.asker) and (is_admin or not groups.isdisjoint(self.reviewers))


@dataclass(frozen=True, slots=True)
class Crowd:
    """How many questions there are beside a new one: of its session in all, and those that wait of its asker and of
    its organisation."""

    of_session: int
    of_asker: int
    of_organisation: int

    def full(self) -> str | None:
        """Why there is no room for one more."""
        if self.of_session >= MAX_OF_SESSION:
            return f"this session has asked {self.of_session} times, which is the most"
        if self.of_asker >= MAX_OF_ASKER:
            return f"{self.of_asker} statements of yours wait for a decision, which is the most"
        if self.of_organisation >= MAX_OF_ORGANISATION:
            return f"{self.of_organisation} statements wait for a decision, which is the most"
        return None
