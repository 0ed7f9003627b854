"""Guard rails (spec 2.5)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar
from uuid import UUID

from pydantic import Field

from postern.api.schemas.common import Answer, Body
from postern.domain.guardrail import GuardRail, Rule, RuleType
from postern.services.guardrails import GuardRailFields


class RuleBody(Body):
    type: Annotated[RuleType, Field(strict=False)]
    words: list[str] | None = Field(None, description="For deny_words_list")
    pattern_regex: str | None = Field(None, description="For pattern_match")
    name: str | None = None

    def rule(self) -> Rule:
        return Rule(self.type, tuple(self.words or ()), self.pattern_regex or "", self.name)


class RulesBody(Body):
    rules: list[RuleBody]


class GuardRailRequest(Body):
    read_only: ClassVar[frozenset[str]] = frozenset({"id", "created_at", "updated_at"})

    name: str
    description: str | None = None
    connection_ids: list[str] | None = Field(None, description="Left out or null: stays as it is")
    input: RulesBody | None = None
    output: RulesBody | None = None

    def fields(self) -> GuardRailFields:
        return GuardRailFields(
            name=self.name,
            description=self.description or "",
            input=tuple(one.rule() for one in self.input.rules) if self.input else (),
            output=tuple(one.rule() for one in self.output.rules) if self.output else (),
            connection_ids=None if self.connection_ids is None else tuple(self.connection_ids),
        )


class RuleAnswer(Answer):
    type: RuleType
    words: list[str]
    pattern_regex: str
    name: str | None


class RulesAnswer(Answer):
    rules: list[RuleAnswer]

    @classmethod
    def of(cls, rules: tuple[Rule, ...]) -> RulesAnswer:
        shown = [
            RuleAnswer(type=rule.type, words=list(rule.words), pattern_regex=rule.pattern_regex, name=rule.name)
            for rule in rules
        ]
        return cls(rules=shown)


class GuardRailAnswer(Answer):
    id: UUID
    name: str
    description: str
    connection_ids: list[UUID]
    input: RulesAnswer
    output: RulesAnswer
    created_at: datetime | None
    updated_at: datetime | None

    @classmethod
    def of(cls, guardrail: GuardRail) -> GuardRailAnswer:
        return cls(
            id=guardrail.id,
            name=guardrail.name,
            description=guardrail.description,
            connection_ids=list(guardrail.connection_ids),
            input=RulesAnswer.of(guardrail.input),
            output=RulesAnswer.of(guardrail.output),
            created_at=guardrail.created_at,
            updated_at=guardrail.updated_at,
        )
