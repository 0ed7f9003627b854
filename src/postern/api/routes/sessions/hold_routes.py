"""Legal holds, and manual purges."""

from __future__ import annotations

from fastapi import APIRouter

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.crud import Key
from postern.api.paging import LongListAnswer, LongPaging, make_long_list_answer
from postern.api.responses import errors
from postern.api.schemas.sessions.retention_schemas import (
    HoldAnswer,
    HoldRequest,
    HoldsAnswer,
    PurgeAnswer,
    PurgeRequest,
)

router = APIRouter(tags=["Sessions"], route_class=AuditedRoute)


@router.get("/holds", responses=errors(403))
async def list_holds(caller: Caller, services: Use, page: LongPaging) -> LongListAnswer[HoldAnswer]:
    """List legal holds on all sessions, newest first; for administrators and auditors."""
    found = await services.holds.find(caller, page)
    return make_long_list_answer([HoldAnswer.of(hold) for hold in found.items], found)


@router.get("/sessions/{session_id}/holds", responses=errors(403, 404))
async def get_holds(session_id: str, caller: Caller, services: Use) -> HoldsAnswer:
    """List legal holds on a session; for administrators and auditors, not for its user."""
    return HoldsAnswer(data=[HoldAnswer.of(hold) for hold in await services.holds.of(caller, session_id)])


@router.post("/sessions/{session_id}/holds", status_code=201, responses=errors(403, 404, 409))
async def hold_session(session_id: str, body: HoldRequest, caller: Caller, services: Use) -> HoldAnswer:
    """Add a legal hold: no retention and no user can purge the session while it has one."""
    return HoldAnswer.of(await services.holds.set(caller, session_id, body.name, body.reason))


@router.delete("/sessions/{session_id}/holds/{nameOrID}", status_code=204, responses=errors(403, 404))
async def release_session(session_id: str, key: Key, caller: Caller, services: Use) -> None:
    """Remove a legal hold. The session can be purged when its last hold is removed."""
    await services.holds.release(caller, session_id, key)


@router.post("/sessions/{session_id}/purge", status_code=202, responses=errors(403, 404, 409))
async def purge_session(session_id: str, body: PurgeRequest, caller: Caller, services: Use) -> PurgeAnswer:
    """Purge a session, regardless of the retention: the ledger and the audit log record it, and its data is deleted
    soon afterwards. It cannot be undone. 409 while the session runs, is under legal hold, or is not stored yet."""
    return PurgeAnswer.of(await services.purges.purge(caller, session_id, body.what, body.reason))
