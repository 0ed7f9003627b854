"""The session hooks of one worker: the engine reports the start and end of each session, and hooks run beside it.

Sessions never wait for a hook. A report costs a task if the connection may have hooks. The result is stored, logged and
counted, and has no other effect. A hook gets JSON in the format that hooks of another gateway expect, with a few more
fields:

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

MOST = 48 * 1024  # bytes of JSON: 64 KiB in base64; Linux accepts no variable of more than 128 KiB
_COMMAND = ["python3"]
_GOOD_ENDS = (EndReason.CLIENT_CLOSED, EndReason.COMPLETED)


@dataclass(frozen=True, slots=True)
class HookMoment:
    """The start of a session, with its `script` if it runs one; or its end, with the `reason`."""

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
    """Return the context in base64."""
    about = _about(moment.permit)
    opened = closed = None
    if moment.kind is HookKind.CLOSE:
        closed = {"exit_code": _exit_code(moment), "output": str(moment.reason), **about}

    def encode_event(script: str) -> bytes:
        event = {**about, "input": script, "input_truncated": len(script) < len(moment.script)}
        both = {"event_session_open": event if closed is None else opened, "event_session_close": closed}
        message = {"id": str(run_id), "sid": str(moment.session_id), "command": _COMMAND, **both}
        return json.dumps(message, separators=(",", ":")).encode()

    room = MOST - len(encode_event("")) - 1  # "false" is one longer than "true"
    return base64.b64encode(encode_event(_fitting(moment.script, room))).decode()


def _about(permit: Permit) -> dict[str, Any]:
    """Return facts about the connection, without its variables, which are its secrets, and without its reviewers;
    approvals are in the session."""
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
    """Return a number, as those hooks expect; without an exit code it tells success."""
    if moment.exit_code is not None:
        return moment.exit_code
    return 0 if moment.reason in _GOOD_ENDS else 1


def _fitting(script: str, room: int) -> str:
    """Return the beginning of the script that takes at most `room` bytes of JSON. Each part is encoded once or twice
    only: this is the event loop of all sessions, and a script can be long."""
    fits = 0
    for step in (4_096, 256, 16, 1):
        while fits < len(script) and (size := len(json.dumps(script[fits : fits + step])) - 2) <= room:
            fits, room = fits + step, room - size
    return script[:fits]


log = logging.getLogger(__name__)

AT_ONCE = 16
OF_ONE = 8  # per organisation
WAITING = 256  # per organisation
MOMENTS = 2_048  # pending starts and ends of sessions, per organisation
LATE = 20.0  # seconds for the agent in addition to the hook's own: to connect, to start and to end it
AGAIN = (2.0, 10.0, 30.0)  # seconds between attempts to store a result
LAST = 0.5  # seconds to store the result of an aborted hook
METRIC = "postern_session_hooks"
_STOPPED = "the gateway stopped before the hook finished"


class HookSource(Protocol):
    """The hooks and their results; see services/runbooks/hooks.py."""

    async def of(self, org_id: UUID, kind: HookKind) -> Sequence[HookScript]: ...

    def is_none(self, org_id: UUID, kind: HookKind) -> bool:
        """Return True if it is known without a query that there is no hook."""

    async def record_run(self, run: HookRun) -> None: ...


class HookRunner(Protocol):
    """The agent of a connection, wherever it runs."""

    async def hook(self, permit: Permit, session_id: UUID, hook: Hook) -> HookOutcome:
        """Run a hook. Raises Denied, Unavailable."""


class _Share:
    """One organisation's share."""

    def __init__(self) -> None:
        self.turn = asyncio.Semaphore(OF_ONE)
        self.waiting = 0
        self.moments = 0


class SessionHooks:
    """The hooks. At most AT_ONCE run in total, OF_ONE per organisation, and WAITING wait. Further ones are reported as
    not run."""

    def __init__(
        self, source: HookSource, agents: HookRunner, count: Count, *, seconds: float = HOOK_SECONDS, late: float = LATE
    ) -> None:
        self._source = source
        self._agents = agents
        self._count = count
        self._seconds = seconds
        self._late = late
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._shares: dict[UUID, _Share] = {}  # organisations with pending starts or ends
        self._tasks: set[asyncio.Task[None]] = set()
        self._running: set[asyncio.Task[None]] = set()  # tasks with a hook that runs or waits
        self._begun: dict[UUID, asyncio.Task[None]] = {}  # by session, while the hooks of its start run
        self._stopping = asyncio.Event()
        self._open = 0  # sessions that started here and have not ended
        self._quiet = asyncio.Event()  # there are no sessions and no tasks
        self._quiet.set()

    def handle_open(self, session_id: UUID, permit: Permit, script: str) -> None:
        """Report the start of a session. `script` is what it runs; empty for an interactive session."""
        self._open += 1
        self._quiet.clear()
        # hooks get no more than this
        task = self._start(HookMoment(HookKind.OPEN, session_id, permit, script[: MOST + 1]))
        if task is not None:
            self._begun[session_id] = task
            task.add_done_callback(lambda _: self._begun.pop(session_id, None))

    def handle_close(self, session_id: UUID, permit: Permit, reason: EndReason, exit_code: int | None) -> None:
        self._open -= 1
        self._start(HookMoment(HookKind.CLOSE, session_id, permit, reason=reason, exit_code=exit_code))
        self._note_quiet()

    async def stop(self, grace: float) -> None:
        """Let sessions end, and hooks finish, for `grace` seconds; then end running hooks and start no more."""
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
            log.warning("session %s: its hooks do not run because too many other hooks are waiting", moment.session_id)
            return None
        share.moments += 1
        before = self._begun.get(moment.session_id)
        task = asyncio.get_running_loop().create_task(self._look_after(moment, share, before))
        self._tasks.add(task)
        task.add_done_callback(functools.partial(self._handle_task_done, org_id, share))
        return task

    def _handle_task_done(self, org_id: UUID, share: _Share, task: asyncio.Task[None]) -> None:
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
            log.error("session %s: reading its hooks failed: %s", moment.session_id, error.message)
        except Exception:
            log.exception("session %s: running its hooks failed", moment.session_id)

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
        self._log_result(run)
        await self._keep(run)

    @asynccontextmanager
    async def _turn_of(self, share: _Share) -> AsyncIterator[None]:
        """Take a slot of the organisation. Raises _NotRun."""
        if self._stopping.is_set():
            raise _NotRun(_STOPPED)
        if share.turn.locked() and share.waiting >= WAITING:
            raise _NotRun(f"{WAITING} hooks of this organisation are already waiting; its hooks take too long")
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
        """Return the hook's current state, after a possibly long wait. Raises _NotRun."""
        try:
            scripts = await self._source.of(moment.org_id, script.kind)
        except PosternError as error:
            raise _NotRun(f"reading its current state failed: {error.message}") from None
        for hook_script in scripts:
            if hook_script.repository == script.repository:
                return hook_script
        raise _NotRun("it was disabled, or was removed from its repository")

    async def _run(self, run_id: UUID, moment: HookMoment, script: HookScript) -> HookOutcome:
        size = len(script.text.encode())
        if size > MAX_HOOK:
            raise _NotRun(f"it has {size} bytes; a hook can have at most {MAX_HOOK}")
        try:
            hook = Hook(run_id, script.text, context(run_id, moment), self._seconds)
            async with asyncio.timeout(self._seconds + self._late):
                return await self._agents.hook(moment.permit, moment.session_id, hook)
        except TimeoutError:
            raise _NotRun("its agent did not answer in time; it is unknown whether the hook ran") from None
        except PosternError as error:
            raise _NotRun(one_line(error.message)[:MAX_REASON]) from None
        except Exception:
            log.exception("session %s: a hook could not be run", moment.session_id)
            raise _NotRun("the gateway failed to run it; see the gateway's log") from None

    def _log_result(self, run: HookRun) -> None:
        """Log the result, without the output: it can contain anything."""
        outcome = run.outcome
        if outcome.exit_code is None:
            self._count(METRIC, run.kind, "not_run")
            log.warning("session %s: hook %s did not finish: %s", run.session_id, _name(run), outcome.reason)
            return
        self._count(METRIC, run.kind, "failed" if outcome.exit_code else "succeeded")
        log.info(
            "session %s: hook %s ended with exit code %d after %.1f s",
            *(run.session_id, _name(run), outcome.exit_code, run.seconds),
        )

    async def _keep(self, run: HookRun) -> None:
        """Store the result, with retries while the store is unavailable."""
        why = "the gateway stopped"
        try:
            for pause in (*AGAIN, 0.0):
                try:
                    await self._source.record_run(run)
                    why = ""
                    return
                except Exception as error:  # such as for a read-only store: the next hook runs anyway
                    why = str(error)
                if pause == 0.0 or self._stopping.is_set():
                    return
                await self._pause(pause)
        finally:
            if why:
                log.error("session %s: storing the result of hook %s failed: %s", run.session_id, _name(run), why)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)


class _NotRun(Exception):
    """The reason why a hook did not run, for users."""


def _name(run: HookRun) -> str:
    return f"{run.kind} of {run.repository} at {run.commit[:12]}"
