"""Bodies of runbooks and their repositories."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from pydantic import Field

from postern.api.paging import ListAnswer, make_list_answer
from postern.api.schemas.common import Answer, Body, NamedResourceAnswer, ResourceBody, secret
from postern.domain.lists import Listed, Page
from postern.domain.runbook import REPOSITORY_SECRETS, Repository
from postern.domain.secret import Secret
from postern.services.runbooks.parsed import metadata_of
from postern.services.runbooks.repositories import FileFields
from postern.services.runbooks.runbook_listing import ListedShelf, RunbookEntry

_PIECE = 100_000  # characters, at least
_TOGETHER = 50  # runbooks, at most
_AGE = "Time of the last successful read; null before the first"


class ParameterAnswer(Answer):
    """A parameter of a template."""

    description: str = ""
    required: bool = False
    type: str = "text"
    default: str | None = None
    options: list[str] | None = Field(None, description="Options of a `select`")
    placeholder: str | None = None
    pattern: str | None = Field(None, description="RE2 expression that the value must match")
    minlength: int | None = None
    maxlength: int | None = None
    order: int | None = None
    asenv: str | None = Field(None, description="The value is passed in this environment variable, not in the text")


class RunbookItem(Answer):
    name: str = Field(description="From the root of the repository: /path/to/file.runbook.<ext>")
    metadata: dict[str, ParameterAnswer] = Field(description="By the parameter's name")
    error: str | None = Field(description="Why it cannot run")
    connections: list[str] | None = Field(None, description="With `list_connections`: where you can run it")


class RepositoryItem(Answer):
    repository: str = Field(description="host/owner/repository")
    commit: str
    commit_author: str
    commit_message: str
    fetched_at: datetime | None = Field(description=_AGE)
    items: list[RunbookItem]


class RunbookListV2(Answer):
    errors: list[str] = Field(description="Errors of repositories that could not be read")
    repositories: list[RepositoryItem]


class RunbookAnswer(RunbookItem):
    repository: str
    commit: str
    text: str | None = Field(description="The template; null if the file is not one, which `error` explains")
    connections: list[str] = Field(description="Where you can run it")

    @classmethod
    def of(cls, entry: RunbookEntry) -> RunbookAnswer:
        runbook = entry.runbook
        return cls(
            name=runbook.name,
            metadata={
                name: ParameterAnswer(**attributes) for name, attributes in metadata_of(runbook.parameters).items()
            },
            error=runbook.error or None,
            connections=list(entry.connections),
            repository=runbook.repository,
            commit=runbook.commit,
            text=runbook.text,
        )


def list_as_json(shelves: Sequence[ListedShelf], *, with_connections: bool) -> Iterator[str]:
    """Yield a RunbookListV2 in pieces. The parts that are the same for all users were serialised when the repository
    was read."""
    piece: list[str] = []
    size = 0
    for text in _list_as_json(shelves, _NamesAsJson() if with_connections else None):
        piece.append(text)
        size += len(text)
        if size >= _PIECE:
            yield "".join(piece)
            piece, size = [], 0
    yield "".join(piece)


def _list_as_json(shelves: Sequence[ListedShelf], names_as_json: _NamesAsJson | None) -> Iterator[str]:
    errors = [_error_of(listed_shelf) for listed_shelf in shelves if listed_shelf.shelf.error]
    yield f'{{"errors":{json.dumps(errors)},"repositories":['
    between = ""
    for shelf in shelves:
        books = shelf.shelf.books
        if books is None:
            continue
        age = json.dumps(shelf.shelf.fetched_at and shelf.shelf.fetched_at.isoformat())
        yield f'{between}{books.listed},"fetched_at":{age},"items":['
        between = ""
        for part in shelf.parts:
            end = "}" if names_as_json is None else f',"connections":{names_as_json(part.connections)}}}'
            for at in range(0, len(part.runbooks), _TOGETHER):
                some = [each.listed for each in part.runbooks[at : at + _TOGETHER]]
                yield between + f"{end},".join(some) + end
                between = ","
        yield "]}"
        between = ","
    yield "]}"


class _NamesAsJson:
    """A cache of connection names as JSON: most parts share theirs with others."""

    def __init__(self) -> None:
        self._known: dict[int, str] = {}

    def __call__(self, names: tuple[str, ...]) -> str:
        text = self._known.get(id(names))
        if text is None:
            text = self._known[id(names)] = json.dumps(names)
        return text


def _error_of(listed_shelf: ListedShelf) -> str:
    shelf = listed_shelf.shelf
    age = "" if shelf.books is None or shelf.fetched_at is None else f" (shown as it was at {shelf.fetched_at:%FT%TZ})"
    return f"{shelf.outline.name}: {shelf.error}{age}"


class RepositoryRequest(ResourceBody):
    """A repository. A secret that is left out, or null, keeps its value for the same `git_url`; an empty one is
    removed."""

    read_only = ResourceBody.read_only | {
        *("name", "repository", "secrets_set"),
        *("commit", "fetched_at", "tried_at", "error"),
    }

    git_url: str = Field(description="https://…, ssh://… or user@host:path")
    git_user: str | None = None
    git_password: str | None = Field(
        None, description="Or a token. Never shown", json_schema_extra=secret("secrets_set")
    )
    ssh_user: str | None = Field(None, description="Default: `git`")
    ssh_key: str | None = Field(None, description="A private key. Never shown", json_schema_extra=secret("secrets_set"))
    ssh_keypass: str | None = Field(
        None, description="Passphrase of the key. Never shown", json_schema_extra=secret("secrets_set")
    )
    ssh_known_hosts: str | None = Field(None, description="The server's host keys, as lines of a known_hosts file")
    branch: str | None = Field(None, alias="git_branch", description="Default: the repository's own")
    hook_ttl: int | None = Field(
        None,
        alias="git_hook_ttl",
        description="Seconds for which its session hooks stay in force after a read; 0 disables them",
    )

    def fields(self) -> dict[str, Any]:
        return {
            name: Secret(value) if name in REPOSITORY_SECRETS else value for name, value in super().fields().items()
        }


class RepositoriesRequest(Body):
    read_only: ClassVar[frozenset[str]] = frozenset(
        {"id", "org_id", "created_at", "updated_at", "data", "total", "has_next_page"}
    )

    repositories: list[RepositoryRequest]


class RepositoryAnswer(NamedResourceAnswer):
    id: UUID = Field(description="Derived from git_url: the version 5 UUID of its URL namespace")
    repository: str = Field(validation_alias="name", description="Name: host/owner/repository")
    git_url: str
    git_user: str
    ssh_user: str
    ssh_known_hosts: str
    git_branch: str = Field(validation_alias="branch")
    git_hook_ttl: int = Field(validation_alias="hook_ttl")
    secrets_set: list[str] = Field(description="Which of git_password, ssh_key and ssh_keypass are set")
    commit: str | None
    fetched_at: datetime | None = Field(description=_AGE)
    tried_at: datetime | None
    error: str = Field(description="Error of the last read; empty if it succeeded")
    created_at: datetime | None
    updated_at: datetime | None


class RepositoriesAnswer(ListAnswer[RepositoryAnswer]):
    id: UUID = Field(description="The organisation's: it has one configuration")
    org_id: UUID
    repositories: list[RepositoryAnswer] = Field(description="All of them: PUT replaces these")
    created_at: datetime | None
    updated_at: datetime | None

    @classmethod
    def of(
        cls, org_id: UUID, repositories: Sequence[Repository], listed: Listed[Repository], page: Page
    ) -> RepositoriesAnswer:
        """Return the page; `listed` are its items."""
        answers = [RepositoryAnswer.of(repository) for repository in repositories]
        listing = dict(make_list_answer([RepositoryAnswer.of(item) for item in listed.items], listed, page))
        times = [answer.created_at for answer in answers if answer.created_at]
        changed = [answer.updated_at for answer in answers if answer.updated_at]
        first, last = min(times, default=None), max(changed, default=None)
        return cls(id=org_id, org_id=org_id, repositories=answers, created_at=first, updated_at=last, **listing)


class FileRequest(Body):
    path: str = Field(description="From the root of the repository, with `.runbook.` in the file's name")
    content: str
    commit_message: str = ""
    overwrite: bool = Field(False, description="Whether to overwrite an existing file; else 409")

    def fields(self) -> FileFields:
        return FileFields(self.path, self.content, self.commit_message, self.overwrite)


class FileAnswer(Answer):
    path: str
    commit_sha: str
