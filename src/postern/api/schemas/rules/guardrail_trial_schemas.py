"""Guardrails tried out: on one text, and on recorded sessions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field

from postern.api.query_times import Moment
from postern.api.schemas.common import Answer, AttributeAnswer, Body
from postern.api.schemas.rules.guardrail_schemas import GuardrailRequest, RulesAnswer, RulesBody
from postern.domain.rules.guardrail import Action
from postern.domain.rules.guardrail_presets import Preset
from postern.domain.rules.statement import ObjectKind, ObjectName, Statement
from postern.domain.rules.trial import Hit, Simulation, Trial
from postern.domain.targets.dialect import DEFAULT_DIALECT, DIALECTS
from postern.services.rules.guardrail_trials import Period


class DraftBody(Body):
    """A guardrail that is not saved, or rules instead of the saved ones."""

    read_only = GuardrailRequest.read_only | {"managed_by"}

    name: str = "draft"
    description: str | None = None
    enabled: bool | None = None
    connection_ids: list[str] | None = None
    input: RulesBody | None = None
    output: RulesBody | None = None

    def fields(self) -> Mapping[str, Any]:
        return {
            "name": self.name,
            "input": tuple(rule.rule() for rule in self.input.rules) if self.input else (),
            "output": tuple(body.rule() for body in self.output.rules) if self.output else (),
        }


class TrialRequest(Body):
    text: str
    dialect: str = Field(DEFAULT_DIALECT, description=f"{', '.join(DIALECTS.values())}; empty: no parsing")
    direction: Literal["input", "output"] = "input"
    guardrail_id: str | None = Field(None, description="A saved guardrail")
    guardrail: DraftBody | None = Field(None, description="Or a draft of one")


class HitAnswer(Answer):
    rule: str
    action: Action
    reason: str
    spans: list[tuple[int, int]] = Field(description="Positions of characters in the text, if the rule is about text")
    unknown: bool = Field(description="Whether it is unknown if the rule matches")

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
            objects=sorted(_qualified_name(name) for name in statement.objects),
            without_where=statement.without_where,
            reason=statement.reason,
        )


def _qualified_name(object_name: ObjectName) -> str:
    name = f"{object_name.schema}.{object_name.name}" if object_name.schema else object_name.name
    return f"{name}()" if object_name.kind is ObjectKind.FUNCTION else name


class TrialAnswer(Answer):
    outcome: str = Field(description="allow, or the action of the rule")
    message: str
    hits: list[HitAnswer]
    statements: list[StatementAnswer]

    @classmethod
    def of(cls, trial: Trial) -> TrialAnswer:
        return cls(
            outcome="allow" if trial.outcome is None else trial.outcome,
            message=trial.message,
            hits=[HitAnswer.of(hit) for hit in trial.hits],
            statements=[StatementAnswer.of(statement) for statement in trial.statements],
        )


class SimulationRequest(Body):
    start_date: Annotated[Moment | None, Field(strict=False)] = Field(None, description="Default: seven days ago")
    end_date: Annotated[Moment | None, Field(strict=False)] = Field(None, description="Default: now")
    connections: list[str] | None = Field(
        None, description="Names or identifiers; default: those of the guardrail, or all if it has none"
    )
    max_sessions: int = 1_000
    guardrail: DraftBody | None = Field(None, description="Rules instead of the saved ones")

    def period(self) -> Period:
        return Period(self.start_date, self.end_date, tuple(self.connections or ()), self.max_sessions)

    def draft(self) -> Mapping[str, Any] | None:
        return self.guardrail.fields() if self.guardrail else None


class UserHitsAnswer(AttributeAnswer):
    """What the rules match in the sessions of one user on one connection."""

    connection: str
    user: str = Field(description="E-mail address or name")
    statements: int = Field(description="Number of matching statements and answers")
    sessions: int
    session_ids: list[UUID] = Field(description="The newest ten of these sessions")


class SampleAnswer(Answer):
    session_id: UUID
    connection: str
    user: str = Field(description="E-mail address or name")
    time: float = Field(description="Milliseconds since the session's start")
    direction: Literal["input", "output"]
    statement: str = Field(description="For output, the statement that it answers")
    values: list[str | None] = Field(description="Its bind values, if the recording has them")
    action: Action
    rule: str
    reason: str


class SimulationAnswer(Answer):
    """A line of the simulation. `event` is `progress` until the last line, which is `result`."""

    event: Literal["progress", "result"]
    sessions_read: int
    statements_read: int
    values_read: int = Field(description="Bind values of those statements")
    answers_read: int = Field(description="Texts of output, if there are output rules")
    sessions_hit: int
    actions: dict[str, int] = Field(description="Number of statements by the action that they would have got")
    unknown: int = Field(description="Number of those whose only reason is that they could not be analysed")
    rules: dict[str, int]
    skipped: dict[str, int] = Field(
        description="Number of sessions that could not be read, at least in part, by the reason"
    )
    sessions: list[UUID] | None = Field(
        None, description="In the result: the first hundred sessions in which a rule matches"
    )
    users: list[UserHitsAnswer] | None = Field(
        None, description="In the result: the hundred users of a connection with the most matches, the most first"
    )
    samples: list[SampleAnswer] | None = Field(None, description="In the result")
    caveats: list[str] | None = Field(None, description="In the result: what a simulation of these rules cannot know")
    stopped: str | None = Field(None, description="The limit that was reached, if any")

    @classmethod
    def of(cls, simulation: Simulation) -> SimulationAnswer:
        plain: dict[str, Any] = {
            "event": "result" if simulation.is_done else "progress",
            "sessions_read": simulation.sessions_read,
            "statements_read": simulation.statements_read,
            "values_read": simulation.values_read,
            "answers_read": simulation.answers_read,
            "sessions_hit": simulation.sessions_hit,
            "actions": {str(action): count for action, count in simulation.actions.items()},
            "unknown": simulation.unknown,
            "rules": dict(simulation.rules),
            "skipped": dict(simulation.skipped),
        }
        if not simulation.is_done:
            return cls(**plain)
        samples = [
            SampleAnswer(
                session_id=sample.session_id,
                connection=sample.connection,
                user=sample.user,
                time=sample.at,
                direction="output" if sample.direction == "output" else "input",
                statement=sample.statement,
                values=list(sample.values),
                action=sample.action,
                rule=sample.rule,
                reason=sample.reason,
            )
            for sample in simulation.samples
        ]
        return cls(
            **plain,
            sessions=simulation.sessions,
            users=[UserHitsAnswer.of(user) for user in simulation.users_with_most_hits()],
            samples=samples,
            caveats=simulation.caveats,
            stopped=simulation.stopped or None,
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
