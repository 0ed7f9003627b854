"""Sessions with pending work, found by small ranges of one index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Integer, Select, literal_column, select, union_all

from postern.store.ports.notification_ports import ALL
from postern.store.schema.session_tables import sessions

# In these words: they are the condition of the index.
_ANY = sessions.c.pending != literal_column("0", Integer)
_ORDER = (sessions.c.end_date, sessions.c.id)


def waiting(
    columns: Sequence[ColumnElement[Any]], bits: int, most: int, *conditions: ColumnElement[bool]
) -> Select[Any]:
    """Return the first `most` that wait for any of `bits`, by end. `conditions` are on end and identifier.

    An index knows values, not bits: each value with one of them is a range of its own, of which at most `most` entries
    are read. Sessions that wait for something else are never looked at.
    """
    ranges = [
        select(*_ORDER)
        .where(_ANY, sessions.c.pending == literal_column(str(value), Integer), *conditions)
        .order_by(*_ORDER)
        .limit(most)
        .subquery()
        for value in range(1, ALL + 1)
        if value & bits
    ]
    subquery = union_all(*(select(*query.c) for query in ranges)).subquery()
    query = select(*columns).join(subquery, subquery.c.id == sessions.c.id)
    return query.order_by(subquery.c.end_date, subquery.c.id).limit(most)
