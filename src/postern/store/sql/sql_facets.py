"""Facets of lists: the values of a column, and how many rows have each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Select, func, select

from postern.domain.facets import MAX_COUNTED, MAX_VALUES, Facet, Facets, FacetValue
from postern.store.sql.long_lists import LongList, nth_position


def count_facets(connection: Connection, listed: LongList, columns: Mapping[str, Column[Any]]) -> Facets:
    """Count the values of columns, by name, among the newest MAX_COUNTED rows that the list's filters try."""
    last = nth_position(connection, listed, MAX_COUNTED)
    rows = select(*columns.values()).where(*listed.conditions)
    if last is not None:
        rows = rows.where(listed.keyset.up_to(last))
    # The order and limit keep SQLite from taking an index of a counted column, which would find all of its rows.
    counted = rows.order_by(*listed.keyset.order).limit(MAX_COUNTED).subquery()
    fields = {
        name: read_facet(connection, facet_statement(counted.c[column.name], counted))
        for name, column in columns.items()
    }
    return Facets(fields, is_capped=last is not None)


def facet_statement(value: ColumnElement[Any], rows: Any, *conditions: ColumnElement[bool]) -> Select[Any]:
    """Select the most frequent values of `rows` (a table, join or subquery) and their numbers, and one more value."""
    number = func.count().label("number")
    return (
        select(value.label("value"), number)
        .select_from(rows)
        .where(*conditions)
        .group_by(value)
        .order_by(number.desc(), value)
        .limit(MAX_VALUES + 1)
    )


def read_facet(connection: Connection, statement: Select[Any]) -> Facet:
    """Return the facet of a `facet_statement`; rows without a value are left out."""
    rows = [row for row in connection.execute(statement) if row.value not in (None, "")]
    return Facet([FacetValue(row.value, row.number) for row in rows[:MAX_VALUES]], len(rows) > MAX_VALUES)
