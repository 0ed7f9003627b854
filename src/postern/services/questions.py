"""Questions: statements that are held until somebody has decided, asked by workers and decided by people."""

from __future__ import annotations

from uuid import UUID, uuid4

from postern.domain.permit import Permit
from postern.domain.principal import Principal
from postern.domain.question import MAX_COMMENT, MAX_STATEMENT, WAITS, Decision, Question
from postern.errors import Conflict, Denied, Invalid, NotFound
from postern.services.server.trail import changed
from postern.store.ports import Clock, QuestionStore, Signals, Topic


class Questions:
    """A decision is in the store first; the signal only tells that it is there."""

    def __init__(self, store: QuestionStore, signals: Signals, now: Clock) -> None:
        self._store = store
        self._signals = signals
        self._now = now

    async def ask(self, permit: Permit, session_id: UUID, rule: str, reason: str, statement: str) -> Question:
        """Raises Unavailable."""
        connection, principal, at = permit.connection, permit.principal, self._now()
        shown = statement.encode("utf-8", "replace").decode().replace("\0", "�")[:MAX_STATEMENT]
        question = Question(
            uuid4(),
            connection.org_id,
            session_id,
            connection.name,
            principal.subject,
            principal.email,
            rule,
            reason,
            shown,
            connection.reviewers,
            at,
            at + WAITS,
        )
        await self._store.add(question)
        return question

    async def look(self, question_id: UUID) -> Question | None:
        """For whoever asked."""
        return await self._store.get(question_id)

    async def close(self, question_id: UUID, decision: Decision) -> None:
        """It expired or was withdrawn; does nothing when it was decided meanwhile."""
        await self._store.decide(question_id, decision, "", "")

    async def waiting(self, principal: Principal) -> list[Question]:
        """Those that this principal may decide, has asked, or sees as an auditor; the oldest first."""
        return [one for one in await self._store.waiting(principal.org_id, self._now()) if _sees(principal, one)]

    async def decide(self, principal: Principal, question_id: str, *, approve: bool, comment: str = "") -> Question:
        """By an administrator or a reviewer of the connection, never by who asked. Raises NotFound, Denied, Invalid,
        Conflict when it was decided before or waits no more."""
        if len(comment) > MAX_COMMENT or any(ord(character) < 32 for character in comment):
            raise Invalid(f"comment: at most {MAX_COMMENT} characters, and no control characters", field="comment")
        question = await self._existing(principal, question_id)
        if not _may_decide(principal, question):
            raise Denied("only an administrator or a reviewer of the connection may decide, and never on their own")
        decision = Decision.APPROVED if approve else Decision.REJECTED
        is_late = question.decision is not None or question.until <= self._now()
        if is_late or not await self._store.decide(question.id, decision, principal.email, comment):
            raise Conflict("this question was decided, or waits no more")
        changed({"id": question.id, "decision": None}, {"id": question.id, "decision": decision, "comment": comment})
        await self._signals.publish(Topic.QUESTION_DECIDED, question_id=str(question.id))
        decided = await self._store.get(question.id)
        assert decided is not None
        return decided

    async def _existing(self, principal: Principal, question_id: str) -> Question:
        try:
            found = await self._store.get(UUID(question_id))
        except ValueError:
            found = None
        if found is None or found.org_id != principal.org_id or not _sees(principal, found):
            raise NotFound(f"there is no question {question_id!r}; `postern sessions questions` lists them")
        return found


def _may_decide(principal: Principal, question: Question) -> bool:
    return question.may_decide(principal.subject, principal.groups, is_admin=principal.is_admin)


def _sees(principal: Principal, question: Question) -> bool:
    return principal.sees_all or question.asker == principal.subject or _may_decide(principal, question)
