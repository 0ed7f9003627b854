"""Clients that wait for their user to confirm the login in a browser.

    keyboard-interactive ─▶ is there room? ─▶ a URL and a code are shown, without a prompt, so the client
                                              responds at once, and waits
                              ├─ confirmed ─▶ an SshUser, whose login ends with the connection
                              ├─ rejected, expired ─▶ the connection ends with a message
                              └─ disconnects, or tries another method ─▶ the code becomes invalid

Once the URL is shown, the login no longer has the usual deadline of seconds. It has `LONGEST` seconds in total, and
takes one of the slots for waiting clients.
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

MOST = 300  # waiting clients in this worker
MOST_OF_ADDRESS = 20
LONGEST = LIFE.total_seconds() + 30  # maximum seconds of a connection that has shown a URL and is not logged in


class PendingBrowserLogin:
    """A pending browser login, which waits from its creation on."""

    def __init__(self, logins: SshLogins, waiting: WaitingSshLogin) -> None:
        self._logins = logins
        self._waiting = waiting
        self._found = asyncio.get_running_loop().create_task(logins.wait(waiting))

    @property
    def text(self) -> str:
        return (
            f"\nTo log in, open this address in a browser:\n\n    {self._waiting.url}\n\n"
            f"and enter the number {self._waiting.number} there. Do not share it.\n"
        )

    async def person(self) -> SshUser:
        """Once they are let in. Raises Denied, Unauthenticated, Unavailable."""
        return by_browser(self._logins, await asyncio.shield(self._found))

    async def withdraw(self) -> None:
        """Invalidate the code; if it was just confirmed, log the user out again."""
        with suppress(PosternError):
            await self._logins.give_up(self._waiting)
        try:
            login = await self._found  # which notices within seconds
        except PosternError:
            return
        await self._logins.end(login)


class BrowserLogins:
    """The browser logins of one worker. Clean-up of a wait continues without its client."""

    def __init__(self, logins: SshLogins) -> None:
        self._logins = logins
        self._places = ConnectionLimiter(most=MOST, most_per_address=MOST_OF_ADDRESS)
        self._tasks: set[asyncio.Task[None]] = set()

    def enter(self, address: str) -> None:
        """Take a slot. Raises TooMany."""
        if not self._places.take(address):
            raise TooMany("too many clients already wait for a browser login; try again in a few minutes")

    def leave(self, address: str) -> None:
        self._places.leave(address)

    async def invite(self, address: str, claim: SshClaim) -> PendingBrowserLogin:
        """Create a pending login. Raises TooMany, Unavailable."""
        return PendingBrowserLogin(self._logins, await self._logins.begin(address, claim))

    def withdraw(self, invitation: PendingBrowserLogin) -> None:
        task = asyncio.get_running_loop().create_task(_log_failure(invitation.withdraw()))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _log_failure(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except PosternError as error:
        log.warning("ending the login of a disconnected SSH client failed: %s", error.message)
