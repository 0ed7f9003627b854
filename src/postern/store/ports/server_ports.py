"""The stores of the organisation and the server: settings, features, audit, idempotent requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol
from uuid import UUID

from postern.domain.facets import Facets
from postern.domain.identity.organisation import Organisation
from postern.domain.identity.principal import Account, Principal
from postern.domain.lists import Listed, Page, Stretch
from postern.domain.server_log import LogFilter, LogLine
from postern.domain.sessions.segment import Segment
from postern.domain.targets.agent import Agent
from postern.store.ports.identity_ports import NewOneTimeToken


@dataclass(frozen=True, slots=True)
class Founding:
    """A new organisation with its first administrator, their set-up link, and perhaps an agent."""

    organisation: Organisation
    admin: Account
    setup: NewOneTimeToken
    agent: Agent | None = None


class OrganisationBootstrap(Protocol):
    async def add(self, founding: Founding) -> None:
        """Add all of it or nothing. Raises Conflict when the organisation's name is in use, TooMany as
        OneTimeTokenStore."""


class OrganisationStore(Protocol):
    async def default(self) -> Organisation: ...

    async def get(self, org_id: UUID) -> Organisation | None: ...

    async def by_name(self, name: str) -> Organisation | None: ...

    async def find(self, page: Page, *, deleting: bool = False) -> Listed[Organisation]:
        """Return organisations by name. `deleting`: also those being deleted, which `get` and `by_name` do not
        return."""

    async def add(self, organisation: Organisation) -> None:
        """Add an organisation. Raises Conflict when the name is in use."""

    async def update(self, organisation: Organisation) -> Organisation:
        """Write name, role groups and help, and return the organisation with its next version. The members of a
        former role group become members of its successor, in the same transaction.

        Raises Conflict if the name is in use, or the organisation was changed since it was read.
        """


@dataclass(frozen=True, slots=True)
class OrganisationSummary:
    """What an organisation had when its deletion was requested. `ledger` is the number and the hash of its ledger's
    newest entry; None when nothing was recorded."""

    users: int
    connections: int
    sessions: int
    ledger: tuple[int, str] | None


class OrganisationDeletionStore(Protocol):
    """Deletes an organisation in steps. Each of them can be repeated."""

    async def begin(self, org_id: UUID, at: datetime) -> OrganisationSummary:
        """Mark the organisation and invalidate everything that gives access to it, in one transaction.

        Raises NotFound, and Conflict when it is already being deleted or has legal holds, which the error names.
        """

    async def waiting(self) -> list[Organisation]:
        """Return organisations that are being deleted, the oldest request first."""

    async def invalidate(self, org_id: UUID) -> None:
        """Invalidate again what gives access: requests that were under way may have added something."""

    async def agents(self, org_id: UUID) -> list[UUID]: ...

    async def running_sessions(self, org_id: UUID, most: int) -> list[UUID]:
        """Return sessions that a relay worker runs."""

    async def segments(self, org_id: UUID, most: int) -> list[Segment]: ...

    async def forget_segments(self, segments: Sequence[Segment]) -> None: ...

    async def sessions(self, org_id: UUID, most: int) -> list[UUID]:
        """Return sessions of which nothing is stored."""

    async def forget_sessions(self, ids: Sequence[UUID]) -> None:
        """Delete those of which nothing is stored, with everything that refers to them."""

    async def forget_rows(self, org_id: UUID, most: int) -> int:
        """Delete at most so many rows of what else belongs to the organisation. Return how many there were."""

    async def finish(self, org_id: UUID, audit: AuditEntry) -> bool:
        """Delete the organisation and what is left of it, and add an audit entry of another one, in one transaction.

        Return False, and change nothing, when something was added meanwhile.
        """


class SettingStore(Protocol):
    """One JSON object for each name, sealed; those of the server belong to the default organisation."""

    async def get(self, org_id: UUID, name: str) -> Mapping[str, Any] | None: ...

    async def put(self, org_id: UUID, name: str, value: Mapping[str, Any], at: datetime) -> None: ...

    async def add(self, org_id: UUID, name: str, value: Mapping[str, Any], at: datetime) -> bool:
        """Add a setting; False, and nothing is changed, where there is one."""

    async def change(
        self, org_id: UUID, name: str, read: Mapping[str, Any], value: Mapping[str, Any], at: datetime
    ) -> bool:
        """Replace a setting; False, and nothing is changed, where it differs from what was `read`."""

    async def remove(self, org_id: UUID, name: str) -> None: ...


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One write of the API: its principal, operation, resource, changes and outcome.

    `body` is the request as given, `before` and `after` the resource; all without secrets.
    """

    id: UUID
    org_id: UUID
    at: datetime
    actor_id: UUID | None
    actor_subject: str
    actor_email: str
    action: str
    resource_type: str
    resource: str
    method: str
    path: str
    status: int
    outcome: str  # "success" or "failure"
    source: str
    request_id: str
    body: Mapping[str, Any]
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """All given conditions apply; `created_after` and `created_before` are inclusive."""

    actor_subject: str | None = None
    actor_email: str | None = None
    action: str | None = None
    resource_type: str | None = None
    resource: str | None = None
    method: str | None = None
    path: str | None = None
    status: int | None = None
    outcome: str | None = None
    source: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None


class AuditFacet(StrEnum):
    """A field of audit entries by which the log can be narrowed; named as its filters in the API."""

    ACTION = "action"
    RESOURCE_TYPE = "resource_type"
    ACTOR_EMAIL = "actor_email"
    HTTP_METHOD = "http_method"
    OUTCOME = "outcome"


class AuditStore(Protocol):
    async def add(self, entry: AuditEntry) -> None: ...

    async def find(self, org_id: UUID, criteria: AuditFilter, page: Page) -> Stretch[AuditEntry]:
        """Return entries, newest first."""

    async def facets(self, org_id: UUID, criteria: AuditFilter, names: Sequence[AuditFacet]) -> Facets:
        """Count the values of fields, over all pages of `find`."""

    async def get(self, org_id: UUID, entry_id: UUID) -> AuditEntry | None: ...


class Follower(Protocol):
    """Returns log lines as they are written."""

    def read(self) -> Sequence[LogLine]:
        """Return new lines, a bounded number, without waiting. Blocks on files."""


class Journal(Protocol):
    """The last log lines of every process of this machine."""

    def last(self, criteria: LogFilter, limit: int) -> list[LogLine]:
        """Return lines, oldest first. Blocks on files: call it from a thread."""

    def follow(self, after: str | None) -> Follower:
        """Follow from the line after that id, if it still exists; without one from now on. Blocks on files."""


class SchemaStore(Protocol):
    async def is_current(self) -> bool:
        """Return whether the store has the tables of this version."""


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """The stored answer to a request with an idempotency key; `status` is 0 while it is in progress."""

    fingerprint: bytes
    status: int
    headers: Mapping[str, str]
    body: bytes


class IdempotencyStore(Protocol):
    async def begin(
        self, principal: Principal, digest: bytes, fingerprint: bytes, at: datetime, kept_for: timedelta
    ) -> StoredAnswer | None:
        """Return None for the one caller that can go on; else the state of the earlier request.

        One older than `kept_for` is deleted. Raises TooMany when the principal has too many.
        """

    async def finish(self, principal: Principal, digest: bytes, answer: StoredAnswer) -> None: ...

    async def forget(self, principal: Principal, digest: bytes) -> None:
        """Delete a failed request, so that it can be retried."""

    async def prune(self, before: datetime) -> None: ...
