"""The audit log."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query

from postern.api.authentication_of_requests import Caller, Use
from postern.api.paging import FacetsAnswer, LongListAnswer, LongPaging, make_long_list_answer
from postern.api.query_times import Moment
from postern.api.query_words import words
from postern.api.responses import errors
from postern.api.route import Route
from postern.api.schemas.server.server_schemas import AuditEntryAnswer
from postern.services.server.audit import AuditFacet, AuditFilter

router = APIRouter(prefix="/audit/logs", tags=["Server Management"], route_class=Route)


async def _filters(
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
) -> AuditFilter:
    return AuditFilter(
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


Filters = Annotated[AuditFilter, Depends(_filters)]


@router.get("", responses=errors(403))
async def list_audit_logs(
    caller: Caller, services: Use, page: LongPaging, audit_filter: Filters
) -> LongListAnswer[AuditEntryAnswer]:
    """List the organisation's entries, newest first, for administrators and auditors."""
    stretch = await services.audit.find(caller, audit_filter, page)
    return make_long_list_answer([AuditEntryAnswer.of(entry) for entry in stretch.items], stretch)


@router.get("/facets", responses=errors(403))
async def count_audit_facets(
    caller: Caller,
    services: Use,
    audit_filter: Filters,
    fields: Annotated[
        list[str] | None,
        Query(description=f"{', '.join(AuditFacet)}; repeated, or separated by commas; default: all"),
    ] = None,
) -> FacetsAnswer:
    """Count the values of fields over the entries of a period that the filters select, for administrators and
    auditors."""
    names = [AuditFacet(name) for name in words("fields", fields, tuple(AuditFacet))] or list(AuditFacet)
    return FacetsAnswer.of(await services.audit.facets(caller, audit_filter, names))


@router.get("/{id}", responses=errors(403, 404))
async def get_audit_log(id: str, caller: Caller, services: Use) -> AuditEntryAnswer:  # noqa: A002 - the API's name
    return AuditEntryAnswer.of(await services.audit.get(caller, id))
