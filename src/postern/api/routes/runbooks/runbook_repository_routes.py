"""Repositories of runbooks. Names of repositories contain slashes, and so does the path of one."""

from __future__ import annotations

from fastapi import APIRouter

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.crud import Key, ResourceRoutes
from postern.api.paging import Paging
from postern.api.responses import errors
from postern.api.rule_filter_query import NameFilter
from postern.api.schemas.runbooks.runbook_schemas import (
    FileAnswer,
    FileRequest,
    RepositoriesAnswer,
    RepositoriesRequest,
    RepositoryAnswer,
    RepositoryRequest,
)
from postern.domain.lists import Page
from postern.domain.rules.rule_filter import ALL_RULES
from postern.domain.runbook import MAX_REPOSITORIES

KEY = "{nameOrID:path}"

router = APIRouter(prefix="/runbooks/configurations", tags=["Runbooks"], route_class=AuditedRoute)


async def _list(caller: Caller, services: Use, page: Paging, where: NameFilter) -> RepositoriesAnswer:
    every = await services.runbook_repositories.find(caller, Page(MAX_REPOSITORIES))
    listed = await services.runbook_repositories.find(caller, page, where)
    return RepositoriesAnswer.of(caller.org_id, every.items, listed, page)


@router.put("", responses=errors(403, 409, 413))
async def replace_runbook_configuration(body: RepositoriesRequest, caller: Caller, services: Use) -> RepositoriesAnswer:
    """Replace all repositories. 400 if two of them have the same address; 422 for an unusable address or key."""
    repositories = [repository.fields() for repository in body.repositories]
    await services.runbook_repositories.replace_all(caller, repositories)
    return await _list(caller, services, Page(), ALL_RULES)


ResourceRoutes(
    path="",
    names=("runbook_repository", "runbook_repositories"),
    service=lambda services: services.runbook_repositories,
    request=RepositoryRequest,
    answer=RepositoryAnswer,
    texts={
        "create": "It is read when runbooks are next requested. Administrators and auditors can read repositories, "
        "without their secrets, also by address.",
        "update": "400 if `git_url` differs: that is a different repository.",
        "delete": "All data that was read from it is deleted.",
    },
    key=KEY,
    name_field="repository",
    own={"list": _list},
).add_to(router)


@router.post(f"/{KEY}/refresh", responses=errors(403, 404))
async def refresh_runbook_repository(key: Key, caller: Caller, services: Use) -> RepositoryAnswer:
    """Read a repository now. `error` says why it could not be read; then the data of the last successful read stays."""
    return RepositoryAnswer.of(await services.runbook_repositories.refresh(caller, key))


@router.post(f"/{KEY}/files", status_code=201, responses=errors(403, 404, 409, 413))
async def write_runbook(key: Key, body: FileRequest, caller: Caller, services: Use) -> FileAnswer:
    """Commit a runbook with the caller as its author, and push it."""
    commit = await services.runbook_repositories.commit(caller, key, body.fields())
    return FileAnswer(path=body.path, commit_sha=commit)
