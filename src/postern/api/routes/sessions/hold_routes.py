"""Legal holds, and purging by hand."""

from __future__ import annotations

from fastapi import APIRouter

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.crud import Key
from postern.api.paging import LongListAnswer, LongPaging, long_listed
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
    """On all sessions, newest first; for administrators and auditors."""
    found = await services.holds.find(caller, page)
    return long_listed([HoldAnswer.of(hold) for hold in found.items], found)


@router.get("/sessions/{session_id}/holds", responses=errors(403, 404))
async def get_holds(session_id: str, caller: Caller, services: Use) -> HoldsAnswer:
    """On one session; for administrators and auditors: not for who had it."""
    return HoldsAnswer(data=[HoldAnswer.of(hold) for hold in await services.holds.of(caller, session_id)])


@router.post("/sessions/{session_id}/holds", status_code=201, responses=errors(403, 404, 409))
async def hold_session(session_id: str, body: HoldRequest, caller: Caller, services: Use) -> HoldAnswer:
    """While a session has a hold it is not purged: not by a retention, and by nobody."""
    return HoldAnswer.of(await services.holds.set(caller, session_id, body.name, body.reason))


@router.delete("/sessions/{session_id}/holds/{nameOrID}", status_code=204, responses=errors(403, 404))
async def release_session(session_id: str, key: Key, caller: Caller, services: Use) -> None:
    """The session is free when its last hold is released."""
    await services.holds.release(caller, session_id, key)


@router.post("/sessions/{session_id}/purge", status_code=202, responses=errors(403, 404, 409))
async def purge_session(session_id: str, body: PurgeRequest, caller: Caller, services: Use) -> PurgeAnswer:
    """Begins it, whatever the retention says: the ledger and the audit log tell of it, and a moment later what is
    stored is deleted. It cannot be taken back. Conflict while the session runs, is held, or is not stored yet."""
    return PurgeAnswer.of(await services.purges.purge(caller, session_id, body.what, body.reason))
