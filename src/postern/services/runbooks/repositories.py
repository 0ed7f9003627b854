"""The repositories that runbooks are read from, as administrators configure them. Credentials go in and never out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any
from uuid import UUID

from postern.domain.identity.principal import Principal
from postern.domain.runbook import MARK, MAX_FILE, Repository, changed_at, repository_id, repository_name
from postern.domain.secret import Secret
from postern.errors import Invalid, Malformed, NotFound
from postern.services.identity.users import require_admin, require_reader
from postern.services.runbooks.fetching import Fetcher
from postern.services.runbooks.library import NO_REPOSITORY, Library
from postern.services.runbooks.repository_reading import SETTING
from postern.services.server.trail import changed
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.runbook_ports import Outline, RepositoryStore

MAX_REPOSITORIES = 20
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
_DEED = "change where runbooks are read from"
_SECRETS = ("git_password", "ssh_key", "ssh_keypass")


@dataclass(frozen=True, slots=True)
class RepositoryFields:
    """What a writer sets. A secret of None keeps what the same address has already, an empty one is none."""

    git_url: str
    git_user: str = ""
    git_password: Secret | None = None
    ssh_user: str = ""
    ssh_key: Secret | None = None
    ssh_keypass: Secret | None = None
    ssh_known_hosts: str = ""
    branch: str = ""
    hook_ttl: int = 0


@dataclass(frozen=True, slots=True)
class RepositoryView:
    """A repository, and what is known of what was read of it."""

    repository: Repository
    outline: Outline


@dataclass(frozen=True, slots=True)
class FileFields:
    path: str
    content: str
    message: str = ""
    overwrite: bool = False


class Repositories:
    """What changes is published, also what one has read."""

    def __init__(
        self, store: RepositoryStore, library: Library, fetcher: Fetcher, signals: Signals, now: Clock
    ) -> None:
        self._store = store
        self._library = library
        self._fetcher = fetcher
        self._signals = signals
        self._now = now

    async def all(self, principal: Principal) -> list[RepositoryView]:
        """By name. Raises Denied, NotFound where there is none."""
        require_reader(principal, "where runbooks are read from")
        views = await self._views(principal.org_id)
        if not views:
            raise NotFound(NO_REPOSITORY)
        return views

    async def replace(self, principal: Principal, given: Sequence[RepositoryFields]) -> list[RepositoryView]:
        """These and no others. Raises Denied, Malformed when two are the same repository, Invalid, Conflict."""
        require_admin(principal, _DEED)
        if len(given) > MAX_REPOSITORIES:
            raise Invalid(f"repositories: {MAX_REPOSITORIES} at most", field="repositories")
        before = {one.id: one for one in await self._store.all(principal.org_id)}
        after = []
        for position, fields in enumerate(given):
            current = before.get(repository_id(fields.git_url))
            after.append(await self._merged(principal.org_id, fields, current, f"repositories[{position}]."))
        names = [one.name for one in after]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise Malformed(f"repositories: {twice} is there more than once, perhaps by two addresses; leave one out")
        await self._store.replace(principal.org_id, after, list(before.values()))
        await self._publish(principal)
        changed({"repositories": list(map(_shown, before.values()))}, {"repositories": list(map(_shown, after))})
        return await self._views(principal.org_id)

    async def add(self, principal: Principal, given: RepositoryFields) -> RepositoryView:
        """Raises Denied, Invalid, Conflict, TooMany."""
        require_admin(principal, _DEED)
        repository = await self._merged(principal.org_id, given, None)
        await self._store.add(repository, MAX_REPOSITORIES)
        await self._publish(principal)
        changed(None, _shown(repository))
        return await self._view(principal.org_id, repository.id)

    async def update(self, principal: Principal, repository_id_: UUID, given: RepositoryFields) -> RepositoryView:
        """All settings become those given. Raises Denied, NotFound, Malformed when the address is another, which would
        be another repository; Invalid."""
        require_admin(principal, _DEED)
        current = await self._existing(principal.org_id, repository_id_)
        if repository_id(given.git_url) != current.id:
            raise Malformed(
                f"git_url: this is the repository {current.git_url}; add one with the other address, and remove this",
                field="git_url",
            )
        repository = await self._merged(principal.org_id, given, current)
        await self._store.update(repository, current)
        await self._publish(principal)
        changed(_shown(current), _shown(repository))
        return await self._view(principal.org_id, repository.id)

    async def remove(self, principal: Principal, repository_id_: UUID) -> None:
        """With what was read of it. Raises Denied, NotFound."""
        require_admin(principal, _DEED)
        current = await self._existing(principal.org_id, repository_id_)
        await self._store.remove(principal.org_id, repository_id_)
        self._library.forget(principal.org_id)
        await self._publish(principal)
        changed(_shown(current), None)

    async def refresh(self, principal: Principal, repository_id_: UUID) -> RepositoryView:
        """Reads it now; what came of it is in the answer. Raises Denied, NotFound."""
        require_admin(principal, "have runbooks read")
        await self._library.refresh(principal.org_id, repository_id_)
        await self._publish(principal)
        return await self._view(principal.org_id, repository_id_)

    async def write(self, principal: Principal, repository_id_: UUID, given: FileFields) -> str:
        """The commit that has the runbook now, with the principal as its author. Raises Denied, NotFound, Invalid,
        Conflict when it is there and is not to be overwritten, Unavailable."""
        require_admin(principal, "write runbooks")
        repository = await self._existing(principal.org_id, repository_id_)
        path = _checked_path(given.path)
        if len(given.content.encode()) > MAX_FILE:
            raise Invalid(f"content: {MAX_FILE} bytes at most", field="content")
        if len(given.message) > _MAX_MESSAGE:
            raise Invalid(f"commit_message: {_MAX_MESSAGE} characters at most", field="commit_message")
        author = f"{_plain(principal.name) or _plain(principal.email)} <{_plain(principal.email)}>"
        message = given.message or f"Add {path}"
        commit = await self._fetcher.write(repository, path, given.content, message, author, overwrite=given.overwrite)
        changed(None, {"repository": repository.name, "path": path, "commit": commit})
        await self._library.refresh(principal.org_id, repository_id_)
        return commit

    async def _publish(self, principal: Principal) -> None:
        await self._signals.publish(Topic.SETTINGS_CHANGED, name=SETTING, org_id=str(principal.org_id))

    async def _existing(self, org_id: UUID, repository_id_: UUID) -> Repository:
        found = await self._store.get(org_id, repository_id_)
        if found is None:
            raise NotFound(f"there is no repository {repository_id_}")
        return found

    async def _views(self, org_id: UUID) -> list[RepositoryView]:
        repositories = {one.id: one for one in await self._store.all(org_id)}
        outlines = await self._library.outlines(org_id)
        return [RepositoryView(repositories[one.id], one) for one in outlines if one.id in repositories]

    async def _view(self, org_id: UUID, repository_id_: UUID) -> RepositoryView:
        for view in await self._views(org_id):
            if view.repository.id == repository_id_:
                return view
        raise NotFound(f"there is no repository {repository_id_} any more")

    async def _merged(
        self, org_id: UUID, given: RepositoryFields, current: Repository | None, where: str = ""
    ) -> Repository:
        """`current` has the very same address: what it has of secrets goes nowhere else. Raises Invalid."""
        now = self._now()
        _check(given, where)
        try:
            name = repository_name(given.git_url)
        except ValueError:
            name = ""
        if not 1 <= len(name) <= _MAX_NAME or "/" not in name:
            raise Invalid(f"{where}git_url: is not the address of a repository", field=f"{where}git_url")
        made = Repository(
            org_id,
            given.git_url,
            name,
            git_user=given.git_user,
            git_password=_kept(given, current, "git_password"),
            ssh_user=given.ssh_user,
            ssh_key=_kept(given, current, "ssh_key"),
            ssh_keypass=_kept(given, current, "ssh_keypass"),
            ssh_known_hosts=given.ssh_known_hosts,
            branch=given.branch,
            hook_ttl=given.hook_ttl,
            created_at=current.created_at if current else now,
            updated_at=current.updated_at if current else now,
        )
        if made == current:
            return made
        try:
            await self._fetcher.check(made)
        except Invalid as error:
            raise Invalid(f"{where}{error.message}", field=error.field and f"{where}{error.field}") from None
        # What was read by the settings before it must not pass for what these read.
        return replace(made, updated_at=now if current is None else changed_at(now, current))


def _kept(given: RepositoryFields, current: Repository | None, name: str) -> Secret:
    wanted: Secret | None = getattr(given, name)
    if wanted is None and current is not None:
        wanted = getattr(current, name)
    return wanted or Secret("")


def _check(given: RepositoryFields, where: str) -> None:
    """Raises Invalid."""
    for name, longest in _LONGEST.items():
        value = getattr(given, name)
        text = value.reveal() if isinstance(value, Secret) else value or ""
        if len(text) > longest:
            raise Invalid(f"{where}{name}: {longest} characters at most", field=f"{where}{name}")
        if name not in (*_SECRETS, "ssh_known_hosts") and not text.isprintable():
            raise Invalid(f"{where}{name}: must be printable", field=f"{where}{name}")
    if not 0 <= given.hook_ttl <= MAX_TTL:
        raise Invalid(f"{where}git_hook_ttl: must be 0 to {MAX_TTL} seconds", field=f"{where}git_hook_ttl")


def _checked_path(given: str) -> str:
    """From the root of the repository. Raises Invalid."""
    path = given.removeprefix("/")
    parts = path.split("/")
    odd = any(part in ("", ".", "..") or part.strip() != part or part.lower() == ".git" for part in parts)
    if odd or "\\" in path or ":" in path or len(path) > _MAX_PATH or not path.isprintable():
        raise Invalid(
            "path: must lead from the root of the repository to a file, as ops/restart.runbook.sh", field="path"
        )
    if MARK not in parts[-1]:
        raise Invalid(
            f"path: the file's name must have {MARK!r} in it, as restart{MARK}sh; else nobody is shown it", field="path"
        )
    return path


def _plain(text: str) -> str:
    """As it may stand in the author of a commit."""
    return "".join(one for one in text if one.isprintable() and one not in "<>").strip()


def _shown(repository: Repository) -> dict[str, Any]:
    """For the audit log: what is set, and which secrets are."""
    shown = {name: value for name, value in asdict(repository).items() if name not in _SECRETS}
    return shown | {"id": repository.id, "set": repository.secrets_set}
