"""Tests of connections, and schemas of their targets, requested from the target now."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Address, Caller, Use
from postern.api.crud import Key
from postern.api.responses import errors
from postern.api.schemas.targets.introspection_schemas import (
    ColumnsAnswer,
    ConnectionTestAnswer,
    DatabasesAnswer,
    TablesAnswer,
)
from postern.domain.identity.principal import Principal
from postern.domain.targets.target_task import TargetTaskKind
from postern.services.bundle import Services

router = APIRouter(prefix="/connections/{nameOrID}", tags=["Connections"], route_class=AuditedRoute)

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
    found = await _ask(request, services, caller, key, TargetTaskKind.DATABASES, {}, address)
    return DatabasesAnswer.model_validate(found)


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
    given = {"database": database, "schema": schema}
    return TablesAnswer.model_validate(
        await _ask(request, services, caller, key, TargetTaskKind.TABLES, given, address)
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
    given = {"database": database, "schema": schema, "table": table}
    return ColumnsAnswer.model_validate(
        await _ask(request, services, caller, key, TargetTaskKind.COLUMNS, given, address)
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
