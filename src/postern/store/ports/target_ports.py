"""The stores of targets: connections, rules, credentials, agents, sessions, admission.

Every method that takes `org_id` sees only that organisation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, StrEnum
from typing import Any, Protocol
from uuid import UUID

from postern.domain.facets import Facet, Facets
from postern.domain.identity.credential import Credential, Grant, IssuedCredential, Verifier
from postern.domain.identity.principal import DEFAULT_ROLE_GROUPS, RoleGroups
from postern.domain.lists import Listed, Page, Position, Stretch
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.rules.access import Reach
from postern.domain.rules.guardrail import Guardrail
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
from postern.domain.targets.connection_use import ConnectionActivity, ConnectionFacet
from postern.domain.targets.resource import Resource, TagUse
from postern.domain.targets.target_task import TargetTask, TargetTest
from postern.domain.worker import RelayWorker
from postern.store.ports.named_resource_ports import NamedResourceStore

# What was asked: (milliseconds since the session's start, text).
Piece = tuple[float, str]


class Recordings(Protocol):
    """Reads recordings; may block on files, so call it from a thread."""

    def texts(self, session: Session, without: Set[int]) -> Iterator[tuple[int, list[Piece]]]:
        """Yield statements by segment, except for those in `without`. Raises NotFound where there is no segment at
        all, Unavailable."""

    def events(self, session: Session) -> Iterator[tuple[float, str, bytes]]:
        """Yield (milliseconds since start, "i" | "o" | "e", content), in order."""

    def operations(self, session: Session, since: int = 0) -> Iterator[tuple[float, bytes]]:
        """Yield (milliseconds since start, text of the query). `since` as for `moments`."""

    def protocol(self, session: Session) -> str:
        """Return the recorded protocol. Raises NotFound where there is no recording."""

    def moments(self, session: Session, since: int = 0) -> Iterator[Moment]:
        """Yield what to show, in order, from `since` in microseconds since start, or somewhat earlier. Raises
        NotFound where there is no recording."""

    def exchanges(self, session: Session, since: int = 0, output: int = 0) -> Iterator[Exchange]:
        """Yield the session's timeline, with so many bytes of output each. `since` as for `moments`."""

    def archive(self, session: Session, start: datetime) -> Iterator[bytes]:
        """Yield the session in the format of other tools for its protocol. Raises NotFound where there is no recording,
        Invalid where there is no such format."""

    def tail(self, session: Session, since: int = 0) -> Tail[Moment]:
        """Return a follower of a session that may still run. `since` as for `moments`."""

    def result_tail(self, session: Session) -> Tail[Result]:
        """Return a follower of a script's results."""

    def results(self, session: Session) -> Iterator[Result]:
        """Yield the results of a script, as values. Raises NotFound where there are none."""

    def steps(self, session: Session, *, answers: bool) -> Iterator[Step]:
        """Yield statements and, with `answers`, their output, in order. Raises NotFound where there is no recording."""


@dataclass(frozen=True, slots=True)
class PermitStanding:
    """The facts that decide whether a live permit is still valid. None, or empty, where the row is gone."""

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
    access_mode_web_terminal: Toggle | None = None


@dataclass(frozen=True, slots=True)
class ConnectionRuleSet:
    """The rules of a connection, by name, and its organisation's hint for denied users."""

    guardrails: tuple[Guardrail, ...] = ()
    masking: tuple[MaskingRule, ...] = ()
    access_help: str = ""


class AccessStore(Protocol):
    async def find_grant(self, username: str) -> Grant | None:
        """Return the credential with that exact user name. One statement."""

    async def rules_of(self, connection_id: UUID) -> ConnectionRuleSet | None:
        """Return the rules; None when there is no such connection, which differs from one without rules.

        One statement. Raises ValueError, KeyError or TypeError for a rule that this version does not know.
        """

    async def masking_key(self, org_id: UUID) -> Secret:
        """Return the key for hashes of masked values: hexadecimal, the same at every start and in every process."""

    async def terminal_key(self) -> Secret:
        """Return the key of attestations (services/targets/terminal_attestations.py): as `masking_key`."""

    async def client_authority_key(self) -> Secret:
        """Return the seed of the key that signs client certificates: as `masking_key`."""

    async def standing(self, principal_id: UUID, connection_id: UUID, credential_id: UUID | None) -> PermitStanding:
        """Return the facts of a permit. One statement."""


class CredentialStore(Protocol):
    async def add(self, credential: Credential, verifier: Verifier, login_key: bytes = b"") -> None:
        """Add a credential. Raises Conflict when the user name is in use; Unauthenticated when the login with which it
        ends has ended."""

    async def was_opened(self, user_id: UUID, connection_id: UUID) -> bool:
        """Return whether the user has opened the connection in a browser before."""

    async def get(self, org_id: UUID, credential_id: UUID) -> Credential | None: ...

    async def of_connection(
        self, org_id: UUID, connection_id: UUID, user_id: UUID | None, page: Page
    ) -> Stretch[Credential]:
        """Return credentials, newest first; those of one user when `user_id` is given."""

    async def of_user(self, org_id: UUID, user_id: UUID) -> list[tuple[Credential, str]]:
        """Return credentials with the names of their connections; newest first."""

    async def own(
        self, org_id: UUID, user_id: UUID, page: Page, valid_at: datetime | None
    ) -> Stretch[tuple[Credential, str]]:
        """Return a page of `of_user`; only those that are valid then when `valid_at` is given."""

    async def issued_by(self, org_id: UUID, maker_id: UUID) -> list[IssuedCredential]:
        """Return what this principal issued to others, revoked and expired ones too; newest first."""

    async def revoke(self, credential_id: UUID, at: datetime) -> bool:
        """Revoke a credential; False when it was revoked before."""

    async def expire(self, credential_id: UUID, at: datetime) -> None:
        """Bring its expiry forward to `at`; one that expires earlier is unchanged."""


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """All given conditions apply.

    `user` is a subject or an e-mail address, `owner` a subject; `connection` is a name or an identifier; `start` and
    `end` bound start_date, both included. `labels` and `metadata` are required pairs, `tags` as in ConnectionFilter.
    Durations are in seconds; a running session has none. `refused` and `masked`: whether anything was; `held`: whether
    it has a hold. `review` is the status of its review; `issue` is the key of its issue.
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
    """How a session ended. `detail` is a reason for users, where there is more to say."""

    at: datetime
    reason: EndReason
    exit_code: int | None = None
    metrics: Mapping[str, Any] | None = None
    event_size: int = 0
    detail: str | None = None


class SessionFacet(StrEnum):
    """A field of sessions by which a list can be narrowed; named as its filters in the API."""

    CONNECTION = "connection"
    USER = "user"
    TYPE = "type"
    SUBTYPE = "subtype"
    VERB = "verb"
    STATUS = "status"
    END_REASON = "end_reason"


class SessionStore(Protocol):
    async def add(
        self, session: Session, *, principal_id: UUID, source: str, invocation: Invocation = NOTHING_ADDED
    ) -> None:
        """Add a session. One INSERT; one more for an invocation that is not empty, which is sealed."""

    async def facets(self, org_id: UUID, criteria: SessionFilter, names: Sequence[SessionFacet]) -> Facets:
        """Count the values of fields, over all pages of `find`; not for a search."""

    async def script_beginnings(self, session_ids: Sequence[UUID]) -> Mapping[UUID, tuple[str, bool]]:
        """Return the first SCRIPT_BEGINNING characters of each script, and whether there are more."""

    async def activity(
        self, org_id: UUID, connection_ids: Sequence[UUID], owner: str, *, with_all: bool
    ) -> Mapping[UUID, ConnectionActivity]:
        """Return the activity of connections: of `owner`, a subject, and with `with_all` of all users."""

    async def take_invocation(self, session_id: UUID) -> Invocation:
        """Return what was added with the session, and delete it."""

    async def end(self, session_id: UUID, ended: SessionEnd) -> bool:
        """End a session; False when there is none or it was done before."""

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
        """Claim a session, ready → open, for exactly one caller: (session, principal id, source).

        None for all others, and while its review does not allow it to run. Given `metadata` and `credential_id` replace
        the stored ones; with `verb` one of a different verb is unchanged.
        """

    async def end_if_ready(self, session_id: UUID, ended: SessionEnd) -> bool:
        """End a session that waits for its review or for a worker; return whether it did."""

    async def ids(self, status: SessionStatus, worker: str | None) -> list[UUID]:
        """Return those of a worker, or of all; without a worker, ready scripts that can run now."""

    async def get(self, org_id: UUID, session_id: UUID) -> Session | None: ...

    async def owners(self, ids: Sequence[UUID]) -> Mapping[UUID, tuple[UUID, str]]:
        """Return (organisation, subject of the user) of these sessions, of any organisation."""

    async def ids_between(self, org_id: UUID, first: UUID, last: UUID, owner: str | None, limit: int) -> list[UUID]:
        """Return identifiers from `first` to `last`, both included; of the subject `owner` only, unless that is
        None."""

    async def find(self, org_id: UUID, criteria: SessionFilter, page: Page) -> Stretch[Session]:
        """Return sessions, newest first, without scripts. Looks at a bounded number of rows unless the page has an
        offset, or wants an exact count."""


@dataclass(frozen=True, slots=True)
class UnindexedSession:
    """An ended session that is not completely searchable; `segments` are those that are."""

    session: Session
    segments: frozenset[int] = frozenset()


class SessionTextStore(Protocol):
    """The search index of sessions. It is deleted with them."""

    async def index(self, session_id: UUID, segment: int, pieces: Sequence[Piece], *, is_last: bool) -> bool:
        """Add the texts of a segment, numbered from 1, in any order; once for each: False when it is indexed, or there
        is no such session.

        The session's own script is there once, at its start. The last segment shows how the session ended, if it has;
        with all before it the index is complete. The number 0 only says that it is complete, whatever is there.
        """

    async def unread(self, ended_before: datetime, after: Position | None, most: int) -> list[UnindexedSession]:
        """Return sessions that ended before that and are incomplete, by end, after the given position."""

    async def pieces(self, session_ids: Sequence[UUID], most: int) -> Mapping[UUID, list[Piece]]:
        """Return the indexed texts of these, up to `most` bytes together."""


@dataclass(frozen=True, slots=True)
class ConnectionFilter:
    """All given conditions apply.

    `tags` are (key, value, equal), where no value means that the tag exists, or with `equal` False that it does not.
    `labels` are of the deprecated list `tags`; a match has all of them. `search` is a part of name, type, subtype or
    resource, or the whole of a status. `alive_after`: since when an agent must have sent a heartbeat to be online;
    without it none is. `reach` is the caller's scope, None all.
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
    """The connections of which a read decrypts secrets. The others have a `secret` that can be neither read nor
    stored."""

    ALL = "all"
    DATABASES = "databases"  # those whose `default_database` every user can see
    NONE = "none"


class ConnectionStore(NamedResourceStore[Connection], Protocol):
    """Writes create the connection's resource where there is none of that name."""

    async def get(self, org_id: UUID, name_or_id: str, secrets: SecretUse = SecretUse.ALL) -> Connection | None:
        """Return a connection; a name takes precedence over an identifier of the same spelling. One statement."""

    async def search(
        self, org_id: UUID, criteria: ConnectionFilter, page: Page, secrets: SecretUse = SecretUse.ALL
    ) -> Listed[Connection]:
        """Return connections by name. Two statements."""

    async def facets(
        self, org_id: UUID, criteria: ConnectionFilter, names: Collection[ConnectionFacet]
    ) -> Mapping[ConnectionFacet, Facet]:
        """Return the values of these fields, over all connections that match. One statement for each."""

    async def open_sessions(self, connection_id: UUID) -> list[UUID]:
        """Return its sessions that have not ended."""

    async def by_ids(self, org_id: UUID, ids: Sequence[UUID]) -> list[Connection]:
        """Return these connections without their secrets, by name."""

    async def ids_of(self, org_id: UUID, names_or_ids: Sequence[str]) -> Mapping[str, UUID]:
        """Return the connections with these names or identifiers; unknown ones are left out. A name takes
        precedence."""

    async def for_runbooks(self, org_id: UUID, reach: Reach | None, name_or_id: str | None) -> Mapping[UUID, str]:
        """Return the sorted names of connections in scope that allow runbooks; only the one given by `name_or_id`.
        One cheap statement."""

    async def names_of(self, org_id: UUID, subtypes: Collection[str]) -> list[str]:
        """Return the names of the connections of these subtypes."""

    async def tags(self, org_id: UUID, reach: Reach | None, page: Page) -> Listed[TagUse]:
        """Return tags by key and value, of the connections in scope."""


class ServerResourceStore(Protocol):
    """A resource is shown with its connections in scope, of which the first by name are listed."""

    async def find(self, org_id: UUID, reach: Reach | None, page: Page, name: str | None = None) -> Listed[Resource]:
        """Return resources by name, or the one of this name; with a scope, those with a connection in it."""

    async def get(self, org_id: UUID, name_or_id: str, reach: Reach | None) -> Resource | None:
        """Return a resource; a name takes precedence over an identifier of the same spelling. None also when nothing
        of it is in scope."""

    async def remove(self, org_id: UUID, name: str) -> bool:
        """Remove a resource; False when a connection belongs to it."""


@dataclass(frozen=True, slots=True)
class AgentFilter:
    """All given conditions apply. `search` is a part of the name. An agent that was never seen was not seen after
    anything."""

    name: str | None = None
    search: str | None = None
    seen_after: datetime | None = None
    not_seen_after: datetime | None = None


class AgentStore(NamedResourceStore[Agent], Protocol):
    """A removal raises Conflict also where a connection names the agent."""

    async def by_digest(self, digest: bytes) -> Agent | None:
        """Return the agent whose secret has this SHA-256, of any organisation."""

    async def by_id(self, agent_id: UUID) -> Agent | None:
        """Return the agent, of any organisation."""

    async def search(self, org_id: UUID, criteria: AgentFilter, page: Page) -> Listed[Agent]:
        """Return agents by name."""

    async def store_facts(self, agent_id: UUID, facts: Mapping[str, str]) -> None:
        """Store what it reports about itself."""

    async def mark_seen(self, ids: Sequence[UUID], at: datetime) -> frozenset[UUID]:
        """Record a heartbeat of these; return which exist. One statement."""

    async def digests(self, ids: Sequence[UUID]) -> Mapping[UUID, bytes | None]:
        """Return the digests of those that exist. One statement."""

    async def touch_all(self, mode: str, at: datetime) -> None:
        """Record a heartbeat of all agents of that mode, in all organisations: those in one process live together."""

    async def last_seen(self, mode: str) -> datetime | None:
        """Return the last heartbeat of any agent of that mode."""


class TargetTaskStore(Protocol):
    async def add(self, target_task: TargetTask) -> None: ...

    async def claim(self, task_id: UUID, worker: str, since: datetime) -> TargetTask | None:
        """Claim a task for exactly one caller; None for all others, and when it was created before `since`."""

    async def answer(self, task_id: UUID, worker: str, answer: str, at: datetime) -> bool:
        """Store the answer, as JSON. False when another worker has it, it was answered, or is gone."""

    async def look(self, task_id: UUID) -> tuple[str | None, str | None]:
        """Return (worker, answer), None where there is none yet."""

    async def remove(self, task_id: UUID) -> None: ...

    async def prune(self, before: datetime) -> None:
        """Delete those created before `before`."""

    async def save_test(self, test: TargetTest) -> None:
        """Replace the last test of its connection; do nothing when the connection was deleted meanwhile."""

    async def last_tests(self, connection_ids: Sequence[UUID]) -> Mapping[UUID, TargetTest]:
        """Return the last test of each of these connections that has one."""


class WorkerStore(Protocol):
    async def beat(self, worker: RelayWorker) -> bool:
        """Record a heartbeat. True the first time."""

    async def living(self, since: datetime) -> list[RelayWorker]:
        """Return those that were seen after `since`, by name."""

    async def forget(self, worker_id: UUID) -> None:
        """Delete a stopped worker."""

    async def prune(self, before: datetime) -> None:
        """Delete those that were not seen after `before`."""
