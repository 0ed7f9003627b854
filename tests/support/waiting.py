"""Clients that wait at login, without a network and without a store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID, uuid4

from postern.domain.identity.principal import Principal
from postern.domain.reviews.review import (
    ApprovalRequirement,
    Binding,
    Choice,
    Person,
    Review,
    ReviewEvent,
    ReviewKind,
    Vote,
    person_of,
)
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.rules.permit import Permit
from postern.domain.sessions.session import Verb
from postern.domain.targets.connection import TERMINAL, Connection
from postern.domain.tracing import NO_TRACER
from postern.errors import Invalid, NotFound, PosternError
from postern.gateway.clients.pending_logins import PendingLogins
from postern.gateway.clients.session_setup import SessionSetup
from postern.gateway.clients.tunnel_request import TunnelRequest
from postern.gateway.engine import Engine
from postern.protocols.command.command_listener import CommandGate
from postern.protocols.postgres.postgres_listener import PostgresGate
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import Start, Terminal
from postern.services.admission import Access
from postern.services.reviews.review_requests import RequestedAccess, ReviewRequests, ReviewRequired
from postern.services.reviews.reviews import Reviews
from postern.services.sessions import Sessions
from postern.store.ports.common_ports import Topic
from postern.store.signals import LocalSignals

DEMANDS = (ApprovalRequirement("", ("dba",), 1, all_groups=True),)


def somebody(name: str = "ann") -> Principal:
    return Principal(uuid4(), uuid4(), name, f"{name}@example.com", name.title())


class Line(asyncio.Transport):
    """A transport that keeps what is written, and tells its protocol when it is closed."""

    def __init__(self, stream: StreamHandshake) -> None:
        super().__init__()
        self.written = bytearray()
        self.paused = False
        self._stream = stream
        self._closing = False
        stream.connection_made(self)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("10.0.0.1", 5) if name == "peername" else default

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self._closing
        self.written += data

    def pause_reading(self) -> None:
        self.paused = True

    def get_write_buffer_size(self) -> int:
        return len(self.written)

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._closing = True
        asyncio.get_running_loop().call_soon(self._stream.connection_lost, None)

    def take(self) -> bytes:
        data = bytes(self.written)
        self.written.clear()
        return data


@dataclass
class Table:
    """Reviews as the services keep them. `grant` is what admission asks: None lets in, an error refuses."""

    signals: LocalSignals
    kept: dict[UUID, Review] = field(default_factory=dict)
    looks: int = 0
    rounds: list[int] = field(default_factory=list)  # how many were asked about
    admissions: int = 0
    at_once: int = 0
    most_at_once: int = 0
    refusal: PosternError | None = None
    needed: bool = True
    away: bool = False

    def requested_access(self, principal: Principal, connection: Connection) -> RequestedAccess:
        place = cast("UUID", connection.place)
        binding = Binding(principal.id, connection.id, place, "10.0.0.1", "login:1")
        waiting = next(
            (one for one in self.kept.values() if one.binding == binding and one.status is ReviewStatus.PENDING), None
        )
        return RequestedAccess(principal, connection, Verb.CONNECT, binding, DEMANDS, 3600, None, waiting)

    async def admit(self, principal: Principal, connection: Connection) -> Permit:
        self.admissions += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)  # as for a statement
        self.at_once -= 1
        if self.refusal is not None:
            raise self.refusal
        requested_access = self.requested_access(principal, connection)
        given = [
            one.id for one in self.kept.values() if one.binding == requested_access.binding and one.is_usable(now())
        ]
        if self.needed and not given:
            raise ReviewRequired(requested_access)
        return cast("Permit", SimpleNamespace(principal=principal, connection=connection, session_id=None))

    async def ask(
        self, requested_access: RequestedAccess, *, reason: str, duration: int | None, session: object
    ) -> Review:
        if requested_access.waiting is not None:
            return requested_access.waiting
        review = Review(
            id=uuid4(),
            org_id=requested_access.connection.org_id,
            kind=ReviewKind.JIT,
            status=ReviewStatus.PENDING,
            owner=person_of(requested_access.principal),
            binding=requested_access.binding,
            connection=requested_access.connection.name,
            demands=requested_access.demands,
            created_at=now(),
            expires_at=now() + timedelta(hours=1),
            reason=reason,
            access_duration=duration or 1800,
        )
        self.kept[review.id] = review
        return review

    async def look(self, review_id: UUID) -> Review | None:
        self.looks += 1
        if self.away:
            raise NotFound("the store does not answer")
        return self.kept.get(review_id)

    async def waiting(self, review_ids: Sequence[UUID]) -> set[UUID]:
        self.rounds.append(len(review_ids))
        if self.away:
            raise NotFound("the store does not answer")
        mine = [self.kept[review_id] for review_id in review_ids if review_id in self.kept]
        return {one.id for one in mine if one.status is ReviewStatus.PENDING and one.expires_at > now()}

    async def close(self, review_id: UUID, event: ReviewEvent) -> Review | None:
        assert event is ReviewEvent.EXPIRED
        self.kept[review_id] = replace(self.kept[review_id], status=ReviewStatus.EXPIRED)
        return None

    @property
    def only(self) -> Review:
        (review,) = self.kept.values()
        return review

    async def becomes(self, status: ReviewStatus, comment: str = "", *, told: bool = True) -> None:
        """What becomes of the only review that waits."""
        (review,) = [one for one in self.kept.values() if one.status is ReviewStatus.PENDING]
        chief = Person(uuid4(), "chief", "chief@example.com")
        choice = Choice.APPROVED if status is ReviewStatus.APPROVED else Choice.REJECTED
        voice = Vote(chief, choice, frozenset({"dba"}), now(), comment=comment)
        revoke_at = now() + timedelta(hours=1)
        self.kept[review.id] = replace(review, status=status, voices=(voice,), revoke_at=revoke_at)
        if told:
            await self.signals.publish(Topic.REVIEW_CHANGED, review_id=str(review.id))


class Place:
    """One worker's gates, in front of a target that lets everybody in. `opened` are the permits it was opened by."""

    def __init__(self, *, longest: float = 60, subtype: str = "postgres") -> None:
        self.signals = LocalSignals()
        self.table = Table(self.signals)
        self.connection = cast(
            "Connection",
            SimpleNamespace(
                id=uuid4(),
                org_id=uuid4(),
                name="shop",
                subtype=subtype,
                place=uuid4(),
                protocol=TERMINAL if subtype == "bash" else subtype,
            ),
        )
        self.opened: list[Permit] = []
        self.issue_lacks = ""  # what the session's issue would need and is not told
        self.turned_away: list[PosternError] = []
        self.ended: PosternError | None = None  # of what clients are logged in with
        self.sessions: list[Mapping[str, str]] = []
        sessions = SimpleNamespace(to_wait=self._to_wait)
        self.held = PendingLogins(
            cast("ReviewRequests", self.table),
            cast("Reviews", self.table),
            cast("Sessions", sessions),
            self.signals,
            _address,
            longest=longest,
        )
        engine = cast(
            "Engine",
            SimpleNamespace(
                tracer=NO_TRACER,
                links=SimpleNamespace(changes=0),
                open=self._open,
                check_issue=self._check_issue,
                run=self._run,
                turned_away=self.turned_away.append,
            ),
        )
        access = cast("Access", SimpleNamespace(admit_principal=self._admit))
        fronts = SessionSetup(access, engine, self.held)
        self.postgres = PostgresGate(fronts, self.signals, decoy_secret=b"")
        self.commands = CommandGate(fronts)

    async def _admit(self, principal: Principal, connection: str, **_: object) -> Permit:
        return await self.table.admit(principal, self.connection)

    def _to_wait(self, requested_access: RequestedAccess, *, metadata: Mapping[str, str]) -> object:
        self.sessions.append(metadata)
        return object()

    async def _check_issue(self, *_: object) -> None:
        if self.issue_lacks:
            raise Invalid(self.issue_lacks)

    async def _open(self, permit: Permit, *_: object, **__: object) -> tuple[object, SimpleNamespace]:
        self.opened.append(permit)
        return object(), SimpleNamespace(parameters={"server_version": "17"}, process=4711)

    def _run(self, *_: object, **__: object) -> Awaitable[None]:
        """A session that has ended at once."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    def database(self, stream: StreamHandshake, who: Principal, reason: str = "") -> Awaitable[Awaitable[None] | None]:
        return self.postgres.serve_tunnel(stream, self._wanted(who, reason))

    def command(
        self, stream: StreamHandshake, who: Principal, *, at_terminal: bool
    ) -> Awaitable[Awaitable[None] | None]:
        start = Start(terminal=Terminal() if at_terminal else None)
        return self.commands.serve_tunnel(stream, self._wanted(who), start)

    def _wanted(self, who: Principal, reason: str = "") -> TunnelRequest:
        async def standing() -> Principal:
            if self.ended is not None:
                raise self.ended
            return who

        return TunnelRequest(who, "login:1", "shop", 0, standing, reason)


async def _address(review_id: UUID) -> str:
    return f"https://gateway/{review_id}"


def now() -> datetime:
    return datetime.now(UTC)
