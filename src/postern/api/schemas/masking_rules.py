"""Masking rules, with the field names of the control plane's own documents."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Annotated, ClassVar
from uuid import UUID

from pydantic import Field

from postern.api.schemas.common import Answer, Body
from postern.domain.masking import CustomType, MaskingRule, Strategy, Strictness, TypeGroup
from postern.domain.masking_presets import MaskingPreset
from postern.services.masking_rules import Masked, MaskingRuleFields, Samples


class EntityGroupBody(Body):
    name: str
    entity_types: list[str]


class CustomEntityBody(Body):
    name: str
    regex: str | None = Field(None, description="RE2 syntax; either this or deny_list")
    deny_list: list[str] | None = None
    score: float = 0.8

    def custom(self) -> CustomType:
        return CustomType(self.name, self.regex or "", tuple(self.deny_list or ()), self.score)


class MaskingRuleBody(Body):
    name: str
    description: str | None = None
    supported_entity_types: list[EntityGroupBody] | None = None
    custom_entity_types: list[CustomEntityBody] | None = None
    columns: list[str] | None = Field(
        None, description="name, table.name, schema.table.name or tag:name; * is any run of characters"
    )
    score_threshold: float | None = Field(None, description="Left out or null: 0.5")
    strategy: Annotated[Strategy, Field(strict=False)] = Strategy.REPLACE
    strictness: Annotated[Strictness, Field(strict=False)] = Strictness.STRICT

    def fields(self) -> MaskingRuleFields:
        return MaskingRuleFields(
            name=self.name,
            description=self.description or "",
            groups=tuple(TypeGroup(one.name, tuple(one.entity_types)) for one in self.supported_entity_types or ()),
            custom_types=tuple(one.custom() for one in self.custom_entity_types or ()),
            columns=tuple(self.columns or ()),
            threshold=self.score_threshold,
            strategy=self.strategy,
            strictness=self.strictness,
        )


class MaskingRuleRequest(MaskingRuleBody):
    read_only: ClassVar[frozenset[str]] = frozenset({"id", "created_at", "updated_at"})

    connection_ids: list[str] | None = Field(None, description="Left out or null: stays as it is")

    def fields(self) -> MaskingRuleFields:
        return replace(
            super().fields(), connection_ids=None if self.connection_ids is None else tuple(self.connection_ids)
        )


class MaskingTestRequest(Body):
    rule: MaskingRuleBody
    texts: list[str] | None = None
    columns: list[str] | None = Field(None, description="Names of the columns of `rows`")
    rows: list[list[str | None]] | None = None

    def samples(self) -> Samples:
        return Samples(tuple(self.texts or ()), tuple(self.columns or ()), tuple(tuple(row) for row in self.rows or ()))


class EntityGroupAnswer(Answer):
    name: str
    entity_types: list[str]


class CustomEntityAnswer(Answer):
    name: str
    regex: str | None
    deny_list: list[str] | None
    score: float


class MaskingRuleAnswer(Answer):
    id: UUID
    name: str
    description: str
    connection_ids: list[UUID]
    supported_entity_types: list[EntityGroupAnswer]
    custom_entity_types: list[CustomEntityAnswer]
    columns: list[str]
    score_threshold: float
    strategy: Strategy
    strictness: Strictness
    created_at: datetime | None
    updated_at: datetime | None

    @classmethod
    def of(cls, rule: MaskingRule) -> MaskingRuleAnswer:
        return cls(
            id=rule.id,
            name=rule.name,
            description=rule.description,
            connection_ids=list(rule.connection_ids),
            supported_entity_types=[
                EntityGroupAnswer(name=group.name, entity_types=list(group.types)) for group in rule.groups
            ],
            custom_entity_types=[
                CustomEntityAnswer(
                    name=custom.name,
                    regex=custom.pattern_regex or None,
                    deny_list=list(custom.words) or None,
                    score=custom.score,
                )
                for custom in rule.custom_types
            ],
            columns=list(rule.columns),
            score_threshold=rule.threshold,
            strategy=rule.strategy,
            strictness=rule.strictness,
            created_at=rule.created_at,
            updated_at=rule.updated_at,
        )


class MaskingPresetAnswer(Answer):
    """A rule to begin with; its fields are those of a rule."""

    name: str
    description: str
    supported_entity_types: list[EntityGroupAnswer]
    columns: list[str]
    strategy: Strategy
    strictness: Strictness

    @classmethod
    def of(cls, preset: MaskingPreset) -> MaskingPresetAnswer:
        groups = [EntityGroupAnswer(name=group.name, entity_types=list(group.types)) for group in preset.groups]
        return cls(
            name=preset.name,
            description=preset.description,
            supported_entity_types=groups,
            columns=list(preset.columns),
            strategy=preset.strategy,
            strictness=preset.strictness,
        )


class MaskingTestAnswer(Answer):
    """The samples as they would be shown. `info_types` are the names of types, and of the rule for its columns."""

    texts: list[str]
    rows: list[list[str | None]]
    info_types: dict[str, int]

    @classmethod
    def of(cls, masked: Masked) -> MaskingTestAnswer:
        return cls(texts=list(masked.texts), rows=[list(row) for row in masked.rows], info_types=masked.counts)
