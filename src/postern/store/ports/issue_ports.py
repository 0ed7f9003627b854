"""Templates of issues, and what is to be done in a tracker for sessions."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol
from uuid import UUID

from postern.domain.issue import Issue, IssueState, IssueTemplate, SessionIssue
from postern.domain.lists import Listed, Page, Stretch
from postern.domain.rules.access import Reach
from postern.domain.rules.rule_filter import ALL_RULES, RuleFilter
from postern.store.ports.named_resource_ports import NamedResourceStore


class IssueTemplateStore(NamedResourceStore[IssueTemplate], Protocol):
    """With a `reach` there are only templates of connections in it, and of theirs only these connections. Writes raise
    NotFound for a connection that is not there, Malformed for one that is managed elsewhere."""

    async def find(
        self, org_id: UUID, page: Page, where: RuleFilter = ALL_RULES, reach: Reach | None = None
    ) -> Listed[IssueTemplate]: ...

    async def get(self, org_id: UUID, name_or_id: str, reach: Reach | None = None) -> IssueTemplate | None: ...


class SessionIssueStore(Protocol):
    """What is sealed: the fields of the issues, for as long as they are not made."""

    async def add(self, wanted: SessionIssue) -> None:
        """Its session need not be there yet. Does nothing when the session has one."""

    async def get(self, session_id: UUID) -> SessionIssue | None: ...

    async def find(self, org_id: UUID, state: IssueState | None, page: Page) -> Stretch[SessionIssue]:
        """Newest first; without their fields."""

    async def organisations(self, now: datetime) -> list[UUID]:
        """Those for which something is to be done in their tracker."""

    async def due(self, org_id: UUID, now: datetime, most: int) -> list[SessionIssue]:
        """What is to be done for one: what was not tried yet comes first. One that cannot be read is left out, and
        logged."""

    async def claim_attempt(self, read: SessionIssue, now: datetime, next_at: datetime) -> bool:
        """Before a tracker is asked: the attempt counts from now on, and whoever else looks leaves it alone until
        `next_at`. False when nothing is to be done now, or somebody else has tried since it was `read`, so that the
        tracker must not be asked."""

    async def mark_created(self, session_id: UUID, issue: Issue, at: datetime) -> None:
        """Also in the session's `integrations_metadata`, in the same transaction, if it is there already; see
        `follow`."""

    async def follow(self, at: datetime, unopened: datetime) -> int:
        """What became of sessions is taken over: of those that are done the issues are to be closed; those whose rows
        came after their issue was made are told of it; issues older than `unopened` whose session is not there are
        withdrawn. How many were changed."""

    async def mark_closed(self, session_id: UUID, at: datetime) -> None: ...

    async def mark_failed(self, session_id: UUID, error: str, next_at: datetime | None, at: datetime) -> None:
        """It is tried again at `next_at`; given up with None."""

    async def withdraw(self, session_id: UUID, at: datetime) -> None:
        """Its session did not come about. One that was never tried is forgotten; one of which a tracker may know is
        looked for; one that is made is closed."""

    async def forget(self, session_id: UUID) -> None:
        """One that was withdrawn, and which the tracker does not have."""

    async def retry(self, org_id: UUID, session_id: UUID | None, at: datetime) -> int:
        """Tries anew one, or with None all, of what was given up; how many."""

    async def prune(self, closed_before: datetime) -> None: ...
