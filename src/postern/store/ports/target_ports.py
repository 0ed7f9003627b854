"""What services of targets need of the store: connections, rules, credentials, agents, sessions, admission.

Every method that takes `org_id` sees only that organisation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Protocol
from uuid import UUID

from postern.domain.identity.credential import Credential, Grant, IssuedCredential, Verifier
from postern.domain.identity.principal import DEFAULT_ROLE_GROUPS, RoleGroups
from postern.domain.lists import Listed, Page, Position, Stretch
from postern.domain.reviews.review import ReviewStatus
from postern.domain.rules.access import Reach
from postern.domain.rules.guardrail import GuardRail
from postern.domain.rules.masking import MaskingRule
from postern.domain.rules.trial import Step
from postern.domain.secret import Secret
from postern.domain.sessions.recorded import Exchange, Moment, Tail
from postern.domain.sessions.results import Result
from postern.domain.sessions.session import EndReason, Session, SessionStatus, Verb
from postern.domain.sessions.words import Search
from postern.domain.targets.agent import Agent
from postern.domain.targets.command import NOTHING_ADDED, Invocation
from postern.domain.targets.connection import Connection, Extra, Toggle
from postern.domain.targets.resource import Resource, TagUse
from postern.domain.targets.target_task import TargetTask, TargetTest
from postern.domain.worker import RelayWorker
from postern.store.ports.named_resource_ports import NamedResourceStore

# What was asked: (milliseconds since the session's start, text).
Piece = tuple[float, str]


class Recordings(Protocol):
    """Reads what a session did; may block on files, so it is called from a thread."""

    def texts(self, session: Session, without: Set[int]) -> Iterator[tuple[int, list[Piece]]]:
        """What was asked, by segments; those in `without` are left out. Raises NotFound where there is no segment at
        all, Unavailable."""

    def events(self, session: Session) -> Iterator[tuple[float, str, bytes]]:
        """(milliseconds since start, "i" | "o" | "e", content), in order."""

    def operations(self, session: Session, since: int = 0) -> Iterator[tuple[float, bytes]]:
        """(milliseconds since start, text of the query). `since` as for `moments`."""

    def protocol(self, session: Session) -> str:
        """In which it was recorded. Raises NotFound where there is no recording."""

    def moments(self, session: Session, since: int = 0) -> Iterator[Moment]:
        """What is to be shown, in order. Begins somewhere before `since`, in microseconds since start, never behind
        it. Raises NotFound where there is no recording."""

    def exchanges(self, session: Session, since: int = 0, output: int = 0) -> Iterator[Exchange]:
        """The session as a timeline, with so many bytes of what was shown of each. `since` as for `moments`."""

    def tail(self, session: Session, since: int = 0) -> Tail:
        """Of a session that may still run. `since` as for `moments`."""

    def results(self, session: Session) -> Iterator[Result]:
        """What a script answered, as values. Raises NotFound where there are none."""

    def steps(self, session: Session, *, answers: bool) -> Iterator[Step]:
        """What was asked and, with `answers`, what came back, in order. Raises NotFound where there is no recording."""


@dataclass(frozen=True, slots=True)
class PermitStanding:
    """What decides whether a live permit still holds. None, or empty, where the row is gone."""

    principal_active: bool | None
    access_mode_connect: Toggle | None
    access_mode_exec: Toggle | None
    access_mode_runbooks: Toggle | None
    credential_expires_at: datetime | None
    credential_revoked_at: datetime | None
    credential_exists: bool
    groups: frozenset[str] = frozenset()
    role_groups: RoleGroups = DEFAULT_ROLE_GROUPS
    connection_tags: Mapping[str, str] = field(default_factory=dict)
    extras: frozenset[Extra] = frozenset()


@dataclass(frozen=True, slots=True)
class ConnectionRuleSet:
    """What is attached to a connection, by name, and what its organisation tells who is refused."""

    guardrails: tuple[GuardRail, ...] = ()
    masking: tuple[MaskingRule, ...] = ()
    access_help: str = ""


class AccessStore(Protocol):
    async def find_grant(self, username: str) -> Grant | None:
        """By the exact user name. One statement."""

    async def rules_of(self, connection_id: UUID) -> ConnectionRuleSet | None:
        """None when there is no such connection, which is not the same as one without rules. One statement. Raises
        ValueError, KeyError or TypeError for a rule that this version does not know."""

    async def masking_key(self, org_id: UUID) -> Secret:
        """What hashes of masked values are keyed by: hexadecimal, the same at every start and in every process."""

    async def standing(self, principal_id: UUID, connection_id: UUID, credential_id: UUID | None) -> PermitStanding:
        """One statement."""


class CredentialStore(Protocol):
    async def add(self, credential: Credential, verifier: Verifier) -> None:
        """Raises Conflict when the user name is taken."""

    async def get(self, org_id: UUID, credential_id: UUID) -> Credential | None: ...

    async def of_connection(
        self, org_id: UUID, connection_id: UUID, user_id: UUID | None, page: Page
    ) -> Stretch[Credential]:
        """Newest first; those of one user when `user_id` is given."""

    async def of_user(self, org_id: UUID, user_id: UUID) -> list[tuple[Credential, str]]:
        """With the names of their connections; newest first."""

    async def issued_by(self, org_id: UUID, maker_id: UUID) -> list[IssuedCredential]:
        """Return what this principal issued to others, revoked and expired ones too; newest first."""

    async def revoke(self, credential_id: UUID, at: datetime) -> bool:
        """False when it was revoked before."""

    async def expire(self, credential_id: UUID, at: datetime) -> None:
        """Brings its end forward to `at`; one that ends before that is left alone."""


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """All given conditions hold.

    `user` is a subject or an e-mail address, `owner` a subject; `connection` is a name or an identifier; `start` and
    `end` bound start_date, both included. `labels` and `metadata` are pairs that must be there, `tags` as in
    ConnectionFilter. Durations are in seconds; a session that runs has none. `refused` and `masked`: whether anything
    was; `held`: whether a hold keeps it. `review` is the status of the review under which it runs, or for which it
    waits; `issue` is the key of the one that was opened for it.
    """

    user: str | None = None
    owner: str | None = None
    connection: str | None = None
    type: str | None = None
    verb: Verb | None = None
    status: SessionStatus | None = None
    start: datetime | None = None
    end: datetime | None = None
    subtype: str | None = None
    end_reason: EndReason | None = None
    review: ReviewStatus | None = None
    correlation_id: str | None = None
    issue: str | None = None
    labels: Sequence[tuple[str, str]] = ()
    metadata: Sequence[tuple[str, str]] = ()
    tags: Sequence[tuple[str, str | None, bool]] = ()
    min_duration: float | None = None
    max_duration: float | None = None
    refused: bool | None = None
    masked: bool | None = None
    held: bool | None = None
    search: Search | None = None


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """How a session ended. `detail` is a person-readable reason, where there is more to say."""

    at: datetime
    reason: EndReason
    exit_code: int | None = None
    metrics: Mapping[str, Any] | None = None
    event_size: int = 0
    detail: str | None = None


class SessionStore(Protocol):
    async def add(
        self, session: Session, *, principal_id: UUID, source: str, invocation: Invocation = NOTHING_ADDED
    ) -> None:
        """One INSERT; another one for an invocation that says anything, which is kept sealed."""

    async def take_invocation(self, session_id: UUID) -> Invocation:
        """What was added with the session; it is kept no longer."""

    async def end(self, session_id: UUID, ended: SessionEnd) -> bool:
        """False when there is no such session or it was done before."""

    async def claim(
        self,
        session_id: UUID,
        worker: str,
        at: datetime,
        *,
        metadata: Mapping[str, str] | None = None,
        credential_id: UUID | None = None,
        verb: Verb | None = None,
    ) -> tuple[Session, UUID, str] | None:
        """ready → open for exactly one caller: (session, principal id, source); None for all others, and as long as its
        review does not let it run. What is given of `metadata` and `credential_id` takes the place of what is there;
        with `verb` one of another verb is left alone."""

    async def end_if_ready(self, session_id: UUID, ended: SessionEnd) -> bool:
        """Whether it waited, for its review or for a worker, and has now ended."""

    async def ids(self, status: SessionStatus, worker: str | None) -> list[UUID]:
        """Those of a worker, or of all; of those that are ready without a worker, the scripts that may run now."""

    async def get(self, org_id: UUID, session_id: UUID) -> Session | None: ...

    async def ids_between(self, org_id: UUID, first: UUID, last: UUID, owner: str | None, limit: int) -> list[UUID]:
        """Identifiers from `first` to `last`, both included; of the subject `owner` only, unless that is None."""

    async def find(self, org_id: UUID, wanted: SessionFilter, page: Page) -> Stretch[Session]:
        """Newest first, without scripts. Looks at a bounded number of rows unless the page has an offset, or wants an
        exact count."""


@dataclass(frozen=True, slots=True)
class UnindexedSession:
    """A session that has ended and of which not all is searchable; `segments` are those that are."""

    session: Session
    segments: frozenset[int] = frozenset()


class SessionTextStore(Protocol):
    """What was asked in sessions, to be searched. They go with their sessions."""

    async def index(self, session_id: UUID, segment: int, pieces: Sequence[Piece], *, is_last: bool) -> bool:
        """Adds what a segment holds, numbered from 1, in whichever order they come. Once for each: False when it was
        there before, or there is no such session. The session's own script is there once, at its start.

        The last one says how the session ended, if it has; and with all before it nothing more is awaited. The number 0
        says only that: nothing more is awaited, whatever is there."""

    async def unread(self, ended_before: datetime, after: Position | None, most: int) -> list[UnindexedSession]:
        """Sessions that ended before that and of which something is awaited, in the order of their ends, behind the
        position of one of them."""

    async def pieces(self, session_ids: Sequence[UUID], most: int) -> Mapping[UUID, list[Piece]]:
        """What is indexed of these, as long as it is `most` bytes together."""


@dataclass(frozen=True, slots=True)
class ConnectionFilter:
    """All given conditions hold.

    `tags` are (key, value, equal), where no value means that the tag is there, or with `equal` False that it is not.
    `labels` are of the deprecated list `tags`; a connection that fits has all of them. `search` is a part of name,
    type, subtype or resource, or the whole of a status. `alive_after` is since when an agent must have been heard of
    to be online; without it nothing is. `reach` is what who asks may see, None all.
    """

    name: str | None = None
    type: str | None = None
    subtype: str | None = None
    agent_id: UUID | None = None
    search: str | None = None
    tags: Sequence[tuple[str, str | None, bool]] = ()
    managed_by: str | None = None
    resource_name: str | None = None
    ids: Sequence[UUID] | None = None
    labels: Sequence[str] = ()
    online: bool | None = None
    alive_after: datetime | None = None
    reach: Reach | None = None


class SecretUse(Enum):
    """Which connections a read decrypts the secrets of. The others have a `secret` that cannot be read, nor stored."""

    ALL = "all"
    DATABASES = "databases"  # those whose `default_database` every user can see
    NONE = "none"


class ConnectionStore(NamedResourceStore[Connection], Protocol):
    """Writes make the connection's resource where there is none of that name."""

    async def get(self, org_id: UUID, name_or_id: str, secrets: SecretUse = SecretUse.ALL) -> Connection | None:
        """A name wins over an identifier of the same spelling. One statement."""

    async def search(
        self, org_id: UUID, wanted: ConnectionFilter, page: Page, secrets: SecretUse = SecretUse.ALL
    ) -> Listed[Connection]:
        """By name. Two statements."""

    async def open_sessions(self, connection_id: UUID) -> list[UUID]:
        """Return its sessions that have not ended."""

    async def by_ids(self, org_id: UUID, ids: Sequence[UUID]) -> list[Connection]:
        """Return these connections without their secrets, by name."""

    async def ids_of(self, org_id: UUID, names_or_ids: Sequence[str]) -> Mapping[str, UUID]:
        """The connections that are called so; what is not there is left out. A name wins over an identifier."""

    async def for_runbooks(self, org_id: UUID, reach: Reach | None, name_or_id: str | None) -> Mapping[UUID, str]:
        """The names of connections within reach that take runbooks, in order; only the one that is called so, when
        `name_or_id` is given. One cheap statement."""

    async def tags(self, org_id: UUID, reach: Reach | None, page: Page) -> Listed[TagUse]:
        """By key and value, of the connections within reach."""


class ServerResourceStore(Protocol):
    """What is shown with a resource are its connections within reach, of which the first by name are named."""

    async def find(self, org_id: UUID, reach: Reach | None, page: Page, name: str | None = None) -> Listed[Resource]:
        """By name, or the one of this name. With a reach, those that have a connection within it."""

    async def get(self, org_id: UUID, name_or_id: str, reach: Reach | None) -> Resource | None:
        """A name wins over an identifier of the same spelling. None, too, when there is a reach and nothing in it."""

    async def remove(self, org_id: UUID, name: str) -> bool:
        """False when a connection belongs to it."""


@dataclass(frozen=True, slots=True)
class AgentFilter:
    """All given conditions hold. `search` is a part of the name. Who was never seen was not seen after anything."""

    name: str | None = None
    search: str | None = None
    seen_after: datetime | None = None
    not_seen_after: datetime | None = None


class AgentStore(NamedResourceStore[Agent], Protocol):
    """A removal raises Conflict also where a connection names the agent."""

    async def by_digest(self, digest: bytes) -> Agent | None:
        """Whose secret has this SHA-256, in whichever organisation."""

    async def by_id(self, agent_id: UUID) -> Agent | None:
        """In whichever organisation."""

    async def search(self, org_id: UUID, wanted: AgentFilter, page: Page) -> Listed[Agent]:
        """By name."""

    async def store_facts(self, agent_id: UUID, facts: Mapping[str, str]) -> None:
        """What it says of itself."""

    async def mark_seen(self, ids: Sequence[UUID], at: datetime) -> frozenset[UUID]:
        """Touches these; answers which exist. One statement."""

    async def digests(self, ids: Sequence[UUID]) -> Mapping[UUID, bytes | None]:
        """Of those that exist. One statement."""

    async def touch_all(self, mode: str, at: datetime) -> None:
        """All agents of that mode, whatever their organisation: those that live in one process live together."""

    async def last_seen(self, mode: str) -> datetime | None:
        """When any agent of that mode was last heard of."""


class TargetTaskStore(Protocol):
    async def add(self, target_task: TargetTask) -> None: ...

    async def claim(self, task_id: UUID, worker: str, since: datetime) -> TargetTask | None:
        """For exactly one caller; None for all others, and when it was not made after `since`."""

    async def answer(self, task_id: UUID, worker: str, answer: str, at: datetime) -> bool:
        """JSON. False when it was not this worker's to answer, or was answered, or is gone."""

    async def look(self, task_id: UUID) -> tuple[str | None, str | None]:
        """(worker, answer), None where there is none yet."""

    async def remove(self, task_id: UUID) -> None: ...

    async def prune(self, before: datetime) -> None:
        """Forgets those that were not made after `before`."""

    async def save_test(self, test: TargetTest) -> None:
        """Replaces the last test of its connection; does nothing when the connection was deleted meanwhile."""

    async def last_tests(self, connection_ids: Sequence[UUID]) -> Mapping[UUID, TargetTest]:
        """Returns the last test of each of these connections that has one."""


class WorkerStore(Protocol):
    async def beat(self, worker: RelayWorker) -> bool:
        """Says that it lives. True the first time."""

    async def living(self, since: datetime) -> list[RelayWorker]:
        """Those that were seen after `since`, by name."""

    async def forget(self, worker_id: UUID) -> None:
        """It has stopped."""

    async def prune(self, before: datetime) -> None:
        """Forgets those that were not seen after `before`."""
