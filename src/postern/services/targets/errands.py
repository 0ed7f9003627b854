"""Errands: asked by the API's process, answered by whichever relay worker takes them first.

They show nothing of the rows of a target, so they are no sessions; and they change nothing, so they are not in the
audit log either. The server's log has a line for each: who asked what of which connection, and what came of it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from postern.domain.identity.principal import Principal
from postern.domain.rules.permit import Permit
from postern.domain.targets.connection import TERMINAL
from postern.domain.targets.errand import MAX_ANSWER, Errand, ErrandAnswer, ErrandKind, Failure, TargetTest
from postern.domain.text import one_line
from postern.domain.tracing import carried
from postern.errors import Denied, Invalid, Malformed, NotFound, PosternError, TooMany, Unavailable, Unreachable
from postern.services.admission import Access
from postern.services.done import DoneSignals, looks
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.identity_ports import PrincipalStore
from postern.store.ports.target_ports import ErrandStore

__all__ = ["WAIT", "Errands"]

log = logging.getLogger(__name__)

WAIT = 10.0  # seconds that who asks waits for the answer
RUN = 9.0  # seconds that a worker has for it, so that its reason for none comes in time
MOST = 32  # that one process waits for at once
MAX_NAME = 128  # characters
_LOOK_AGAIN = 1.0  # seconds; should a signal be lost
_TAKEN_FOR = timedelta(seconds=30)  # clocks of several machines need not agree
_STAYS = timedelta(minutes=5)  # of one whose asker died
_MAX_REASON = 2_000  # characters

_RAISED: Mapping[Failure, type[PosternError]] = {
    Failure.REFUSED: Denied,
    Failure.MISSING: NotFound,
    Failure.FAILED: Malformed,
    Failure.AWAY: Unreachable,
}


class Errands:
    """`answerable` names the subtypes that can be tested and looked into."""

    def __init__(
        self,
        store: ErrandStore,
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
        self._done = DoneSignals(signals, Topic.ERRAND_DONE, "errand_id")
        self._waiting = 0

    async def ask(
        self,
        principal: Principal,
        connection: str,
        kind: ErrandKind,
        arguments: Mapping[str, str | None] | None = None,
        *,
        source: str,
        wait: float = WAIT,
    ) -> ErrandAnswer:
        """What the target says. `connection` is a name or id; `source` the address of who asks; `wait` in seconds.

        The result of a test is stored as the connection's last one. Raises NotFound, Denied, Invalid, TooMany;
        Malformed with the reason when the target refused, and Unreachable when it, or its agent, does not answer, which
        the API says as 400; Unavailable when nobody did within `wait`.
        """
        given = {name: value for name, value in (arguments or {}).items() if value is not None}
        permit = await self._admit(principal, connection, kind, source)
        name, subtype = permit.connection.name, permit.connection.subtype
        if permit.connection.protocol == TERMINAL:
            raise Malformed(f"connection {name!r} is a command and has no {_NAMES[kind]}; run it: postern exec {name}")
        if subtype not in self._answerable:
            raise Malformed(f"connection: subtype {subtype!r} has no {_NAMES[kind]} yet")
        for field, value in given.items():
            _check_name(field, value)
        if self._waiting >= MOST:
            raise TooMany(f"{MOST} tests and look-ups run already; try again in a moment", retry_after=1)
        errand = Errand(uuid4(), principal.org_id, principal.id, permit.connection.id, kind, given, source, self._now())
        self._waiting += 1
        try:
            answer = await self._run(errand, wait)
        finally:
            self._waiting -= 1
        outcome = answer.failure or "answered"
        log.info("%s asked for %s of connection %s: %s", principal.email, kind, permit.connection.name, outcome)
        if kind is ErrandKind.TEST and answer.failure is not Failure.REFUSED:
            await self._save_test(permit, answer)
        if answer.failure is not None:
            raise _RAISED[answer.failure](answer.reason)
        return answer

    async def claim(self, errand_id: UUID, worker: str) -> tuple[Errand, Permit] | None:
        """For a worker: exactly one caller gets it, the others None. Admission is asked again, and its refusal is
        an answer."""
        errand = await self._store.claim(errand_id, worker, self._now() - _TAKEN_FOR)
        if errand is None:
            return None
        try:
            account = await self._principals.get(errand.org_id, errand.principal_id)
            if account is None:
                raise Denied("this user was deleted")
            permit = await self._admit(account.principal, str(errand.connection_id), errand.kind, errand.source)
        except (Denied, NotFound, Unavailable) as refusal:
            await self.answer(errand_id, worker, ErrandAnswer({}, failure=Failure.REFUSED, reason=refusal.message))
            return None
        return errand, permit

    async def answer(self, errand_id: UUID, worker: str, answer: ErrandAnswer) -> None:
        """By the worker that claimed it."""
        text = json.dumps(asdict(answer) | {"reason": answer.reason[:_MAX_REASON]}, ensure_ascii=False)
        if len(text.encode()) > MAX_ANSWER + 8 * _MAX_REASON:
            raise ValueError("an answer to an errand is larger than it may be")
        if await self._store.answer(errand_id, worker, text, self._now()):
            await self._signals.publish(Topic.ERRAND_DONE, errand_id=str(errand_id))

    async def prune(self) -> None:
        await self._store.prune(self._now() - _STAYS)

    async def _admit(self, principal: Principal, connection: str, kind: ErrandKind, source: str) -> Permit:
        schema = kind is not ErrandKind.TEST
        return await self._access.admit_errand(principal, connection, schema=schema, source=source)

    async def _save_test(self, permit: Permit, answer: ErrandAnswer) -> None:
        """Store the result as the connection's last test. What the gateway's rules refused says nothing of a target."""
        connection = permit.connection
        if connection.place is None:
            return
        succeeded = answer.failure is None
        reason = "" if succeeded else answer.reason
        await self._store.save_test(
            TargetTest(connection.id, connection.org_id, connection.place, succeeded, reason, self._now())
        )

    async def _run(self, errand: Errand, wait: float) -> ErrandAnswer:
        """The row goes in any case: what nobody waits for any more is not begun."""
        async with self._done.listen(errand.id) as event:
            await self._store.add(errand)
            try:
                await self._signals.publish(Topic.ERRAND_RUN, errand_id=str(errand.id), **carried())
                return await self._wait(errand, event, wait)
            finally:
                await asyncio.shield(self._store.remove(errand.id))

    async def _wait(self, errand: Errand, event: asyncio.Event, wait: float) -> ErrandAnswer:
        worker = None
        async for _ in looks(event, wait, _LOOK_AGAIN):
            worker, answer = await self._store.look(errand.id)
            if answer is not None:
                return _read(json.loads(answer))
        if worker is None:
            raise Unavailable(f"no relay worker took this up within {wait:g} seconds; ask who runs the gateway")
        raise Unavailable(f"the target did not answer within {wait:g} seconds")


_NAMES: Mapping[ErrandKind, str] = {
    ErrandKind.TEST: "connection test",
    ErrandKind.DATABASES: "list of databases",
    ErrandKind.TABLES: "list of tables",
    ErrandKind.COLUMNS: "list of columns",
}


def _read(message: Mapping[str, Any]) -> ErrandAnswer:
    failure = message["failure"]
    return ErrandAnswer(
        message["result"], message["truncated"], None if failure is None else Failure(failure), message["reason"]
    )


def _check_name(field: str, value: str) -> None:
    """Any other character may be in a name of a database: it is a value to the target, and never part of a text."""
    if not 1 <= len(value) <= MAX_NAME or one_line(value) != value:
        raise Invalid(f"{field}: must be 1 to {MAX_NAME} characters without control characters", field=field)
