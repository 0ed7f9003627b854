"""The store of questions."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol
from uuid import UUID

from postern.domain.question import Decision, Question


class QuestionStore(Protocol):
    async def add(self, question: Question) -> None:
        """Raises TooMany, with the reason, where its session, asker or organisation has as many as it may."""

    async def get(self, question_id: UUID) -> Question | None:
        """In whichever organisation."""

    async def waiting(self, org_id: UUID, now: datetime) -> list[Question]:
        """Undecided ones whose deadline has not come and whose session has not ended, the oldest first."""

    async def decide(self, question_id: UUID, decision: Decision, by: str, comment: str, now: datetime | None) -> bool:
        """False when it was decided before; with `now` also when its deadline has come, or its session has ended."""

    async def makers(self, session_id: UUID) -> frozenset[str]:
        """The e-mail addresses of those who made a key, revoked or not, of the program whose session it is."""

    async def settle(self, now: datetime) -> None:
        """Those that nobody waits for any more: of sessions that have ended, and those behind their deadline."""

    async def prune(self, before: datetime) -> None:
        """Deletes those whose deadline was before that."""
