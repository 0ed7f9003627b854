"""Accepting clients: one task and one deadline for each login, and never a wait in the accept loop."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from postern.descriptors import PER_SESSION, Descriptors, no_room
from postern.errors import PosternError, ProtocolViolation
from postern.relay.handshake import StreamHandshake
from postern.services.identity.tries import neighbourhood

log = logging.getLogger(__name__)

Serve = Callable[[StreamHandshake], Awaitable[Awaitable[None] | None]]
Reject = Callable[[StreamHandshake, PosternError], Awaitable[None]]

REJECTION_TIMEOUT = 5.0  # seconds that a client has to be told why it is rejected, and to leave
_WARN_EVERY = 10.0  # seconds between two warnings about rejected clients


class Places:
    """How many may be somewhere at a time, over all and for each address; of IPv6 for each /64, which one subscriber
    has all of."""

    def __init__(self, *, most: int, most_per_address: int) -> None:
        self._most = most
        self._most_per_address = most_per_address
        self._taken: Counter[str] = Counter()

    def take(self, address: str) -> bool:
        """False where all are taken; else it is left once."""
        place = neighbourhood(address)
        if self._taken.total() >= self._most or self._taken[place] >= self._most_per_address:
            return False
        self._taken[place] += 1
        return True

    @property
    def taken(self) -> int:
        return self._taken.total()

    def leave(self, address: str) -> None:
        place = neighbourhood(address)
        self._taken[place] -= 1
        if not self._taken[place]:
            del self._taken[place]


class Logins:
    """Runs logins. `serve(stream)` logs a client in; what it answers is awaited without the deadline. That is lifted
    before by `stream.on_known`, since a client must not pay for a target that is slow.

    Clients that are not logged in yet, or wait for their target, are bounded, over all and for each address. One that
    waits for people, which it tells by `stream.on_held`, is not of them any more: who holds it has bounds of its own.

    Without room in `descriptors` a client is not logged in: its protocol's `reject` tells it so.
    """

    def __init__(
        self, *, timeout: float, most: int, most_per_address: int, descriptors: Descriptors | None = None
    ) -> None:
        self._descriptors = descriptors or Descriptors()
        self._rejections: set[asyncio.Task[None]] = set()
        self._unwarned = 0
        self._warned_at = float("-inf")
        self._timeout = timeout
        self._places = Places(most=most, most_per_address=most_per_address)
        self._tasks: set[asyncio.Task[None]] = set()
        self._logged_in: set[asyncio.Task[None]] = set()
        self.begun = 0
        self.succeeded = 0

    def start(self, stream: StreamHandshake, serve: Serve, reject: Reject | None = None) -> None:
        self.begun += 1
        address = stream.peer
        if not self.has_room():
            self._start_rejection(stream, reject)
            return
        if not self._places.take(address):
            log.warning("too many clients at login; the one from %s is turned away", address)
            stream.close()
            return
        task = asyncio.get_running_loop().create_task(self._run(stream, serve, address))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def has_room(self) -> bool:
        """Return whether one more client and its session find descriptors, after all that are logging in now."""
        return self._descriptors.has_room(PER_SESSION * (self._places.taken + 1))

    def _start_rejection(self, stream: StreamHandshake, reject: Reject | None) -> None:
        self._warn(stream.peer)
        if reject is None or len(self._rejections) >= self._descriptors.reserve // 4:
            stream.close()
            return
        task = asyncio.get_running_loop().create_task(self._reject(stream, reject))
        self._rejections.add(task)
        task.add_done_callback(self._rejections.discard)

    async def _reject(self, stream: StreamHandshake, reject: Reject) -> None:
        try:
            async with asyncio.timeout(REJECTION_TIMEOUT):
                await reject(stream, no_room())
                await stream.linger()
        except (TimeoutError, ConnectionError, PosternError) as error:
            log.debug("client %s was not told why it is rejected: %s", stream.peer, error)
        except Exception:
            log.exception("client %s could not be rejected", stream.peer)
        finally:
            stream.close()

    def _warn(self, address: str) -> None:
        """Once in a while: a flood of clients must not become a flood of lines."""
        self._unwarned += 1
        now = asyncio.get_running_loop().time()
        if now - self._warned_at >= _WARN_EVERY:
            log.warning(
                "the limit of open files is reached: %d clients were rejected, the last one from %s; raise the hard "
                "limit (LimitNOFILE=, ulimit -Hn)",
                self._unwarned,
                address,
            )
            self._unwarned, self._warned_at = 0, now

    async def _run(self, stream: StreamHandshake, serve: Serve, address: str) -> None:
        rest: Awaitable[None] | None = None
        counted = True

        def leave() -> None:
            nonlocal counted
            if counted:
                counted = False
                self._places.leave(address)

        try:
            async with asyncio.timeout(self._timeout) as deadline:
                stream.on_known = partial(deadline.reschedule, None)
                stream.on_held = leave
                rest = await serve(stream)
        except TimeoutError:
            log.info("client %s did not finish its login within %g seconds", address, self._timeout)
        except ProtocolViolation as error:
            log.info("client %s was turned away: %s", address, error.message)
        except ConnectionError as error:
            log.debug("client %s left during login: %s", address, error)
        except Exception:
            log.exception("the login of client %s failed", address)
        finally:
            leave()
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
            log.exception("the session of client %s ended badly", address)
        finally:
            self._logged_in.discard(task)

    async def stop(self, grace: float) -> None:
        """Ends logins at once; sessions, whose links were ended before, have `grace` seconds to be closed."""
        for task in (self._tasks - self._logged_in) | self._rejections:
            task.cancel()
        if self._logged_in:
            await asyncio.wait(self._logged_in, timeout=grace)
        for task in list(self._tasks):
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*self._tasks, return_exceptions=True)
