"""Bodies of masking rules."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, TypeVar
from uuid import UUID

from pydantic import BeforeValidator, ConfigDict, Field

from postern.api.schemas.common import Answer, Body, NamedResourceAnswer, ResourceBody, refers_to
from postern.domain.rules.masking import CustomType, DetectedType, Strategy, Strictness, TypeGroup
from postern.domain.rules.masking_presets import MaskingPreset
from postern.services.rules.masking_rules import MaskedSamples, Samples

T = TypeVar("T")
OrNone = Annotated[T | None, BeforeValidator(lambda value: value or None)]  # null if there is none


class EntityGroupBody(Body):
    name: str
    entity_types: list[str]

    def group(self) -> TypeGroup:
        return TypeGroup(self.name, tuple(self.entity_types))


class CustomEntityBody(Body):
    name: str
    regex: str | None = Field(None, description="RE2 syntax; either this or deny_list")
    deny_list: list[str] | None = None
    score: float = 0.8

    def custom(self) -> CustomType:
        return CustomType(self.name, self.regex or "", tuple(self.deny_list or ()), self.score)


class MaskingRuleBody(ResourceBody):
    name: str
    description: str | None = None
    groups: list[EntityGroupBody] | None = Field(None, alias="supported_entity_types")
    custom_types: list[CustomEntityBody] | None = Field(None, alias="custom_entity_types")
    columns: list[str] | None = Field(
        None, description="name, table.name, schema.table.name or tag:name; * matches any text"
    )
    threshold: float | None = Field(None, alias="score_threshold", description="Default: 0.5")
    strategy: Annotated[Strategy, Field(strict=False)] = Strategy.REPLACE
    strictness: Annotated[Strictness, Field(strict=False)] = Strictness.STRICT

    def fields(self) -> dict[str, Any]:
        values = super().fields()
        if "groups" in values:
            values["groups"] = tuple(group.group() for group in values["groups"])
        if "custom_types" in values:
            values["custom_types"] = tuple(custom_type.custom() for custom_type in values["custom_types"])
        return values | ({"columns": tuple(values["columns"])} if "columns" in values else {})


class MaskingRuleRequest(MaskingRuleBody):
    connection_ids: list[str] | None = Field(
        None, description="Left out or null: unchanged", json_schema_extra=refers_to("connection")
    )


class MaskingTestRequest(Body):
    rule: MaskingRuleBody
    texts: list[str] | None = None
    columns: list[str] | None = Field(None, description="Names of the columns of `rows`")
    rows: list[list[str | None]] | None = None

    def samples(self) -> Samples:
        return Samples(tuple(self.texts or ()), tuple(self.columns or ()), tuple(tuple(row) for row in self.rows or ()))


class EntityGroupAnswer(Answer):
    model_config = ConfigDict(from_attributes=True)

    name: str
    entity_types: list[str] = Field(validation_alias="types")


class CustomEntityAnswer(Answer):
    model_config = ConfigDict(from_attributes=True)

    name: str
    regex: OrNone[str] = Field(validation_alias="pattern_regex")
    deny_list: OrNone[list[str]] = Field(validation_alias="words")
    score: float


class MaskingRuleAnswer(NamedResourceAnswer):
    description: str
    connection_ids: list[UUID]
    supported_entity_types: list[EntityGroupAnswer] = Field(validation_alias="groups")
    custom_entity_types: list[CustomEntityAnswer] = Field(validation_alias="custom_types")
    columns: list[str]
    score_threshold: float = Field(validation_alias="threshold")
    strategy: Strategy
    strictness: Strictness
    created_at: datetime | None
    updated_at: datetime | None


class MaskingPresetAnswer(Answer):
    """A preset; its fields are those of a rule."""

    name: str
    description: str
    supported_entity_types: list[EntityGroupAnswer]
    columns: list[str]
    strategy: Strategy
    strictness: Strictness

    @classmethod
    def of(cls, preset: MaskingPreset) -> MaskingPresetAnswer:
        groups = [EntityGroupAnswer.model_validate(group) for group in preset.groups]
        return cls(
            name=preset.name,
            description=preset.description,
            supported_entity_types=groups,
            columns=list(preset.columns),
            strategy=preset.strategy,
            strictness=preset.strictness,
        )


class InformationTypeAnswer(Answer):
    name: str
    scores: tuple[float, float] | None = Field(
        description="The lowest and highest score of a match by its form alone; null if a language model finds it"
    )
    words: list[str] = Field(description="Words that raise the score, in a column's name or before a value")
    by_default: bool = Field(description="Whether a connection masks it without naming it")

    @classmethod
    def of(cls, detected: DetectedType) -> InformationTypeAnswer:
        return cls(
            name=detected.type,
            scores=detected.scores,
            words=list(detected.words),
            by_default=detected.by_default,
        )


class MaskingTestAnswer(Answer):
    """The masked samples. `info_types` are the names of types, and of the rule for its columns."""

    texts: list[str]
    rows: list[list[str | None]]
    info_types: dict[str, int]

    @classmethod
    def of(cls, masked: MaskedSamples) -> MaskingTestAnswer:
        return cls(texts=list(masked.texts), rows=[list(row) for row in masked.rows], info_types=masked.counts)
