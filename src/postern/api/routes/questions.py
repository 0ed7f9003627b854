"""Statements that wait for a decision."""

from __future__ import annotations

from fastapi import APIRouter

from postern.api.audited import AuditedRoute
from postern.api.auth import Caller, Use
from postern.api.paging import ListAnswer, Paging, listed
from postern.api.responses import errors
from postern.api.schemas.questions import DecisionRequest, QuestionAnswer

router = APIRouter(prefix="/questions", tags=["Sessions"], route_class=AuditedRoute)


@router.get("", responses=errors())
async def list_questions(caller: Caller, services: Use, page: Paging) -> ListAnswer[QuestionAnswer]:
    """Statements that guard rails hold now: those that the caller may decide or has asked, for administrators and
    auditors all of them; the oldest first."""
    found = await services.questions.waiting(caller, page)
    return listed([QuestionAnswer.of(one) for one in found.items], found, page)


@router.get("/{question_id}", responses=errors(404))
async def get_question(question_id: str, caller: Caller, services: Use) -> QuestionAnswer:
    """Also one that was decided, for as long as it is kept."""
    return QuestionAnswer.of(await services.questions.get(caller, question_id))


@router.post("/{question_id}/decision", responses=errors(403, 404, 409))
async def decide_question(question_id: str, body: DecisionRequest, caller: Caller, services: Use) -> QuestionAnswer:
    """Lets a held statement run, or refuses it. By an administrator or a reviewer of the connection; by who sent the
    statement only while the feature `self-review` is on. Conflict when it was decided before, or waits no more."""
    decided = await services.questions.decide(caller, question_id, approve=body.approve, comment=body.comment)
    return QuestionAnswer.of(decided)
