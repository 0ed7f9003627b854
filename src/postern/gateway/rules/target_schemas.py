"""Schemas of targets, read by a separate login, for sessions whose rules need them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID, uuid4

from postern.domain.durations import duration_text
from postern.domain.rules.permit import Permit
from postern.domain.rules.policy import needs_schema
from postern.domain.targets.target_schema import TargetSchema
from postern.errors import PosternError, Unavailable
from postern.gateway.query_spec import QUERY_SPECS, catalogue_of
from postern.gateway.target_question import query_rows
from postern.protocols.gateway_queries import Row, TargetRefused
from postern.relay.relay_target import Dialer, Start, Target

log = logging.getLogger(__name__)

AGE = 300.0  # seconds
SECONDS = 10.0  # seconds that a login waits for a reading
READING = 60.0  # maximum seconds of one reading: sessions that did not wait get its result later
SOON = 5.0  # seconds until a session without a schema asks again
_AGAIN = 30.0  # seconds after a failure; until then no login waits for another reading
_SIZE = 32 << 20  # characters of one target's answer
_ALL = 64 << 20  # characters of all cached schemas
_MOST = 64  # targets

_Key = tuple[UUID, datetime | None, str | None]


@dataclass(slots=True)
class _Kept:
    """A cache entry. `schema` is None after a failure. `pathless` is the same without a search_path, for sessions whose
    client set its own."""

    schema: TargetSchema | None
    pathless: TargetSchema | None
    until: float
    size: int


class TargetSchemas:
    """The cache, by connection and database; concurrent sessions share one reading. `age` is the lifetime of a reading
    in seconds; `seconds` limits how long a session waits for one, and `reading` how long one may take."""

    def __init__(self, dialer: Dialer, *, age: float = AGE, seconds: float = SECONDS, reading: float = READING) -> None:
        self.age = age
        self._dialer = dialer
        self._seconds = seconds
        self._reading = reading
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        self._readings: dict[_Key, asyncio.Task[_Kept]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def of(self, permit: Permit, start: Start) -> TargetSchema | None:
        """Return the schema. None if the permit's policy does not need it, if it cannot be read (the log has the
        reason), and if that takes longer than a session waits: the next session then gets it. Raises only when
        cancelled."""
        connection = permit.connection
        if not needs_catalogue(permit):
            return None
        key = (connection.id, connection.updated_at, start.database)
        entry = self._kept.get(key)
        if entry is None or time.monotonic() >= entry.until:
            entry = await self._await_entry(key, permit, start)
        else:
            self._kept.move_to_end(key)
        if entry is None:
            return None
        return entry.pathless if _asks_for_path(permit, start) else entry.schema

    async def _await_entry(self, key: _Key, permit: Permit, start: Start) -> _Kept | None:
        """Return the shared entry; None if it is not ready in time."""
        reading = self._readings.get(key)
        if reading is None:
            reading = self._readings[key] = asyncio.get_running_loop().create_task(self._read(permit, start))
            reading.add_done_callback(lambda done: self._keep(key, done))
        done, _ = await asyncio.wait([reading], timeout=self._seconds)
        return reading.result() if done else None

    def _keep(self, key: _Key, reading: asyncio.Task[_Kept]) -> None:
        self._readings.pop(key, None)
        if reading.cancelled():
            return
        self._kept[key] = reading.result()
        self._kept.move_to_end(key)
        while len(self._kept) > _MOST or sum(entry.size for entry in self._kept.values()) > _ALL:
            self._kept.popitem(last=False)

    async def _read(self, permit: Permit, start: Start) -> _Kept:
        reason = ""
        try:
            async with asyncio.timeout(self._reading):
                schema, size = await self._ask(permit, start)
            return _Kept(schema, replace(schema, search_path=()), time.monotonic() + self.age, size)
        except TimeoutError:
            reason = f"it did not answer within {duration_text(self._reading)}"
        except TargetRefused as refused:
            reason = f"it rejected the login: {refused.message}"
        except PosternError as error:
            reason = error.message
        except ConnectionError:
            reason = "it closed the connection"
        except Exception:
            log.exception("the catalogue of the target of %r could not be read", permit.connection.name)
            reason = "an internal error of the gateway"
        log.warning(
            "the catalogue of the target of %r could not be read, so its views and functions are unknown: %s",
            permit.connection.name,
            reason,
        )
        return _Kept(None, None, time.monotonic() + _AGAIN, 0)

    async def _ask(self, permit: Permit, start: Start) -> tuple[TargetSchema, int]:
        spec = QUERY_SPECS[permit.connection.protocol]
        catalogue = spec.catalogue()
        assert catalogue is not None  # `asks` has checked it
        own_start = Start(start.database, spec.parameters("postern schema"))
        target = await self._dialer.dial(permit, own_start, uuid4())
        finished = False
        try:
            answers: list[list[Row]] = []
            size = 0
            for question in catalogue.schema:
                query = catalogue.query(question, ())
                rows: list[Row] = []
                async for row in query_rows(target.stream, query):
                    size += sum(len(cell) for cell in row if cell is not None)
                    if size > _SIZE:
                        raise Unavailable(f"it is larger than {_SIZE >> 20} MiB")
                    rows.append(row)
                if query.error is not None:
                    raise Unavailable(f"it says: {query.error.text}")
                answers.append(rows)
            finished = True
        finally:
            if not finished:  # otherwise the target would continue a query that no caller waits for
                self._background(self._dialer.cancel(permit, target))
            _close(target)
        return await asyncio.to_thread(catalogue.target_schema, answers), size

    def _background(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def needs_catalogue(permit: Permit) -> bool:
    """Return True if rules of this permit need the target's schema."""
    return catalogue_of(permit.connection.protocol) is not None and needs_schema(permit.policy)


def next_reading(permit: Permit, schema: TargetSchema | None, *, age: float = AGE) -> float:
    """Return when a session with this schema asks again, on the monotonic clock. Without a schema much is
    unknown, so it is sooner."""
    return time.monotonic() + (SOON if schema is None and needs_catalogue(permit) else age)


def _asks_for_path(permit: Permit, start: Start) -> bool:
    """Return True if names may mean other tables for this client than for a login without parameters."""
    catalogue = catalogue_of(permit.connection.protocol)
    return catalogue is not None and catalogue.own_path(start.parameters)


def _close(target: Target) -> None:
    target.stream.close()
    target.release()
