"""Clients that wait until their person has let them in at a browser.

keyboard-interactive ─▶ is there room? ─▶ an address and a number are shown, and nothing is asked for, so the client
                                          answers at once, and waits
                          ├─ let in ─▶ a Person, whose login ends with the connection
                          ├─ refused, too late ─▶ the connection ends, and says so
                          └─ it goes, or tries something else ─▶ nobody can let it in any more

From the moment when it is shown it is no login as others any more, which have seconds: it has the time of `LONGEST`,
whatever it does, and one of the places for those that wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from postern.errors import PosternError, TooMany
from postern.gateway.clients.listener import ConnectionLimiter
from postern.protocols.ssh.listener.ssh_users import SshUser, by_browser
from postern.services.identity.logins.ssh_logins import LIFE, SshClaim, SshLogins, WaitingSshLogin

log = logging.getLogger(__name__)

MOST = 300  # clients that wait in this worker
MOST_OF_ADDRESS = 20
LONGEST = LIFE.total_seconds() + 30  # of a connection that has shown an address and is not logged in


class Invitation:
    """One login that somebody at a browser may let in; it waits from now on."""

    def __init__(self, logins: SshLogins, waiting: WaitingSshLogin) -> None:
        self._logins = logins
        self._waiting = waiting
        self._found = asyncio.get_running_loop().create_task(logins.wait(waiting))

    @property
    def text(self) -> str:
        return (
            f"\nTo log in, open this address in a browser:\n\n    {self._waiting.url}\n\n"
            f"and type there the number {self._waiting.number}. Tell it to nobody.\n"
        )

    async def person(self) -> SshUser:
        """Once they are let in. Raises Denied, Unauthenticated, Unavailable."""
        return by_browser(self._logins, await asyncio.shield(self._found))

    async def withdraw(self) -> None:
        """Nobody can let it in any more; who has just been is logged out again."""
        with suppress(PosternError):
            await self._logins.give_up(self._waiting)
        try:
            given = await self._found  # which hears of it, in seconds at most
        except PosternError:
            return
        await self._logins.end(given)


class Browsers:
    """Of one worker. What ends a wait goes on without its client."""

    def __init__(self, logins: SshLogins) -> None:
        self._logins = logins
        self._places = ConnectionLimiter(most=MOST, most_per_address=MOST_OF_ADDRESS)
        self._tasks: set[asyncio.Task[None]] = set()

    def enter(self, address: str) -> None:
        """Raises TooMany."""
        if not self._places.take(address):
            raise TooMany("too many clients wait for a browser already; try again in a few minutes")

    def leave(self, address: str) -> None:
        self._places.leave(address)

    async def invite(self, address: str, wanted: SshClaim) -> Invitation:
        """Raises TooMany, Unavailable."""
        return Invitation(self._logins, await self._logins.begin(address, wanted))

    def withdraw(self, invitation: Invitation) -> None:
        task = asyncio.get_running_loop().create_task(_told(invitation.withdraw()))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _told(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except PosternError as error:
        log.warning("the login of an SSH client that has gone could not be ended: %s", error.message)
