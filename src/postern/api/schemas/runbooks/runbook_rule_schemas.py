"""Bodies of runbook rules: the groups that can run runbooks, and on which connections."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import ConfigDict, Field

from postern.api.schemas.common import Answer, Body, NamedResourceAnswer, ResourceBody, SortedNames, refers_to
from postern.domain.runbook import RunbookPattern

_PREFIX = "Beginning of the file's path, compared exactly: `deploy/` is a folder; empty: all files"
_NOWHERE = "True: all its connections were deleted, and it grants nothing until others are added"


class RunbookPatternFields(Body):
    repository: str = Field(description="host/owner/repository, or its address")
    name: str = Field("", description=_PREFIX)


class RunbookRuleRequest(ResourceBody):
    read_only = ResourceBody.read_only | {"nowhere"}

    name: str
    description: str | None = None
    runbooks: list[RunbookPatternFields] = Field(description="Repositories; at least one")
    connections: list[str] = Field(
        description="Names or identifiers; empty: every connection. Answers have names",
        json_schema_extra=refers_to("connection"),
    )
    groups: list[str] = Field(
        alias="user_groups",
        description="Groups whose members can run them; empty: all users",
        json_schema_extra=refers_to("group"),
    )

    def fields(self) -> dict[str, Any]:
        values = super().fields()
        if "runbooks" in values:
            values["runbooks"] = [RunbookPattern(pattern.repository, pattern.name) for pattern in values["runbooks"]]
        return values


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
