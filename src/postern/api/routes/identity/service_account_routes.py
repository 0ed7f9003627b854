"""Service accounts: accounts of programs."""

from __future__ import annotations

from fastapi import APIRouter

from postern.api.audited import AuditedRoute
from postern.api.crud import ResourceRoutes
from postern.api.schemas.identity.program_schemas import (
    ServiceAccountAnswer,
    ServiceAccountChange,
    ServiceAccountRequest,
)

router = APIRouter(tags=["User Management"], route_class=AuditedRoute)
ResourceRoutes(
    path="/serviceaccounts",
    names=("service_account", "service_accounts"),
    service=lambda services: services.service_accounts,
    request=ServiceAccountRequest,
    change=ServiceAccountChange,
    answer=ServiceAccountAnswer,
    name_field="subject",
    texts={
        "create": "It authenticates with API keys: POST /api-keys with its subject as `service_account`.",
        "update": "An inactive account is denied everywhere at once, and its running sessions end.",
        "delete": "Its API keys are deleted, and its running sessions end.",
    },
).add_to(router)
