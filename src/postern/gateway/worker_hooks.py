"""The session hooks of one worker: the engine reports each session that begins or ends, and hooks run beside it.

Nobody waits for a hook. A report costs a task where the connection may have hooks; the result is stored, logged and
counted, and changes nothing. A hook gets JSON in the shape that hooks of another gateway know, with a few more fields:

{"id": …, "sid": …, "command": ["python3"], "event_session_open": {…} or null, "event_session_close": {…} or null}
"""

from __future__ import annotations

import asyncio
import base64
import functools
import json
import logging
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol
from uuid import UUID, uuid4

from postern.domain.hook import HOOK_SECONDS, MAX_HOOK, MAX_REASON, HookKind, HookOutcome, HookRun, HookScript
from postern.domain.rules.permit import Permit
from postern.domain.sessions.session import EndReason
from postern.domain.text import one_line
from postern.errors import PosternError
from postern.gateway.rules.violations import Count
from postern.relay.relay_hooks import Hook

MOST = 48 * 1024  # bytes of JSON: in base64, 64 KiB; Linux takes no variable of more than 128
_COMMAND = ["python3"]
_GOOD_ENDS = (EndReason.CLIENT_CLOSED, EndReason.COMPLETED)


@dataclass(frozen=True, slots=True)
class HookMoment:
    """The beginning of a session, with the `script` that it runs, if it does; or its end, for `reason`."""

    kind: HookKind
    session_id: UUID
    permit: Permit
    script: str = ""
    reason: EndReason = EndReason.COMPLETED
    exit_code: int | None = None

    @property
    def org_id(self) -> UUID:
        return self.permit.connection.org_id


def context(run_id: UUID, moment: HookMoment) -> str:
    """In base64."""
    about = _about(moment.permit)
    opened = closed = None
    if moment.kind is HookKind.CLOSE:
        closed = {"exit_code": _exit_code(moment), "output": str(moment.reason), **about}

    def told(script: str) -> bytes:
        event = {**about, "input": script, "input_truncated": len(script) < len(moment.script)}
        both = {"event_session_open": event if closed is None else opened, "event_session_close": closed}
        message = {"id": str(run_id), "sid": str(moment.session_id), "command": _COMMAND, **both}
        return json.dumps(message, separators=(",", ":")).encode()

    room = MOST - len(told("")) - 1  # "false" has one more than "true"
    return base64.b64encode(told(_fitting(moment.script, room))).decode()


def _about(permit: Permit) -> dict[str, Any]:
    """No variable of the connection, since those are its secrets. Nor who reviews it: what somebody approves, and who,
    stands in the session."""
    connection = permit.connection
    return {
        "verb": str(permit.verb),
        "connection_name": connection.name,
        "connection_type": str(connection.type),
        "connection_subtype": connection.subtype,
        "connection_envs": {},
        "connection_reviewers": [],
        "user_email": permit.principal.email,
    }


def _exit_code(moment: HookMoment) -> int:
    """A number, as those hooks expect: of a session that has none, whether it ended well."""
    if moment.exit_code is not None:
        return moment.exit_code
    return 0 if moment.reason in _GOOD_ENDS else 1


def _fitting(script: str, room: int) -> str:
    """As much of it as takes no more than `room` bytes of JSON. Each part is written once or twice: this is the event
    loop of all sessions, and a script may be as long as somebody likes."""
    fits = 0
    for step in (4_096, 256, 16, 1):
        while fits < len(script) and (size := len(json.dumps(script[fits : fits + step])) - 2) <= room:
            fits, room = fits + step, room - size
    return script[:fits]


log = logging.getLogger(__name__)

AT_ONCE = 16
OF_ONE = 8  # of an organisation
WAITING = 256  # of an organisation
MOMENTS = 2_048  # beginnings and ends of sessions that are being looked after, of an organisation
LATE = 20.0  # seconds that an agent has beside those of the hook: to be there, to start it, to end it
AGAIN = (2.0, 10.0, 30.0)  # seconds between two tries to keep what came of one
LAST = 0.5  # seconds to keep that of what was cut off
METRIC = "postern_session_hooks"
_STOPPED = "the gateway stopped before it had run to its end"


class HookSource(Protocol):
    """Which hooks there are, and what came of them; see services/runbooks/hooks.py."""

    async def of(self, org_id: UUID, kind: HookKind) -> Sequence[HookScript]: ...

    def is_none(self, org_id: UUID, kind: HookKind) -> bool:
        """Whether it is known, with nobody asked, that there is none."""

    async def record_run(self, run: HookRun) -> None: ...


class HookRunner(Protocol):
    """The agent of a connection, wherever it runs."""

    async def hook(self, permit: Permit, session_id: UUID, hook: Hook) -> HookOutcome:
        """Raises Denied, Unavailable."""


class _Share:
    """What one organisation has of them."""

    def __init__(self) -> None:
        self.turn = asyncio.Semaphore(OF_ONE)
        self.waiting = 0
        self.moments = 0


class SessionHooks:
    """At most AT_ONCE run; of an organisation OF_ONE, and WAITING wait. What is more does not run, and is said not to
    have."""

    def __init__(
        self, source: HookSource, agents: HookRunner, count: Count, *, seconds: float = HOOK_SECONDS, late: float = LATE
    ) -> None:
        self._source = source
        self._agents = agents
        self._count = count
        self._seconds = seconds
        self._late = late
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._shares: dict[UUID, _Share] = {}  # of organisations with any moment
        self._tasks: set[asyncio.Task[None]] = set()
        self._running: set[asyncio.Task[None]] = set()  # of these, with a hook that runs or waits
        self._begun: dict[UUID, asyncio.Task[None]] = {}  # by session, while the hooks of its beginning run
        self._stopping = asyncio.Event()
        self._open = 0  # sessions that began here and have not ended
        self._quiet = asyncio.Event()  # there is none, and no task
        self._quiet.set()

    def opened(self, session_id: UUID, permit: Permit, script: str) -> None:
        """`script` is what it runs; empty where somebody is connected."""
        self._open += 1
        self._quiet.clear()
        task = self._start(HookMoment(HookKind.OPEN, session_id, permit, script[: MOST + 1]))  # more is told of none
        if task is not None:
            self._begun[session_id] = task
            task.add_done_callback(lambda _: self._begun.pop(session_id, None))

    def closed(self, session_id: UUID, permit: Permit, reason: EndReason, exit_code: int | None) -> None:
        self._open -= 1
        self._start(HookMoment(HookKind.CLOSE, session_id, permit, reason=reason, exit_code=exit_code))
        self._note_quiet()

    async def stop(self, grace: float) -> None:
        """Lets sessions end, and what runs or waits, by themselves for `grace` seconds; then ends what runs, and
        nothing does any more."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._quiet.wait(), grace)
        self._stopping.set()
        for tasks in (self._running, self._tasks):
            for task in tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=LAST)

    def _start(self, moment: HookMoment) -> asyncio.Task[None] | None:
        org_id = moment.org_id
        if self._source.is_none(org_id, moment.kind):
            return None
        share = self._shares.setdefault(org_id, _Share())
        if share.moments >= MOMENTS:
            log.warning("session %s: its hooks do not run, since too many others wait", moment.session_id)
            return None
        share.moments += 1
        before = self._begun.get(moment.session_id)
        task = asyncio.get_running_loop().create_task(self._look_after(moment, share, before))
        self._tasks.add(task)
        task.add_done_callback(functools.partial(self._ended, org_id, share))
        return task

    def _ended(self, org_id: UUID, share: _Share, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        share.moments -= 1
        if not share.moments:
            del self._shares[org_id]
        self._note_quiet()

    def _note_quiet(self) -> None:
        if not self._tasks and not self._open:
            self._quiet.set()

    async def _look_after(self, moment: HookMoment, share: _Share, before: asyncio.Task[None] | None) -> None:
        try:
            if before is not None:
                await asyncio.wait([before])
            for script in await self._source.of(moment.org_id, moment.kind):
                await self._one(moment, share, script)
        except PosternError as error:
            log.error("session %s: which hooks it has is not known: %s", moment.session_id, error.message)
        except Exception:
            log.exception("session %s: its hooks could not be run", moment.session_id)

    async def _one(self, moment: HookMoment, share: _Share, script: HookScript) -> None:
        run_id, task = uuid4(), asyncio.current_task()
        assert task is not None
        self._running.add(task)
        started, began = datetime.now(UTC), time.monotonic()
        try:
            async with self._turn_of(share), self._turn:
                script = await self._still(moment, script)
                started, began = datetime.now(UTC), time.monotonic()
                outcome = await self._run(run_id, moment, script)
        except _NotRun as error:
            outcome = HookOutcome(None, reason=str(error))
        except asyncio.CancelledError:  # by `stop` alone
            outcome = HookOutcome(None, reason=_STOPPED)
        finally:
            self._running.discard(task)
        seconds = time.monotonic() - began
        run = HookRun(
            run_id,
            moment.org_id,
            moment.session_id,
            script.kind,
            script.repository,
            script.commit,
            started,
            seconds,
            outcome,
        )
        self._tell(run)
        await self._keep(run)

    @asynccontextmanager
    async def _turn_of(self, share: _Share) -> AsyncIterator[None]:
        """One of those of its organisation that may run. Raises _NotRun."""
        if self._stopping.is_set():
            raise _NotRun(_STOPPED)
        if share.turn.locked() and share.waiting >= WAITING:
            raise _NotRun(f"{WAITING} hooks of other sessions wait already; those of this organisation take too long")
        share.waiting += 1
        try:
            await share.turn.acquire()
        finally:
            share.waiting -= 1
        try:
            yield
        finally:
            share.turn.release()

    async def _still(self, moment: HookMoment, script: HookScript) -> HookScript:
        """As it is by now: it may have waited for long. Raises _NotRun."""
        try:
            found = await self._source.of(moment.org_id, script.kind)
        except PosternError as error:
            raise _NotRun(f"whether it is still to run is not known: {error.message}") from None
        for one in found:
            if one.repository == script.repository:
                return one
        raise _NotRun("it was switched off, or is in its repository no more")

    async def _run(self, run_id: UUID, moment: HookMoment, script: HookScript) -> HookOutcome:
        size = len(script.text.encode())
        if size > MAX_HOOK:
            raise _NotRun(f"it has {size} bytes, and a hook may have {MAX_HOOK} at most")
        try:
            hook = Hook(run_id, script.text, context(run_id, moment), self._seconds)
            async with asyncio.timeout(self._seconds + self._late):
                return await self._agents.hook(moment.permit, moment.session_id, hook)
        except TimeoutError:
            raise _NotRun("its agent did not answer in time; whether it ran is not known") from None
        except PosternError as error:
            raise _NotRun(one_line(error.message)[:MAX_REASON]) from None
        except Exception:
            log.exception("session %s: a hook could not be run", moment.session_id)
            raise _NotRun("of an error of the gateway; its log says more") from None

    def _tell(self, run: HookRun) -> None:
        """Never what it printed: that may hold anything."""
        outcome = run.outcome
        if outcome.exit_code is None:
            self._count(METRIC, run.kind, "not_run")
            log.warning("session %s: hook %s did not run to its end: %s", run.session_id, _name(run), outcome.reason)
            return
        self._count(METRIC, run.kind, "failed" if outcome.exit_code else "succeeded")
        log.info(
            "session %s: hook %s ended with exit code %d after %.1f s",
            *(run.session_id, _name(run), outcome.exit_code, run.seconds),
        )

    async def _keep(self, run: HookRun) -> None:
        """Tells it again while the store is away, some times."""
        why = "the gateway stopped"
        try:
            for pause in (*AGAIN, 0.0):
                try:
                    await self._source.record_run(run)
                    why = ""
                    return
                except Exception as error:  # such as of a store that is read only: the next one runs all the same
                    why = str(error)
                if pause == 0.0 or self._stopping.is_set():
                    return
                await self._pause(pause)
        finally:
            if why:
                log.error("session %s: what came of hook %s could not be kept: %s", run.session_id, _name(run), why)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)


class _NotRun(Exception):
    """With what people are told."""


def _name(run: HookRun) -> str:
    return f"{run.kind} of {run.repository} at {run.commit[:12]}"
