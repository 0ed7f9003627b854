"""Tests of connections, and the schemas of their targets: asked of the target itself, now."""

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
Database = Annotated[str | None, Query(description="The connection's own when it is left out")]
Schema = Annotated[str | None, Query(description="All, or what a bare name means, when it is left out")]


@router.get("/test", responses=_ERRORS)
async def test_connection(
    key: Key, request: Request, caller: Caller, services: Use, address: Address
) -> ConnectionTestAnswer:
    """Logs in to the target and asks it something. 400 with the reason when that fails."""
    await _ask(request, services, caller, key, TargetTaskKind.TEST, {}, address)
    return ConnectionTestAnswer(success=True)


@router.get("/databases", responses=_ERRORS)
async def list_databases(
    key: Key, request: Request, caller: Caller, services: Use, address: Address
) -> DatabasesAnswer:
    """Those that the connection's user may connect to, by name."""
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
    """By schema and name. The database's own schemas are left out unless one is asked for."""
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
    """Of one table, in its own order. 404 when there is no such table."""
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
