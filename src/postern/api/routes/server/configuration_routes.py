"""What a configuration in files can have, for `postern export` and `postern apply`."""

from __future__ import annotations

from functools import cache
from typing import Any

from fastapi import APIRouter

from postern.api.authentication_of_requests import Caller
from postern.api.resource_kinds import KINDS
from postern.api.responses import errors
from postern.api.route import Route
from postern.api.schemas.server.configuration_schemas import ResourceKindAnswer

router = APIRouter(prefix="/configuration", tags=["Server Management"], route_class=Route)


@router.get("/kinds", responses=errors())
async def list_resource_kinds(_caller: Caller) -> list[ResourceKindAnswer]:
    """List the kinds of resources, with the JSON Schema of what files say about each."""
    return [ResourceKindAnswer.model_validate(kind) for kind in described_kinds()]


@cache
def described_kinds() -> list[dict[str, Any]]:
    return [kind.describe() for kind in KINDS.values()]
