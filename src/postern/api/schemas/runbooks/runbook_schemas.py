"""Runbooks and the repositories that they are read from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import ClassVar
from uuid import UUID

from pydantic import Field

from postern.api.schemas.common import Answer, Body
from postern.domain.secret import Secret
from postern.services.runbooks.parsed import metadata_of
from postern.services.runbooks.repositories import FileFields, RepositoryFields, RepositoryView
from postern.services.runbooks.runbook_listing import Entry, ListedShelf

_PIECE = 100_000  # characters, at least
_TOGETHER = 50  # runbooks, at most
_AGE = "When what is shown was read; null before it was read once"


class ParameterAnswer(Answer):
    """What a template asks for."""

    description: str = ""
    required: bool = False
    type: str = "text"
    default: str | None = None
    options: list[str] | None = Field(None, description="What a `select` takes")
    placeholder: str | None = None
    pattern: str | None = Field(None, description="What the value must contain (RE2)")
    minlength: int | None = None
    maxlength: int | None = None
    order: int | None = None
    asenv: str | None = Field(None, description="The value goes into this environment variable, not into the text")


class RunbookItem(Answer):
    name: str = Field(description="From the root of the repository: /path/to/file.runbook.<ext>")
    metadata: dict[str, ParameterAnswer] = Field(description="By the parameter's name")
    error: str | None = Field(description="Why it cannot run")
    connections: list[str] | None = Field(None, description="With `list_connections`: where you may run it")


class RepositoryItem(Answer):
    repository: str = Field(description="host/owner/repository")
    commit: str
    commit_author: str
    commit_message: str
    fetched_at: datetime | None = Field(description=_AGE)
    items: list[RunbookItem]


class RunbookListV2(Answer):
    errors: list[str] = Field(description="What kept repositories from being read")
    repositories: list[RepositoryItem]


class RunbookAnswer(RunbookItem):
    repository: str
    commit: str
    text: str | None = Field(description="The template; null where the file is none, which `error` explains")
    connections: list[str] = Field(description="Where you may run it")

    @classmethod
    def of(cls, entry: Entry) -> RunbookAnswer:
        one = entry.runbook
        return cls(
            name=one.name,
            metadata={name: ParameterAnswer(**shown) for name, shown in metadata_of(one.parameters).items()},
            error=one.error or None,
            connections=list(entry.connections),
            repository=one.repository,
            commit=one.commit,
            text=one.text,
        )


def list_as_json(shelves: Sequence[ListedShelf], *, with_connections: bool) -> Iterator[str]:
    """A RunbookListV2, in pieces. What is the same for everybody was written when the repository was read."""
    piece: list[str] = []
    size = 0
    for text in _list_as_json(shelves, _Told() if with_connections else None):
        piece.append(text)
        size += len(text)
        if size >= _PIECE:
            yield "".join(piece)
            piece, size = [], 0
    yield "".join(piece)


def _list_as_json(shelves: Sequence[ListedShelf], told: _Told | None) -> Iterator[str]:
    errors = [_error_of(one) for one in shelves if one.shelf.error]
    yield f'{{"errors":{json.dumps(errors)},"repositories":['
    between = ""
    for one in shelves:
        books = one.shelf.books
        if books is None:
            continue
        age = json.dumps(one.shelf.fetched_at and one.shelf.fetched_at.isoformat())
        yield f'{between}{books.listed},"fetched_at":{age},"items":['
        between = ""
        for part in one.parts:
            end = "}" if told is None else f',"connections":{told(part.connections)}}}'
            for at in range(0, len(part.runbooks), _TOGETHER):
                some = [each.listed for each in part.runbooks[at : at + _TOGETHER]]
                yield between + f"{end},".join(some) + end
                between = ","
        yield "]}"
        between = ","
    yield "]}"


class _Told:
    """Names of connections as JSON: most parts share theirs with others."""

    def __init__(self) -> None:
        self._known: dict[int, str] = {}

    def __call__(self, names: tuple[str, ...]) -> str:
        text = self._known.get(id(names))
        if text is None:
            text = self._known[id(names)] = json.dumps(names)
        return text


def _error_of(one: ListedShelf) -> str:
    shelf = one.shelf
    age = "" if shelf.books is None or shelf.fetched_at is None else f" (shown as it was at {shelf.fetched_at:%FT%TZ})"
    return f"{shelf.outline.name}: {shelf.error}{age}"


class RepositoryRequest(Body):
    """A secret that is left out, or null, stays what it is for the very same `git_url`; an empty one is taken away."""

    read_only: ClassVar[frozenset[str]] = frozenset(
        {"id", "repository", "secrets_set", "commit", "fetched_at", "tried_at", "error", "created_at", "updated_at"}
    )

    git_url: str = Field(description="https://…, ssh://… or user@host:path")
    git_user: str = ""
    git_password: str | None = Field(None, description="Or a token. Never shown again")
    ssh_user: str = Field("", description="`git` when left out")
    ssh_key: str | None = Field(None, description="A private key. Never shown again")
    ssh_keypass: str | None = Field(None, description="What the key is encrypted by. Never shown again")
    ssh_known_hosts: str = Field("", description="The server's keys, as lines of a known_hosts file")
    git_branch: str = Field("", description="The repository's own when left out")
    git_hook_ttl: int = Field(0, description="Seconds for which its session hooks are good; 0 switches them off")

    def fields(self) -> RepositoryFields:
        return RepositoryFields(
            git_url=self.git_url,
            git_user=self.git_user,
            git_password=_secret(self.git_password),
            ssh_user=self.ssh_user,
            ssh_key=_secret(self.ssh_key),
            ssh_keypass=_secret(self.ssh_keypass),
            ssh_known_hosts=self.ssh_known_hosts,
            branch=self.git_branch,
            hook_ttl=self.git_hook_ttl,
        )


class RepositoriesRequest(Body):
    read_only: ClassVar[frozenset[str]] = frozenset({"id", "org_id", "created_at", "updated_at"})

    repositories: list[RepositoryRequest]


class RepositoryAnswer(Answer):
    id: UUID = Field(description="Made of git_url: the version 5 UUID of its URL namespace")
    repository: str = Field(description="host/owner/repository")
    git_url: str
    git_user: str
    ssh_user: str
    ssh_known_hosts: str
    git_branch: str
    git_hook_ttl: int
    secrets_set: list[str] = Field(description="Which of git_password, ssh_key and ssh_keypass it has")
    commit: str | None
    fetched_at: datetime | None = Field(description=_AGE)
    tried_at: datetime | None
    error: str = Field(description="Why it could not be read last; empty when it could")
    created_at: datetime | None
    updated_at: datetime | None

    @classmethod
    def of(cls, view: RepositoryView) -> RepositoryAnswer:
        one, outline = view.repository, view.outline
        return cls(
            id=one.id,
            repository=one.name,
            git_url=one.git_url,
            git_user=one.git_user,
            ssh_user=one.ssh_user,
            ssh_known_hosts=one.ssh_known_hosts,
            git_branch=one.branch,
            git_hook_ttl=one.hook_ttl,
            secrets_set=one.secrets_set,
            commit=outline.commit,
            fetched_at=outline.fetched_at,
            tried_at=outline.tried_at,
            error=outline.error,
            created_at=one.created_at,
            updated_at=one.updated_at,
        )


class RepositoriesAnswer(Answer):
    id: UUID = Field(description="The organisation's: it has one configuration")
    org_id: UUID
    repositories: list[RepositoryAnswer]
    created_at: datetime | None
    updated_at: datetime | None

    @classmethod
    def of(cls, org_id: UUID, views: Sequence[RepositoryView]) -> RepositoriesAnswer:
        shown = [RepositoryAnswer.of(view) for view in views]
        made = [one.created_at for one in shown if one.created_at]
        changed = [one.updated_at for one in shown if one.updated_at]
        first, last = min(made, default=None), max(changed, default=None)
        return cls(id=org_id, org_id=org_id, repositories=shown, created_at=first, updated_at=last)


class FileRequest(Body):
    path: str = Field(description="From the root of the repository, with `.runbook.` in the file's name")
    content: str
    commit_message: str = ""
    overwrite: bool = Field(False, description="Else a file that is there is left alone, and answered by 409")

    def fields(self) -> FileFields:
        return FileFields(self.path, self.content, self.commit_message, self.overwrite)


class FileAnswer(Answer):
    path: str
    commit_sha: str


def _secret(given: str | None) -> Secret | None:
    return None if given is None else Secret(given)
