"""Runbook rules: who may run which runbooks where. Fields are called as elsewhere."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar
from uuid import UUID

from pydantic import Field

from postern.api.schemas.common import Answer, Body
from postern.domain.runbook import RunbookPattern
from postern.services.runbooks.rules import NamedRunbookRule, RunbookRuleFields

_PREFIX = "What the file's path begins with, letter by letter: `deploy/` is a folder; all of them when empty"
_NOWHERE = "True: all connections that it listed were deleted, and it gives nothing until others are listed"


class RunbookPatternFields(Body):
    repository: str = Field(description="host/owner/repository, or its address")
    name: str = Field("", description=_PREFIX)


class RunbookRuleChange(Body):
    """The body of PUT: what is left out or null stays as it is."""

    read_only: ClassVar[frozenset[str]] = frozenset({"id", "nowhere", "created_at", "updated_at"})

    name: str | None = None
    description: str | None = None
    runbooks: list[RunbookPatternFields] | None = Field(None, description="At least one")
    connections: list[str] | None = Field(
        None, description="Names or identifiers; every connection when empty. Answers have names"
    )
    user_groups: list[str] | None = Field(None, description="Members of any of these; everybody when empty")

    def fields(self) -> RunbookRuleFields:
        runbooks = self.runbooks
        return RunbookRuleFields(
            name=self.name,
            description=self.description,
            runbooks=None if runbooks is None else tuple(RunbookPattern(one.repository, one.name) for one in runbooks),
            connections=None if self.connections is None else tuple(self.connections),
            groups=None if self.user_groups is None else tuple(self.user_groups),
        )


class RunbookRuleRequest(RunbookRuleChange):
    name: str
    runbooks: list[RunbookPatternFields]
    connections: list[str]
    user_groups: list[str]


class RunbookPatternAnswer(Answer):
    repository: str
    name: str = Field(description=_PREFIX)


class RunbookRuleAnswer(Answer):
    id: UUID
    name: str
    description: str
    runbooks: list[RunbookPatternAnswer]
    connections: list[str]
    nowhere: bool = Field(description=_NOWHERE)
    user_groups: list[str]
    created_at: datetime | None
    updated_at: datetime | None

    @classmethod
    def of(cls, found: NamedRunbookRule) -> RunbookRuleAnswer:
        rule = found.rule
        return cls(
            id=rule.id,
            name=rule.name,
            description=rule.description,
            runbooks=[RunbookPatternAnswer(repository=one.repository, name=one.name) for one in rule.runbooks],
            connections=list(found.connections),
            nowhere=rule.nowhere,
            user_groups=sorted(rule.groups),
            created_at=rule.created_at,
            updated_at=rule.updated_at,
        )
