"""The issue of a session that is about to start: its fields are checked, and it is stored before anything can run.

The session waits until the tracker has created it, or starts at once, as the organisation has set. Sessions of
connections without a template cost nothing here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from uuid import UUID

from postern.domain.durations import duration_text
from postern.domain.issues.issue import (
    Issue,
    IssueState,
    IssueTemplate,
    SessionIssue,
    TrackerSettings,
    WhenDown,
    in_session,
)
from postern.domain.issues.issue_fields import GIVEN, checked_prompts, new_issue
from postern.domain.sessions.session import Session
from postern.domain.targets.connection import Connection
from postern.errors import Denied, Invalid, Unavailable
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.issue_ports import IssueTemplateStore, SessionIssueStore

LONGEST = 15.0  # seconds that a session waits for its issue
LOOK_EVERY = 1.0  # seconds; a signal may be missed
NO_FIELDS: Mapping[str, str] = {}

Settings = Callable[[UUID], Awaitable[TrackerSettings | None]]
Link = Callable[[UUID], Awaitable[str]]


class Issues:
    """Opens issues. `settings` returns those of an organisation; `link` the page of a session."""

    def __init__(
        self,
        store: SessionIssueStore,
        templates: IssueTemplateStore,
        settings: Settings,
        link: Link,
        signals: Signals,
        now: Clock,
        *,
        longest: float = LONGEST,
    ) -> None:
        self._store = store
        self._templates = templates
        self._settings = settings
        self._link = link
        self._signals = signals
        self._now = now
        self._longest = longest
        self._waiting: dict[UUID, asyncio.Event] = {}
        signals.subscribe(Topic.ISSUE_CHANGED, self._on_changed)

    @asynccontextmanager
    async def attach_issue(
        self, connection: Connection, session: Session, values: Mapping[str, str]
    ) -> AsyncIterator[Session]:
        """Open the issue around the creation of the session, and withdraw it if that fails. Yields the session with its
        issue."""
        if connection.issue_template_id is None and not values:
            yield session
            return
        issue = await self.open(connection, session, values)
        try:
            yield session if issue is None else replace(session, integrations_metadata=in_session(issue))
        except BaseException:
            await asyncio.shield(self.withdraw(session.id))
            raise

    async def check(self, connection: Connection, values: Mapping[str, str]) -> None:
        """Check that `open` would find all that it needs, for a caller that has to wait first. Raises as `open`, except
        for the tracker."""
        if await self._opens_one(connection, values):
            await self._template(connection, values)

    async def open(self, connection: Connection, session: Session, values: Mapping[str, str]) -> Issue | None:
        """Store the issue of a session whose row does not exist yet, or that does not run yet.

        `values` has its owner's values by the tracker's fields. Returns the issue where it was waited for; None when it
        is created later, and where there is none to create. Raises Invalid, which lists what is missing or wrong,
        Denied when the template is missing, Unavailable with the tracker's message when it was not created in time:
        then the session must not run.
        """
        settings = await self._opens_one(connection, values)
        if settings is None:
            return None
        template, prompts = await self._template(connection, values)
        at, new = self._now(), new_issue(template, session, prompts, await self._link(session.id))
        issue = SessionIssue(
            session.id, session.org_id, IssueState.WANTED, new, template.transition, next_at=at, created_at=at
        )
        if settings.when_down is WhenDown.GO_ON:
            await self._note(issue)
            return None
        async with self._hearing(session.id) as changed:
            try:
                await self._note(issue)
                return await self._wait_until_created(connection, session.id, changed)
            except BaseException:
                await asyncio.shield(self.withdraw(session.id))
                raise

    async def withdraw(self, session_id: UUID) -> None:
        """Withdraw the issue of a session that does not start. Never raises: if the store is unavailable, it is done
        later."""
        with suppress(Unavailable):
            await self._store.withdraw(session_id, self._now())

    async def _opens_one(self, connection: Connection, values: Mapping[str, str]) -> TrackerSettings | None:
        """Return the tracker's settings; None where no issue is to be opened. No statement without a template."""
        if connection.issue_template_id is None:
            if values:
                raise Invalid(f"{GIVEN}: sessions of connection {connection.name!r} open no issue", field=GIVEN)
            return None
        settings = await self._settings(connection.org_id)
        return settings if settings is not None and settings.enabled else None

    async def _template(
        self, connection: Connection, values: Mapping[str, str]
    ) -> tuple[IssueTemplate, Mapping[str, str]]:
        """Return the template and the values for its prompts."""
        template = await self._templates.get(connection.org_id, connection.issue_template_id or "")
        if template is None:
            raise Denied(
                f"the issue template of connection {connection.name!r} does not exist; an administrator must set a "
                "different template, or none"
            )
        try:
            return template, checked_prompts(template, values)
        except Invalid as error:
            how = f"--issue-field NAME=VALUE of postern connect {connection.name}, or of the command that runs scripts"
            raise Invalid(
                f"{error.message}; set it with {how}, or with {GIVEN} in the API", field=error.field
            ) from None

    async def _note(self, issue: SessionIssue) -> None:
        await self._store.add(issue)
        await self._signals.publish(Topic.ISSUE_CHANGED, session_id=str(issue.session_id))

    async def _wait_until_created(self, connection: Connection, session_id: UUID, changed: asyncio.Event) -> Issue:
        """Return the issue once it exists. Raises Unavailable."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._longest
        while True:
            issue = await self._store.get(session_id)
            if issue is not None and issue.issue is not None:
                return issue.issue
            left = deadline - loop.time()
            if issue is None or issue.error or left <= 0:
                break
            with suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), min(left, LOOK_EVERY))
            changed.clear()
        if issue is None:
            why = "the request was withdrawn"
        else:
            why = issue.error or f"the tracker did not answer within {duration_text(self._longest)}"
        raise Unavailable(
            f"connection {connection.name!r} opens an issue for each session, and it could not be created: {why}; try "
            "again later, or ask an administrator (postern admin tracker)"
        )

    @asynccontextmanager
    async def _hearing(self, session_id: UUID) -> AsyncIterator[asyncio.Event]:
        """Yield an event that is set when this session's issue changes."""
        changed = self._waiting[session_id] = asyncio.Event()
        try:
            yield changed
        finally:
            self._waiting.pop(session_id, None)

    def _on_changed(self, payload: Mapping[str, str]) -> None:
        for session_id, changed in self._waiting.items():
            if str(session_id) == payload.get("session_id"):
                changed.set()
