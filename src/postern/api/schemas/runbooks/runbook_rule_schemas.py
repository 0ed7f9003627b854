"""Runbook rules: who may run which runbooks where. Fields are called as elsewhere."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import ConfigDict, Field

from postern.api.schemas.common import Answer, Body, NamedResourceAnswer, ResourceBody, SortedNames
from postern.domain.runbook import RunbookPattern

_PREFIX = "What the file's path begins with, letter by letter: `deploy/` is a folder; all of them when empty"
_NOWHERE = "True: all connections that it listed were deleted, and it gives nothing until others are listed"


class RunbookPatternFields(Body):
    repository: str = Field(description="host/owner/repository, or its address")
    name: str = Field("", description=_PREFIX)


class RunbookRuleRequest(ResourceBody):
    read_only = ResourceBody.read_only | {"nowhere"}

    name: str
    description: str | None = None
    runbooks: list[RunbookPatternFields] = Field(description="At least one")
    connections: list[str] = Field(description="Names or identifiers; every connection when empty. Answers have names")
    groups: list[str] = Field(alias="user_groups", description="Members of any of these; everybody when empty")

    def fields(self) -> dict[str, Any]:
        given = super().fields()
        if "runbooks" in given:
            given["runbooks"] = [RunbookPattern(one.repository, one.name) for one in given["runbooks"]]
        return given


class RunbookPatternAnswer(Answer):
    model_config = ConfigDict(from_attributes=True)

    repository: str
    name: str = Field(description=_PREFIX)


class RunbookRuleAnswer(NamedResourceAnswer):
    description: str
    runbooks: list[RunbookPatternAnswer]
    connections: list[str] = Field(validation_alias="connection_names")
    nowhere: bool = Field(description=_NOWHERE)
    user_groups: SortedNames = Field(validation_alias="groups")
    created_at: datetime | None
    updated_at: datetime | None
