"""Accepting clients: one task and one deadline for each login, and never a wait in the accept loop."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from postern.errors import ProtocolViolation
from postern.relay.handshake import StreamHandshake
from postern.services.identity.tries import neighbourhood

log = logging.getLogger(__name__)

Serve = Callable[[StreamHandshake], Awaitable[Awaitable[None] | None]]


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
    """

    def __init__(self, *, timeout: float, most: int, most_per_address: int) -> None:
        self._timeout = timeout
        self._places = Places(most=most, most_per_address=most_per_address)
        self._tasks: set[asyncio.Task[None]] = set()
        self._logged_in: set[asyncio.Task[None]] = set()
        self.begun = 0
        self.succeeded = 0

    def start(self, stream: StreamHandshake, serve: Serve) -> None:
        self.begun += 1
        address = stream.peer
        if not self._places.take(address):
            log.warning("too many clients at login; the one from %s is turned away", address)
            stream.close()
            return
        task = asyncio.get_running_loop().create_task(self._run(stream, serve, address))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

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
        for task in self._tasks - self._logged_in:
            task.cancel()
        if self._logged_in:
            await asyncio.wait(self._logged_in, timeout=grace)
        for task in list(self._tasks):
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*self._tasks, return_exceptions=True)
