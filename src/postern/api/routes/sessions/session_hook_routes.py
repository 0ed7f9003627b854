"""Runs of a session's hooks."""

from __future__ import annotations

from fastapi import APIRouter

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.responses import errors
from postern.api.schemas.sessions.session_hook_schemas import HookRunAnswer, HookRunsAnswer

router = APIRouter(prefix="/sessions", tags=["Sessions"], route_class=AuditedRoute)


@router.get("/{session_id}/hooks", responses=errors(403, 404))
async def get_session_hooks(session_id: str, caller: Caller, services: Use) -> HookRunsAnswer:
    """Return the runs of its session hooks; for administrators and auditors. Empty if no hooks are enabled, and until
    the first one has ended."""
    return HookRunsAnswer(data=[HookRunAnswer.of(run) for run in await services.hooks.find(caller, session_id)])
