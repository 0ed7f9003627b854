"""Issues of sessions, and a tracker that counts what it has."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from tests.support.world import FakeClock, World

from postern.domain.issues.issue import Assets, Issue, IssueState, NewIssue, SessionIssue, TrackerSettings
from postern.domain.lists import Page
from postern.domain.sessions.session import Session, SessionStatus, Verb


def new_issue(session_id: UUID) -> NewIssue:
    return NewIssue(
        "OPS",
        "7",
        f"postern-{session_id}",
        "A session at shop",
        f"select 1 -- postern-{session_id}",
        {"summary": "A session at shop", "customfield_1": {"value": "high"}},
        {"customfield_2": ("Host", "db1")},
    )


def wanted(world: World, session_id: UUID | None = None, **fields: Any) -> SessionIssue:
    """Not in the store yet; to be made at once."""
    key = session_id or uuid4()
    values: dict[str, Any] = {
        "session_id": key,
        "org_id": world.org_id,
        "state": IssueState.WANTED,
        "new": new_issue(key),
        "transition": "done",
        "next_at": world.clock(),
        "created_at": world.clock(),
    }
    return SessionIssue(**(values | fields))


def session_of(world: World, session_id: UUID, **fields: Any) -> Session:
    """One that runs, on a connection `shop`."""
    values: dict[str, Any] = {
        "id": session_id,
        "org_id": world.org_id,
        "connection_id": UUID(int=7),
        "connection": "shop",
        "connection_subtype": "postgres",
        "connection_tags": {},
        "type": "database",
        "verb": Verb.CONNECT,
        "status": SessionStatus.OPEN,
        "user": "ann@example.com",
        "user_id": "ann",
        "user_name": "Ann",
        "start_date": world.clock(),
        "worker": "w0",
    }
    return Session(**(values | fields))


async def opened(world: World, session_id: UUID, **fields: Any) -> Session:
    """It is in the store."""
    session = session_of(world, session_id, **fields)
    await world.stores.sessions.add(session, principal_id=UUID(int=1), source="192.0.2.1")
    return session


@dataclass
class CountingTracker:
    """One organisation's tracker in memory: whoever counts its issues counts what was really made. `find` sees one
    `lag` seconds after it was made, and no earlier. `before` and `after` are called around what a tracker does, with
    the question's name, and may raise or wait."""

    clock: FakeClock
    lag: float = 0.0
    made: list[tuple[Issue, NewIssue, datetime]] = field(default_factory=list)
    status: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    before: Callable[[str], Awaitable[None]] | None = None
    after: Callable[[str], Awaitable[None]] | None = None
    open_clients: int = 0

    def __call__(self, settings: TrackerSettings) -> CountingTracker:
        """Trackers: one for all settings."""
        self.open_clients += 1
        return self

    async def create(self, new: NewIssue) -> Issue:
        async with self._around("create"):
            issue = Issue(f"OPS-{len(self.made) + 1}", f"https://tracker.example.com/OPS-{len(self.made) + 1}")
            self.made.append((issue, new, self.clock.now))
            self.status[issue.key] = "open"
        return issue

    async def find(self, new: NewIssue) -> Issue | None:
        async with self._around("find"):
            seen = self.clock.now - timedelta(seconds=self.lag)
            known = [issue for issue, one, at in self.made if one.marker == new.marker and at <= seen]
        return known[0] if known else None

    async def transition(self, issue: Issue, name: str) -> bool:
        async with self._around("transition"):
            self.status[issue.key] = name
        return True

    async def check(self, project_key: str = "") -> str:
        return "postern"

    async def objects(self, object_type: str, query: str, page: Page) -> Assets:
        return Assets((), 0, False)

    async def close(self) -> None:
        self.open_clients -= 1

    @asynccontextmanager
    async def _around(self, question: str) -> AsyncIterator[None]:
        self.asked.append(question)
        if self.before is not None:
            await self.before(question)
        yield
        if self.after is not None:
            await self.after(question)
