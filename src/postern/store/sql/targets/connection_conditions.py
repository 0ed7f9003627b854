"""Filters of connections, and the caller's scope, as conditions of a statement."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    String,
    TableValuedAlias,
    and_,
    case,
    column,
    exists,
    false,
    func,
    or_,
    select,
    true,
)

from postern.domain.rules.access import Reach
from postern.domain.targets.connection import ConnectionStatus, is_tag_key
from postern.store.ports.target_ports import ConnectionFilter
from postern.store.schema.target_tables import access_rule_connections, agents, connections


def conditions_of(criteria: ConnectionFilter, is_sqlite: bool) -> list[ColumnElement[bool]]:
    """Return the conditions. The engines' JSON functions have different names: therefore `is_sqlite`."""
    equal = {
        connections.c.name: criteria.name,
        connections.c.type: criteria.type,
        connections.c.subtype: criteria.subtype,
        connections.c.agent_id: criteria.agent_id,
        connections.c.managed_by: criteria.managed_by,
        connections.c.resource_name: criteria.resource_name,
    }
    conditions = [column == value for column, value in equal.items() if value is not None]
    if criteria.ids is not None:
        conditions.append(connections.c.id.in_(criteria.ids))
    if criteria.search is not None:
        conditions.append(_search_condition(criteria.search.lower(), criteria.alive_after))
    if criteria.online is not None:
        conditions.append(_online(criteria.online, criteria.alive_after))
    conditions += [tag_fits(connections.c.connection_tags, *tag) for tag in criteria.tags]
    conditions += [_has_label(label, is_sqlite) for label in criteria.labels]
    return [*conditions, *within(criteria.reach)]


def within(reach: Reach | None) -> list[ColumnElement[bool]]:
    """Return the condition of a scope, which matches what `domain.access.decide` allows for each connection; None
    for everything."""
    if reach is None:
        return []
    ways = [
        and_(*(tag_fits(connections.c.connection_tags, key, value, True) for key, value in tags.items()))
        for tags in reach.tags
        if tags
    ]
    if reach.rules:
        listed = select(access_rule_connections.c.connection_id)
        ways.append(connections.c.id.in_(listed.where(access_rule_connections.c.rule_id.in_(reach.rules))))
    return [or_(false(), *ways)]


def each_tag(is_sqlite: bool) -> TableValuedAlias:
    """Return rows of `key` and `value` for each tag of a connection, to be joined to it."""
    taken_apart = func.json_each if is_sqlite else func.json_each_text
    tags = taken_apart(connections.c.connection_tags)
    return tags.table_valued(column("key", String), column("value", String), name="tag", joins_implicitly=True)


def _search_condition(text: str, alive_after: datetime | None) -> ColumnElement[bool]:
    """Return the condition of a search. A status only matches as a whole word: a part of it would match half of all
    connections."""
    columns = ("name", "subtype", "type", "resource_name", "description")
    ways = [func.lower(connections.c[name]).contains(text, autoescape=True) for name in columns]
    if text in list(ConnectionStatus):
        ways.append(_online(text == ConnectionStatus.ONLINE, alive_after))
    return or_(*ways)


def _online(online: bool, alive_after: datetime | None) -> ColumnElement[bool]:
    if alive_after is None:
        return false() if online else true()
    living = select(agents.c.id).where(agents.c.last_seen > alive_after)
    is_living: ColumnElement[bool] = connections.c.agent_id.in_(living)
    return is_living if online else ~is_living


def status_of(alive_after: datetime | None) -> ColumnElement[str]:
    """Return the status as a value; see `ConnectionFilter.alive_after`."""
    return case((_online(True, alive_after), str(ConnectionStatus.ONLINE)), else_=str(ConnectionStatus.OFFLINE))


def _has_label(label: str, is_sqlite: bool) -> ColumnElement[bool]:
    taken_apart = func.json_each if is_sqlite else func.json_array_elements_text
    tag_value = taken_apart(connections.c.tags).table_valued(column("value", String), name="label")
    condition: ColumnElement[bool] = exists(
        select(tag_value.c.value).where(tag_value.c.value == label).correlate(connections)
    )
    return condition


def tag_fits(tags: Column[Any], key: str, value: str | None, equal: bool) -> ColumnElement[bool]:
    """Return the condition that the tag in that JSON column has that value, or exists at all; a missing one has
    none."""
    if not is_tag_key(key):  # no connection has it, and it might not be what the engine takes for a path
        return false() if equal else true()
    tag = tags[key].as_string()
    there: ColumnElement[bool] = tag.is_not(None)
    if value is None:
        return there if equal else ~there
    return tag == value if equal else or_(tag.is_(None), tag != value)
