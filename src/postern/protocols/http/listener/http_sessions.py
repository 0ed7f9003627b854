"""Sessions of HTTP clients: one for each credential (or login) and address, with a link for each request that runs.

request ─▶ the session of its credential: found, or opened: permit, review, dial, row, recording
        ─▶ lease: a free link, or a new one, or it waits its turn ─▶ the exchange ─▶ release
        ─▶ no request for a while: the session ends
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Final, cast

from postern.domain.rules.permit import Permit
from postern.domain.targets.connection import Connection
from postern.errors import Denied, PosternError, TooMany, Unavailable
from postern.gateway.clients.session_setup import ClientSession, SessionSetup, log_rejection
from postern.gateway.engine import Engine
from postern.gateway.shared_session import SharedSession
from postern.protocols.http.listener.http_client_exchange import HttpIdentity
from postern.protocols.http.listener.http_link import HttpLink
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import Start, Target

log = logging.getLogger(__name__)

IDLE: Final = 300.0  # seconds without a request after which a session ends
LINK_IDLE: Final = 30.0  # seconds that a link without a request is kept for the next one
MOST_LINKS: Final = 100  # requests of one session that run at the same time …
MOST_WAITING: Final = 200  # … and that wait for their turn
LONGEST_WAIT: Final = 30.0  # seconds
_TICK: Final = 0.001  # seconds by which a timer can be early


class ReviewPending(PosternError):
    """A session waits for a review. The message says for which."""


class HttpSessionClient(ClientSession):
    """The client of a session as its admission sees it: no connection, but an address. `notice` is what it would be
    told while it waits for a review."""

    def __init__(self, identity: HttpIdentity, protocol: str, address: str, metadata: Mapping[str, str]) -> None:
        stream = StreamHandshake()
        stream.peer = address
        super().__init__(stream, identity.since, metadata, identity.request)
        self._protocol = protocol
        self.notice = ""

    def send_notice(self, text: str, hint: str) -> None:
        self.notice = f"{text}. {hint}"

    def check(self) -> None:
        """Do nothing: a request that is given up no longer waits for its session."""

    def fits(self, connection: Connection) -> None:
        if connection.protocol != self._protocol:
            raise Denied(
                f"connection {connection.name!r} is of subtype {connection.subtype!r}, not {self._protocol!r}; use a "
                "credential of another connection, or the port of that subtype"
            )

    def start(self, permit: Permit) -> Start:
        return Start()

    def turn_away(self, error: PosternError) -> None:
        log_rejection(self.stream, error)


class HttpSession:
    """A session and its links."""

    def __init__(self, engine: Engine, shared: SharedSession) -> None:
        self.shared = shared
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self._slots = asyncio.Semaphore(MOST_LINKS)
        self._waiting = 0
        self._free: list[HttpLink] = []  # the one that was used last is at the end
        self._closing_unused = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def lease(self) -> HttpLink:
        """Return a link for one exchange; `release` it once. Raises the errors of dialling, SessionAborted and
        TooMany."""
        if self._slots.locked():
            await self._wait_for_slot()
        else:
            await self._slots.acquire()
        try:
            self.shared.require_running()
            while self._free:
                link = self._free.pop()
                if not link.has_ended:
                    return link
            return self.add(await self._engine.dial_again(self.shared))
        except BaseException:
            self._slots.release()
            raise

    async def _wait_for_slot(self) -> None:
        if self._waiting >= MOST_WAITING:
            raise TooMany("too many requests of this login wait for others; try again later", retry_after=5)
        self._waiting += 1
        try:
            async with asyncio.timeout(LONGEST_WAIT):
                await self._slots.acquire()
        except TimeoutError:
            raise TooMany(
                f"{MOST_LINKS} requests of this login run, the maximum, and none ended within {LONGEST_WAIT:g} s; try "
                "again later",
                retry_after=5,
            ) from None
        finally:
            self._waiting -= 1

    def release(self, link: HttpLink, *, reusable: bool) -> None:
        self._slots.release()
        if reusable and link.is_quiet:
            self.keep(link)
        else:
            link.close()

    def keep(self, link: HttpLink) -> None:
        """Keep a link without a request for the next one."""
        if link.has_ended:
            return
        link.free_since = self._loop.time()
        self._free.append(link)
        if not self._closing_unused:
            self._closing_unused = True
            self._loop.call_later(LINK_IDLE, self._close_unused)

    def _close_unused(self) -> None:
        """Close the links that have been free for LINK_IDLE, and come back when the next one has."""
        now = self._loop.time()
        while self._free and now - self._free[0].free_since >= LINK_IDLE - _TICK:
            self._free.pop(0).close()
        self._closing_unused = bool(self._free)
        if self._free:
            self._loop.call_later(self._free[0].free_since + LINK_IDLE - now, self._close_unused)

    def add(self, target: Target) -> HttpLink:
        """Run a link to a target that was dialled."""
        scheme, authority = target.parameters.get("scheme", "http"), target.parameters.get("authority", "")
        link = HttpLink(f"{scheme}://{authority}")
        task = asyncio.get_running_loop().create_task(self._run(link, target))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return link

    async def _run(self, link: HttpLink, target: Target) -> None:
        stream = StreamHandshake()
        stream.connection_made(cast("asyncio.Transport", link))
        try:
            await self._engine.run_link(self.shared, stream, target)
        except Exception:
            log.exception("a link of session %s failed", self.shared.session_id)
        finally:
            link.close()
            if link in self._free:
                self._free.remove(link)


@dataclass(slots=True, eq=False)
class _Opening:
    """A session that is being opened, for the requests that wait for it."""

    client: HttpSessionClient
    task: asyncio.Task[HttpSession]
    waiting: int = 0


@dataclass(slots=True)
class HttpSessions:
    """The sessions of one gate. A session whose opening no request waits for any more is not opened; its review
    stays."""

    fronts: SessionSetup
    protocol: str
    _open: dict[Hashable, HttpSession] = field(default_factory=dict)
    _openings: dict[Hashable, _Opening] = field(default_factory=dict)

    def find(self, identity: HttpIdentity) -> HttpSession | None:
        """Return the session of a request if it is open."""
        session = self._open.get(identity.key)
        return session if session is not None and session.shared.end_reason is None else None

    async def session_of(
        self, identity: HttpIdentity, address: str, metadata: Mapping[str, str], *, patience: float | None = None
    ) -> HttpSession:
        """Return the session of a request. Raises the errors of admission and dialling; ReviewPending if it still waits
        for a review after `patience` seconds."""
        key = identity.key
        session = self.find(identity)
        if session is not None:
            return session
        if self.fronts.engine.links.is_stopping:
            raise Unavailable("the gateway is stopping; try again in a few seconds")
        opening = self._openings.get(key)
        if opening is None:
            opening = self._openings[key] = self._start(identity, address, metadata)
        opening.waiting += 1
        try:
            done, _ = await asyncio.wait((opening.task,), timeout=patience)
            if not done and opening.client.notice:
                raise ReviewPending(opening.client.notice)
            return await asyncio.shield(opening.task)
        finally:
            opening.waiting -= 1
            if not opening.waiting and not opening.task.done():
                opening.task.cancel()
                self._forget(key, opening)

    def _start(self, identity: HttpIdentity, address: str, metadata: Mapping[str, str]) -> _Opening:
        client = HttpSessionClient(identity, self.protocol, address, metadata)
        task = asyncio.get_running_loop().create_task(self._open_session(identity, client))
        opening = _Opening(client, task)
        task.add_done_callback(lambda _: self._forget(identity.key, opening))
        return opening

    def _forget(self, key: Hashable, opening: _Opening) -> None:
        if self._openings.get(key) is opening:
            del self._openings[key]
        if not opening.task.cancelled() and opening.task.done():
            opening.task.exception()  # its requests have raised it, unless all were given up

    async def _open_session(self, identity: HttpIdentity, client: HttpSessionClient) -> HttpSession:
        try:
            shared, target = await self.fronts.open_shared(client, identity.permit(client), idle=IDLE)
        except PosternError as error:
            self.fronts.turned_away(client, error)
            raise
        session = HttpSession(self.fronts.engine, shared)
        session.keep(session.add(target))
        self._open[identity.key] = session
        shared.done.add_done_callback(lambda _: self._close(identity.key, session))
        return session

    def _close(self, key: Hashable, session: HttpSession) -> None:
        if self._open.get(key) is session:
            del self._open[key]
