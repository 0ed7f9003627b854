"""Pending issues of sessions, as admins see and retry them."""

from __future__ import annotations

from uuid import UUID

from postern.domain.identity.principal import Principal
from postern.domain.issues.issue import IssueState, SessionIssue
from postern.domain.lists import Page, Stretch
from postern.errors import NotFound
from postern.services.identity.users import require_admin, require_reader
from postern.services.server.audit_context import record_change
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.issue_ports import SessionIssueStore


class SessionIssues:
    def __init__(self, store: SessionIssueStore, signals: Signals, now: Clock) -> None:
        self._store = store
        self._signals = signals
        self._now = now

    async def find(self, principal: Principal, state: IssueState | None, page: Page) -> Stretch[SessionIssue]:
        """Return issues, newest first, without their fields. Raises Denied."""
        require_reader(principal, "issues of sessions")
        return await self._store.find(principal.org_id, state, page)

    async def again(self, principal: Principal, session_id: UUID | None) -> int:
        """Retry one given-up issue, or with None all; return how many. Raises Denied, NotFound."""
        require_admin(principal, "retry issues of sessions")
        count = await self._store.retry(principal.org_id, session_id, self._now())
        if session_id is not None and not count:
            raise NotFound(f"session {session_id} has no issue, or its issue was not given up")
        record_change(None, {"session": session_id, "waiting": count})
        await self._signals.publish(Topic.ISSUE_CHANGED, session_id=str(session_id or ""))
        return count
