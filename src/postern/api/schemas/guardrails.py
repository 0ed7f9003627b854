"""Guard rails (spec 2.5)."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import datetime
from typing import Annotated, Any, ClassVar
from uuid import UUID

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from postern.api.schemas.common import Answer, Body
from postern.domain.guardrail import Action, GuardRail, Rule, RuleType, Unknown
from postern.domain.statement import Effect
from postern.services.guardrails import GuardRailFields


class RuleBody(Body):
    """The first four fields are all that the two types about text need."""

    type: Annotated[RuleType, Field(strict=False)]
    words: list[str] | None = Field(None, description="For deny_words_list")
    pattern_regex: str | None = Field(None, description="For pattern_match")
    name: str | None = None
    action: Annotated[Action, Field(strict=False, description="mask: output rules about text only")] = Action.DENY
    message: str | None = Field(None, description="Shown in the place of the rule's name")
    whole_words: bool = Field(True, description="For deny_words_list: false hits parts of words, too")
    case_sensitive: bool = Field(False, description="For deny_words_list")
    effects: list[Annotated[Effect, Field(strict=False)]] | None = Field(None, description="For deny_statements")
    objects: list[str] | None = Field(
        None, description="For deny_statements: schema, schema.table, schema.*, *.table, function(), schema.function()"
    )
    unknown: Annotated[Unknown | None, Field(strict=False)] = Field(
        None, description="What becomes of a statement that cannot be judged; left out: what `action` says"
    )
    allow_functions: list[str] | None = Field(None, description="Functions of the target that change nothing")
    most: int | None = Field(None, description="For max_rows")

    def rule(self) -> Rule:
        return Rule(
            self.type,
            tuple(self.words or ()),
            self.pattern_regex or "",
            self.name,
            action=self.action,
            message=self.message or "",
            whole_words=self.whole_words,
            case_sensitive=self.case_sensitive,
            effects=frozenset(self.effects or ()),
            objects=tuple(self.objects or ()),
            unknown=self.unknown,
            allow_functions=tuple(self.allow_functions or ()),
            most=self.most or 0,
        )


class RulesBody(Body):
    rules: list[RuleBody]


class GuardRailRequest(Body):
    read_only: ClassVar[frozenset[str]] = frozenset({"id", "created_at", "updated_at", "notices"})

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
    """Of the fields behind `name`, those are there that say something."""

    type: RuleType
    words: list[str]
    pattern_regex: str
    name: str | None
    action: Action = Action.DENY
    message: str = ""
    whole_words: bool = True
    case_sensitive: bool = False
    effects: tuple[Effect, ...] = ()
    objects: tuple[str, ...] = ()
    unknown: Unknown | None = None
    allow_functions: tuple[str, ...] = ()
    most: int = 0

    @classmethod
    def of(cls, rule: Rule) -> RuleAnswer:
        return cls(**asdict(replace(rule, effects=frozenset())) | {"effects": sorted(rule.effects)})

    @model_serializer(mode="wrap")
    def _said(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        shown: dict[str, Any] = handler(self)
        fields = type(self).model_fields
        return {
            key: value
            for key, value in shown.items()
            if fields[key].is_required() or value not in (fields[key].default, [])
        }


class RulesAnswer(Answer):
    rules: list[RuleAnswer]

    @classmethod
    def of(cls, rules: tuple[Rule, ...]) -> RulesAnswer:
        return cls(rules=[RuleAnswer.of(rule) for rule in rules])


class GuardRailAnswer(Answer):
    id: UUID
    name: str
    description: str
    connection_ids: list[UUID]
    input: RulesAnswer
    output: RulesAnswer
    created_at: datetime | None
    updated_at: datetime | None
    notices: list[str] = Field(
        default_factory=list, description="What to know of where it applies; left out in lists, and where empty"
    )

    @model_serializer(mode="wrap")
    def _said(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        shown: dict[str, Any] = handler(self)
        if not self.notices:
            del shown["notices"]
        return shown

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
