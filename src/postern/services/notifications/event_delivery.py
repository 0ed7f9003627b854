"""Delivery of events: each sink's events are sent in order, each at least once.

One process at a time sends, over all machines. A sink whose receiver does not answer waits longer each time, and delays
no other sink: each has a task of its own, with a deadline for each attempt.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from postern.domain.durations import duration_text
from postern.domain.sink import NO_TROUBLE, Delivery, Sink, SinkKind
from postern.domain.text import one_line
from postern.errors import Denied, NotFound, PosternError
from postern.services.leases import Lease
from postern.store.ports.common_ports import Clock
from postern.store.ports.notification_ports import DeliveryStore
from postern.store.ports.recording_ports import LeaseStore

log = logging.getLogger(__name__)

LEASE = "deliveries"
DEADLINE = 12.0  # seconds for one attempt; less than half a lease
KEPT_TRYING = timedelta(days=3)  # from the event on
REFUSALS = 5  # attempts for an event that a working receiver rejects
FIRST_DELAY, LONGEST_DELAY = 5.0, 3600.0  # seconds
MOST_WAITING = 100_000  # events of a sink
MOST_AT_ONCE = 50  # sinks that are served concurrently
BOUNDED_EVERY = timedelta(minutes=10)
DELIVERED_STAY, GIVEN_UP_STAY = timedelta(days=1), timedelta(days=30)
_IN_A_ROW = 50  # tries with a sink as it was read
_TOGETHER = {SinkKind.SYSLOG: 100, SinkKind.OTLP: 100}  # one by one to all others


class EventSender(Protocol):
    async def send(self, sink: Sink, deliveries: Sequence[Delivery], now: datetime) -> None:
        """Send all of the events or none, as far as can be known.

        Raises Denied when the receiver rejects these events, NotFound when it wants no events any more, TooMany with
        `retry_after` when it asks for a pause, Unavailable and Invalid.
        """

    async def close(self) -> None: ...


class EventDelivery:
    def __init__(self, deliveries: DeliveryStore, leases: LeaseStore, sender: EventSender, now: Clock) -> None:
        self._deliveries = deliveries
        self._sender = sender
        self._now = now
        self._lease = Lease(leases, LEASE, now)
        self._running: dict[UUID, asyncio.Task[None]] = {}
        self._bounded_at: datetime | None = None

    async def once(self) -> None:
        """Start what is due, and return; do nothing where another process sends. Raises Unavailable."""
        now = self._now()
        due = await self._deliveries.due(now)
        is_time = self._bounded_at is None or now - self._bounded_at >= BOUNDED_EVERY
        if not (due or is_time) or not await self._lease.have():
            return
        if is_time:
            self._bounded_at = now
            for sink_id, count in (await self._deliveries.trim_queues(MOST_WAITING, now)).items():
                why = f"more than {MOST_WAITING} were waiting"
                log.warning("events given up: sink=%s count=%d reason=%s", sink_id, count, why)
            await self._deliveries.prune(now - DELIVERED_STAY, now - GIVEN_UP_STAY)
        for sink in due:
            if sink.id not in self._running and len(self._running) < MOST_AT_ONCE:
                task = self._running[sink.id] = asyncio.create_task(self._drain(sink))
                task.add_done_callback(lambda _, key=sink.id: self._running.pop(key, None))  # type: ignore[misc]

    async def wait_until_idle(self) -> None:
        """Wait until all running deliveries have ended."""
        while self._running:
            await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def stop(self) -> None:
        """Cancel running deliveries; another process can take over at once."""
        for task in self._running.values():
            task.cancel()
        await self.wait_until_idle()
        await self._sender.close()
        await self._lease.release()

    async def _drain(self, sink: Sink) -> None:
        """Send until nothing waits, an attempt fails, the sink was changed, or its turn has ended."""
        try:
            for _ in range(_IN_A_ROW):
                # After a failure one by one, to find the event that is rejected.
                most = 1 if sink.trouble.failures else _TOGETHER.get(sink.kind, 1)
                waiting = await self._deliveries.waiting(sink.id, most, as_of=sink.updated_at)
                if not waiting or not await self._lease.have() or not await self._send(sink, waiting):
                    return
                sink = replace(sink, trouble=NO_TROUBLE)
        except PosternError as error:
            log.warning("events could not be delivered: sink=%s error=%s", sink.id, error)
        except Exception:
            log.exception("events could not be delivered: sink=%s", sink.id)

    async def _send(self, sink: Sink, waiting: Sequence[Delivery]) -> bool:
        """Return whether the events were delivered."""
        refused, wait = False, 0
        try:
            async with asyncio.timeout(DEADLINE):
                await self._sender.send(sink, waiting, self._now())
        except NotFound as error:
            log.warning("receiver gone, its events given up: sink=%s error=%s", sink.id, one_line(error.message))
            await self._deliveries.mark_gone(sink.id, error.message, self._now())
            return False
        except TimeoutError:
            why = f"the receiver did not answer in {duration_text(DEADLINE)}"
        except Denied as error:
            why, refused = error.message, True
        except PosternError as error:
            why, wait = error.message, min(error.retry_after or 0, int(LONGEST_DELAY))
        except Exception as error:
            log.exception("events could not be sent: sink=%s", sink.id)
            why = f"the gateway could not send the event: {type(error).__name__}"
        else:
            await self._deliveries.mark_delivered(sink.id, [delivery.number for delivery in waiting], self._now())
            return True
        await self._record_failure(sink, waiting[0], one_line(why), refused=refused, wait=wait)
        return False

    async def _record_failure(self, sink: Sink, first: Delivery, why: str, *, refused: bool, wait: int) -> None:
        """Record a failure. `wait`: seconds for which the receiver wants a pause."""
        now, before = self._now(), sink.trouble
        failures = before.failures + 1
        give_up = now - first.at > KEPT_TRYING or (refused and first.attempts + 1 >= REFUSALS)
        if give_up:
            log.warning("event given up: sink=%s event=%s error=%s", sink.id, first.event_id, why)
        trouble = replace(
            before,
            failures=0 if give_up else failures,
            since=None if give_up else before.since or now,
            error=why,
            next_at=now if give_up else now + timedelta(seconds=max(wait, delay(failures))),
        )
        await self._deliveries.mark_failed(sink.id, first.number, trouble, now, give_up=give_up)


def delay(failures: int, most: float = LONGEST_DELAY) -> float:
    """Return seconds until the next attempt: doubling, with jitter, up to `most`."""
    longest = min(most, FIRST_DELAY * 2.0 ** min(failures - 1, 20))
    return float(longest * random.uniform(0.5, 1.0))  # noqa: S311
