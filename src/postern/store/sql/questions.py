"""Questions: statements that wait for a decision."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import insert, select, update

from postern.domain.question import Decision, Question
from postern.store.database import Database
from postern.store.prepared import Row
from postern.store.schema import questions

MOST = 1_000  # that are listed


class SqlQuestions:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, question: Question) -> None:
        values = {column.name: getattr(question, column.name) for column in questions.c}
        values["reviewers"] = list(question.reviewers)
        async with self._database.statement() as connection:
            await connection.execute(insert(questions).values(values))

    async def get(self, question_id: UUID) -> Question | None:
        async with self._database.statement() as connection:
            found = await connection.execute(select(*questions.c).where(questions.c.id == question_id))
            row = found.mappings().one_or_none()
        return None if row is None else _question_of(row)

    async def waiting(self, org_id: UUID, now: datetime) -> list[Question]:
        open_ones = (questions.c.org_id == org_id, questions.c.decision.is_(None), questions.c.until > now)
        wanted = select(*questions.c).where(*open_ones).order_by(questions.c.asked_at, questions.c.id).limit(MOST)
        async with self._database.statement() as connection:
            rows = (await connection.execute(wanted)).mappings().all()
        return [_question_of(row) for row in rows]

    async def decide(self, question_id: UUID, decision: Decision, by: str, comment: str) -> bool:
        """The condition makes the UPDATE the lock: of several decisions one counts."""
        mine = (questions.c.id == question_id, questions.c.decision.is_(None))
        values = {"decision": decision, "decided_by": by, "comment": comment}
        async with self._database.statement() as connection:
            done = await connection.execute(update(questions).where(*mine).values(values))
        return done.rowcount == 1


def _question_of(row: Row) -> Question:
    values = dict(row)
    decision = values["decision"]
    values |= {"reviewers": tuple(values["reviewers"]), "decision": None if decision is None else Decision(decision)}
    return Question(**values)
