"""Issues of sessions: pending work in a tracker, with sealed fields.

A row changes its state under its own lock, and a writer that changes its session as well locks the issue first.
"""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Boolean, ColumnElement, Connection, and_, case, delete, exists, literal_column, select, update
from sqlalchemy.dialects import postgresql, sqlite

from postern.domain.issues.issue import Issue, IssueState, NewIssue, SessionIssue, in_session
from postern.domain.lists import Page, Stretch
from postern.domain.sessions.session import SessionStatus
from postern.errors import Misconfigured
from postern.store.database import Database
from postern.store.encryption import Encryption
from postern.store.prepared import Row
from postern.store.schema.issue_tables import session_issues
from postern.store.schema.session_tables import sessions
from postern.store.sql.long_lists import LongList, by_time, find_page

log = logging.getLogger(__name__)

_MAX_ERROR = 1_000  # characters
_AT_ONCE = 500  # rows in one step of `follow`
_MADE: Mapping[str, Any] = {"new": b"", "attempts": 0, "error": ""}
_DONE: Mapping[str, Any] = {"next_at": None, "error": ""}
_TO_BE_MADE = (IssueState.WANTED, IssueState.WITHDRAWN)
_UNDONE = (*_TO_BE_MADE, IssueState.CLOSING)
_columns = session_issues.c
_SHOWN = [column for column in _columns if column.name not in ("new", "updated_at", "told")]
# In these words: they are the condition of the index.
_FOLLOWED: ColumnElement[bool] = literal_column("NOT (ended AND told)", Boolean)
_KEYSET = by_time(_columns.created_at, _columns.session_id)
_SESSION = sessions.c.id == _columns.session_id


class SqlSessionIssues:
    def __init__(self, database: Database, encryption: Encryption) -> None:
        self._database = database
        self._encryption = encryption
        self._unreadable: set[UUID] = set()  # of which this was said already

    async def add(self, issue: SessionIssue) -> None:
        values = {
            **{name: getattr(issue, name) for name in ("session_id", "org_id", "state", "transition", "ended")},
            **{name: getattr(issue, name) for name in ("attempts", "next_at", "error", "created_at")},
            "new": b"" if issue.new is None else await self._seal(issue, issue.new),
            "told": False,
            "updated_at": issue.created_at,
        }

        def work(connection: Connection) -> None:
            query: Any = (sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert)(session_issues)
            connection.execute(query.values(values).on_conflict_do_nothing(index_elements=["session_id"]))

        await self._database.together(work)

    async def get(self, session_id: UUID) -> SessionIssue | None:
        query = select(*_columns).where(_columns.session_id == session_id)
        async with self._database.statement() as connection:
            row = (await connection.execute(query)).mappings().one_or_none()
        return None if row is None else await self._read(row)

    async def find(self, org_id: UUID, state: IssueState | None, page: Page) -> Stretch[SessionIssue]:
        sieves = [] if state is None else [_columns.state == state]
        listed = LongList(_SHOWN, _KEYSET, [_columns.org_id == org_id], sieves)
        async with self._database.plan_each() as statement:
            return await statement.run_sync(
                lambda connection: find_page(connection, listed, page, lambda row: _issue_of(row, None))
            )

    async def organisations(self, now: datetime) -> list[UUID]:
        query = select(_columns.org_id).where(_columns.next_at <= now).distinct()
        async with self._database.statement() as connection:
            return list((await connection.execute(query)).scalars())

    async def due(self, org_id: UUID, now: datetime, most: int) -> list[SessionIssue]:
        query = select(*_columns).where(_columns.org_id == org_id, _columns.next_at <= now)
        query = query.order_by(_columns.attempts > 0, _columns.next_at, _columns.session_id).limit(most)
        async with self._database.statement() as connection:
            rows = (await connection.execute(query)).mappings().all()
        issues = []
        for row in rows:
            try:
                issues.append(await self._read(row))
            except Misconfigured as error:
                if row["session_id"] not in self._unreadable:
                    self._unreadable.add(row["session_id"])
                    log.warning(
                        "an issue waits until it can be decrypted: session=%s error=%s", row["session_id"], error
                    )
        return issues

    async def claim_attempt(self, read: SessionIssue, now: datetime, next_at: datetime) -> bool:
        due = (_columns.session_id == read.session_id, _columns.state.in_(_UNDONE), _columns.next_at <= now)
        same = (_columns.state == read.state, _columns.attempts == read.attempts)
        tried = {"attempts": _columns.attempts + 1, "next_at": next_at, "updated_at": now}
        async with self._database.statement() as connection:
            return (await connection.execute(update(session_issues).where(*due, *same).values(tried))).rowcount == 1

    async def mark_created(self, session_id: UUID, issue: Issue, at: datetime) -> None:
        def change(connection: Connection, row: Row) -> dict[str, Any] | None:
            if row["key"] is not None:
                return None
            values = {
                "key": issue.key,
                "url": issue.url,
                **_MADE,
                "told": _store_in_session(connection, session_id, issue),
            }
            return values | (_closing(row, at) if row["ended"] else {"state": IssueState.MADE, "next_at": None})

        await self._change(session_id, at, change)

    async def follow(self, at: datetime, unopened: datetime) -> int:
        is_there = exists().where(_SESSION)
        is_done = exists().where(_SESSION, sessions.c.status == SessionStatus.DONE)
        over = await self._find_followed(_columns.ended.is_(False), is_done)
        for session_id in over:
            await self._change(session_id, at, functools.partial(_end, at))
        untold = await self._find_followed(_columns.told.is_(False), _columns.key.is_not(None), is_there)
        for session_id in untold:
            await self._change(session_id, at, _tell_late)
        alone = await self._find_followed(_columns.ended.is_(False), _columns.created_at < unopened, ~is_there)
        for session_id in alone:
            await self.withdraw(session_id, at)
        return len(over) + len(untold) + len(alone)

    async def _find_followed(self, *conditions: ColumnElement[bool]) -> list[UUID]:
        query = select(_columns.session_id).where(_FOLLOWED, *conditions).limit(_AT_ONCE)
        async with self._database.statement() as connection:
            return list((await connection.execute(query)).scalars())

    async def mark_closed(self, session_id: UUID, at: datetime) -> None:
        await self._change(
            session_id,
            at,
            lambda _, row: {"state": IssueState.CLOSED, **_DONE} if row["state"] == IssueState.CLOSING else None,
        )

    async def mark_failed(self, session_id: UUID, error: str, next_at: datetime | None, at: datetime) -> None:
        def change(_: Connection, row: Row) -> dict[str, Any] | None:
            if row["state"] not in _UNDONE:
                return None
            values = {"error": error[:_MAX_ERROR], "next_at": next_at}
            return values if next_at is not None else values | {"state": IssueState.GIVEN_UP}

        await self._change(session_id, at, change)

    async def withdraw(self, session_id: UUID, at: datetime) -> None:
        def change(connection: Connection, row: Row) -> dict[str, Any] | None:
            if row["state"] == IssueState.MADE:
                return {"ended": True, **_closing(row, at)}
            if row["state"] == IssueState.WANTED and row["attempts"]:
                return {"ended": True, "state": IssueState.WITHDRAWN}
            if row["state"] == IssueState.GIVEN_UP and row["attempts"] > 1:  # the issue may exist: a retry looks for it
                return {"ended": True}
            if row["key"] is None and row["state"] != IssueState.WITHDRAWN:
                connection.execute(delete(session_issues).where(_columns.session_id == session_id))
            return None

        await self._change(session_id, at, change)

    async def forget(self, session_id: UUID) -> None:
        condition = (_columns.session_id == session_id, _columns.state == IssueState.WITHDRAWN)
        async with self._database.statement() as connection:
            await connection.execute(delete(session_issues).where(*condition))

    async def retry(self, org_id: UUID, session_id: UUID | None, at: datetime) -> int:
        conditions = [_columns.org_id == org_id, _columns.state == IssueState.GIVEN_UP]
        if session_id is not None:
            conditions.append(_columns.session_id == session_id)
        state = case(
            (_columns.key.is_not(None), IssueState.CLOSING.value),
            (and_(_columns.ended, ~exists().where(_SESSION)), IssueState.WITHDRAWN.value),
            else_=IssueState.WANTED.value,
        )
        anew = {"state": state, "next_at": at, "error": "", "updated_at": at}
        async with self._database.statement() as connection:
            return int((await connection.execute(update(session_issues).where(*conditions).values(anew))).rowcount)

    async def prune(self, closed_before: datetime) -> None:
        old = (_columns.state == IssueState.CLOSED, _columns.updated_at < closed_before)
        async with self._database.statement() as connection:
            await connection.execute(delete(session_issues).where(*old))

    async def _change(
        self, session_id: UUID, at: datetime, change: Callable[[Connection, Row], dict[str, Any] | None]
    ) -> None:
        """Apply what `change` returns for the current row; None for nothing."""

        def work(connection: Connection) -> None:
            condition = _columns.session_id == session_id
            row = connection.execute(select(*_columns).where(condition).with_for_update()).mappings().one_or_none()
            values = None if row is None else change(connection, row)
            if values is not None:
                connection.execute(update(session_issues).where(condition).values({**values, "updated_at": at}))

        await self._database.together(work)

    async def _seal(self, issue: SessionIssue, new: NewIssue) -> bytes:
        content = json.dumps(asdict(new)).encode()
        return await self._encryption.seal(content, row=_sealed_row(issue.session_id), org_id=issue.org_id)

    async def _read(self, row: Row) -> SessionIssue:
        if not row["new"]:
            return _issue_of(row, None)
        sealed_row = _sealed_row(row["session_id"])
        values = json.loads(await self._encryption.open(row["new"], row=sealed_row, org_id=row["org_id"]))
        objects = {name: (kind, value) for name, (kind, value) in values["objects"].items()}
        return _issue_of(row, NewIssue(**values | {"objects": objects}))


def _end(at: datetime, _: Connection, row: Row) -> dict[str, Any]:
    return {"ended": True, **(_closing(row, at) if row["state"] == IssueState.MADE else {})}


def _tell_late(connection: Connection, row: Row) -> dict[str, Any]:
    return {"told": _store_in_session(connection, row["session_id"], Issue(row["key"], row["url"]))}


def _store_in_session(connection: Connection, session_id: UUID, issue: Issue) -> bool:
    """Store the issue's key in its session; False when there is no such session yet."""
    values = {"integrations_metadata": in_session(issue), "issue_key": issue.key}
    statement = update(sessions).where(sessions.c.id == session_id).values(values)
    return connection.execute(statement).rowcount == 1


def _closing(row: Row, at: datetime) -> dict[str, Any]:
    if not row["transition"]:
        return {"state": IssueState.CLOSED, **_DONE}
    return {"state": IssueState.CLOSING, "next_at": at}


def _sealed_row(session_id: UUID) -> str:
    return f"session_issues/{session_id}"


def _issue_of(row: Row, new: NewIssue | None) -> SessionIssue:
    plain = ("session_id", "org_id", "transition", "ended", "attempts", "next_at", "error", "created_at")
    return SessionIssue(
        **{name: row[name] for name in plain},
        state=IssueState(row["state"]),
        new=new,
        issue=None if row["key"] is None else Issue(row["key"], row["url"]),
    )
