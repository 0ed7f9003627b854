"""Wrong passwords of clients that can try several on one connection, which therefore costs them nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Final
from weakref import WeakValueDictionary

from postern.errors import TooMany, Unauthenticated
from postern.services.identity.logins.login_throttle import neighbourhood
from postern.services.identity.logins.passwords import Throttle

WINDOW: Final = timedelta(minutes=15)
MOST_OF_USER: Final = 10  # of one user name from one network
MOST_OF_NETWORK: Final = 500  # of all user names: many users can share an address, and each of them can have an old one
_MAX_NAME: Final = 320  # characters of a user name that count


class TooManyFailedLogins(TooMany):
    """A password is not checked, because too many were wrong."""


class FailedLogins:
    """Limits wrong passwords, in this worker. Passwords of one user name from one network are checked one after
    another, so that guesses at the same time count, too."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._of_user = Throttle(now, failures=MOST_OF_USER, window=WINDOW)
        self._of_network = Throttle(now, failures=MOST_OF_NETWORK, window=WINDOW)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def attempt(self, username: str, address: str) -> AsyncIterator[None]:
        """Check one password inside; Unauthenticated counts as a wrong one. Raises
        TooManyFailedLogins without a check."""
        network = neighbourhood(address)
        key = f"{network} {username[:_MAX_NAME]}"
        turn = self._turns.setdefault(key, asyncio.Lock())
        async with turn:
            self._check(key, network)
            try:
                yield
            except Unauthenticated:
                self._of_user.fail(key)
                self._of_network.fail(network)
                raise

    def _check(self, key: str, network: str) -> None:
        try:
            self._of_user.check(key)
            self._of_network.check(network)
        except TooMany as error:
            raise TooManyFailedLogins(error.message) from None
