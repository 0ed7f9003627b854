"""Tests of connections, and schemas of their targets, requested from the target now."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Address, Caller, Use
from postern.api.crud import Key
from postern.api.responses import errors
from postern.api.route import Route
from postern.api.schemas.targets.introspection_schemas import (
    ColumnsAnswer,
    ConnectionTestAnswer,
    DatabasesAnswer,
    TablesAnswer,
    WholeSchemaAnswer,
)
from postern.api.schemas.targets.preview_schemas import ScriptPreviewAnswer, ScriptPreviewRequest
from postern.domain.identity.principal import Principal
from postern.domain.sessions.script_parameters import check_parameters
from postern.domain.targets.target_task import TargetTaskKind
from postern.services.bundle import Services

router = APIRouter(prefix="/connections/{nameOrID}", tags=["Connections"], route_class=AuditedRoute)

# They only read.
previews = APIRouter(prefix="/connections/{nameOrID}", tags=["Connections"], route_class=Route)

_ERRORS = errors(403, 404, 429)
Database = Annotated[str | None, Query(description="Default: the connection's own database")]
Schema = Annotated[str | None, Query(description="Default: all schemas, or the one of a bare name")]


@router.get("/test", responses=_ERRORS)
async def test_connection(
    key: Key, request: Request, caller: Caller, services: Use, address: Address
) -> ConnectionTestAnswer:
    """Test a connection: log in to the target and run a query. 400 with the reason if that fails."""
    await _ask(request, services, caller, key, TargetTaskKind.TEST, {}, address)
    return ConnectionTestAnswer(success=True)


@router.get("/databases", responses=_ERRORS)
async def list_databases(
    key: Key, request: Request, caller: Caller, services: Use, address: Address
) -> DatabasesAnswer:
    """List the databases that the connection's user can connect to, by name."""
    databases = await _ask(request, services, caller, key, TargetTaskKind.DATABASES, {}, address)
    return DatabasesAnswer.model_validate(databases)


@router.get("/tables", responses=_ERRORS)
async def list_tables(
    key: Key,
    request: Request,
    caller: Caller,
    services: Use,
    address: Address,
    database: Database = None,
    schema: Schema = None,
) -> TablesAnswer:
    """List tables, by schema and name. The database's own schemas are left out unless one is requested."""
    arguments = {"database": database, "schema": schema}
    return TablesAnswer.model_validate(
        await _ask(request, services, caller, key, TargetTaskKind.TABLES, arguments, address)
    )


@router.get("/columns", responses=_ERRORS)
async def list_columns(
    key: Key,
    request: Request,
    caller: Caller,
    services: Use,
    address: Address,
    table: str,
    database: Database = None,
    schema: Schema = None,
) -> ColumnsAnswer:
    """List the columns of a table, in its own order. 404 if there is no such table."""
    arguments = {"database": database, "schema": schema, "table": table}
    return ColumnsAnswer.model_validate(
        await _ask(request, services, caller, key, TargetTaskKind.COLUMNS, arguments, address)
    )


@router.get(
    "/schema",
    responses={**errors(403, 404, 429), 304: {"description": "It has the ETag of If-None-Match"}},
    response_model=WholeSchemaAnswer,
)
async def get_schema(
    key: Key,
    request: Request,
    caller: Caller,
    services: Use,
    address: Address,
    database: Database = None,
    fresh: Annotated[
        bool, Query(description="Read it from the target now, instead of an answer of the last 30 seconds")
    ] = False,
    if_none_match: Annotated[str, Header(description="ETag of the answer that the client has")] = "",
) -> Response:
    """Return all schemas, tables and columns of a database in one answer of at most 5 MiB."""
    document = await services.schema_documents.get(
        caller, key, database, source=address, wait=request.app.state.target_task_wait, fresh=fresh
    )
    headers = {"ETag": document.etag, "Cache-Control": "private, no-cache"}
    if document.etag in {tag.strip().removeprefix("W/") for tag in if_none_match.split(",")}:
        return Response(status_code=304, headers=headers)
    return Response(document.content, headers=headers, media_type="application/json")


@previews.post("/preview", responses=errors(403, 404, 413, 429))
async def preview_script(
    key: Key, body: ScriptPreviewRequest, request: Request, caller: Caller, services: Use, address: Address
) -> ScriptPreviewAnswer:
    """Preview a script: what would be denied, held or warned about if it ran now, with the messages that its author
    would get, and the approvals that it needs first. Nothing runs, and neither a session nor an entry of the audit log
    is created. Rules about output are not previewed. At most 120 a minute for each caller."""
    return ScriptPreviewAnswer.of(
        await services.script_previews.preview(
            caller,
            key,
            body.script,
            database=body.database,
            parameters=check_parameters(body.parameters or {}),
            source=address,
            wait=request.app.state.target_task_wait,
        )
    )


async def _ask(
    request: Request,
    services: Services,
    caller: Principal,
    connection: str,
    kind: TargetTaskKind,
    arguments: dict[str, str | None],
    source: str,
) -> dict[str, Any]:
    wait: float = request.app.state.target_task_wait
    answer = await services.target_tasks.ask(caller, connection, kind, arguments, source=source, wait=wait)
    return {**answer.result, "truncated": answer.truncated}
