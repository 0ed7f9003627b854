"""Guard rails tried out: on one text, and on recorded sessions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field

from postern.api.query_times import Moment
from postern.api.schemas.common import Answer, Body
from postern.api.schemas.rules.guardrail_schemas import GuardRailRequest, RulesAnswer, RulesBody
from postern.domain.rules.guardrail import Action
from postern.domain.rules.guardrail_presets import Preset
from postern.domain.rules.statement import ObjectKind, ObjectName, Statement
from postern.domain.rules.trial import Hit, Simulation, Trial
from postern.domain.targets.dialect import DEFAULT_DIALECT, DIALECTS
from postern.services.rules.guardrail_trials import Period


class DraftBody(Body):
    """A guard rail that is not saved, or rules in the place of those that are."""

    read_only = GuardRailRequest.read_only

    name: str = "draft"
    description: str | None = None
    connection_ids: list[str] | None = None
    input: RulesBody | None = None
    output: RulesBody | None = None

    def fields(self) -> Mapping[str, Any]:
        return {
            "name": self.name,
            "input": tuple(one.rule() for one in self.input.rules) if self.input else (),
            "output": tuple(one.rule() for one in self.output.rules) if self.output else (),
        }


class TrialRequest(Body):
    text: str
    dialect: str = Field(DEFAULT_DIALECT, description=f"{', '.join(DIALECTS.values())}; empty: none is parsed")
    direction: Literal["input", "output"] = "input"
    guardrail_id: str | None = Field(None, description="A saved guard rail")
    guardrail: DraftBody | None = Field(None, description="Or a draft of one")


class HitAnswer(Answer):
    rule: str
    action: Action
    reason: str
    spans: list[tuple[int, int]] = Field(description="Characters of the text, where the rule is about text")
    unknown: bool = Field(description="It cannot be told whether the rule hits")

    @classmethod
    def of(cls, hit: Hit) -> HitAnswer:
        return cls(rule=hit.rule, action=hit.action, reason=hit.reason, spans=list(hit.spans), unknown=hit.unknown)


class StatementAnswer(Answer):
    tag: str
    effects: list[str]
    objects: list[str]
    without_where: bool
    reason: str = Field(description="Why its effects are unknown, if they are")

    @classmethod
    def of(cls, statement: Statement) -> StatementAnswer:
        return cls(
            tag=statement.tag,
            effects=sorted(statement.effects),
            objects=sorted(_spelled(one) for one in statement.objects),
            without_where=statement.without_where,
            reason=statement.reason,
        )


def _spelled(one: ObjectName) -> str:
    name = f"{one.schema}.{one.name}" if one.schema else one.name
    return f"{name}()" if one.kind is ObjectKind.FUNCTION else name


class TrialAnswer(Answer):
    outcome: str = Field(description="allow, or the action that is taken")
    message: str
    hits: list[HitAnswer]
    statements: list[StatementAnswer]

    @classmethod
    def of(cls, trial: Trial) -> TrialAnswer:
        return cls(
            outcome="allow" if trial.outcome is None else trial.outcome,
            message=trial.message,
            hits=[HitAnswer.of(hit) for hit in trial.hits],
            statements=[StatementAnswer.of(one) for one in trial.statements],
        )


class SimulationRequest(Body):
    start_date: Annotated[Moment | None, Field(strict=False)] = Field(None, description="Seven days ago, if left out")
    end_date: Annotated[Moment | None, Field(strict=False)] = Field(None, description="Now, if left out")
    connections: list[str] | None = Field(
        None, description="Names or identifiers; left out: those of the guard rail, or all where it has none"
    )
    max_sessions: int = 1_000
    guardrail: DraftBody | None = Field(None, description="Rules in the place of those that are saved")

    def period(self) -> Period:
        return Period(self.start_date, self.end_date, tuple(self.connections or ()), self.max_sessions)

    def draft(self) -> Mapping[str, Any] | None:
        return self.guardrail.fields() if self.guardrail else None


class SampleAnswer(Answer):
    session_id: UUID
    time: float = Field(description="Milliseconds since the session's start")
    direction: Literal["input", "output"]
    statement: str = Field(description="Of an answer the statement in front of it")
    values: list[str | None] = Field(description="What it was bound to, where the recording has it")
    action: Action
    rule: str
    reason: str


class SimulationAnswer(Answer):
    """`event` is `progress` until the last line, which is `result`."""

    event: Literal["progress", "result"]
    sessions_read: int
    statements_read: int
    values_read: int = Field(description="Bind values of those statements")
    answers_read: int = Field(description="Texts of answers, where there are output rules")
    sessions_hit: int
    actions: dict[str, int] = Field(description="Statements by what would have become of them")
    unknown: int = Field(description="How many of those for no more reason than that they could not be judged")
    rules: dict[str, int]
    skipped: dict[str, int] = Field(description="Sessions that could not be read, or a part of them, by the reason")
    sessions: list[UUID] | None = Field(None, description="Of the result: the first hundred in which a rule hits")
    samples: list[SampleAnswer] | None = Field(None, description="Of the result")
    caveats: list[str] | None = Field(None, description="Of the result: what no simulation of these rules can know")
    stopped: str | None = Field(None, description="The bound that was reached, if one was")

    @classmethod
    def of(cls, found: Simulation) -> SimulationAnswer:
        plain: dict[str, Any] = {
            "event": "result" if found.is_done else "progress",
            "sessions_read": found.sessions_read,
            "statements_read": found.statements_read,
            "values_read": found.values_read,
            "answers_read": found.answers_read,
            "sessions_hit": found.sessions_hit,
            "actions": {str(action): count for action, count in found.actions.items()},
            "unknown": found.unknown,
            "rules": dict(found.rules),
            "skipped": dict(found.skipped),
        }
        if not found.is_done:
            return cls(**plain)
        samples = [
            SampleAnswer(
                session_id=one.session_id,
                time=one.at,
                direction="output" if one.direction == "output" else "input",
                statement=one.statement,
                values=list(one.values),
                action=one.action,
                rule=one.rule,
                reason=one.reason,
            )
            for one in found.samples
        ]
        return cls(
            **plain,
            sessions=found.sessions,
            samples=samples,
            caveats=found.caveats,
            stopped=found.stopped or None,
        )


class PresetAnswer(Answer):
    name: str
    description: str
    protocols: list[str]
    input: RulesAnswer
    output: RulesAnswer

    @classmethod
    def of(cls, preset: Preset) -> PresetAnswer:
        return cls(
            name=preset.name,
            description=preset.description,
            protocols=list(preset.protocols),
            input=RulesAnswer.of(preset.input),
            output=RulesAnswer.of(preset.output),
        )
