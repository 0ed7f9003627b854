"""Pending work in the tracker for sessions."""

from __future__ import annotations

from uuid import UUID

from fastapi import APIRouter

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.paging import LongListAnswer, LongPaging, make_long_list_answer
from postern.api.responses import errors
from postern.api.schemas.sessions.session_issue_schemas import RetryAnswer, SessionIssueAnswer
from postern.domain.issues.issue import IssueState

router = APIRouter(prefix="/integrations/tracker/issues", tags=["Issue Templates"], route_class=AuditedRoute)


@router.get("", responses=errors(403))
async def list_session_issues(
    caller: Caller, services: Use, page: LongPaging, state: IssueState | None = None
) -> LongListAnswer[SessionIssueAnswer]:
    """List issues, newest first. Closed ones are kept for 30 days."""
    stretch = await services.session_issues.find(caller, state, page)
    return make_long_list_answer([SessionIssueAnswer.of(item) for item in stretch.items], stretch)


@router.post("/retry", status_code=202, responses=errors(403))
async def retry_session_issues(caller: Caller, services: Use) -> RetryAnswer:
    """Retry all issues that were given up."""
    return RetryAnswer(waiting=await services.session_issues.again(caller, None))


@router.post("/{session_id}/retry", status_code=202, responses=errors(403, 404))
async def retry_session_issue(session_id: UUID, caller: Caller, services: Use) -> RetryAnswer:
    """Retry an issue. 404 if it was not given up."""
    return RetryAnswer(waiting=await services.session_issues.again(caller, session_id))
