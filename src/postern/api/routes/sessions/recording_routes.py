"""Proof of the recordings: checkpoints, the keys that sign them, and exports for auditors."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.paging import LongListAnswer, LongPaging, make_long_list_answer
from postern.api.query_times import Moment
from postern.api.responses import errors
from postern.api.schemas.sessions.recording_schemas import CheckpointAnswer, LedgerKeyAnswer, LedgerKeysAnswer

router = APIRouter(prefix="/recordings", tags=["Sessions"], route_class=AuditedRoute)

_TAR = {"description": "A tar file, streamed", "content": {"application/x-tar": {}}}


@router.get("/checkpoints", responses=errors(403))
async def list_checkpoints(caller: Caller, services: Use, page: LongPaging) -> LongListAnswer[CheckpointAnswer]:
    """List checkpoints, newest first, each with its anchors; for administrators and auditors."""
    found = await services.checkpoints.find(caller, page)
    return make_long_list_answer([CheckpointAnswer.of(*one) for one in found.items], found)


@router.post("/checkpoints", status_code=201, responses=errors(403, 409))
async def make_checkpoint(caller: Caller, services: Use) -> CheckpointAnswer:
    """Sign the ledger as it is now. Returns the newest checkpoint if nothing has changed since."""
    return CheckpointAnswer.of(await services.checkpoints.make(caller))


@router.get("/key", responses=errors(403))
async def get_ledger_keys(caller: Caller, services: Use) -> LedgerKeysAnswer:
    """Return the public keys that verify checkpoints. Store them outside of this gateway."""
    keys = await services.checkpoints.keys(caller)
    return LedgerKeysAnswer(keys=[LedgerKeyAnswer.of(key) for key in keys])


@router.post("/key/rotate", responses=errors(403))
async def rotate_ledger_key(caller: Caller, services: Use) -> LedgerKeyAnswer:
    """Sign with a new key from now on; a checkpoint that the old key signs introduces it."""
    return LedgerKeyAnswer.of(await services.checkpoints.rotate(caller))


@router.get("/export", response_class=StreamingResponse, responses={**errors(403, 409), 200: _TAR})
async def export_recordings(
    caller: Caller,
    services: Use,
    since: Annotated[Moment | None, Query(description="Sessions that began at or after this time")] = None,
    until: Annotated[Moment | None, Query(description="Sessions that began at or before this time")] = None,
) -> StreamingResponse:
    """Export ledger, checkpoints, sessions and recordings, for `postern sessions verify`; for administrators and
    auditors."""
    pieces = await services.exports.begin(caller, since, until)
    headers = {"Content-Disposition": 'attachment; filename="recordings.tar"'}
    return StreamingResponse(pieces, media_type="application/x-tar", headers=headers)
