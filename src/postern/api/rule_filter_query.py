"""Filters of the lists of named resources, and of those that list connections."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query

from postern.domain.rules.rule_filter import RuleFilter

_Name = Annotated[str | None, Query(max_length=128, description="Exactly this name")]
_Search = Annotated[
    str | None, Query(max_length=256, description="Only those with this text in name or description, ignoring case")
]


async def filter_of(
    name: _Name = None,
    connection: Annotated[
        str | None, Query(max_length=128, description="Only those that apply to this connection, by name or identifier")
    ] = None,
    search: _Search = None,
) -> RuleFilter:
    return RuleFilter(name, connection, search)


async def search_filter_of(name: _Name = None, search: _Search = None) -> RuleFilter:
    return RuleFilter(name, search=search)


async def name_filter_of(name: _Name = None) -> RuleFilter:
    return RuleFilter(name)


NameFilter = Annotated[RuleFilter, Depends(name_filter_of)]
