"""Questions: statements that wait for a decision."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, and_, delete, exists, func, insert, or_, select, update

from postern.domain.question import MAX_OF_ORGANISATION, Crowd, Decision, Question
from postern.domain.session import SessionStatus
from postern.errors import TooMany
from postern.store.database import Database
from postern.store.ports.telling import QUESTION_ASKED, QUESTION_DECIDED
from postern.store.prepared import Row
from postern.store.schema import api_keys, orgs, questions, sessions

COLUMNS = [column for column in questions.c if column.name != "pending"]
_HAS_ENDED = exists().where(sessions.c.id == questions.c.session_id, sessions.c.status == SessionStatus.DONE)


class SqlQuestions:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, question: Question) -> None:
        values = {column.name: getattr(question, column.name) for column in COLUMNS}
        values |= {"reviewers": list(question.reviewers), "pending": QUESTION_ASKED}

        def work(connection: Connection) -> None:
            # The organisation's row is the lock: of those that come at once each counts the ones before it. It keeps
            # nobody from referring to that row. A transaction of SQLite is the only one that writes anyhow.
            if connection.dialect.name != "sqlite":
                own = select(orgs.c.id).where(orgs.c.id == question.org_id)
                connection.execute(own.with_for_update(key_share=True))
            full = _crowd(connection, question).full()
            if full is not None:
                raise TooMany(full)
            connection.execute(insert(questions).values(values))

        await self._database.together(work)

    async def get(self, question_id: UUID) -> Question | None:
        async with self._database.statement() as connection:
            found = await connection.execute(select(*COLUMNS).where(questions.c.id == question_id))
            row = found.mappings().one_or_none()
        return None if row is None else question_of(row)

    async def waiting(self, org_id: UUID, now: datetime) -> list[Question]:
        wanted = select(*COLUMNS).where(questions.c.org_id == org_id, _waits(now))
        # More than there may be: the bound is on what is added.
        wanted = wanted.order_by(questions.c.asked_at, questions.c.id).limit(2 * MAX_OF_ORGANISATION)
        async with self._database.statement() as connection:
            rows = (await connection.execute(wanted)).mappings().all()
        return [question_of(row) for row in rows]

    async def decide(self, question_id: UUID, decision: Decision, by: str, comment: str, now: datetime | None) -> bool:
        """The condition makes the UPDATE the lock: of several decisions one counts."""
        mine = (questions.c.id == question_id, questions.c.decision.is_(None) if now is None else _waits(now))
        values = {"decision": decision, "decided_by": by, "comment": comment}
        async with self._database.statement() as connection:
            done = await connection.execute(update(questions).where(*mine).values(values | _DECIDED))
        return done.rowcount == 1

    async def makers(self, session_id: UUID) -> frozenset[str]:
        whose = select(sessions.c.principal_id).where(sessions.c.id == session_id).scalar_subquery()
        async with self._database.statement() as connection:
            found = await connection.execute(select(api_keys.c.created_by).where(api_keys.c.principal_id == whose))
            return frozenset(found.scalars())

    async def settle(self, now: datetime) -> None:
        open_ = questions.c.decision.is_(None)
        async with self._database.statement() as connection:
            gone = update(questions).where(open_, _HAS_ENDED)
            await connection.execute(gone.values({"decision": Decision.WITHDRAWN} | _DECIDED))
            late = update(questions).where(open_, questions.c.until <= now)
            await connection.execute(late.values({"decision": Decision.EXPIRED} | _DECIDED))

    async def prune(self, before: datetime) -> None:
        async with self._database.statement() as connection:
            await connection.execute(delete(questions).where(questions.c.until < before, questions.c.pending == 0))


_DECIDED = {"pending": questions.c.pending.op("|")(QUESTION_DECIDED)}


def _waits(now: datetime) -> ColumnElement[bool]:
    return and_(questions.c.decision.is_(None), questions.c.until > now, ~_HAS_ENDED)


def _crowd(connection: Connection, question: Question) -> Crowd:
    """One row: those that wait are few, and those of a session are found by an index."""
    of_session = questions.c.session_id == question.session_id
    waits = _waits(question.asked_at)
    counted = select(
        func.count().filter(of_session),
        func.count().filter(waits, questions.c.asker == question.asker),
        func.count().filter(waits),
    ).where(questions.c.org_id == question.org_id, or_(of_session, waits))
    return Crowd(*connection.execute(counted).one())


def question_of(row: Row) -> Question:
    values = dict(row)
    decision = values["decision"]
    values |= {"reviewers": tuple(values["reviewers"]), "decision": None if decision is None else Decision(decision)}
    return Question(**values)
