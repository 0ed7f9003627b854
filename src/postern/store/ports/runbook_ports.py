"""The stores of repositories with runbooks, their snapshots, rules and schedules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from postern.domain.hook import HookRun
from postern.domain.lists import Listed, Page
from postern.domain.rules.rule_filter import ALL_RULES, RuleFilter
from postern.domain.runbook import Fetched, Repository, Schedule, ScheduleRun, Snapshot
from postern.store.ports.named_resource_ports import NamedResourceStore


class RepositoryStore(NamedResourceStore[Repository], Protocol):
    """Credentials are sealed. A repository's snapshot is deleted with it."""

    async def due(self, before: datetime, most: int, *, failing: bool) -> list[Repository]:
        """Return repositories of all organisations with no attempt since, by their current settings; those with the
        oldest first.

        `failing`: only those whose last attempt failed; else only the others.
        """

    async def replace_all(self, org_id: UUID, repositories: Sequence[Repository], read: Sequence[Repository]) -> None:
        """Replace all repositories in one transaction; snapshots of those that stay are kept. Raises Conflict, also
        when any were changed since they were `read`."""


@dataclass(frozen=True, slots=True)
class Outline:
    """A repository and its state under its current settings, which `settings_at` names: its last attempt and error,
    and its snapshot; None where there is none."""

    id: UUID
    name: str
    git_url: str
    hook_ttl: int
    settings_at: datetime
    commit: str | None = None
    fetched_at: datetime | None = None
    tried_at: datetime | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class RepositoryHooks:
    """A repository with hooks enabled; `texts` by their file names, none of one that was not read yet. `ttl` in
    seconds."""

    repository: str
    ttl: int
    commit: str
    texts: Mapping[str, str]


class SnapshotStore(Protocol):
    """Snapshots of repositories: sealed, one for each."""

    async def outlines(self, org_id: UUID) -> list[Outline]:
        """Return every configured repository, by name. One cheap statement."""

    async def get(self, org_id: UUID, repository_id: UUID) -> Fetched | None:
        """Return the snapshot under its current settings. Raises Malformed when it cannot be unpacked."""

    async def hooks(self, org_id: UUID) -> list[RepositoryHooks]:
        """Return repositories with hooks enabled, under their current settings, by name.

        One statement, which decrypts nothing else. What cannot be decrypted is left out, and logged.
        """

    async def put(
        self, org_id: UUID, repository_id: UUID, snapshot: Snapshot, settings_at: datetime, at: datetime
    ) -> bool:
        """Store a snapshot. `at`: when reading it began; a later snapshot stays.

        False when the repository is gone, or its settings have changed. Raises Invalid when it is too large.
        """

    async def mark_failed(
        self, org_id: UUID, repository_id: UUID, error: str, settings_at: datetime, at: datetime
    ) -> None:
        """Store a failure. The previous snapshot stays, unless it was read under other settings."""


class HookRunStore(Protocol):
    """The output of hooks is sealed, and deleted with their session's recording; the rest with the session."""

    async def add(self, run: HookRun) -> None:
        """Add a run; do nothing when its session is gone, or it exists. Where the recording was purged, its output
        is dropped."""

    async def of(self, org_id: UUID, session_id: UUID, most: int) -> list[HookRun]:
        """Return runs, earliest first. The reason says where output cannot be decrypted."""


class ScheduleStore(NamedResourceStore[Schedule], Protocol):
    """Values of parameters and of issue fields are sealed. A change keeps the last run's result, and what could not
    be decrypted."""

    async def find(
        self, org_id: UUID, page: Page, where: RuleFilter = ALL_RULES, owner_id: UUID | None = None
    ) -> Listed[Schedule]:
        """Return a page of them by name; of that owner, or of all."""

    async def due(self, now: datetime, most: int, most_each: int) -> list[Schedule]:
        """Return due schedules of all organisations in turn, `most_each` of one, its longest overdue first; without
        sealed values."""

    async def take(
        self, run_id: UUID, schedule_id: UUID, due_at: datetime, next_at: datetime | None, at: datetime
    ) -> bool:
        """Claim a run and plan the next one: True for exactly one caller, while it is enabled.

        Its session will be `run_id`; until `settle` is called, its error says that the gateway was stopped.
        """

    async def settle(self, run_id: UUID, error: str) -> bool:
        """Store the result of a run: its session, or an error; then the previous session stays, and sinks get an event.

        True for exactly one caller. Where a later run was claimed its error stays.
        """

    async def find_unsettled(self, before: datetime, most: int, schedule_id: UUID | None = None) -> list[ScheduleRun]:
        """Return runs, of that schedule or of all, that were claimed before then and have no result; the oldest
        first."""

    async def ran(self, schedule_id: UUID, session_id: UUID) -> None:
        """Record a manual run as this session."""
