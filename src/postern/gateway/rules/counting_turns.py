"""Counts on targets. A worker has one at a time, so that counting never loads a target more than one client could."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from postern.domain.rules.permit import Permit
from postern.errors import PosternError
from postern.protocols.gateway_queries import TargetRefused
from postern.relay.relay_target import Dialer, Start, Target

log = logging.getLogger(__name__)

BUSY: Final = "the gateway is busy with other counts"
AWAY: Final = "the target could not be queried"


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """Limits in seconds: for all queries of one request, and for the turn. At most `most_waiting` requests wait."""

    whole: float
    turn: float
    most_waiting: int


class CountingTurns:
    """The turns of one worker. `name` is what the log calls a count, `slow` the reason for one that takes too long."""

    def __init__(self, dialer: Dialer, limits: TurnLimits, *, name: str, slow: str) -> None:
        self._dialer = dialer
        self._limits = limits
        self._name = name
        self._slow = slow
        self._turn = asyncio.Lock()
        self.waiting = 0  # requests that wait for their turn
        self._cancelling: set[asyncio.Task[None]] = set()

    async def run(self, permit: Permit, start: Start, count: Callable[[Target], Awaitable[None]]) -> str:
        """Call `count` with a connection that is opened for it. Return the reason why results are missing, if some
        are."""
        if self.waiting >= self._limits.most_waiting:
            return BUSY
        self.waiting += 1
        try:
            async with asyncio.timeout(self._limits.turn):
                await self._turn.acquire()
        except TimeoutError:
            return BUSY
        finally:
            self.waiting -= 1
        try:
            async with asyncio.timeout(self._limits.whole):
                await self._count(permit, start, count)
        except TimeoutError:
            return self._slow
        except TargetRefused as refused:
            log.warning("%s failed: the target rejected the login: %s", self._name, refused.message)
        except (PosternError, OSError) as error:
            log.warning("%s failed: %s", self._name, error)
        finally:
            self._turn.release()
        return AWAY

    async def _count(self, permit: Permit, start: Start, count: Callable[[Target], Awaitable[None]]) -> None:
        target = await self._dialer.dial(permit, start, uuid4())
        is_finished = False
        try:
            await count(target)
            is_finished = True
        finally:
            if not is_finished:  # otherwise the target would continue a count that no caller waits for
                self._cancel(permit, target)
            target.stream.close()
            target.release()

    def _cancel(self, permit: Permit, target: Target) -> None:
        task = asyncio.get_running_loop().create_task(self._dialer.cancel(permit, target))
        self._cancelling.add(task)
        task.add_done_callback(self._cancelling.discard)
