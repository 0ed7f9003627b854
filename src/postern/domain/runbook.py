"""Runbooks: scripts kept in git, with parameters that the user fills in (spec 2.3)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import urlsplit
from uuid import UUID

from postern.domain.secret import Secret

MARK = ".runbook."  # in the base name of every file that is one
MAX_FILE = 1_000_000  # bytes of one runbook
MAX_REPOSITORIES = 20  # of an organisation
REPOSITORY_SECRETS = ("git_password", "ssh_key", "ssh_keypass")
HOOK_FOLDERS = ("postern-hooks", "hoop-hooks")
OPEN_HOOK, CLOSE_HOOK = "session-open.runbook.py", "session-close.runbook.py"
SCHEDULE_SOURCE: Final = "schedule"  # the source of sessions that a schedule starts, instead of an address


@dataclass(frozen=True, slots=True)
class Repository:
    """Where an organisation's runbooks are. `name` is host/owner/repository, by which rules and people call it.

    `branch` is empty for the repository's own. `hook_ttl`: with more than 0 seconds the hooks in it run, and
    caches of them are refreshed that often. `updated_at` differs after every change: earlier fetches used other
    settings. The last four fields say what was fetched by the settings that it has now, and when; and why the last
    attempt failed.
    """

    org_id: UUID
    git_url: str
    name: str
    git_user: str = ""
    git_password: Secret = field(default_factory=lambda: Secret(""))
    ssh_user: str = ""
    ssh_key: Secret = field(default_factory=lambda: Secret(""))
    ssh_keypass: Secret = field(default_factory=lambda: Secret(""))
    ssh_known_hosts: str = ""
    branch: str = ""
    hook_ttl: int = 0
    created_at: datetime | None = None
    updated_at: datetime | None = None
    version: int = 1
    commit: str | None = field(default=None, compare=False)
    fetched_at: datetime | None = field(default=None, compare=False)
    tried_at: datetime | None = field(default=None, compare=False)
    error: str = field(default="", compare=False)
    managed_by: str | None = None

    @property
    def id(self) -> UUID:
        """The identifier, derived from the address, so that it is the same everywhere."""
        return repository_id(self.git_url)

    @property
    def secrets_set(self) -> list[str]:
        """The names of its stored secrets; their values are never shown."""
        return [name for name in REPOSITORY_SECRETS if getattr(self, name)]


def repository_id(git_url: str) -> UUID:
    return uuid.uuid5(uuid.NAMESPACE_URL, git_url)


def repository_name(git_url: str) -> str:
    """`host/owner/repository` of an address in any of the forms that git knows; two addresses of one name are one
    repository."""
    text = git_url.strip()
    if "://" not in text and ":" in text.split("/")[0]:  # user@host:path, as scp has it
        text = "ssh://" + text.replace(":", "/", 1)
    parts = urlsplit(text)
    path = parts.path.strip("/").removesuffix(".git")
    port = f":{parts.port}" if parts.port not in (None, 22, 80, 443) else ""
    return f"{(parts.hostname or '').lower()}{port}/{path}".strip("/")


@dataclass(frozen=True, slots=True)
class RunbookFile:
    """One file of a commit, by its path from the root. `text` is None where it cannot be one, which `error`
    explains to its author."""

    path: str
    text: str | None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The runbooks and hooks of one commit. `author` is "Name <address>", `message` the whole of it."""

    commit: str
    author: str
    message: str
    files: tuple[RunbookFile, ...]
    hooks: Mapping[str, str] = field(default_factory=dict)  # OPEN_HOOK, CLOSE_HOOK → its text


@dataclass(frozen=True, slots=True)
class Fetched:
    """The state of a repository: its newest snapshot, when that was read, and why a later attempt failed."""

    snapshot: Snapshot | None
    fetched_at: datetime | None
    tried_at: datetime
    settings_at: datetime
    error: str = ""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a template (spec 2.3, `metadata`). `default` is None where there is none."""

    name: str
    type: str = "text"
    required: bool = False
    description: str = ""
    default: str | None = None
    placeholder: str = ""
    pattern: str = ""
    options: tuple[str, ...] = ()
    minlength: int | None = None
    maxlength: int | None = None
    order: int | None = None
    asenv: str = ""

    @property
    def is_secret(self) -> bool:
        """Whether its value is written nowhere but into what runs."""
        return self.type == "password"

    @property
    def is_hidden(self) -> bool:
        """Whether labels show that it was given, and not what: secrets, and the contents of files."""
        return self.is_secret or self.type == "file"


@dataclass(frozen=True, slots=True)
class RunbookRef:
    """The runbook of a session, stored with it and used for admission again when a worker claims it."""

    repository: str
    file: str
    commit: str
    extended: bool = False
    place: str = ""


# Labels of a session that runs a runbook; other sessions cannot have them.
REPOSITORY_LABEL, FILE_LABEL, COMMIT_LABEL = "runbookRepository", "runbookFile", "runbookCommit"
PARAMETERS_LABEL = "runbookParameters"  # JSON, without what is hidden
SCHEDULE_LABEL = "runbookSchedule"  # the name of the schedule that ran it, if no user did
RUNBOOK_LABELS = (REPOSITORY_LABEL, FILE_LABEL, COMMIT_LABEL, PARAMETERS_LABEL, SCHEDULE_LABEL)


def labels_of(runbook: RunbookRef) -> dict[str, str]:
    return {REPOSITORY_LABEL: runbook.repository, FILE_LABEL: runbook.file, COMMIT_LABEL: runbook.commit}


@dataclass(frozen=True, slots=True)
class RunbookPattern:
    """Runbooks that a rule is about: those of `repository` whose path begins with `name`; all of them when empty."""

    repository: str
    name: str = ""

    def covers(self, repository: str, file: str) -> bool:
        return repository == self.repository and file.startswith(self.name)


@dataclass(frozen=True, slots=True)
class RunbookRule:
    """The groups that can run runbooks, and on which connections. No `connection_ids` means every connection, no
    `groups` all users; with `nowhere` it is for no connection: all that it listed were deleted."""

    id: UUID
    org_id: UUID
    name: str
    description: str = ""
    runbooks: tuple[RunbookPattern, ...] = ()
    connection_ids: frozenset[UUID] = frozenset()
    groups: frozenset[str] = frozenset()
    nowhere: bool = False
    created_at: datetime | None = None
    updated_at: datetime | None = None
    version: int = 1
    connection_names: tuple[str, ...] = field(default=(), compare=False)  # sorted, as they were read
    managed_by: str | None = None

    def allows(self, repository: str, file: str, connection_id: UUID, groups: frozenset[str]) -> bool:
        return (
            any(runbook.covers(repository, file) for runbook in self.runbooks)
            and not self.nowhere
            and (not self.connection_ids or connection_id in self.connection_ids)
            and (not self.groups or bool(self.groups & groups))
        )


def is_allowed(
    rules: Sequence[RunbookRule],
    repository: str,
    file: str,
    connection_id: UUID,
    groups: frozenset[str],
    *,
    is_admin: bool,
) -> bool:
    """Return whether a runbook is allowed. Without any rule, all users can run every runbook on connections that
    they can use; administrators always can."""
    if is_admin or not rules:
        return True
    return any(rule.allows(repository, file, connection_id, groups) for rule in rules)


@dataclass(frozen=True, slots=True)
class Schedule:
    """A runbook that runs by itself, as its owner, at the times of a cron expression in a time zone.

    `tracker_fields` go into the issues that its sessions open. `next_at` is None while it is switched off.
    `last_error` says why the last run did not come about. `connection` is the name of its connection, `owner` the
    e-mail address of its owner, empty for a deleted one. `problem` says why its sealed values could not be opened:
    then it is without them, and must not run.
    """

    id: UUID
    org_id: UUID
    name: str
    owner_id: UUID
    connection_id: UUID
    repository: str = ""
    file: str = ""
    cron: str = ""
    zone: str = "UTC"
    parameters: Mapping[str, Secret] = field(default_factory=dict)
    tracker_fields: Mapping[str, Secret] = field(default_factory=dict)
    enabled: bool = True
    next_at: datetime | None = None
    last_at: datetime | None = None
    last_session_id: UUID | None = None
    last_error: str = ""
    created_at: datetime | None = None
    updated_at: datetime | None = None
    version: int = 1
    connection: str = field(default="", compare=False)
    owner: str = field(default="", compare=False)
    problem: str = field(default="", compare=False)
    managed_by: str | None = None

    @property
    def trouble(self) -> str:
        """Why it cannot run, or why its last run did not come about."""
        return self.problem or self.last_error


def changed_at(now: datetime, before: Repository) -> datetime:
    """`updated_at` of a change: later than before it, whatever the clock says, since that tells what was changed
    meanwhile, and what was read by other settings."""
    assert before.updated_at is not None, "only those of the store are changed"
    return max(now, before.updated_at + timedelta(microseconds=1))


@dataclass(frozen=True, slots=True)
class ScheduleRun:
    """One time of a schedule, with what that was called by then: there from when it was taken until it came about, or,
    if it did not, until sinks were told why (`error`; empty while that is not known). `id` is that of its session."""

    id: UUID
    org_id: UUID
    schedule_id: UUID
    schedule: str
    owner_id: UUID
    owner: str  # e-mail address; empty when they were deleted
    connection_id: UUID
    connection: str
    repository: str
    file: str
    due_at: datetime
    at: datetime
    error: str = ""
