"""How long recordings and sessions are kept, and pending purges."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.paging import LongListAnswer, LongPaging, make_long_list_answer
from postern.api.resource_kinds import ResourceKind, register, setting
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
register(setting("retention", router.prefix, RetentionRequest))
register(
    ResourceKind(
        "connection-retention",
        "connection-retentions",
        f"{router.prefix}/connections",
        RetentionRequest,
        name_field="connection",
        names="connection",
        address="connection",
        creates="PUT",
        changes="PUT",
        has_manager=False,
    )
)

Key = Annotated[
    str, Path(alias="nameOrID", description="Name or identifier, also of a deleted connection that had a retention")
]
Days = Annotated[int | None, Query(description="Default: forever")]


@router.get("", responses=errors(403))
async def get_retention(caller: Caller, services: Use) -> RetentionAnswer:
    """Return the organisation's retention; for administrators and auditors."""
    return RetentionAnswer.of(await services.retention.organisation(caller))


@router.put("", responses=errors(403))
async def set_retention(body: RetentionRequest, caller: Caller, services: Use) -> RetentionAnswer:
    """Set the retention of connections without their own. A shorter one takes effect after a day."""
    return RetentionAnswer.of(await services.retention.set_organisation(caller, body.retention()))


@router.get("/preview", responses=errors(403, 404))
async def preview_retention(
    caller: Caller,
    services: Use,
    recording_days: Days = None,
    session_days: Days = None,
    connection: Annotated[
        str | None, Query(description="Name or identifier; default: connections without their own retention")
    ] = None,
) -> PreviewAnswer:
    """Return what such a retention would purge now."""
    retention = Retention(recording_days, session_days)
    return PreviewAnswer.of(await services.retention.preview(caller, retention, connection))


@router.get("/purges", responses=errors(403))
async def list_purges(caller: Caller, services: Use, page: LongPaging) -> LongListAnswer[PurgeAnswer]:
    """List purges that have started and are not finished, oldest first, with their errors; for administrators and
    auditors."""
    stretch = await services.purges.find(caller, page)
    return make_long_list_answer([PurgeAnswer.of(item) for item in stretch.items], stretch)


@router.get("/connections", responses=errors(403))
async def list_retentions(caller: Caller, services: Use) -> RetentionsAnswer:
    """List the retentions of connections that have their own."""
    answers = [RetentionAnswer.of(retention_view) for retention_view in await services.retention.connections(caller)]
    return RetentionsAnswer(data=answers, total=len(answers), has_next_page=False)


@router.get("/connections/{nameOrID}", responses=errors(403, 404))
async def get_connection_retention(key: Key, caller: Caller, services: Use) -> RetentionAnswer:
    return RetentionAnswer.of(await services.retention.connection(caller, key))


@router.put("/connections/{nameOrID}", responses=errors(403, 404))
async def set_connection_retention(key: Key, body: RetentionRequest, caller: Caller, services: Use) -> RetentionAnswer:
    """Set a connection's own retention, which takes precedence over the organisation's, even if it is longer. It stays
    for its sessions if the connection is deleted. A shorter one takes effect after a day."""
    return RetentionAnswer.of(await services.retention.set_connection(caller, key, body.retention()))


@router.delete("/connections/{nameOrID}", responses=errors(403, 404))
async def remove_connection_retention(key: Key, caller: Caller, services: Use) -> RetentionAnswer:
    """Use the organisation's retention for the connection again. A shorter retention takes effect after a day."""
    return RetentionAnswer.of(await services.retention.set_connection(caller, key, None))
