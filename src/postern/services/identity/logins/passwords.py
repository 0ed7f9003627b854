"""Passwords of local users: argon2id off the event loop, few at a time, and a throttle on guessing."""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from postern.domain.durations import duration_text
from postern.domain.secret import Secret
from postern.errors import Invalid, TooMany
from postern.store.ports.common_ports import Clock

MIN_LENGTH, MAX_LENGTH = 12, 1_024  # characters
_MIN_DIFFERENT = 5  # characters
_AT_ONCE = 2  # each takes a core for about 0.1 s and 64 MiB
_MOST_WAITING = 32  # a few seconds of work; further requests are rejected at once


def check_strength(password: Secret, field: str, *, whose: Collection[str] = ()) -> None:
    """Check the length, and reject the most obvious guesses, as NIST SP 800-63B advises; there are no rules on kinds of
    characters.

    `whose` are the user's e-mail address and name. Raises Invalid.
    """
    text = password.reveal()
    if not MIN_LENGTH <= len(text) <= MAX_LENGTH:
        raise Invalid(f"{field}: must have {MIN_LENGTH} to {MAX_LENGTH} characters", field=field)
    if len(set(text)) < _MIN_DIFFERENT:
        raise Invalid(f"{field}: must have at least {_MIN_DIFFERENT} different characters", field=field)
    if text.casefold().strip() in {word.casefold().strip() for word in whose}:
        raise Invalid(f"{field}: must not be the e-mail address or the name", field=field)


class Passwords:
    """Hashes passwords. `hasher` has RFC 9106's second recommended choice by default."""

    def __init__(self, hasher: PasswordHasher | None = None) -> None:
        self._hasher = hasher or PasswordHasher()
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._waiting = 0
        self._decoy: str | None = None

    async def hash(self, password: Secret) -> str:
        """Return the hash. Raises TooMany."""
        async with self._slot():
            return await asyncio.to_thread(self._hasher.hash, password.reveal())

    async def matches(self, password: Secret, stored: str | None) -> bool:
        """Return whether it matches; False for an account without password, after as much work as with one. Raises
        TooMany."""
        if stored is None:
            if self._decoy is None:
                self._decoy = await self.hash(Secret(secrets.token_urlsafe(24)))
            await self._verify(password, self._decoy)
            return False
        return await self._verify(password, stored)

    async def _verify(self, password: Secret, stored: str) -> bool:
        async with self._slot():
            try:
                return await asyncio.to_thread(self._hasher.verify, stored, password.reveal())
            except (VerificationError, InvalidHashError):
                return False

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        if self._waiting >= _MOST_WAITING:
            raise TooMany("too many passwords are being checked right now; try again in a few seconds")
        self._waiting += 1
        try:
            async with self._slots:
                yield
        finally:
            self._waiting -= 1


class Throttle:
    """Counts failures per key in a sliding window, in this process, with a bounded number of keys.

    `what` names them in the error.
    """

    def __init__(
        self, now: Clock, *, failures: int, window: timedelta, keys: int = 10_000, what: str = "failed logins"
    ) -> None:
        self._now = now
        self._failures = failures
        self._window = window
        self._keys = keys
        self._what = what
        self._seen: OrderedDict[str, deque[datetime]] = OrderedDict()

    def check(self, key: str) -> None:
        """Raise TooMany once `failures` of them lie within the window."""
        seen = self._seen.get(key)
        if seen is None:
            return
        while seen and self._now() - seen[0] >= self._window:
            seen.popleft()
        if len(seen) >= self._failures:
            wait = self._window - (self._now() - seen[0])
            raise TooMany(f"too many {self._what}; try again in {duration_text(int(wait.total_seconds()) + 1)}")

    def fail(self, key: str) -> None:
        seen = self._seen.setdefault(key, deque(maxlen=self._failures))
        seen.append(self._now())
        self._seen.move_to_end(key)
        if len(self._seen) > self._keys:
            self._seen.popitem(last=False)

    def undo(self, key: str) -> None:
        """Remove the last failure."""
        seen = self._seen.get(key)
        if seen:
            seen.pop()
