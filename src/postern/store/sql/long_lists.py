"""Lists that grow with use, such as sessions and audit entries: a page after a position or an offset, and a total.

One call looks at a bounded number of rows, whatever the filters are. The *lead* conditions belong to an index in which
the rows are in the order of the list, so that every row they find is one that the list can show. The *sieves* are tried
row by row: where few of many rows match, a page ends after `LOOK_AT` rows, holds less than its limit, and says where
the next one begins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import UUID

from sqlalchemy import Column, ColumnElement, Connection, RowMapping, Select, func, literal, select, tuple_

from postern.domain.lists import COUNT_CAP, EXACT_CAP, Count, Page, Position, Stretch

LOOK_AT = 10_000  # rows that the sieves are tried on in one call
LOOK_AT_MOST = 100_000  # the same for an offset and an exact total, where the caller asks for more work

_MAX_NUMBER = 2**63 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Keyset:
    """The columns that sort a list, and their comparison with a position."""

    columns: tuple[Column[Any], ...]
    position_of: Callable[[RowMapping], Position]
    values_of: Callable[[Position], tuple[Any, ...]]
    is_descending: bool = True

    @property
    def order(self) -> tuple[ColumnElement[Any], ...]:
        return tuple(column.desc() if self.is_descending else column.asc() for column in self.columns)

    def behind(self, position: Position) -> ColumnElement[bool]:
        place, value = self._comparison(position)
        condition: ColumnElement[bool] = place < value if self.is_descending else place > value
        return condition

    def up_to(self, position: Position) -> ColumnElement[bool]:
        place, value = self._comparison(position)
        condition: ColumnElement[bool] = place >= value if self.is_descending else place <= value
        return condition

    def _comparison(self, position: Position) -> tuple[Any, Any]:
        pairs = zip(self.values_of(position), self.columns, strict=True)
        values = [literal(value, column.type) for value, column in pairs]
        return (self.columns[0], values[0]) if len(values) == 1 else (tuple_(*self.columns), tuple_(*values))


def by_time(at: Column[Any], key: Column[Any], *, is_descending: bool = True) -> Keyset:
    return Keyset(
        (at, key),
        lambda row: Position(row[at.name], row[key.name]),
        lambda position: (position.at, position.id),
        is_descending,
    )


def by_number(number: Column[Any]) -> Keyset:
    """Return the keyset of a number. A cursor of another list holds any identifier, so its number is bounded."""
    return Keyset(
        (number,),
        lambda row: Position(_EPOCH, UUID(int=row[number.name])),
        lambda position: (min(position.id.int, _MAX_NUMBER),),
    )


@dataclass(frozen=True, slots=True)
class LongList:
    """A list; `columns` are those of the page, with those of the keyset among them."""

    columns: Sequence[ColumnElement[Any]]
    keyset: Keyset
    lead: Sequence[ColumnElement[bool]]
    sieves: Sequence[ColumnElement[bool]] = ()

    @property
    def conditions(self) -> list[ColumnElement[bool]]:
        return [*self.lead, *self.sieves]


def find_page(
    connection: Connection, listed: LongList, page: Page, item_of: Callable[[RowMapping], _Item]
) -> Stretch[_Item]:
    """Return a page and its total. `item_of` converts a row."""
    last = _last_row(connection, listed, page.after, LOOK_AT_MOST if page.offset else LOOK_AT)
    rows = list(connection.execute(page_statement(listed, page, last)).mappings())
    is_all = len(rows) <= page.limit and page.after is None and not page.offset
    following = last
    if len(rows) > page.limit:
        rows = rows[: page.limit]
        following = listed.keyset.position_of(rows[-1])
    items = [item_of(row) for row in rows]
    if is_all and (last is None or page.count is not Count.EXACT):  # the total looks at the same rows
        is_counted = page.count is not Count.NONE
        return Stretch(items, len(items) if is_counted else None, is_counted and last is not None, last)
    total, is_capped = count_rows(connection, listed, page.count)
    return Stretch(items, total, is_capped, following)


def page_statement(listed: LongList, page: Page, last: Position | None) -> Select[Any]:
    """Select the rows of a page and one more; `last` is the last row to look at."""
    rows = select(*listed.columns).where(*listed.conditions).order_by(*listed.keyset.order).limit(page.limit + 1)
    if page.after is not None:
        rows = rows.where(listed.keyset.behind(page.after))
    if last is not None:
        rows = rows.where(listed.keyset.up_to(last))
    return rows.offset(page.offset) if page.offset else rows


def count_rows(connection: Connection, listed: LongList, count: Count) -> tuple[int | None, bool]:
    """Return how many rows match, and whether there may be more."""
    if count is Count.NONE:
        return None, False
    cap, look_at = (EXACT_CAP, LOOK_AT_MOST) if count is Count.EXACT else (COUNT_CAP, LOOK_AT)
    last = _last_row(connection, listed, None, look_at)
    key = listed.keyset.columns[-1]
    some = select(key).where(*listed.conditions).limit(cap + 1)
    if last is not None:
        some = some.where(listed.keyset.up_to(last))
    if connection.dialect.name == "sqlite":
        some = some.order_by(*listed.keyset.order)  # else SQLite takes any index of the organisation
    number = connection.execute(select(func.count()).select_from(some.subquery())).scalar_one()
    return min(number, cap), number > cap or last is not None


def _last_row(connection: Connection, listed: LongList, after: Position | None, look_at: int) -> Position | None:
    """Return the last row that sieves can be tried on; None where there are fewer, or no sieves."""
    return nth_position(connection, listed, look_at, after) if listed.sieves else None


def nth_position(
    connection: Connection, listed: LongList, number: int, after: Position | None = None
) -> Position | None:
    """Return the position of that row of those that the lead conditions find; None where there are fewer."""
    last = select(*listed.keyset.columns).where(*listed.lead).order_by(*listed.keyset.order)
    if after is not None:
        last = last.where(listed.keyset.behind(after))
    row = connection.execute(last.offset(number - 1).limit(1)).mappings().one_or_none()
    return None if row is None else listed.keyset.position_of(row)
