"""The stores of issue templates and of the issues of sessions."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol
from uuid import UUID

from postern.domain.issues.issue import Issue, IssueState, IssueTemplate, SessionIssue
from postern.domain.lists import Listed, Page, Stretch
from postern.domain.rules.access import Reach
from postern.domain.rules.rule_filter import ALL_RULES, RuleFilter
from postern.store.ports.named_resource_ports import NamedResourceStore


class IssueTemplateStore(NamedResourceStore[IssueTemplate], Protocol):
    """A `reach` limits reads to templates of connections in it, and of theirs to these connections.

    Writes raise NotFound for a missing connection, Malformed for one that is managed elsewhere.
    """

    async def find(
        self, org_id: UUID, page: Page, where: RuleFilter = ALL_RULES, reach: Reach | None = None
    ) -> Listed[IssueTemplate]: ...

    async def get(self, org_id: UUID, name_or_id: str, reach: Reach | None = None) -> IssueTemplate | None: ...


class SessionIssueStore(Protocol):
    """The fields of issues are sealed, until they are created."""

    async def add(self, issue: SessionIssue) -> None:
        """Add an issue, also before its session. Does nothing when the session has one."""

    async def get(self, session_id: UUID) -> SessionIssue | None: ...

    async def find(self, org_id: UUID, state: IssueState | None, page: Page) -> Stretch[SessionIssue]:
        """Return issues, newest first, without their fields."""

    async def organisations(self, now: datetime) -> list[UUID]:
        """Return the organisations with due work in their tracker."""

    async def due(self, org_id: UUID, now: datetime, most: int) -> list[SessionIssue]:
        """Return due work of one organisation, untried issues first. An unreadable one is left out, and logged."""

    async def claim_attempt(self, read: SessionIssue, now: datetime, next_at: datetime) -> bool:
        """Claim the next attempt until `next_at`, before the tracker is asked.

        False when nothing is due, or another process has tried since it was `read`, so that the tracker must not be
        asked.
        """

    async def mark_created(self, session_id: UUID, issue: Issue, at: datetime) -> None:
        """Store the issue, also in its session's `integrations_metadata`, in the same transaction, if it exists
        already; see `follow`."""

    async def follow(self, at: datetime, unopened: datetime) -> int:
        """Update issues from their sessions; return how many were changed.

        Issues of finished sessions are to be closed. Sessions whose rows came after their issue get its key. Issues
        older than `unopened` without a session are withdrawn.
        """

    async def mark_closed(self, session_id: UUID, at: datetime) -> None: ...

    async def mark_failed(self, session_id: UUID, error: str, next_at: datetime | None, at: datetime) -> None:
        """Store a failure; retry at `next_at`, never with None."""

    async def withdraw(self, session_id: UUID, at: datetime) -> None:
        """Withdraw the issue of a session that did not start.

        An untried one is deleted; one that may exist is looked for; an existing one is closed.
        """

    async def forget(self, session_id: UUID) -> None:
        """Delete a withdrawn issue that the tracker does not have."""

    async def retry(self, org_id: UUID, session_id: UUID | None, at: datetime) -> int:
        """Retry one given-up issue, or with None all; return how many."""

    async def prune(self, closed_before: datetime) -> None: ...
