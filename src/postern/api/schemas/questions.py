"""Statements that wait for a decision."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import Field

from postern.api.schemas.common import Answer, Body
from postern.domain.question import Decision, Question


class DecisionRequest(Body):
    approve: bool
    comment: str = Field("", description="Shown to who sent the statement, where it is refused")


class QuestionAnswer(Answer):
    id: UUID
    session_id: UUID
    connection: str
    asker: str
    asker_email: str
    rule: str
    reason: str
    statement: str = Field(description="All that a decision lets through, with its values")
    reviewers: list[str]
    asked_at: datetime
    until: datetime = Field(description="Refused, if nobody has decided by then")
    decision: Decision | None
    decided_by: str
    comment: str

    @classmethod
    def of(cls, question: Question) -> QuestionAnswer:
        return cls(
            **{name: getattr(question, name) for name in cls.model_fields} | {"reviewers": [*question.reviewers]}
        )
