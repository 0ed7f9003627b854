"""Questions: statements that are held until somebody has decided, asked by workers and decided by people."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID, uuid4

from postern.domain.features import Feature
from postern.domain.lists import Listed, Page
from postern.domain.permit import Permit
from postern.domain.principal import Principal, PrincipalKind
from postern.domain.question import KEPT, MAX_COMMENT, MAX_STATEMENT, WAITS, Decision, Question
from postern.errors import Conflict, Denied, Invalid, NotFound
from postern.services.server.features import Features
from postern.services.server.trail import changed
from postern.store.ports import Clock, QuestionStore, Signals, Topic


class Questions:
    """A decision is in the store first; the signal only tells that it is there."""

    def __init__(self, store: QuestionStore, features: Features, signals: Signals, now: Clock) -> None:
        self._store = store
        self._features = features
        self._signals = signals
        self._now = now

    async def ask(self, permit: Permit, session_id: UUID, rule: str, reason: str, statement: str) -> Question:
        """Raises TooMany, Unavailable."""
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

    async def close(self, question_id: UUID, decision: Decision) -> Question | None:
        """It expired or was withdrawn. What it is now where it was decided before that."""
        if await self._store.decide(question_id, decision, "", "", None):
            return None
        return await self._store.get(question_id)

    async def settle(self) -> None:
        """What no worker is there any more to close: it was killed, or its machine is gone. And what is old goes."""
        now = self._now()
        await self._store.settle(now)
        await self._store.prune(now - KEPT)

    async def waiting(self, principal: Principal, page: Page) -> Listed[Question]:
        """Those that this principal may decide, has asked, or sees as an auditor; the oldest first."""
        found = [one for one in await self._store.waiting(principal.org_id, self._now()) if _sees(principal, one)]
        return Listed(found[page.offset : page.offset + page.limit], len(found))

    async def get(self, principal: Principal, question_id: str) -> Question:
        """One of theirs, decided or not. Raises NotFound."""
        return await self._existing(principal, question_id)

    async def decide(self, principal: Principal, question_id: str, *, approve: bool, comment: str = "") -> Question:
        """By an administrator or a reviewer of the connection; by who asked only where `self-review` is on. Raises
        NotFound, Denied, Invalid, Conflict when it was decided before or waits no more."""
        if len(comment) > MAX_COMMENT or any(ord(character) < 32 for character in comment):
            raise Invalid(f"comment: at most {MAX_COMMENT} characters, and no control characters", field="comment")
        question = await self._existing(principal, question_id)
        await self._require_decider(principal, question)
        decision = Decision.APPROVED if approve else Decision.REJECTED
        if not await self._store.decide(question.id, decision, principal.email, comment, self._now()):
            raise Conflict(_too_late(await self._store.get(question.id)))
        decided = replace(question, decision=decision, decided_by=principal.email, comment=comment)
        changed(_shown(question), _shown(decided))
        await self._signals.publish(Topic.QUESTION_DECIDED, question_id=str(question.id))
        return decided

    async def _require_decider(self, principal: Principal, question: Question) -> None:
        if principal.kind is not PrincipalKind.USER:
            # Who may make keys would decide on their own statements by one of them.
            raise Denied("people decide on statements that wait; a program's key does not")
        # Who made a program's key has it, or had: what it sends is theirs, too.
        is_own = principal.email in await self._store.makers(question.session_id)
        if not is_own and _may_decide(principal, question):
            return
        if not _may_decide(principal, question, own=True):
            raise Denied("only an administrator or a reviewer of the connection may decide")
        if not await self._features.enabled(principal.org_id, Feature.SELF_REVIEW):
            raise Denied("nobody decides on what they have sent themselves; ask another administrator or reviewer")

    async def _existing(self, principal: Principal, question_id: str) -> Question:
        try:
            found = await self._store.get(UUID(question_id))
        except ValueError:
            found = None
        if found is None or found.org_id != principal.org_id or not _sees(principal, found):
            raise NotFound(f"there is no question {question_id!r}; `postern sessions questions` lists them")
        return found


def _may_decide(principal: Principal, question: Question, *, own: bool = False) -> bool:
    return question.may_decide(principal.subject, principal.groups, is_admin=principal.is_admin, own=own)


def _too_late(question: Question | None) -> str:
    if question is None or question.decision is None:
        return "this question waits no more: its deadline has come, or its session has ended"
    by = f" by {question.decided_by}" if question.decided_by else ""
    return f"this question waits no more: it is {question.decision}{by}"


def _shown(question: Question) -> dict[str, object]:
    """For the audit log: what was decided on, and about whom. The statement is in the recording."""
    return {
        "id": question.id,
        "session_id": question.session_id,
        "connection": question.connection,
        "asker": question.asker_email,
        "rule": question.rule,
        "decision": question.decision,
        "comment": question.comment,
    }


def _sees(principal: Principal, question: Question) -> bool:
    return principal.sees_all or question.asker == principal.subject or _may_decide(principal, question)
