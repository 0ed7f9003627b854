"""The feed of changes behind the API's event stream.

Signals say what has changed, but not whom it concerns. While clients follow the feed, one task looks up the audience of
each change, with one query for all sessions that changed meanwhile, and offers it to the followers whom it concerns.
The last changes stay in memory, so that a client which lost its connection continues after the last one that it has.

Every queue is bounded. A client that may have missed changes is told to read everything again: see
`ChangeBatch.has_gap`.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from uuid import UUID

from postern.domain.change import Audience, ChangeNotice, ChangeSubject
from postern.domain.identity.principal import Principal
from postern.services.recordings.concurrency_limit import ConcurrencyLimit
from postern.services.rules.access_control import AccessControl
from postern.services.targets.agents import AgentChange
from postern.store.ports.common_ports import Signals, Topic
from postern.store.ports.review_ports import ReviewStore
from postern.store.ports.target_ports import AgentStore, ConnectionStore, SessionStore

log = logging.getLogger(__name__)

STREAMS_EACH, STREAMS = 8, 512  # in one process: of one principal, and together
MAX_QUEUED = 256  # changes that a follower has not taken yet
MAX_REMEMBERED = 1_000  # changes after which a client can continue
MAX_UNRESOLVED = 10_000  # changes whose audience is not known yet
LINGER = 60.0  # seconds after the last follower has left in which changes are still remembered
MAX_CONNECTIONS = 20  # that are named in one batch; beyond it the whole list counts as changed

_AGENT_CHANGES = {AgentChange.CAME: "online", AgentChange.WENT: "offline"}
_LOGIN_ENDED, _ACCOUNT_CHANGED = "ended", "changed"
_SETTINGS_OF_LOGINS = frozenset({"auth", "features", "token-keys"})  # after which logins or keys can be invalid


@dataclass(frozen=True, slots=True)
class ChangeStores:
    """Where the feed looks up whom a change concerns."""

    sessions: SessionStore
    reviews: ReviewStore
    agents: AgentStore
    connections: ConnectionStore


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """What a follower takes at once. After a gap it must read everything again. `position` is the client's place in the
    feed after the batch."""

    changes: Sequence[ChangeNotice]
    has_gap: bool
    position: str


@dataclass(frozen=True, slots=True)
class _Signalled:
    """A signalled change whose audience is not known yet."""

    subject: ChangeSubject
    id: UUID
    what: str
    org_id: UUID | None = None


class ChangeFollower:
    """One client that follows the feed, with the principal that it has proved to be."""

    def __init__(self, principal: Principal, position: str) -> None:
        self.principal = principal
        self.position = position  # in the feed
        self._queue: deque[ChangeNotice] = deque()
        self._has_gap = False
        self._doubts = 0  # signals after which the principal has to be checked again
        self._doubts_settled = 0
        self._event = asyncio.Event()

    @property
    def is_doubtful(self) -> bool:
        """Whether the login, the groups or the roles of the principal may have changed."""
        return self._doubts != self._doubts_settled

    @property
    def doubts(self) -> int:
        return self._doubts

    def settle(self, principal: Principal, doubts: int) -> None:
        """Continue as `principal`, which was read after the given number of doubts."""
        self.principal, self._doubts_settled = principal, doubts

    async def wait(self, within: float) -> None:
        """Wait until there is something to take or to check, at most `within` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._event.wait()

    def take(self) -> ChangeBatch:
        """Return what has come, for the principal as it is now."""
        self._event.clear()
        changes = [change for change in self._queue if change.audience.includes(self.principal)]
        batch = ChangeBatch(changes, self._has_gap, self.position)
        self._queue.clear()
        self._has_gap = False
        return batch

    def offer(self, change: ChangeNotice, position: str) -> None:
        """Queue a change. One that may concern a principal in doubt is filtered when it is taken."""
        self.position = position
        if not (self.is_doubtful or change.audience.includes(self.principal)):
            return
        if len(self._queue) >= MAX_QUEUED:
            self.lose(position)
            return
        self._queue.append(change)
        self._event.set()

    def lose(self, position: str) -> None:
        """Forget what is queued, since changes are missing."""
        self._queue.clear()
        self._has_gap, self.position = True, position
        self._event.set()

    def doubt(self) -> None:
        self._doubts += 1
        self._event.set()


class ChangeFeed:
    """The feed of one process. It subscribes to signals once the first client follows it."""

    def __init__(self, stores: ChangeStores, control: AccessControl, signals: Signals) -> None:
        self.limit = ConcurrencyLimit("follow changes", each=STREAMS_EACH, most=STREAMS)
        self._stores = stores
        self._control = control
        self._signals = signals
        self._epoch = secrets.token_hex(4)
        self._number = 0
        self._remembered: deque[ChangeNotice] = deque(maxlen=MAX_REMEMBERED)
        self._followers: set[ChangeFollower] = set()
        self._unresolved: dict[_Signalled, None] = {}
        self._resolving: asyncio.Task[None] | None = None
        self._is_subscribed = False
        self._remembers_until = 0.0  # by the clock of the loop; after it, no client can continue

    def position(self) -> str:
        """Return the place in the feed now. What a client reads after this has all changes until here; who follows from
        here gets the others."""
        self._subscribe()
        return self._position

    @contextmanager
    def follow(self, principal: Principal, position: str | None) -> Iterator[ChangeFollower]:
        """Follow the feed, after a position that it had. Raises TooMany."""
        with self.limit.acquire(principal.id):
            self._subscribe()
            follower = ChangeFollower(principal, self._position)
            if position is not None:
                self._continue(follower, position)
            self._followers.add(follower)
            try:
                yield follower
            finally:
                self._followers.discard(follower)
                self._remembers_until = asyncio.get_running_loop().time() + LINGER

    async def show(self, principal: Principal, changes: Sequence[ChangeNotice]) -> Sequence[ChangeNotice]:
        """Return the changes as the principal can be told of them, each once: a connection that they cannot see is not
        named. Raises Unavailable."""
        ids = {change.id for change in changes if change.subject is ChangeSubject.CONNECTION and change.id is not None}
        visible = await self._visible(principal, ids)
        shown: dict[tuple[ChangeSubject, UUID | None, str, UUID | None], ChangeNotice] = {}
        for change in changes:
            if change.subject is ChangeSubject.CONNECTION and change.id not in visible:
                change = replace(change, id=None)
            shown[change.subject, change.id, change.what, change.session_id] = change
        return sorted(shown.values(), key=lambda change: change.number)

    async def _visible(self, principal: Principal, ids: set[UUID]) -> set[UUID]:
        if not ids or len(ids) > MAX_CONNECTIONS:
            return set()
        connections = await self._stores.connections.by_ids(principal.org_id, sorted(ids))
        return {item.id for item in connections if (await self._control.decide(principal, item)).visible}

    @property
    def _position(self) -> str:
        return f"{self._epoch}-{self._number}"

    def _continue(self, follower: ChangeFollower, position: str) -> None:
        """Offer what came after the position, or report a gap where that is no longer known."""
        epoch, _, text = position.partition("-")
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else -1
        missed = [change for change in self._remembered if change.number > number]
        if epoch != self._epoch or not self._number - len(missed) <= number <= self._number:
            follower.lose(self._position)
            return
        for change in missed:
            follower.offer(change, self._position)

    def _subscribe(self) -> None:
        if self._is_subscribed:
            return
        self._is_subscribed = True
        handlers: Mapping[str, Callable[[Mapping[str, str]], None]] = {
            Topic.SESSION_STARTED: lambda payload: self._on_session(payload, "started"),
            Topic.SESSION_DONE: lambda payload: self._on_session(payload, "ended"),
            Topic.REVIEW_CHANGED: self._on_review,
            Topic.AGENT_CHANGED: self._on_agent,
            Topic.POLICY_CHANGED: self._on_policy,
            Topic.LOGIN_CHANGED: self._on_login,
            Topic.PRINCIPAL_CHANGED: self._on_principal,
            Topic.SETTINGS_CHANGED: self._on_settings,
            Topic.RESUMED: lambda _: self._lose_all(),
        }
        for topic, handler in handlers.items():
            self._signals.subscribe(topic, handler)

    def _on_session(self, payload: Mapping[str, str], what: str) -> None:
        self._note(_Signalled(ChangeSubject.SESSION, UUID(payload["session_id"]), what))

    def _on_review(self, payload: Mapping[str, str]) -> None:
        self._note(_Signalled(ChangeSubject.REVIEW, UUID(payload["review_id"]), payload["status"]))

    def _on_agent(self, payload: Mapping[str, str]) -> None:
        change = AgentChange(payload["change"])
        org_id = UUID(payload["org_id"]) if payload.get("org_id") else None
        what = _AGENT_CHANGES.get(change, change.value)
        self._note(_Signalled(ChangeSubject.AGENT, UUID(payload["agent_id"]), what, org_id))

    def _on_policy(self, payload: Mapping[str, str]) -> None:
        if not payload.get("org_id"):
            self._lose_all()
            return
        connection_id = UUID(payload["connection_id"]) if payload.get("connection_id") else None
        org_id = UUID(payload["org_id"])
        if connection_id is None:  # the names of the roles can have changed, too
            self._doubt(lambda principal: principal.org_id == org_id)
        self._publish(ChangeSubject.CONNECTION, connection_id, "changed", Audience(org_id, everyone=True))

    def _on_login(self, payload: Mapping[str, str]) -> None:
        principal_id = UUID(payload["principal_id"])
        login_id = UUID(payload["login_id"]) if payload.get("login_id") else None
        if payload["change"] == _LOGIN_ENDED:
            self._doubt(lambda principal: principal.id == principal_id)
        self._publish(ChangeSubject.LOGIN, login_id, payload["change"], Audience(None, principal_id=principal_id))

    def _on_principal(self, payload: Mapping[str, str]) -> None:
        principal_id = UUID(payload["principal_id"])
        self._doubt(lambda principal: principal.id == principal_id)
        self._publish(ChangeSubject.LOGIN, None, _ACCOUNT_CHANGED, Audience(None, principal_id=principal_id))

    def _on_settings(self, payload: Mapping[str, str]) -> None:
        if payload.get("name") in _SETTINGS_OF_LOGINS:
            self._doubt(lambda _: True)

    def _doubt(self, concerns: Callable[[Principal], bool]) -> None:
        """Let the principals be read again before their followers are sent anything."""
        for follower in self._followers:
            if concerns(follower.principal):
                follower.doubt()

    def _lose_all(self) -> None:
        """Report a gap to every follower, also to those that come back later."""
        self._number += 1
        self._remembered.clear()
        self._unresolved.clear()
        self._doubt(lambda _: True)
        for follower in self._followers:
            follower.lose(self._position)

    def _is_needed(self) -> bool:
        return bool(self._followers) or asyncio.get_running_loop().time() < self._remembers_until

    def _note(self, signalled: _Signalled) -> None:
        """Queue a change until its audience is known."""
        if not self._is_needed():
            self._skip()
        elif len(self._unresolved) >= MAX_UNRESOLVED:
            self._lose_all()
        else:
            self._unresolved[signalled] = None
            if self._resolving is None:
                self._resolving = asyncio.get_running_loop().create_task(self._resolve_all())

    def _skip(self) -> None:
        """Leave out a change that no client follows, so that a client which comes back finds a gap."""
        self._number += 1
        self._remembered.clear()

    def _publish(
        self, subject: ChangeSubject, key: UUID | None, what: str, audience: Audience, session_id: UUID | None = None
    ) -> None:
        if not self._is_needed():
            self._skip()
            return
        self._number += 1
        change = ChangeNotice(self._number, subject, key, what, audience, session_id)
        self._remembered.append(change)
        for follower in self._followers:
            follower.offer(change, self._position)

    async def _resolve_all(self) -> None:
        try:
            while self._unresolved:
                signalled = list(self._unresolved)
                self._unresolved.clear()
                await self._resolve(signalled)
        except Exception as error:  # whom the changes concern is not known, so every client has to read again
            log.warning("changes could not be announced to the clients that follow them: error=%s", error)
            self._lose_all()
        finally:
            self._resolving = None

    async def _resolve(self, signalled: Sequence[_Signalled]) -> None:
        """Publish changes with their audience, in their order. Raises Unavailable."""
        session_ids = [item.id for item in signalled if item.subject is ChangeSubject.SESSION]
        owners = await self._stores.sessions.owners(session_ids) if session_ids else {}
        for item in signalled:
            if item.subject is ChangeSubject.SESSION and item.id in owners:
                org_id, owner = owners[item.id]
                self._publish(item.subject, item.id, item.what, Audience(org_id, overseers=True, owner=owner))
            elif item.subject is ChangeSubject.REVIEW:
                await self._publish_review(item)
            elif item.subject is ChangeSubject.AGENT:
                await self._publish_agent(item)

    async def _publish_review(self, item: _Signalled) -> None:
        review = await self._stores.reviews.get(item.id)
        if review is None:
            return
        audience = Audience(
            review.org_id,
            overseers=True,
            principal_id=review.binding.principal_id,
            groups=frozenset((*review.groups, *review.force_groups)),
        )
        self._publish(item.subject, item.id, item.what, audience, review.session_id)

    async def _publish_agent(self, item: _Signalled) -> None:
        org_id = item.org_id
        if org_id is None:
            agent = await self._stores.agents.by_id(item.id)
            if agent is None:
                return
            org_id = agent.org_id
        self._publish(item.subject, item.id, item.what, Audience(org_id, overseers=True))
