"""The list of sessions: newest first, behind a position or an offset, within a bounded number of rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, Select, func, literal, select, tuple_

from postern.domain.lists import COUNT_CAP, Count, Page, Position, Stretch
from postern.domain.session import Session
from postern.store.ports import SessionFilter
from postern.store.schema import sessions
from postern.store.sql.rows import SESSION_COLUMNS, among, count_of, session_of
from postern.store.sql.session_conditions import Plan, plan
from postern.store.sql.session_search import CANDIDATES, Candidate, Sought, candidates

LOOK_AT = 10_000  # rows that filters other than the leading one are tried on in one call

_ORDER = (sessions.c.start_date.desc(), sessions.c.id.desc())


def find(connection: Connection, org_id: UUID, wanted: SessionFilter, page: Page) -> Stretch[Session]:
    """See SessionStore.find."""
    ways = plan(connection, org_id, wanted)
    if ways is None:
        return Stretch([], None if page.count is Count.NONE else 0)
    if wanted.search is not None:
        return _search(connection, org_id, wanted, ways, page)
    within = _dates(wanted)
    # With an offset who asks counts rows, so that each of them must be looked at.
    is_bounded = bool(ways.sieves) and not page.offset
    last = _bound(connection, [*ways.lead, *within], page.after) if is_bounded else None
    rows = page_statement([*ways.all, *within], page, last)
    found = [session_of(row) for row in connection.execute(rows).mappings()]
    if len(found) <= page.limit and page.after is None and not page.offset and page.count is not Count.EXACT:
        counted = None if page.count is Count.NONE else len(found)  # these are all there are to look at
        return Stretch(found, counted, counted is not None and last is not None, last)
    total, is_capped = _total(connection, ways, within, page, last)
    if len(found) > page.limit:
        found = found[: page.limit]
        return Stretch(found, total, is_capped, position_of(found[-1]))
    return Stretch(found, total, is_capped, last)


def position_of(session: Session) -> Position:
    return Position(session.start_date, session.id)


def page_statement(conditions: Iterable[ColumnElement[bool]], page: Page, last: Position | None) -> Select[Any]:
    """The rows of a page and one more; `last` is the last one that may be looked at."""
    rows = select(*SESSION_COLUMNS).where(*conditions).order_by(*_ORDER).limit(page.limit + 1)
    if page.after is not None:
        rows = rows.where(_place() < _at(page.after))
    if last is not None:
        rows = rows.where(_place() >= _at(last))
    return rows.offset(page.offset) if page.offset else rows


def _bound(connection: Connection, lead: list[ColumnElement[bool]], after: Position | None) -> Position | None:
    """The last row that may be looked at; None when there are not so many."""
    last = select(sessions.c.start_date, sessions.c.id).where(*lead).order_by(*_ORDER)
    if after is not None:
        last = last.where(_place() < _at(after))
    row = connection.execute(last.offset(LOOK_AT - 1).limit(1)).one_or_none()
    return None if row is None else Position(row.start_date, row.id)


def _total(
    connection: Connection, ways: Plan, within: list[ColumnElement[bool]], page: Page, last: Position | None
) -> tuple[int | None, bool]:
    """(how many, whether there may be more)."""
    conditions = [*ways.all, *within]
    if page.count is Count.EXACT:
        return connection.execute(count_of(sessions, *conditions)).scalar_one(), False
    if page.count is Count.NONE:
        return None, False
    if ways.sieves and (page.after is not None or page.offset):
        last = _bound(connection, [*ways.lead, *within], None)
    if last is not None:
        conditions.append(_place() >= _at(last))
    some = select(sessions.c.id).where(*conditions).limit(COUNT_CAP + 1)
    if connection.dialect.name == "sqlite":
        some = some.order_by(*_ORDER)  # else it takes any index of the organisation, not the one of what leads
    found = connection.execute(select(func.count()).select_from(some.subquery())).scalar_one()
    return min(found, COUNT_CAP), found > COUNT_CAP or last is not None


def _search(connection: Connection, org_id: UUID, wanted: SessionFilter, ways: Plan, page: Page) -> Stretch[Session]:
    """Sessions whose texts fit are the candidates, newest first; the filters sieve them."""
    assert wanted.search is not None
    sought = Sought(org_id, wanted, tuple(ways.equal), page.after)
    most = page.limit + 1 if sought.is_keyed else CANDIDATES
    looked = candidates(connection, sought, most)
    conditions = [*ways.hidden, *_dates(wanted)]
    found: list[tuple[Candidate, Session]] = []
    chunk = 4 * page.limit
    for at in range(0, len(looked.found), chunk):
        found += _sieved(connection, looked.found[at : at + chunk], conditions)
        if len(found) > page.limit:
            break
    last = looked.last
    if len(found) > page.limit:
        found = found[: page.limit]
        last = found[-1][0]
    total = None if page.count is Count.NONE or page.after is not None else len(found)
    following = None if last is None else last.position
    return Stretch([session for _, session in found], total, total is not None and last is not None, following)


def _sieved(
    connection: Connection, looked_at: list[Candidate], conditions: list[ColumnElement[bool]]
) -> list[tuple[Candidate, Session]]:
    rows = select(*SESSION_COLUMNS).where(among(connection, [one.session_id for one in looked_at]), *conditions)
    kept = {row["id"]: session_of(row) for row in connection.execute(rows).mappings()}
    return [(one, kept[one.session_id]) for one in looked_at if one.session_id in kept]


def _dates(wanted: SessionFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if wanted.start is not None:
        conditions.append(sessions.c.start_date >= wanted.start)
    if wanted.end is not None:
        conditions.append(sessions.c.start_date <= wanted.end)
    return conditions


def _place() -> Any:
    return tuple_(sessions.c.start_date, sessions.c.id)


def _at(position: Position) -> Any:
    return tuple_(literal(position.at, sessions.c.start_date.type), literal(position.id, sessions.c.id.type))
