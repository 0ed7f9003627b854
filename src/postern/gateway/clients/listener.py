"""Acceptance of clients: one task and one deadline for each login, and never a wait in the accept loop.

a client connects ─▶ descriptors left? a slot left, in total and for its address?  ─▶ no: rejected, in its protocol
                  ─▶ its turn: at once, soon, or too late (gateway/clients/login_turns.py) ─▶ too late: the same
                  ─▶ serve: it logs in
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from postern.descriptors import PER_CLIENT, Descriptors, no_room
from postern.errors import PosternError, ProtocolViolation, TooMany
from postern.gateway.clients.login_turns import SLOT_TIME, LoginTurns, Turn
from postern.relay.relay_handshake import StreamHandshake
from postern.services.identity.logins.login_throttle import neighbourhood

log = logging.getLogger(__name__)

Serve = Callable[[StreamHandshake], Awaitable[Awaitable[None] | None]]
Reject = Callable[[StreamHandshake, PosternError], Awaitable[None]]

REJECTION_TIMEOUT = 5.0  # seconds that a rejected client has to receive the reason and disconnect
_WARN_EVERY = 10.0  # seconds between two warnings about rejected clients


@dataclass(frozen=True, slots=True)
class _Reason:
    """The reason for a rejection: the client's error, and the operator's log line."""

    error: TooMany
    seen: str
    advice: str


_NO_DESCRIPTORS = _Reason(
    no_room(), "the limit of open files is reached", "raise the hard limit (LimitNOFILE=, ulimit -Hn)"
)
_TOO_MANY_AT_ONCE = _Reason(
    TooMany(
        "the gateway accepts no more clients now: the maximum number of logins is in progress; try again in a few "
        "seconds"
    ),
    "too many clients log in at once",
    "let clients use a connection pool, or raise POSTERN_MAX_HANDSHAKES or POSTERN_MAX_HANDSHAKES_PER_ADDRESS",
)
_TOO_SLOW = _Reason(
    TooMany("the gateway accepts no more clients now: too many clients wait to log in; try again in a few seconds"),
    "clients arrive faster than they can log in",
    "let clients use a connection pool, or start more relay workers (POSTERN_WORKERS)",
)


class ConnectionLimiter:
    """Concurrency limiter, in total and per address (IPv6: per /64, which one subscriber owns)."""

    def __init__(self, *, most: int, most_per_address: int) -> None:
        self._most = most
        self._most_per_address = most_per_address
        self._taken: Counter[str] = Counter()

    def take(self, address: str) -> bool:
        """Take a slot. Return False if none is free; otherwise call `leave` once."""
        place = neighbourhood(address)
        if self.full or self._taken[place] >= self._most_per_address:
            return False
        self._taken[place] += 1
        return True

    @property
    def taken(self) -> int:
        return self._taken.total()

    @property
    def full(self) -> bool:
        return self.taken >= self._most

    def leave(self, address: str) -> None:
        place = neighbourhood(address)
        self._taken[place] -= 1
        if not self._taken[place]:
            del self._taken[place]


@dataclass(frozen=True, slots=True)
class _Login:
    stream: StreamHandshake
    serve: Serve
    reject: Reject


class HandshakeRunner:
    """Runs logins.

    `serve(stream)` logs a client in; the awaitable that it returns is awaited without the deadline. `stream.on_known`
    lifts the deadline earlier, so that a slow target does not count against the client.

    Clients that are not logged in, or wait for their target, are limited, in total and per address. A client that waits
    for a review (`stream.on_held`) no longer counts: its holder has separate limits.

    Only a few logins run at a time, and others take turns. If there is no room, or the turn would come too late,
    `reject` tells the client so in its protocol.
    """

    def __init__(
        self,
        *,
        timeout: float,
        most: int,
        most_per_address: int,
        descriptors: Descriptors | None = None,
        turns: LoginTurns[_Login] | None = None,
    ) -> None:
        self._descriptors = descriptors or Descriptors()
        self._rejections: set[asyncio.Task[None]] = set()
        self._unwarned = 0
        self._warned_at = float("-inf")
        self._timeout = timeout
        self._places = ConnectionLimiter(most=most, most_per_address=most_per_address)
        self._turns: LoginTurns[_Login] = turns or LoginTurns()
        self._tasks: set[asyncio.Task[None]] = set()
        self._logged_in: set[asyncio.Task[None]] = set()
        self.begun = 0
        self.succeeded = 0
        self.rejected = 0

    def start(self, stream: StreamHandshake, serve: Serve, reject: Reject) -> None:
        self.begun += 1
        login = _Login(stream, serve, reject)
        if not self.has_room():
            self._start_rejection(login, _NO_DESCRIPTORS)
        elif not self._places.take(stream.peer):
            self._start_rejection(login, _TOO_MANY_AT_ONCE)
        else:
            turn = self._turns.arrive(neighbourhood(stream.peer), login, asyncio.get_running_loop().time())
            if turn is Turn.NOW:
                self._begin(login)
            elif turn is Turn.TOO_LATE:
                self._reject_late(login)

    def has_room(self) -> bool:
        """Return True if there are file descriptors for one more client and its session, besides all current logins."""
        return self._descriptors.has_room(PER_CLIENT * (self._places.taken + 1))

    def why_not(self) -> str:
        """Return the reason why no client can log in now, from any address; empty if there is none."""
        if not self.has_room():
            return _NO_DESCRIPTORS.error.message
        return _TOO_MANY_AT_ONCE.error.message if self._places.full else ""

    @property
    def waiting(self) -> int:
        """Return how many logins wait for their turn."""
        return self._turns.waiting

    def _begin(self, login: _Login) -> None:
        task = asyncio.get_running_loop().create_task(self._run(login))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _free_slot(self) -> None:
        following, late = self._turns.leave(asyncio.get_running_loop().time())
        if following is not None:
            self._begin(following)
        for login in late:
            self._reject_late(login)

    def _reject_late(self, login: _Login) -> None:
        self._places.leave(login.stream.peer)
        self._start_rejection(login, _TOO_SLOW)

    def _start_rejection(self, login: _Login, reason: _Reason) -> None:
        self.rejected += 1
        self._warn(login.stream.peer, reason)
        if len(self._rejections) >= self._descriptors.reserve // 4:
            login.stream.close()
            return
        task = asyncio.get_running_loop().create_task(self._reject(login, reason.error))
        self._rejections.add(task)
        task.add_done_callback(self._rejections.discard)

    async def _reject(self, login: _Login, error: PosternError) -> None:
        stream = login.stream
        try:
            async with asyncio.timeout(REJECTION_TIMEOUT):
                await login.reject(stream, error)
                await stream.linger()
        except (TimeoutError, ConnectionError, PosternError) as failure:
            log.debug("client %s did not receive the reason for its rejection: %s", stream.peer, failure)
        except Exception:
            log.exception("client %s could not be rejected", stream.peer)
        finally:
            stream.close()

    def _warn(self, address: str, reason: _Reason) -> None:
        """Log rejections once in a while, so that a flood of clients is not a flood of lines."""
        self._unwarned += 1
        now = asyncio.get_running_loop().time()
        if now - self._warned_at >= _WARN_EVERY:
            log.warning(
                "%s: %d clients were rejected, the last one from %s; %s",
                reason.seen,
                self._unwarned,
                address,
                reason.advice,
            )
            self._unwarned, self._warned_at = 0, now

    async def _run(self, login: _Login) -> None:
        stream, address = login.stream, login.stream.peer
        rest: Awaitable[None] | None = None
        leave = _once(partial(self._places.leave, address))
        free_slot = _once(self._free_slot)
        expiry = asyncio.get_running_loop().call_later(SLOT_TIME, free_slot)
        try:
            async with asyncio.timeout(self._timeout) as deadline:

                def handle_known() -> None:
                    deadline.reschedule(None)
                    free_slot()

                stream.on_known = handle_known
                stream.on_held = leave
                rest = await login.serve(stream)
        except TimeoutError:
            log.info("client %s did not finish its login within %g seconds", address, self._timeout)
        except ProtocolViolation as error:
            log.info("client %s was rejected: %s", address, error.message)
        except ConnectionError as error:
            log.debug("client %s left during login: %s", address, error)
        except Exception:
            log.exception("the login of client %s failed", address)
        finally:
            leave()
            expiry.cancel()
            free_slot()
            if rest is None:
                stream.close()
        if rest is not None:
            self.succeeded += 1
            await self._stay(rest, address)

    async def _stay(self, session: Awaitable[None], address: str) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._logged_in.add(task)
        try:
            await session
        except Exception:
            log.exception("the session of client %s failed", address)
        finally:
            self._logged_in.discard(task)

    async def stop(self, grace: float) -> None:
        """End logins at once. Sessions, whose links were ended before, have `grace` seconds to close."""
        for login in self._turns.drain():
            login.stream.close()
        for task in (self._tasks - self._logged_in) | self._rejections:
            task.cancel()
        if self._logged_in:
            await asyncio.wait(self._logged_in, timeout=grace)
        for task in list(self._tasks):
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*self._tasks, return_exceptions=True)


def _once(action: Callable[[], None]) -> Callable[[], None]:
    """Return a function that runs the action at its first call only."""
    done = False

    def call() -> None:
        nonlocal done
        if not done:
            done = True
            action()

    return call
