"""Target tasks of this worker: a login to the target as for a session, one query, and the answer in the task's row."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Coroutine, Mapping
from uuid import UUID, uuid4

from postern.domain.durations import duration_text
from postern.domain.rules.permit import Permit
from postern.domain.targets.target_task import Failure, TargetTask, TargetTaskAnswer, TargetTaskKind
from postern.domain.tracing import NO_TRACER, TRACEPARENT, SpanKind, Tracer, parent_of, within
from postern.errors import PosternError, Unavailable
from postern.gateway.query_spec import QUERY_SPECS
from postern.gateway.rules.script_judge import ScriptJudge
from postern.gateway.target_question import query_rows
from postern.protocols.gateway_queries import Catalogue, Row, TargetRefused
from postern.relay.relay_target import Dialer, Start, Target
from postern.services.targets.target_tasks import RUN, TargetTasks
from postern.store.ports.common_ports import Signals, Topic

log = logging.getLogger(__name__)

_ENVELOPE = 4096  # bytes of JSON around the rows of an answer


class TargetTaskRunner:
    """Claims tasks and runs them: `most` at once, and as many again can wait. Others are left to other workers."""

    def __init__(
        self,
        worker: str,
        target_tasks: TargetTasks,
        dialer: Dialer,
        signals: Signals,
        *,
        most: int = 8,
        seconds: float = RUN,
        judge: ScriptJudge | None = None,
        tracer: Tracer = NO_TRACER,
    ) -> None:
        """`judge` previews scripts."""
        self._judge = judge
        self._worker = worker
        self._target_tasks = target_tasks
        self._dialer = dialer
        self._most = most
        self._seconds = seconds
        self._tracer = tracer
        self._turn = asyncio.Semaphore(most)
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        signals.subscribe(Topic.TARGET_TASK_RUN, self._on_run)

    def take_no_more(self) -> None:
        self._closed = True

    async def stop(self, grace: float) -> None:
        """Wait for running tasks, at most `grace` seconds; then cancel them, without an answer to their callers."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace)
        for task in self._tasks:
            task.cancel()

    def _on_run(self, payload: Mapping[str, str]) -> None:
        if self._closed or len(self._tasks) >= 2 * self._most:
            return
        self._keep(self._run(UUID(payload["target_task_id"]), parent_of(payload.get(TRACEPARENT))))

    def _keep(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, task_id: UUID, parent: str) -> None:
        """Run a task. `parent` is the traceparent of the request."""
        async with self._turn:
            if self._closed:
                return
            try:
                began = time.time_ns()
                claimed = await self._target_tasks.claim(task_id, self._worker)
                if claimed is not None:  # only now: all workers try
                    answer = await self._trace_task(*claimed, parent, began)
                    limit = claimed[0].kind.max_answer
                    await self._target_tasks.answer(task_id, self._worker, answer, limit=limit)
            except Unavailable as error:
                log.error("target task %s cannot be run now: %s", task_id, error.message)
            except Exception:
                log.exception("target task %s could not be run", task_id)

    async def _trace_task(self, target_task: TargetTask, permit: Permit, parent: str, began: int) -> TargetTaskAnswer:
        span = self._tracer.start(
            "target_task", SpanKind.CONSUMER, {"postern.target_task": str(target_task.kind)}, parent=parent, began=began
        )
        with within(span):
            span.set({"postern.connection": permit.connection.name})
            answer = await self._answer(target_task, permit)
            if answer.failure is not None:
                span.fail(str(answer.failure))
            return answer

    async def _answer(self, target_task: TargetTask, permit: Permit) -> TargetTaskAnswer:
        name = permit.connection.name
        try:
            async with asyncio.timeout(self._seconds):
                return await self._ask(target_task, permit)
        except TimeoutError:
            if target_task.kind is TargetTaskKind.PREVIEW:
                return _failed_answer(
                    f"the preview took longer than {duration_text(self._seconds)}; preview a part of the script"
                )
            return _away(f"the target of {name!r} did not answer within {duration_text(self._seconds)}")
        except TargetRefused as refused:
            return _failed_answer(f"the target of {name!r} refused: {refused.text}")
        except Unavailable as error:
            return _away(error.message)
        except PosternError as error:
            return _failed_answer(error.message)
        except ConnectionError:
            return _away(f"the target of {name!r} closed the connection")

    async def _ask(self, target_task: TargetTask, permit: Permit) -> TargetTaskAnswer:
        if target_task.kind is TargetTaskKind.PREVIEW:
            return await self._preview(target_task, permit)
        spec = QUERY_SPECS.get(permit.connection.protocol)
        catalogue = None if spec is None else spec.catalogue()
        by_login = spec is not None and spec.tested_by_login and target_task.kind is TargetTaskKind.TEST
        if spec is None or (catalogue is None and not by_login):
            action = "tested" if target_task.kind is TargetTaskKind.TEST else "introspected"
            return _failed_answer(f"connections of subtype {permit.connection.subtype!r} cannot be {action}")
        start = Start(target_task.arguments.get("database"), spec.parameters(f"postern {target_task.kind}"))
        target = await self._dialer.dial(permit, start, uuid4())
        finished = False
        try:
            answer = await self._answer_of(catalogue, target_task, target)
            finished = True
            return answer
        finally:
            if not finished:  # otherwise the target would continue a query that no caller waits for
                self._keep(self._dialer.cancel(permit, target))
            target.stream.close()
            target.release()

    async def _preview(self, target_task: TargetTask, permit: Permit) -> TargetTaskAnswer:
        if self._judge is None:
            return _failed_answer("this worker cannot preview scripts; ask the operator of the gateway")
        arguments = target_task.arguments
        parameters = json.loads(arguments.get("parameters", "{}"))
        preview = await self._judge.preview(permit, arguments.get("database"), arguments["script"], parameters)
        return TargetTaskAnswer(preview.as_json())

    async def _answer_of(
        self, catalogue: Catalogue | None, target_task: TargetTask, target: Target
    ) -> TargetTaskAnswer:
        if catalogue is None:
            return TargetTaskAnswer({"success": True})
        question = catalogue.target_tasks[target_task.kind]
        arguments = {**target_task.arguments, "database": target.parameters.get("database")}
        query = catalogue.query(question.statement, [arguments.get(name) for name in question.values])
        rows: list[Row] = []
        left, truncated = target_task.kind.max_answer - _ENVELOPE, False
        async for row in query_rows(target.stream, query):
            left -= question.cost(row)
            truncated = truncated or left < 0
            if not truncated:
                rows.append(row)
        if query.error is not None:
            return _failed_answer(f"the target says: {query.error.text}")
        if not rows and question.missing:
            return TargetTaskAnswer({}, failure=Failure.MISSING, reason=question.missing)
        return TargetTaskAnswer(question.shape(rows), truncated)


def _failed_answer(reason: str) -> TargetTaskAnswer:
    return TargetTaskAnswer({}, failure=Failure.FAILED, reason=reason)


def _away(reason: str) -> TargetTaskAnswer:
    return TargetTaskAnswer({}, failure=Failure.AWAY, reason=reason)
