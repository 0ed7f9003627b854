"""Runbooks that the caller may run."""

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

_CONNECTION = "Only runbooks that may be run on the connection of this name or identifier"
_LIST = {"model": RunbookListV2, "description": "As it was read last; what could not be read is in `errors`"}


@router.get("", responses={**errors(404), 200: _LIST})
async def list_runbooks(
    caller: Caller,
    services: Use,
    connection_name: Annotated[str | None, Query(description=_CONNECTION)] = None,
    connection: Annotated[str | None, Query(description="The same as connection_name")] = None,
    list_connections: Annotated[bool, Query(description="Show where you may run each")] = False,
    remove_empty_connections: Annotated[
        bool, Query(description="Leave out runbooks that you can run on no connection")
    ] = True,
) -> Response:
    """By repository and path. 404 while no repository is configured."""
    wanted = connection if connection_name is None else connection_name
    shelves = await services.runbook_listing.find(caller, wanted, with_empty=not remove_empty_connections)
    # Not by the model: there may be thousands of them, most of each written already when it was read.
    pieces = list_as_json(shelves, with_connections=list_connections)
    return StreamingResponse(_one_after_the_other(pieces), media_type="application/json")


@router.get("/file", responses=errors(404), response_model_exclude_unset=True)
async def get_runbook(
    caller: Caller,
    services: Use,
    name: Annotated[str, Query(description="From the root of the repository")],
    repository: Annotated[
        str, Query(description="Name, address or identifier; may be left out when there is one only")
    ] = "",
) -> RunbookAnswer:
    """One runbook with its text; 404, too, when you may run it nowhere."""
    return RunbookAnswer.of(await services.runbook_listing.get(caller, repository, name))


async def _one_after_the_other(pieces: Iterator[str]) -> AsyncIterator[str]:
    """Others have their turn between two of them."""
    for piece in pieces:
        yield piece
        await asyncio.sleep(0)
