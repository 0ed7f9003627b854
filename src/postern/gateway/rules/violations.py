"""Storing of rule violations in the background, in batches."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID, uuid5

from postern.domain.rules.permit import Permit
from postern.domain.rules.violation import MAX_MESSAGE, MAX_RULE, MAX_STATEMENT, Done, Violation
from postern.errors import PosternError
from postern.interception.events import Operation
from postern.store.ports.notification_ports import ViolationStore

log = logging.getLogger(__name__)

ONE_BY_ONE = 100  # violations of a session that are stored individually …
BETWEEN = 60.0  # … and then seconds between two, each with a count of those that it stands for
MOST = 10_000  # of a worker that wait for the store; further ones are counted with the session's next one
TOGETHER = 500  # in one transaction
GATHER = 0.1  # seconds in which others can join a batch
RETRY = 2.0  # seconds
Count = Callable[..., None]  # (metric, *labels, by=…), see metrics.meters.Meters.count
_NAMESPACE = UUID("1c5f1f5a-7f0e-4f44-8f0a-5a3f0cf2f5b8")


class Violations:
    """The violations of all sessions of one worker. They wait for a tenth of a second, or until the store is
    available."""

    def __init__(self, store: ViolationStore, count: Count) -> None:
        self._store = store
        self.count = count
        self._waiting: list[Violation] = []
        self._turn = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= MOST

    def of(self, session_id: UUID, permit: Permit) -> SessionViolations:
        return SessionViolations(self, session_id, permit)

    def put(self, violation: Violation) -> None:
        self._waiting.append(violation)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._write_soon())

    async def flush(self) -> None:
        """Store everything that waits, at once. Raises Unavailable."""
        async with self._turn:
            while self._waiting:
                batch = self._waiting[:TOGETHER]
                await self._write(batch)
                del self._waiting[: len(batch)]

    async def _write(self, batch: list[Violation]) -> None:
        """Store a batch. A violation that the store rejects does not block others. Raises Unavailable."""
        try:
            await self._store.add(batch)
        except PosternError:
            raise
        except Exception:
            if len(batch) > 1:
                for violation in batch:
                    await self._write([violation])
                return
            log.exception("a violation of session %s could not be written", batch[0].session_id)

    async def once(self) -> None:
        """Store once without raising: what cannot be stored stays."""
        try:
            await self.flush()
        except PosternError as error:
            log.error("%d rule violations could not be stored yet: %s", len(self._waiting), error.message)

    async def _write_soon(self) -> None:
        await asyncio.sleep(GATHER)
        await self.once()
        while self._waiting:
            await asyncio.sleep(RETRY)
            await self.once()


class SessionViolations:
    """The violations of one session. A link calls it for each; call `close` when the session ends."""

    def __init__(self, all_: Violations, session_id: UUID, permit: Permit) -> None:
        self._all = all_
        self._session_id = session_id
        self._permit = permit
        self._number = 0
        self._told = 0  # number of the last stored one
        self._next_at = 0.0
        self._last: Violation | None = None  # of those that are left out

    @property
    def number(self) -> int:
        """Return how many there were."""
        return self._number

    def __call__(self, action: Done, rule: str, message: str, operations: Sequence[Operation]) -> None:
        self._number += 1
        self._all.count("postern_rules_violated", action)
        violation = self._violation(action, rule, message, _text(operations))
        now = time.monotonic()
        if self._all.is_full or (self._number > ONE_BY_ONE and now < self._next_at):
            self._last = violation
            return
        self._next_at = now + BETWEEN
        self._put(violation)

    async def close(self) -> None:
        """Store what is left, so that violations are in the store before the session's end is reported, unless the
        store is unavailable."""
        if self._last is not None:
            self._put(self._last)
        if self._number:
            await self._all.once()

    def _put(self, violation: Violation) -> None:
        self._last = None
        self._all.put(replace(violation, left_out=violation.number - self._told - 1))
        self._told = violation.number

    def _violation(self, action: Done, rule: str, message: str, statement: str | None) -> Violation:
        principal, connection = self._permit.principal, self._permit.connection
        return Violation(
            id=uuid5(_NAMESPACE, f"{self._session_id} {self._number}"),
            org_id=connection.org_id,
            session_id=self._session_id,
            connection_id=connection.id,
            connection=connection.name,
            user=principal.email,
            user_id=principal.subject,
            number=self._number,
            left_out=0,
            rule=_make_storable(rule, MAX_RULE),
            action=action,
            message=_make_storable(message, MAX_MESSAGE),
            statement=statement,
            at=datetime.now(UTC),
        )


def _text(operations: Sequence[Operation]) -> str | None:
    """Return the statements without their values; None for a response."""
    texts = dict.fromkeys(operation.text for operation in operations)
    return _make_storable("\n".join(texts), MAX_STATEMENT) if texts else None


def _make_storable(text: str, most: int) -> str:
    """Return text that every store accepts."""
    return text[:most].replace("\0", "\ufffd").encode("utf-8", "replace").decode()
