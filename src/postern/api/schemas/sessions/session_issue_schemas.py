"""Bodies of issues that sessions open in the tracker."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import Field

from postern.api.schemas.common import Answer
from postern.domain.issues.issue import IssueState, SessionIssue


class SessionIssueAnswer(Answer):
    session_id: UUID
    state: IssueState = Field(
        description="wanted, made (its session runs), closing, closed, given_up; withdrawn: its session did not "
        "start, and the issue is searched for"
    )
    key: str | None = Field(description="Its key in the tracker; null before it is created")
    url: str | None
    attempts: int = Field(description="Attempts to open it or, after its session has ended, to close it")
    last_error: str
    next_at: datetime | None = Field(
        description="Time of the next request to the tracker; null if nothing is to be done"
    )
    created_at: datetime | None

    @classmethod
    def of(cls, issue: SessionIssue) -> SessionIssueAnswer:
        return cls(
            session_id=issue.session_id,
            state=issue.state,
            key=issue.issue.key if issue.issue else None,
            url=issue.issue.url if issue.issue else None,
            attempts=issue.attempts,
            last_error=issue.error,
            next_at=issue.next_at,
            created_at=issue.created_at,
        )


class RetryAnswer(Answer):
    waiting: int = Field(description="Number of issues that are retried now")
