"""Streams of what a recording gains, while its session runs.

The session does not know its watchers: everything is read from its recording. A slow client costs a slot, and nothing
else; one that reads nothing is disconnected.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from fastapi import Request

from postern.api.event_streams import authenticate_again
from postern.domain.identity.principal import Principal
from postern.domain.sessions.recorded import Tail
from postern.domain.sessions.session import Session, SessionStatus
from postern.errors import Denied, NotFound, TooMany, Unauthenticated, Unavailable
from postern.services.bundle import Services

LOOK_EVERY = 0.2  # seconds, while there is something new
LOOK_SELDOM = 1.0
QUIET_AFTER = 10.0
ASK_EVERY = 3.0  # seconds between two checks that the client is still allowed
KEEP_ALIVE = 15.0
SETTLED = 1.0  # seconds after the end of a session in which the rest of its recording can arrive


class RecordingFollower(ABC):
    """One client that follows a session. A subclass reads `tail` and chooses the form of the stream.

    The stream ends when the session has, when the client is no longer allowed to read it, and after an hour.
    """

    first = ""  # begins the stream
    keep_alive = ""

    def __init__(self, request: Request, services: Services, session: Session, tail: Tail[Any]) -> None:
        self.tail = tail
        self.session = session
        self.services = services
        self._request = request

    @abstractmethod
    def read(self) -> str:
        """Return what is new. Blocks on files, so it runs in a thread."""

    @abstractmethod
    def end(self) -> str:
        """Return the end of the stream, once the session has ended."""

    @abstractmethod
    def cut(self, reason: str) -> str:
        """Return the end of a stream that ends before the session."""

    async def fetch(self, caller: Principal) -> Session:
        """Return the session as it is now. Raises Denied or NotFound if the caller cannot follow it any more."""
        return await self.services.sessions.get(caller, self.session.id)

    def excess(self) -> str:
        """Return why the client cannot continue to follow, if it is too slow."""
        return ""

    def pause(self, quiet: float) -> float:
        """Return the seconds until the next look, after so many without anything new."""
        return LOOK_EVERY if quiet < QUIET_AFTER else LOOK_SELDOM

    @property
    def is_done(self) -> bool:
        return self.session.status is SessionStatus.DONE

    async def texts(self) -> AsyncGenerator[str, None]:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        end = begun + self._request.app.state.stream_life
        ask_at, alive_at, busy_at, done_at = begun + ASK_EVERY, begun + KEEP_ALIVE, begun, begun
        if self.first:
            yield self.first
        while True:
            text = await asyncio.to_thread(self.read)
            now = loop.time()
            if text:
                yield text
                alive_at, busy_at = now + KEEP_ALIVE, now
            if now >= ask_at or (self.tail.ended and not self.is_done):
                refused = await self._look()
                if refused:
                    yield self.cut(refused)
                    return
                ask_at = now + ASK_EVERY
            if not self.is_done:
                done_at = now
            elif not text and (self.tail.ended or now - done_at > SETTLED):
                yield self.end()
                return
            if excess := self.excess():
                yield self.cut(excess)
                return
            if now >= alive_at:
                yield self.keep_alive
                alive_at = now + KEEP_ALIVE
            if now >= end:
                return
            if not text:
                await asyncio.sleep(self.pause(now - busy_at))

    async def _look(self) -> str:
        """Return why the client is no longer allowed to continue; empty if it is. The session is read again."""
        try:
            self.session = await self.fetch(await authenticate_again(self._request))
        except (Unauthenticated, Denied, NotFound, Unavailable) as error:
            return error.message
        return ""


async def follow(
    services: Services, caller: Principal, make: Callable[[], RecordingFollower]
) -> AsyncGenerator[str, None]:
    """Yield the stream of a follower, which takes one of the caller's slots. Without a slot it is cut at once."""
    follower = make()
    try:
        with services.watchers.acquire(caller.id):
            try:
                async with aclosing(follower.texts()) as texts:
                    async for text in texts:
                        yield text
            finally:  # a thread can still be reading from it, although its result is no longer needed
                asyncio.get_running_loop().run_in_executor(None, follower.tail.close)
    except TooMany as error:  # another request took the last slot meanwhile
        yield follower.cut(error.message)
