"""How long recordings and sessions are kept, and what is being purged."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.paging import LongListAnswer, LongPaging, long_listed
from postern.api.responses import errors
from postern.api.schemas.sessions.retention_schemas import (
    PreviewAnswer,
    PurgeAnswer,
    RetentionAnswer,
    RetentionRequest,
    RetentionsAnswer,
)
from postern.domain.sessions.retention import Retention

router = APIRouter(prefix="/retention", tags=["Sessions"], route_class=AuditedRoute)

Key = Annotated[
    str, Path(alias="nameOrID", description="Name or identifier, also of one that was removed and had a retention")
]
Days = Annotated[int | None, Query(description="Left out: for ever")]


@router.get("", responses=errors(403))
async def get_retention(caller: Caller, services: Use) -> RetentionAnswer:
    """The organisation's; for administrators and auditors."""
    return RetentionAnswer.of(await services.retention.organisation(caller))


@router.put("", responses=errors(403))
async def set_retention(body: RetentionRequest, caller: Caller, services: Use) -> RetentionAnswer:
    """For connections without their own. What is shortened takes effect after a day."""
    return RetentionAnswer.of(await services.retention.set_organisation(caller, body.retention()))


@router.get("/preview", responses=errors(403, 404))
async def preview_retention(
    caller: Caller,
    services: Use,
    recording_days: Days = None,
    session_days: Days = None,
    connection: Annotated[
        str | None, Query(description="Name or identifier; left out: those without their own")
    ] = None,
) -> PreviewAnswer:
    """What such a retention would purge now."""
    wanted = Retention(recording_days, session_days)
    return PreviewAnswer.of(await services.retention.preview(caller, wanted, connection))


@router.get("/purges", responses=errors(403))
async def list_purges(caller: Caller, services: Use, page: LongPaging) -> LongListAnswer[PurgeAnswer]:
    """That have begun and are not done, oldest first, with what keeps them; for administrators and auditors."""
    found = await services.purges.find(caller, page)
    return long_listed([PurgeAnswer.of(one) for one in found.items], found)


@router.get("/connections", responses=errors(403))
async def list_retentions(caller: Caller, services: Use) -> RetentionsAnswer:
    """Those of connections that have their own."""
    return RetentionsAnswer(data=[RetentionAnswer.of(one) for one in await services.retention.connections(caller)])


@router.get("/connections/{nameOrID}", responses=errors(403, 404))
async def get_connection_retention(key: Key, caller: Caller, services: Use) -> RetentionAnswer:
    return RetentionAnswer.of(await services.retention.connection(caller, key))


@router.put("/connections/{nameOrID}", responses=errors(403, 404))
async def set_connection_retention(key: Key, body: RetentionRequest, caller: Caller, services: Use) -> RetentionAnswer:
    """Its own, which wins over the organisation's, also where it is longer. It stays for its sessions when the
    connection is removed. What is shortened takes effect after a day."""
    return RetentionAnswer.of(await services.retention.set_connection(caller, key, body.retention()))


@router.delete("/connections/{nameOrID}", responses=errors(403, 404))
async def remove_connection_retention(key: Key, caller: Caller, services: Use) -> RetentionAnswer:
    """The connection goes by the organisation's again; after a day, where that is shorter."""
    return RetentionAnswer.of(await services.retention.set_connection(caller, key, None))
