"""The log of this machine's processes, for operators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from postern.domain.identity.principal import Principal
from postern.domain.server_log import LogFilter, LogLine
from postern.errors import TooMany
from postern.services.server.operators import Operators
from postern.store.ports.server_ports import Follower, Journal

__all__ = ["Follower", "Journal", "NoJournal", "ServerLogs"]

MAX_FOLLOWERS = 8


class NoJournal:
    """The journal where no log is kept."""

    def last(self, _wanted: LogFilter, _limit: int) -> list[LogLine]:
        return []

    def follow(self, _after: str | None) -> Follower:
        return _Silence()


class _Silence:
    def read(self) -> Sequence[LogLine]:
        return ()


class ServerLogs:
    def __init__(self, journal: Journal, operators: Operators) -> None:
        self.journal = journal
        self._operators = operators
        self._followers = 0

    async def require_reader(self, principal: Principal) -> None:
        """Raise Denied for all but operators."""
        await self._operators.require(principal, "read the server's log")

    def require_room(self) -> None:
        """Raise TooMany when too many clients follow the log."""
        if self._followers >= MAX_FOLLOWERS:
            raise TooMany(f"{MAX_FOLLOWERS} clients already follow the server's log; end one of them")

    @contextmanager
    def following(self) -> Iterator[None]:
        """Count a client around its stream. Raises TooMany."""
        self.require_room()
        self._followers += 1
        try:
            yield
        finally:
            self._followers -= 1
