"""Scheduling of logins: a burst of clients must neither stall running sessions nor slow down all logins alike.

    arrive ─▶ a slot is free: begin                       ─▶ leave: the next one begins
           ─▶ it would wait too long: refused at once
           ─▶ wait, addresses taking turns  ─▶ begin, or refused if it waited too long after all

Without I/O: callers pass the time and act on the results.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, Generic, TypeVar

from postern.gateway.rules.fair_queue import FairQueue

SLOTS: Final = 32  # concurrent logins: about 0.1 s of processor time together
SLOT_TIME: Final = 0.25  # seconds; a login that takes longer is assumed to wait for its client or its store
LONGEST_WAIT: Final = 5.0  # seconds to wait for a slot; clients time out after 10 or more
_WEIGHT: Final = 0.1  # of the newest interval in the average

Login = TypeVar("Login")


class Turn(Enum):
    NOW = "now"
    WAITS = "waits"  # until `leave` returns it
    TOO_LATE = "too late"


@dataclass(frozen=True, slots=True)
class _Waiting(Generic[Login]):
    login: Login
    since: float


class LoginTurns(Generic[Login]):
    """Slots for logins. Each login that has begun calls `leave` once."""

    def __init__(self, slots: int = SLOTS, longest_wait: float = LONGEST_WAIT) -> None:
        self._free = slots
        self._longest_wait = longest_wait
        self._waiting: FairQueue[str, _Waiting[Login]] = FairQueue()
        self._interval = 0.0  # average seconds between the starts of two logins that had waited
        self._began = 0.0  # start of the last one

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def expected_wait(self, address: str) -> float:
        """Return how many seconds a client from this address would wait now."""
        if self._free and not len(self._waiting):
            return 0.0
        return (self._waiting.items_before(address) + 1) * self._interval

    def arrive(self, address: str, login: Login, now: float) -> Turn:
        """Return when the login can begin."""
        if self._free and not len(self._waiting):
            self._free -= 1
            return Turn.NOW
        if self.expected_wait(address) > self._longest_wait:
            return Turn.TOO_LATE
        if not len(self._waiting):
            self._began = now  # the pause before this burst is no measure of the pace
        self._waiting.put(address, _Waiting(login, now))
        return Turn.WAITS

    def leave(self, now: float) -> tuple[Login | None, list[Login]]:
        """Free a slot. Return the login that takes it, and those that have waited too long meanwhile."""
        late: list[Login] = []
        self._free += 1
        while (entry := self._waiting.take()) is not None:
            waiting = entry[1]
            if now - waiting.since > self._longest_wait:
                late.append(waiting.login)
                continue
            self._free -= 1
            self._interval += _WEIGHT * (now - self._began - self._interval)
            self._began = now
            return waiting.login, late
        return None, late

    def drain(self) -> list[Login]:
        """Remove and return all waiting logins."""
        waiting = []
        while (entry := self._waiting.take()) is not None:
            waiting.append(entry[1].login)
        return waiting
