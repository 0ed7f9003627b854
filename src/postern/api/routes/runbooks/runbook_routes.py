"""Runbooks that the caller can run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Annotated

from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.responses import errors
from postern.api.schemas.runbooks.runbook_schemas import RunbookAnswer, RunbookListV2, list_as_json

router = APIRouter(prefix="/runbooks", tags=["Runbooks"], route_class=AuditedRoute)

_CONNECTION = "Only runbooks that can run on the connection of this name or identifier"
_LIST = {
    "model": RunbookListV2,
    "description": "The last successful read; repositories that could not be read are in `errors`",
}


@router.get("", responses={**errors(404), 200: _LIST})
async def list_runbooks(
    caller: Caller,
    services: Use,
    connection_name: Annotated[str | None, Query(description=_CONNECTION)] = None,
    connection: Annotated[str | None, Query(description="Like connection_name")] = None,
    search: Annotated[
        str | None, Query(max_length=256, description="Only runbooks with this text in their path, ignoring case")
    ] = None,
    list_connections: Annotated[bool, Query(description="Include the connections where you can run each")] = False,
    remove_empty_connections: Annotated[
        bool, Query(description="Leave out runbooks that you cannot run on any connection")
    ] = True,
) -> Response:
    """List runbooks, by repository and path. 404 if no repository is configured."""
    connection_key = connection if connection_name is None else connection_name
    shelves = await services.runbook_listing.find(
        caller, connection_key, search, with_empty=not remove_empty_connections
    )
    # Not by the model: there can be thousands, and most of each was serialised when it was read.
    pieces = list_as_json(shelves, with_connections=list_connections)
    return StreamingResponse(_one_after_the_other(pieces), media_type="application/json")


@router.get("/file", responses=errors(404), response_model_exclude_unset=True)
async def get_runbook(
    caller: Caller,
    services: Use,
    name: Annotated[str, Query(description="Path from the root of the repository")],
    repository: Annotated[str, Query(description="Name, address or identifier; default: the only repository")] = "",
) -> RunbookAnswer:
    """Return a runbook with its text; 404 also if the caller cannot run it on any connection."""
    return RunbookAnswer.of(await services.runbook_listing.get(caller, repository, name))


async def _one_after_the_other(pieces: Iterator[str]) -> AsyncIterator[str]:
    """Let other tasks run between two items."""
    for piece in pieces:
        yield piece
        await asyncio.sleep(0)
