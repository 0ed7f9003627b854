"""What services need from the outside, as Protocols: storage, signals, recordings, a clock.

Services import this module and never SQL. Every method that takes `org_id` sees only that
organisation. Methods raise Unavailable when the store does not answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from postern.domain.agent import Agent
from postern.domain.connection import Connection, Toggle
from postern.domain.credential import Credential, Grant, Verifier
from postern.domain.guardrail import GuardRail
from postern.domain.principal import Principal
from postern.domain.session import EndReason, Session, SessionStatus, Verb

Clock = Callable[[], datetime]


class Topic:
    """The signals' topics; payloads are in docs/architecture.md."""

    SESSION_RUN = "session.run"
    SESSION_KILL = "session.kill"
    SESSION_DONE = "session.done"
    CREDENTIAL_REVOKED = "credential.revoked"
    PRINCIPAL_CHANGED = "principal.changed"
    POLICY_CHANGED = "policy.changed"
    CANCEL = "cancel"
    # Told by the signals client itself, never sent: the hub was lost and found again, so messages
    # may have been missed. Drop what is cached and check what is live.
    RESUMED = "signals.resumed"


class Signals(Protocol):
    async def publish(self, topic: str, **payload: str) -> None:
        """Tells every process, this one too. Never waits for a slow subscriber."""

    def subscribe(self, topic: str, handler: Callable[[Mapping[str, str]], None]) -> None:
        """`handler` is called on the event loop and must return at once."""


class Recordings(Protocol):
    """Reads what a session did; may block on files, so it is called from a thread."""

    def events(self, session: Session) -> Iterator[tuple[float, str, bytes]]:
        """(milliseconds since start, "i" | "o" | "e", content), in order."""

    def operations(self, session: Session) -> Iterator[tuple[float, bytes]]:
        """(milliseconds since start, text of the query)."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What decides whether a live permit still holds. None where the row is gone."""

    principal_active: bool | None
    access_mode_connect: Toggle | None
    access_mode_exec: Toggle | None
    credential_expires_at: datetime | None
    credential_revoked_at: datetime | None
    credential_exists: bool


class AccessStore(Protocol):
    async def find_grant(self, username: str) -> Grant | None:
        """By the exact user name. One statement."""

    async def guardrails_of(self, connection_id: UUID) -> tuple[GuardRail, ...] | None:
        """None when there is no such connection, which is not the same as one without rules. One statement."""

    async def standing(self, principal_id: UUID, connection_id: UUID, credential_id: UUID | None) -> Standing:
        """One statement."""


class CredentialStore(Protocol):
    async def add(self, credential: Credential, verifier: Verifier) -> None:
        """Raises Conflict when the user name is taken."""

    async def get(self, org_id: UUID, credential_id: UUID) -> Credential | None: ...

    async def of_connection(self, org_id: UUID, connection_id: UUID, user_id: UUID | None) -> list[Credential]:
        """Newest first; those of one user when `user_id` is given."""

    async def revoke(self, credential_id: UUID, at: datetime) -> bool:
        """False when it was revoked before."""


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """`user` and `owner` are subjects; `start` and `end` bound start_date, both included."""

    user: str | None = None
    owner: str | None = None
    connection: str | None = None
    type: str | None = None
    verb: Verb | None = None
    status: SessionStatus | None = None
    start: datetime | None = None
    end: datetime | None = None
    limit: int = 20
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a session ended. `detail` is a person-readable reason, where there is more to say."""

    at: datetime
    reason: EndReason
    exit_code: int | None = None
    metrics: Mapping[str, Any] | None = None
    event_size: int = 0
    detail: str | None = None


class SessionStore(Protocol):
    async def add(self, session: Session, *, principal_id: UUID, source: str) -> None:
        """One INSERT."""

    async def end(self, session_id: UUID, ended: Ended) -> bool:
        """False when there is no such session or it was done before."""

    async def claim(self, session_id: UUID, worker: str, at: datetime) -> tuple[Session, UUID, str] | None:
        """ready → open for exactly one caller: (session, principal id, source); None for all others."""

    async def end_if_ready(self, session_id: UUID, ended: Ended) -> bool: ...

    async def ids(self, status: SessionStatus, worker: str | None) -> list[UUID]: ...

    async def get(self, org_id: UUID, session_id: UUID) -> Session | None: ...

    async def find(self, org_id: UUID, wanted: SessionFilter) -> tuple[list[Session], int]:
        """One page, newest first, without scripts; and how many there are over all pages."""


@dataclass(frozen=True, slots=True)
class Account:
    """A principal with what only login needs."""

    principal: Principal
    password_hash: str | None
    token_generation: int


class PrincipalStore(Protocol):
    async def default_org(self) -> UUID: ...

    async def get(self, user_id: UUID) -> Account | None: ...

    async def by_email(self, org_id: UUID, email: str) -> Account | None:
        """E-mail addresses are kept and looked up in lower case."""

    async def by_subject_or_email(self, org_id: UUID, key: str) -> Account | None: ...

    async def all(self, org_id: UUID) -> list[Principal]: ...

    async def count(self, org_id: UUID) -> int: ...

    async def add(self, principal: Principal, password_hash: str | None, at: datetime) -> None:
        """Raises Conflict when e-mail or subject is taken."""

    async def update(self, principal: Principal, at: datetime) -> None:
        """Name, status and groups; the rest does not change."""

    async def set_password(self, user_id: UUID, password_hash: str, at: datetime) -> None:
        """Also raises the token generation."""


@dataclass(frozen=True, slots=True)
class ConnectionFilter:
    """All given conditions hold. `tags` are (key, value, equal)."""

    name: str | None = None
    type: str | None = None
    subtype: str | None = None
    agent_id: UUID | None = None
    search: str | None = None
    tags: Sequence[tuple[str, str, bool]] = ()


class ConnectionStore(Protocol):
    async def get(self, org_id: UUID, name_or_id: str) -> Connection | None:
        """A name wins over an identifier of the same spelling. One statement."""

    async def find(self, org_id: UUID, wanted: ConnectionFilter) -> list[Connection]:
        """By name."""

    async def by_ids(self, org_id: UUID, ids: Sequence[UUID]) -> list[Connection]: ...

    async def add(self, connection: Connection) -> None:
        """With its association to guard rails. Raises Conflict when the name is taken."""

    async def update(self, connection: Connection) -> None:
        """All fields but id, org_id, name and created_at. Raises NotFound."""

    async def remove(self, connection_id: UUID) -> list[UUID]:
        """With its credentials and associations; answers the ids of its sessions that are still open."""


class GuardRailStore(Protocol):
    async def get(self, org_id: UUID, guardrail_id: UUID) -> GuardRail | None: ...

    async def all(self, org_id: UUID) -> list[GuardRail]: ...

    async def known(self, org_id: UUID, ids: Sequence[UUID]) -> set[UUID]:
        """Which of these exist."""

    async def add(self, guardrail: GuardRail) -> None:
        """With its association to connections. Raises Conflict when the name is taken."""

    async def update(self, guardrail: GuardRail) -> None:
        """All fields but id, org_id and created_at. Raises NotFound, Conflict."""

    async def remove(self, guardrail_id: UUID) -> None: ...


class AgentStore(Protocol):
    async def get(self, org_id: UUID, name_or_id: str) -> Agent | None: ...

    async def all(self, org_id: UUID) -> list[Agent]: ...

    async def add(self, agent: Agent) -> None:
        """Raises Conflict when the name is taken."""

    async def touch(self, agent_id: UUID, at: datetime) -> None: ...


class KeyStore(Protocol):
    async def signing_key(self, purpose: str, make: Callable[[], bytes], at: datetime) -> tuple[UUID, bytes]:
        """The private key of that purpose with its id; stores `make()` first when there is none yet."""


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One write of the API: who did what to which resource, and how it ended."""

    id: UUID
    org_id: UUID
    at: datetime
    actor_id: UUID | None
    actor_email: str
    action: str
    resource_type: str
    resource: str
    method: str
    path: str
    status: int
    source: str
    request_id: str
    body: Mapping[str, Any]


class AuditStore(Protocol):
    async def add(self, entry: AuditEntry) -> None: ...

    async def newest(self, org_id: UUID, limit: int) -> list[AuditEntry]: ...


class Stores(Protocol):
    """All of them, for the composition root."""

    @property
    def access(self) -> AccessStore: ...
    @property
    def agents(self) -> AgentStore: ...
    @property
    def audit(self) -> AuditStore: ...
    @property
    def connections(self) -> ConnectionStore: ...
    @property
    def credentials(self) -> CredentialStore: ...
    @property
    def guardrails(self) -> GuardRailStore: ...
    @property
    def keys(self) -> KeyStore: ...
    @property
    def principals(self) -> PrincipalStore: ...
    @property
    def sessions(self) -> SessionStore: ...
