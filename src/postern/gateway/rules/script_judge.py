"""Previews of scripts: the judgement of a run, without the run.

A script goes through a link as it would in a session: its own client's bytes, the wire of its protocol, and the
pipeline of the same policy. The link leads nowhere. What it would send to the target is dropped, and its refusal, its
warnings or its held request is the answer. So a preview cannot be kinder than a run, except for what changes between
the two and what only the target's answers show.

A script is judged as a whole. The statements are judged once more one by one, only to say which of them it is about.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast
from uuid import uuid4

from postern.domain.rules.permit import Permit
from postern.domain.rules.script_preview import (
    MAX_PREVIEWED,
    AnalysedPart,
    Judgement,
    PreviewMessage,
    PreviewOutcome,
    ScriptAnalysis,
    ScriptPreview,
)
from postern.domain.sessions.script_parameters import BoundScript, Parameters
from postern.domain.targets.target_schema import TargetSchema
from postern.errors import Invalid, Malformed, Unavailable
from postern.gateway.gateway_protocols import OpenWire
from postern.gateway.rules.held_requests import HeldRequests, waiting_message
from postern.gateway.rules.parse_slots import QueueFull, Task
from postern.gateway.rules.target_schemas import TargetSchemas
from postern.gateway.script_client import bind_script, known_database, make_client, script_start
from postern.interception.pipeline import Pipeline, SessionView
from postern.interception.verdicts import Refuse, Warn
from postern.protocols.gateway_queries import ScriptInBatches, ScriptInSteps, ScriptRequest
from postern.protocols.wire_base import Side
from postern.relay.link import Close, Link
from postern.relay.relay_target import Start
from postern.services.reviews.review_requests import statement_approvers

# (protocol, schema, text, most statements, places and texts of statements that are known) → a task that returns a
# ScriptAnalysis; None for a protocol without a parser
AnalysisTask = Callable[
    [str, TargetSchema | None, str, int, Sequence[tuple[int, int, str]]], Callable[[], ScriptAnalysis] | None
]


class ScriptJudge:
    """`wire` makes wires without effects outside of their link. `count(metric, outcome)` counts previews."""

    def __init__(
        self,
        schemas: TargetSchemas,
        pipeline: Callable[[Permit, SessionView], Pipeline],
        wire: OpenWire,
        held_requests: HeldRequests,
        analysis: AnalysisTask,
        count: Callable[[str, str], None],
    ) -> None:
        self._schemas = schemas
        self._pipeline = pipeline
        self._wire = wire
        self._held_requests = held_requests
        self._analysis = analysis
        self._count = count

    async def preview(self, permit: Permit, database: str | None, script: str, parameters: Parameters) -> ScriptPreview:
        """Preview a script. Raises Invalid as `bind`, Malformed where nothing can be previewed, Unavailable."""
        start = replace(script_start(permit), database=database)
        bound = await bind_script(permit.connection, script, parameters)
        schema = await self._schemas.of(permit, start)
        requests = await asyncio.to_thread(_Requests, permit, start, bound)
        protocol = permit.connection.protocol
        task = self._analysis(protocol, schema, bound.sketch, MAX_PREVIEWED, requests.statements)
        if task is None:
            raise Malformed(f"connection {permit.connection.name!r} has no statements that can be previewed")
        judgement = await self._judge(permit, start, requests.of_script, self._open_pipeline(permit, schema))
        analysis = await self._analyse(permit, task, len(bound.text))
        judgements = await self._judge_parts(permit, start, schema, requests, judgement, analysis)
        self._count("postern_script_previews", str(judgement.outcome))
        return ScriptPreview(judgement, _in_original(bound, analysis), judgements)

    def _open_pipeline(self, permit: Permit, schema: TargetSchema | None) -> Pipeline:
        connection, principal = permit.connection, permit.principal
        view = SessionView(
            id=uuid4(),
            user=principal.email,
            groups=principal.groups,
            connection=connection.name,
            connection_type=connection.type,
            connection_subtype=connection.subtype,
            connection_tags=connection.connection_tags,
            schema=schema,
        )
        return self._pipeline(permit, view)

    async def _judge(
        self, permit: Permit, start: Start, requests: Sequence[bytes] | Invalid, pipeline: Pipeline
    ) -> Judgement:
        """Send requests through links that lead nowhere. Each has its own, as some protocols allow no request before
        the answer to the last one; the pipeline is the same for all."""
        if isinstance(requests, Invalid):
            return _deny(Refuse("script", requests.message))
        warnings: list[PreviewMessage] = []
        for data in requests:
            judgement = await self._judge_request(permit, start, data, pipeline)
            if judgement.outcome not in (PreviewOutcome.ALLOW, PreviewOutcome.WARN):
                return judgement
            warnings += [message for message in judgement.messages if message not in warnings]
        return Judgement(PreviewOutcome.WARN, tuple(warnings)) if warnings else Judgement(PreviewOutcome.ALLOW)

    async def _judge_request(self, permit: Permit, start: Start, data: bytes, pipeline: Pipeline) -> Judgement:
        link = Link(self._wire(permit, start, {}), pipeline, lambda: 0)
        effects = link.receive(Side.CLIENT, data)
        while (held := link.held_request) is not None:
            if held.hold.work is None:
                refusal = await self._held_requests.find_review_refusal(permit, held)
                if refusal is not None:
                    return _deny(refusal)
                groups = statement_approvers(permit)
                message = waiting_message(held.hold.question, groups)
                return Judgement(PreviewOutcome.HOLD, (PreviewMessage(held.hold.rule, message),), groups)
            verdict = await self._held_requests.evaluate(permit, held.hold.work)
            effects = link.resume(held.ticket, verdict)
        if link.refusal is not None:
            return _deny(link.refusal)
        closed = next((effect for effect in effects if isinstance(effect, Close)), None)
        if closed is not None:
            return _deny(Refuse("protocol", closed.message))
        warnings = tuple(map(_message, link.warnings))
        return Judgement(PreviewOutcome.WARN, warnings) if warnings else Judgement(PreviewOutcome.ALLOW)

    async def _analyse(self, permit: Permit, task: Task, size: int) -> ScriptAnalysis:
        try:
            return cast("ScriptAnalysis", await self._held_requests.run_task(permit, task, size))
        except QueueFull:
            raise Unavailable("too many statements are waiting to be evaluated; try again in a few seconds") from None

    async def _judge_parts(
        self,
        permit: Permit,
        start: Start,
        schema: TargetSchema | None,
        requests: _Requests,
        judgement: Judgement,
        analysis: ScriptAnalysis,
    ) -> tuple[Judgement, ...]:
        """Return the judgement of each part. Parts of an allowed script are allowed: nothing denies it."""
        if judgement.outcome is PreviewOutcome.ALLOW or (len(analysis.parts) == 1 and not analysis.truncated):
            return (judgement,) * len(analysis.parts)
        pipeline = self._open_pipeline(permit, schema)  # one for all: a part can run what an earlier one prepares
        return tuple([await self._judge(permit, start, requests.of_part(part), pipeline) for part in analysis.parts])


class _Requests:
    """What a script sends if nothing fails, or why it cannot be sent. `statements` are those that its client has
    found."""

    def __init__(self, permit: Permit, start: Start, script: BoundScript) -> None:
        self._connection = permit.connection
        self._script = script
        self._steps: Sequence[ScriptRequest] | None = None  # a part of it depends on those before
        self.statements: Sequence[tuple[int, int, str]] = ()
        self.of_script: Sequence[bytes] | Invalid
        try:
            client = make_client(permit.connection, script, known_database(permit.connection, start))
            if isinstance(client, ScriptInSteps):
                self._steps = client.requests()
                self.of_script = [request.data for request in self._steps]
                self.statements = [(request.start, request.end, request.text) for request in self._steps]
            elif isinstance(client, ScriptInBatches):
                self.of_script = client.batches()
            else:
                self.of_script = [client.start()]
        except Invalid as error:
            self.of_script = error

    def of_part(self, part: AnalysedPart) -> Sequence[bytes] | Invalid:
        if isinstance(self.of_script, Invalid):
            return self.of_script
        if self._steps is not None:
            return [request.data for request in self._steps if request.start == part.start]
        return [make_client(self._connection, self._script.part(part.start, part.end)).start()]


def _deny(refusal: Refuse) -> Judgement:
    return Judgement(PreviewOutcome.DENY, (_message(refusal),))


def _message(verdict: Refuse | Warn) -> PreviewMessage:
    return PreviewMessage(verdict.rule, verdict.message, verdict.hint)


def _in_original(script: BoundScript, analysis: ScriptAnalysis) -> ScriptAnalysis:
    """Return the analysis with the places of the script that its author wrote."""
    problem = analysis.problem
    if problem is not None and problem.offset is not None:
        problem = replace(problem, offset=script.original_offset(problem.offset))
    parts = (
        replace(part, start=script.original_offset(part.start), end=script.original_offset(part.end))
        for part in analysis.parts
    )
    return ScriptAnalysis(tuple(parts), analysis.truncated, problem)
