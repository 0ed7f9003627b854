"""The form of events for sinks."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller
from postern.api.responses import errors
from postern.api.schemas.server.event_schemas import event_schemas

router = APIRouter(prefix="/events", tags=["Server Management"], route_class=AuditedRoute)


@router.get("/schemas", responses=errors())
async def get_event_schemas(caller: Caller) -> dict[str, dict[str, Any]]:
    """Return a JSON Schema (draft 2020-12) for each kind of event, in the form of a webhook. For all users."""
    return event_schemas()
