"""Repositories with runbooks, what was read of them, who may run them, and when they run by themselves."""

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
    """Their credentials are sealed. What was read of one goes with it."""

    async def due(self, before: datetime, most: int, *, failing: bool) -> list[Repository]:
        """Of all organisations: those that were not tried since, by the settings that they have now; first those that
        were tried longest ago. `failing`: only those whose last attempt failed; else only the others."""

    async def replace_all(self, org_id: UUID, repositories: Sequence[Repository], read: Sequence[Repository]) -> None:
        """Those and no others, in one transaction; what was read of those that stay stays. Raises Conflict, also when
        somebody has changed any since they were `read`."""


@dataclass(frozen=True, slots=True)
class Outline:
    """A configured repository, and what is known of it by the settings that it has now, which `settings_at` names:
    when it was tried last and why that failed, and what was read when; None where it was not yet."""

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
    """A repository whose hooks are switched on; `texts` by their file names, none of one that was not read yet. `ttl`
    in seconds."""

    repository: str
    ttl: int
    commit: str
    texts: Mapping[str, str]


class SnapshotStore(Protocol):
    """What was read of a repository: sealed, one for each."""

    async def outlines(self, org_id: UUID) -> list[Outline]:
        """Of every configured repository, by name. One cheap statement."""

    async def get(self, org_id: UUID, repository_id: UUID) -> Fetched | None:
        """What was read by the settings that it has now. Raises Malformed when it cannot be unpacked."""

    async def hooks(self, org_id: UUID) -> list[RepositoryHooks]:
        """Of the repositories that have them switched on, as they were read by the settings of now; by name. One
        statement, which opens nothing else. What cannot be opened is left out, and logged."""

    async def put(
        self, org_id: UUID, repository_id: UUID, snapshot: Snapshot, settings_at: datetime, at: datetime
    ) -> bool:
        """`at`: when reading it began; what was read later than that stays. False when the repository is gone, or its
        settings are others by now. Raises Invalid when it is too large to be kept."""

    async def mark_failed(
        self, org_id: UUID, repository_id: UUID, error: str, settings_at: datetime, at: datetime
    ) -> None:
        """What was read before stays, unless it was read by other settings."""


class HookRunStore(Protocol):
    """What hooks printed is sealed, and goes with the recording of their session; the rest goes with the session."""

    async def add(self, run: HookRun) -> None:
        """Does nothing when its session is gone, or it is there already. Where the recording was purged, what it
        printed is not kept."""

    async def of(self, org_id: UUID, session_id: UUID, most: int) -> list[HookRun]:
        """First those that began first. The reason says so where what one printed cannot be opened."""


class ScheduleStore(NamedResourceStore[Schedule], Protocol):
    """The values of parameters and of the fields of issues are sealed. A change leaves what is told of the last run,
    and what could not be opened."""

    async def find(
        self, org_id: UUID, page: Page, where: RuleFilter = ALL_RULES, owner_id: UUID | None = None
    ) -> Listed[Schedule]:
        """Return a page of them by name; of that owner, or of all."""

    async def due(self, now: datetime, most: int, most_each: int) -> list[Schedule]:
        """Of all organisations in turn, `most_each` of one, first those of it that were to run longest ago; without
        what is sealed."""

    async def take(
        self, run_id: UUID, schedule_id: UUID, due_at: datetime, next_at: datetime | None, at: datetime
    ) -> bool:
        """This run is this caller's, and the next one is then: True for exactly one of those who come at once, while it
        is switched on. It is to be the session `run_id`; until `settle` is called, its error says that the gateway was
        stopped."""

    async def settle(self, run_id: UUID, error: str) -> bool:
        """What came of a run that was taken: its session, or why there is none; then the session before it stays noted,
        and sinks are to be told. True for exactly one of those who come at once. Where a later run was taken its error
        stays."""

    async def find_unsettled(self, before: datetime, most: int, schedule_id: UUID | None = None) -> list[ScheduleRun]:
        """Runs, of that schedule or of all, that were taken before then and of which is not known what came of them;
        the oldest first."""

    async def ran(self, schedule_id: UUID, session_id: UUID) -> None:
        """Beside its times, as this session."""
