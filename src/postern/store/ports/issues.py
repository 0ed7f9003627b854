"""Templates of issues, and what is to be done in a tracker for sessions."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from postern.domain.access import Reach
from postern.domain.issue import Issue, IssueTemplate, SessionIssue
from postern.domain.lists import Listed, Page


@dataclass(frozen=True, slots=True)
class BoundTemplate:
    """With the connections that use it: a connection has one template, which is kept with the connection, and nowhere
    else."""

    template: IssueTemplate
    connection_ids: tuple[UUID, ...]


class IssueTemplateStore(Protocol):
    """With a `reach` there are only templates of connections in it, and of theirs only these connections."""

    async def find(self, org_id: UUID, page: Page, reach: Reach | None = None) -> Listed[BoundTemplate]:
        """By name."""

    async def get(self, org_id: UUID, template_id: str, reach: Reach | None = None) -> BoundTemplate | None: ...

    async def add(self, template: IssueTemplate, connection_ids: Collection[UUID]) -> None:
        """Those connections have it from now on, whichever they had, and are updated when it is. Raises Conflict when
        the name is taken, NotFound for a connection that is not there, Malformed for one that is managed elsewhere."""

    async def update(self, template: IssueTemplate, connection_ids: Collection[UUID] | None) -> None:
        """Those connections and no others have it, or, with None, those that have it now. Raises as `add`, and
        NotFound."""

    async def remove(self, template_id: UUID, at: datetime) -> None:
        """The connections that had it have none."""


class SessionIssueStore(Protocol):
    """What is sealed: the fields of the issues."""

    async def add(self, wanted: SessionIssue) -> None:
        """Its session need not be there yet. Does nothing when the session has one."""

    async def get(self, session_id: UUID) -> SessionIssue | None: ...

    async def due(self, now: datetime, most: int) -> list[SessionIssue]:
        """Of all organisations: to be made, or to be closed."""

    async def made(self, session_id: UUID, issue: Issue, at: datetime) -> None:
        """Also in the session's `integrations_metadata`, in the same transaction."""

    async def ended(self, session_id: UUID, at: datetime) -> None:
        """The session is over. Does nothing where it has no issue."""

    async def closed(self, session_id: UUID, at: datetime) -> None: ...

    async def failed(self, session_id: UUID, error: str, next_at: datetime | None, at: datetime) -> None:
        """It is tried again at `next_at`; given up with None."""

    async def withdraw(self, session_id: UUID) -> bool:
        """Forgets one that was never tried, since its session did not come about. False when a tracker may know of
        it."""
