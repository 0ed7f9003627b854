"""The repositories of runbooks, as administrators configure them. Credentials are written and never read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from postern.domain.durations import duration_text
from postern.domain.identity.principal import Principal
from postern.domain.runbook import (
    MARK,
    MAX_FILE,
    MAX_REPOSITORIES,
    REPOSITORY_SECRETS,
    Repository,
    changed_at,
    repository_id,
    repository_name,
)
from postern.domain.secret import Secret
from postern.errors import Invalid, Malformed, NotFound
from postern.services.identity.users import require_admin
from postern.services.named_resources import ResourceService
from postern.services.runbooks.fetching import RepositoryFetcher
from postern.services.runbooks.library import RunbookLibrary
from postern.services.runbooks.repository_reading import SETTING
from postern.services.server.audit_context import record_change
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.runbook_ports import RepositoryStore

MAX_TTL = 30 * 24 * 3600  # seconds
_LONGEST = {
    "git_url": 2048,
    "git_user": 255,
    "ssh_user": 255,
    "branch": 255,
    "git_password": 10_000,
    "ssh_key": 100_000,
    "ssh_keypass": 10_000,
    "ssh_known_hosts": 100_000,
}
_MAX_NAME, _MAX_PATH, _MAX_MESSAGE = 512, 1024, 10_000
_AUDITED = ("id", "name", "git_url", "git_user", "ssh_user", "ssh_known_hosts", "branch", "hook_ttl")


@dataclass(frozen=True, slots=True)
class FileFields:
    path: str
    content: str
    message: str = ""
    overwrite: bool = False


class Repositories(ResourceService[Repository]):
    """A repository's identifier and name derive from its address, so a different address is a different repository.

    Secrets are written and never read: a replacement that leaves them out keeps them, and an empty one removes it.
    Changes are signalled, also those of what was read.
    """

    noun = "repository"
    preserved_fields = frozenset({*REPOSITORY_SECRETS, "updated_at"})

    def __init__(
        self, store: RepositoryStore, library: RunbookLibrary, fetcher: RepositoryFetcher, signals: Signals, now: Clock
    ) -> None:
        super().__init__(store, signals, now)
        self._repositories = store
        self._library = library
        self._fetcher = fetcher

    def blank(self, key: UUID, org_id: UUID) -> Repository:
        return Repository(org_id, "", "")

    async def existing(self, principal: Principal, name_or_id: str) -> Repository:
        """Return a repository, also by its address. Raises NotFound."""
        for key in (name_or_id, str(repository_id(name_or_id))):
            repository = await self._store.get(principal.org_id, key)
            if repository is not None:
                return repository
        raise NotFound(f"there is no repository {name_or_id!r}")

    async def resolve(self, current: Repository, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Resolve the fields. Raises Malformed when the address differs, Invalid."""
        url = fields.get("git_url", current.git_url)
        if current.name and repository_id(url) != current.id:
            raise Malformed(
                f"git_url: cannot be changed from {current.git_url}; add a repository with the new address, and remove "
                "this one",
                field="git_url",
            )
        return {**fields, "git_url": url, "name": _name_of(url)}

    async def check(self, resource: Repository) -> None:
        _check_fields(resource)
        await self._fetcher.check(resource)

    async def merge(self, current: Repository, base: Repository, fields: Mapping[str, Any]) -> Repository:
        """Merge the fields; new settings invalidate what was read under the old ones."""
        repository = await super().merge(current, base, fields)
        if not current.name:
            return repository
        same = replace(repository, updated_at=current.updated_at)
        return same if same == current else replace(repository, updated_at=changed_at(self._now(), current))

    async def announce(self, before: Repository | None, after: Repository | None) -> None:
        repository = after or before
        assert repository is not None, "a change has a state before or after"
        await self._publish(repository.org_id)

    def audit_view(self, resource: Repository) -> object:
        """Return the fields, and which secrets are set."""
        return {name: getattr(resource, name) for name in _AUDITED} | {"set": resource.secrets_set}

    async def replace_all(self, principal: Principal, new_fields: Sequence[Mapping[str, Any]]) -> None:
        """Replace all repositories. Raises Denied, Malformed when two are the same repository, Invalid, Conflict."""
        self.require_admin(principal)
        if len(new_fields) > MAX_REPOSITORIES:
            raise Invalid(f"repositories: at most {MAX_REPOSITORIES}", field="repositories")
        before = {repository.id: repository for repository in await self._store.all(principal.org_id)}
        after = []
        for position, fields in enumerate(new_fields):
            current = before.get(repository_id(fields["git_url"]))
            base = self.new(principal.org_id) if current is None else self.reset_fields(current)
            after.append(await self._merge_one_of(f"repositories[{position}].", current or base, base, fields))
        names = [item.name for item in after]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise Malformed(
                f"repositories: {twice} is listed more than once, perhaps with two addresses; leave one out"
            )
        await self._repositories.replace_all(principal.org_id, after, list(before.values()))
        await self._publish(principal.org_id)
        record_change(
            *({"repositories": [self.audit_view(item) for item in some]} for some in (before.values(), after))
        )

    async def _merge_one_of(
        self, where: str, current: Repository, base: Repository, fields: Mapping[str, Any]
    ) -> Repository:
        """Merge one of a list. Raises Invalid with its position."""
        try:
            return await self.merge(current, base, fields)
        except Invalid as error:
            raise Invalid(f"{where}{error.message}", field=error.field and f"{where}{error.field}") from None

    async def refresh(self, principal: Principal, name_or_id: str) -> Repository:
        """Read it now and return it with the result. Raises Denied, NotFound."""
        require_admin(principal, "refresh runbooks")
        repository = await self.existing(principal, name_or_id)
        await self._library.refresh(principal.org_id, repository.id)
        await self._publish(principal.org_id)
        return await self.existing(principal, str(repository.id))

    async def commit(self, principal: Principal, name_or_id: str, file: FileFields) -> str:
        """Commit a runbook with the principal as its author, and return the commit.

        Raises Denied, NotFound, Invalid, Conflict when the file exists and `overwrite` is not set, Unavailable.
        """
        require_admin(principal, "write runbooks")
        repository = await self.existing(principal, name_or_id)
        path = _checked_path(file.path)
        if len(file.content.encode()) > MAX_FILE:
            raise Invalid(f"content: at most {MAX_FILE} bytes", field="content")
        if len(file.message) > _MAX_MESSAGE:
            raise Invalid(f"commit_message: at most {_MAX_MESSAGE} characters", field="commit_message")
        author = f"{_plain(principal.name) or _plain(principal.email)} <{_plain(principal.email)}>"
        message = file.message or f"Add {path}"
        commit = await self._fetcher.write(repository, path, file.content, message, author, overwrite=file.overwrite)
        record_change(None, {"repository": repository.name, "path": path, "commit": commit})
        await self._library.refresh(principal.org_id, repository.id)
        return commit

    async def _publish(self, org_id: UUID) -> None:
        self._library.forget(org_id)
        await self._signals.publish(Topic.SETTINGS_CHANGED, name=SETTING, org_id=str(org_id))


def _name_of(git_url: str) -> str:
    """Return the repository's name. Raises Invalid."""
    try:
        name = repository_name(git_url)
    except ValueError:
        name = ""
    if not 1 <= len(name) <= _MAX_NAME or "/" not in name:
        raise Invalid("git_url: is not the address of a repository", field="git_url")
    return name


def _check_fields(repository: Repository) -> None:
    """Raise Invalid for a bad field."""
    for name, longest in _LONGEST.items():
        value = getattr(repository, name)
        text = value.reveal() if isinstance(value, Secret) else value
        if len(text) > longest:
            raise Invalid(f"{name}: at most {longest} characters", field=name)
        if name not in (*REPOSITORY_SECRETS, "ssh_known_hosts") and not text.isprintable():
            raise Invalid(f"{name}: must be printable", field=name)
    if not 0 <= repository.hook_ttl <= MAX_TTL:
        raise Invalid(f"git_hook_ttl: must be 0 to {MAX_TTL} seconds ({duration_text(MAX_TTL)})", field="git_hook_ttl")


def _checked_path(text: str) -> str:
    """Return the path from the root of the repository. Raises Invalid."""
    path = text.removeprefix("/")
    parts = path.split("/")
    odd = any(part in ("", ".", "..") or part.strip() != part or part.lower() == ".git" for part in parts)
    if odd or "\\" in path or ":" in path or len(path) > _MAX_PATH or not path.isprintable():
        raise Invalid(
            "path: must lead from the root of the repository to a file, for example ops/restart.runbook.sh",
            field="path",
        )
    if MARK not in parts[-1]:
        raise Invalid(
            f"path: the file's name must have {MARK!r} in it, as restart{MARK}sh; else it is not listed", field="path"
        )
    return path


def _plain(text: str) -> str:
    """Return the text without characters that a commit's author cannot have."""
    return "".join(character for character in text if character.isprintable() and character not in "<>").strip()
