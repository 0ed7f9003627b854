"""Target tasks: requested by the API's process, answered by the relay worker that claims them first.

They show no rows of a target, so they are not sessions. They change nothing, so they are not in the audit log. The
server's log has a line for each: the user, the task, the connection and the result.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from postern.domain.durations import duration_text
from postern.domain.identity.principal import Principal
from postern.domain.rules.permit import Permit
from postern.domain.targets.connection import TERMINAL
from postern.domain.targets.target_task import (
    MAX_ANSWER,
    Failure,
    TargetTask,
    TargetTaskAnswer,
    TargetTaskKind,
    TargetTest,
)
from postern.domain.text import one_line
from postern.domain.tracing import trace_payload
from postern.errors import Denied, Invalid, Malformed, NotFound, PosternError, TooMany, Unavailable, Unreachable
from postern.services.admission import Access
from postern.services.completion_signals import CompletionSignals, poll_times
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.identity_ports import PrincipalStore
from postern.store.ports.target_ports import TargetTaskStore

__all__ = ["WAIT", "TargetTasks"]

log = logging.getLogger(__name__)

WAIT = 10.0  # seconds that a request waits for the answer
RUN = 9.0  # time limit of the worker, so that its error arrives in time
MOST = 32  # concurrent tasks of one process
MAX_NAME = 128  # characters
_LOOK_AGAIN = 1.0  # seconds; should a signal be lost
_TAKEN_FOR = timedelta(seconds=30)  # clocks of several machines need not agree
_STAYS = timedelta(minutes=5)  # of a task whose caller died
_MAX_REASON = 2_000  # characters

_RAISED: Mapping[Failure, type[PosternError]] = {
    Failure.REFUSED: Denied,
    Failure.MISSING: NotFound,
    Failure.FAILED: Malformed,
    Failure.AWAY: Unreachable,
}


class TargetTasks:
    """`answerable` names the subtypes that can be tested and explored."""

    def __init__(
        self,
        store: TargetTaskStore,
        principals: PrincipalStore,
        access: Access,
        signals: Signals,
        now: Clock,
        *,
        answerable: frozenset[str],
    ) -> None:
        self._store = store
        self._principals = principals
        self._access = access
        self._signals = signals
        self._now = now
        self._answerable = answerable
        self._done = CompletionSignals(signals, Topic.TARGET_TASK_DONE, "target_task_id")
        self._waiting = 0

    async def ask(
        self,
        principal: Principal,
        connection: str,
        kind: TargetTaskKind,
        arguments: Mapping[str, str | None] | None = None,
        *,
        source: str,
        wait: float = WAIT,
    ) -> TargetTaskAnswer:
        """Return the target's answer. `connection` is a name or id; `source` the caller's address; `wait` in seconds.

        The result of a test is stored as the connection's last one. Raises NotFound, Denied, Invalid, TooMany;
        Malformed with the reason when the target rejected it, and Unreachable when the target or its agent does not
        answer, both of which are 400 in the API; Unavailable when no worker answered within `wait`.
        """
        task_arguments = {name: value for name, value in (arguments or {}).items() if value is not None}
        permit = await self._admit(principal, connection, kind, source)
        name, subtype = permit.connection.name, permit.connection.subtype
        if permit.connection.protocol == TERMINAL:
            raise Malformed(f"connection {name!r} is a command and has no {_NAMES[kind]}; run it: postern exec {name}")
        if subtype not in self._answerable:
            raise Malformed(f"connection: subtype {subtype!r} has no {_NAMES[kind]} yet")
        for field, value in task_arguments.items():
            if field in _NAMED:
                _check_name(field, value)
        if self._waiting >= MOST:
            raise TooMany(f"{MOST} tests and schema queries are running; try again in a few seconds", retry_after=1)
        target_task = TargetTask(
            uuid4(), principal.org_id, principal.id, permit.connection.id, kind, task_arguments, source, self._now()
        )
        self._waiting += 1
        try:
            answer = await self._run(target_task, wait)
        finally:
            self._waiting -= 1
        outcome = answer.failure or "answered"
        log.info(
            "target task done: user=%s task=%s connection=%s outcome=%s",
            principal.email,
            kind,
            permit.connection.name,
            outcome,
        )
        if kind is TargetTaskKind.TEST and answer.failure is not Failure.REFUSED:
            await self._save_test(permit, answer)
        if answer.failure is not None:
            raise _RAISED[answer.failure](answer.reason)
        return answer

    async def claim(self, task_id: UUID, worker: str) -> tuple[TargetTask, Permit] | None:
        """Claim a task for a worker: exactly one caller gets it, the others None.

        Admission is checked again; a denial becomes the answer.
        """
        target_task = await self._store.claim(task_id, worker, self._now() - _TAKEN_FOR)
        if target_task is None:
            return None
        try:
            account = await self._principals.get(target_task.org_id, target_task.principal_id)
            if account is None:
                raise Denied("this user was deleted")
            permit = await self._admit(
                account.principal, str(target_task.connection_id), target_task.kind, target_task.source
            )
        except (Denied, NotFound, Unavailable) as refusal:
            await self.answer(task_id, worker, TargetTaskAnswer({}, failure=Failure.REFUSED, reason=refusal.message))
            return None
        return target_task, permit

    async def answer(self, task_id: UUID, worker: str, answer: TargetTaskAnswer, *, limit: int = MAX_ANSWER) -> None:
        """Store the answer of the worker that claimed it. `limit` is that of its kind, in bytes."""
        message = {
            "result": answer.result,
            "truncated": answer.truncated,
            "failure": answer.failure,
            "reason": answer.reason[:_MAX_REASON],
        }
        # A whole schema would keep the event loop busy for long.
        text = _write(message) if limit <= MAX_ANSWER else await asyncio.to_thread(_write, message)
        if len(text.encode()) > limit + 8 * _MAX_REASON:
            raise ValueError("the answer to a target task exceeds its maximum size")
        if await self._store.answer(task_id, worker, text, self._now()):
            await self._signals.publish(Topic.TARGET_TASK_DONE, target_task_id=str(task_id))

    async def prune(self) -> None:
        await self._store.prune(self._now() - _STAYS)

    async def _admit(self, principal: Principal, connection: str, kind: TargetTaskKind, source: str) -> Permit:
        if kind is TargetTaskKind.PREVIEW:
            return await self._access.admit_preview(principal, connection, source=source)
        schema = kind is not TargetTaskKind.TEST
        return await self._access.admit_target_task(principal, connection, schema=schema, source=source)

    async def _save_test(self, permit: Permit, answer: TargetTaskAnswer) -> None:
        """Store the result as the connection's last test. A denial by the gateway says nothing about the target."""
        connection = permit.connection
        if connection.place is None:
            return
        succeeded = answer.failure is None
        reason = "" if succeeded else answer.reason
        await self._store.save_test(
            TargetTest(connection.id, connection.org_id, connection.place, succeeded, reason, self._now())
        )

    async def _run(self, target_task: TargetTask, wait: float) -> TargetTaskAnswer:
        """Store the task, wait for its answer, and delete it in any case, so that an abandoned one does not start."""
        async with self._done.subscribe(target_task.id) as event:
            await self._store.add(target_task)
            try:
                await self._signals.publish(
                    Topic.TARGET_TASK_RUN, target_task_id=str(target_task.id), **trace_payload()
                )
                return await self._wait(target_task, event, wait)
            finally:
                await asyncio.shield(self._store.remove(target_task.id))

    async def _wait(self, target_task: TargetTask, event: asyncio.Event, wait: float) -> TargetTaskAnswer:
        worker = None
        async for _ in poll_times(event, wait, _LOOK_AGAIN):
            worker, answer = await self._store.look(target_task.id)
            if answer is not None:
                small = len(answer) <= MAX_ANSWER
                return _read(json.loads(answer) if small else await asyncio.to_thread(json.loads, answer))
        if worker is None:
            raise Unavailable(
                f"no relay worker took this task within {duration_text(wait)}; ask the operator of the gateway"
            )
        raise Unavailable(f"the target did not answer within {duration_text(wait)}")


_NAMES: Mapping[TargetTaskKind, str] = {
    TargetTaskKind.TEST: "connection test",
    TargetTaskKind.DATABASES: "list of databases",
    TargetTaskKind.TABLES: "list of tables",
    TargetTaskKind.COLUMNS: "list of columns",
    TargetTaskKind.SCHEMA: "schema",
    TargetTaskKind.PREVIEW: "preview",
}


def _write(message: Mapping[str, Any]) -> str:
    return json.dumps(message, ensure_ascii=False)


def _read(message: Mapping[str, Any]) -> TargetTaskAnswer:
    failure = message["failure"]
    return TargetTaskAnswer(
        message["result"], message["truncated"], None if failure is None else Failure(failure), message["reason"]
    )


_NAMED = frozenset({"database", "schema", "table"})


def _check_name(field: str, value: str) -> None:
    """Check a name. Databases allow any other character; it is passed as a value, never as part of a query."""
    if not 1 <= len(value) <= MAX_NAME or one_line(value) != value:
        raise Invalid(f"{field}: must be 1 to {MAX_NAME} characters without control characters", field=field)
