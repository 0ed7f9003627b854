"""Filters of the lists of named resources, and of those that list connections."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query

from postern.domain.rules.rule_filter import RuleFilter


async def filter_of(
    name: Annotated[str | None, Query(max_length=128, description="Exactly this name")] = None,
    connection: Annotated[
        str | None, Query(max_length=128, description="Only those that apply to this connection, by name or identifier")
    ] = None,
) -> RuleFilter:
    return RuleFilter(name, connection)


async def name_filter_of(
    name: Annotated[str | None, Query(max_length=128, description="Exactly this name")] = None,
) -> RuleFilter:
    return RuleFilter(name)


NameFilter = Annotated[RuleFilter, Depends(name_filter_of)]
