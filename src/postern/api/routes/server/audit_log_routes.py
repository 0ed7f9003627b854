"""The audit log."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query

from postern.api.authentication_of_requests import Caller, Use
from postern.api.paging import LongListAnswer, LongPaging, make_long_list_answer
from postern.api.query_times import Moment
from postern.api.responses import errors
from postern.api.route import Route
from postern.api.schemas.server.server_schemas import AuditEntryAnswer
from postern.services.server.audit import AuditFilter

router = APIRouter(prefix="/audit/logs", tags=["Server Management"], route_class=Route)


@router.get("", responses=errors(403))
async def list_audit_logs(
    caller: Caller,
    services: Use,
    page: LongPaging,
    actor_subject: str | None = None,
    actor_email: str | None = None,
    action: Annotated[str | None, Query(description="create, update, delete, revoke, login and so on")] = None,
    resource_type: Annotated[str | None, Query(description="As in the path, such as connections/credentials")] = None,
    resource: Annotated[str | None, Query(description="Name or identifier, as in the request")] = None,
    http_method: str | None = None,
    http_path: str | None = None,
    http_status: Annotated[int | None, Query(ge=100, le=599)] = None,
    outcome: Literal["success", "failure"] | None = None,
    client_ip: str | None = None,
    created_after: Annotated[Moment | None, Query(description="At or after this time")] = None,
    created_before: Annotated[Moment | None, Query(description="At or before this time")] = None,
) -> LongListAnswer[AuditEntryAnswer]:
    """List the organisation's entries, newest first, for administrators and auditors."""
    wanted = AuditFilter(
        actor_subject=actor_subject,
        actor_email=actor_email,
        action=action,
        resource_type=resource_type,
        resource=resource,
        method=http_method,
        path=http_path,
        status=http_status,
        outcome=outcome,
        source=client_ip,
        created_after=created_after,
        created_before=created_before,
    )
    found = await services.audit.find(caller, wanted, page)
    return make_long_list_answer([AuditEntryAnswer.of(entry) for entry in found.items], found)


@router.get("/{id}", responses=errors(403, 404))
async def get_audit_log(id: str, caller: Caller, services: Use) -> AuditEntryAnswer:  # noqa: A002 - the API's name
    return AuditEntryAnswer.of(await services.audit.get(caller, id))
