"""Where runbooks are read from."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.responses import errors
from postern.api.schemas.runbooks.runbook_schemas import (
    FileAnswer,
    FileRequest,
    RepositoriesAnswer,
    RepositoriesRequest,
    RepositoryAnswer,
    RepositoryRequest,
)

router = APIRouter(prefix="/runbooks/configurations", tags=["Runbooks"], route_class=AuditedRoute)

Key = Annotated[UUID, Path(alias="id", description="Of the repository: made of its git_url")]


@router.get("", responses=errors(403, 404))
async def get_runbook_configuration(caller: Caller, services: Use) -> RepositoriesAnswer:
    """By name, without their secrets; for administrators and auditors."""
    return RepositoriesAnswer.of(caller.org_id, await services.runbook_repositories.all(caller))


@router.put("", responses=errors(403, 409, 413))
async def replace_runbook_configuration(body: RepositoriesRequest, caller: Caller, services: Use) -> RepositoriesAnswer:
    """These repositories and no others. 400 when two of them are the same; 422 for an address or a key that cannot be
    used."""
    given = [one.fields() for one in body.repositories]
    return RepositoriesAnswer.of(caller.org_id, await services.runbook_repositories.replace(caller, given))


@router.post("", status_code=201, responses=errors(403, 409, 413, 429))
async def add_runbook_repository(body: RepositoryRequest, caller: Caller, services: Use) -> RepositoryAnswer:
    """One more. It is read as soon as somebody asks for runbooks."""
    return RepositoryAnswer.of(await services.runbook_repositories.add(caller, body.fields()))


@router.put("/{id}", responses=errors(403, 404, 409, 413))
async def update_runbook_repository(
    key: Key, body: RepositoryRequest, caller: Caller, services: Use
) -> RepositoryAnswer:
    """All settings of one become those given. 400 when `git_url` is another: that is another repository."""
    return RepositoryAnswer.of(await services.runbook_repositories.update(caller, key, body.fields()))


@router.delete("/{id}", status_code=204, responses=errors(403, 404))
async def remove_runbook_repository(key: Key, caller: Caller, services: Use) -> None:
    """With all that was read of it."""
    await services.runbook_repositories.remove(caller, key)


@router.post("/{id}/refresh", responses=errors(403, 404))
async def refresh_runbook_repository(key: Key, caller: Caller, services: Use) -> RepositoryAnswer:
    """Reads it now. `error` says why it could not be read; then what was read before is shown on."""
    return RepositoryAnswer.of(await services.runbook_repositories.refresh(caller, key))


@router.post("/{id}/files", status_code=201, responses=errors(403, 404, 409, 413))
async def write_runbook(key: Key, body: FileRequest, caller: Caller, services: Use) -> FileAnswer:
    """Commits a runbook with the caller as its author, and pushes it."""
    commit = await services.runbook_repositories.write(caller, key, body.fields())
    return FileAnswer(path=body.path, commit_sha=commit)
