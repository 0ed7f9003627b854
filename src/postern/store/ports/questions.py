"""The store of questions."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol
from uuid import UUID

from postern.domain.question import Decision, Question


class QuestionStore(Protocol):
    async def add(self, question: Question) -> None: ...

    async def get(self, question_id: UUID) -> Question | None:
        """In whichever organisation."""

    async def waiting(self, org_id: UUID, now: datetime) -> list[Question]:
        """Undecided ones whose deadline has not come, the oldest first; at most a thousand."""

    async def decide(self, question_id: UUID, decision: Decision, by: str, comment: str) -> bool:
        """False when it was decided before."""
