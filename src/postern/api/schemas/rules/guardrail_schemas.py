"""Guardrails (spec 2.5)."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import datetime
from typing import Annotated, Any, cast
from uuid import UUID

from pydantic import (
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    model_serializer,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from postern.api.schemas.common import Answer, Body, NamedResourceAnswer, ResourceBody, refers_to
from postern.domain.rules.guardrail import Action, Rule, RuleType, Unknown
from postern.domain.rules.statement import Effect


class RuleBody(Body):
    """A rule. The first four fields are all that the two types about text need."""

    type: Annotated[RuleType, Field(strict=False)]
    words: list[str] | None = Field(None, description="For deny_words_list")
    pattern_regex: str | None = Field(None, description="For pattern_match")
    name: str | None = None
    action: Annotated[Action, Field(strict=False, description="mask: only for output rules about text")] = Action.DENY
    message: str | None = Field(None, description="Shown instead of the rule's name")
    whole_words: bool = Field(True, description="For deny_words_list: false matches parts of words, too")
    case_sensitive: bool = Field(False, description="For deny_words_list")
    effects: list[Annotated[Effect, Field(strict=False)]] | None = Field(None, description="For deny_statements")
    objects: list[str] | None = Field(
        None,
        description="For deny_statements: schema, schema.table, schema.*, *.table, function(), schema.function(), "
        "/path, /path/*",
    )
    unknown: Annotated[Unknown | None, Field(strict=False)] = Field(
        None, description="What happens to a statement that cannot be analysed; default: `action`"
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


class GuardrailRequest(ResourceBody):
    read_only = ResourceBody.read_only | {"notices"}

    name: str
    description: str | None = None
    enabled: bool | None = Field(
        None, description="Default: true; false: it does not apply, and can be tried and simulated"
    )
    connection_ids: list[str] | None = Field(
        None, description="Left out or null: unchanged", json_schema_extra=refers_to("connection")
    )
    input: RulesBody | None = None
    output: RulesBody | None = None

    def fields(self) -> dict[str, Any]:
        values = super().fields()
        sides = {
            side: tuple(rule.rule() for rule in values[side].rules) for side in ("input", "output") if side in values
        }
        return values | sides


class _DescribedAnswer(Answer):
    """An answer that leaves out fields. It is described by its fields, and not by what the serializer returns."""

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(cast(CoreSchema, {key: value for key, value in schema.items() if key != "serialization"}))


class RuleAnswer(_DescribedAnswer):
    """A rule. Of the fields after `name`, it has only those with a value."""

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
    def _omit_defaults(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        answer: dict[str, Any] = handler(self)
        fields = type(self).model_fields
        return {
            key: value
            for key, value in answer.items()
            if fields[key].is_required() or value not in (fields[key].default, [])
        }


class RulesAnswer(Answer):
    rules: list[RuleAnswer]

    @classmethod
    def of(cls, rules: tuple[Rule, ...]) -> RulesAnswer:
        return cls(rules=[RuleAnswer.of(rule) for rule in rules])


class GuardrailAnswer(_DescribedAnswer, NamedResourceAnswer):
    description: str
    connection_ids: list[UUID]
    input: Annotated[RulesAnswer, BeforeValidator(RulesAnswer.of)]
    output: Annotated[RulesAnswer, BeforeValidator(RulesAnswer.of)]
    created_at: datetime | None
    updated_at: datetime | None
    enabled: bool
    notices: list[str] = Field([], description="Hints about where it applies; left out in lists, and if empty")

    @model_serializer(mode="wrap")
    def _omit_empty_notices(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        answer: dict[str, Any] = handler(self)
        if not self.notices:
            del answer["notices"]
        return answer
