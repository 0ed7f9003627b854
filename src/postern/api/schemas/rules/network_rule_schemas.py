"""Bodies of network rules."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from postern.api.schemas.common import NamedResourceAnswer, ResourceBody, SortedNames, refers_to


class NetworkRuleRequest(ResourceBody):
    name: str
    description: str | None = None
    enabled: bool | None = Field(None, description="Whether the rule applies; default: true")
    allowed_networks: list[str] = Field(description="CIDR, such as 192.0.2.0/24: where users can come from")
    groups: list[str] | None = Field(
        None,
        description="Groups to whose members the rule applies; an empty list: to everyone, programs too",
        json_schema_extra=refers_to("group"),
    )
    connections: list[str] | None = Field(
        None,
        alias="connection_names",
        description="Names or identifiers; answers have names. Without any, and without tags, the rule covers the "
        "whole gateway: every connection, logins and the API",
        json_schema_extra=refers_to("connection"),
    )
    connection_tags: dict[str, str] | None = Field(
        None, description="Covers also every connection with all of these tags; an empty map covers none"
    )


class NetworkRuleAnswer(NamedResourceAnswer):
    description: str
    enabled: bool
    allowed_networks: list[str]
    groups: SortedNames
    connection_names: list[str]
    connection_tags: dict[str, str]
    created_at: datetime | None
    updated_at: datetime | None
