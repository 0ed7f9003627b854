"""The list of sessions: newest first, behind a position or an offset, within a bounded number of rows."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import ColumnElement, Connection, select

from postern.domain.lists import Count, Page, Stretch
from postern.domain.sessions.session import Session
from postern.store.ports.target_ports import SessionFilter
from postern.store.schema.session_tables import sessions
from postern.store.sql.long_lists import LongList, by_time, find_page
from postern.store.sql.rows import SESSION_COLUMNS, among, session_of
from postern.store.sql.sessions.session_conditions import Plan, plan
from postern.store.sql.sessions.session_search import CANDIDATES, Candidate, Sought, candidates

_KEYSET = by_time(sessions.c.start_date, sessions.c.id)


def find(connection: Connection, org_id: UUID, wanted: SessionFilter, page: Page) -> Stretch[Session]:
    """See SessionStore.find."""
    ways = plan(connection, org_id, wanted)
    if ways is None:
        return Stretch([], None if page.count is Count.NONE else 0)
    if wanted.search is not None:
        return _search(connection, org_id, wanted, ways, page)
    listed = LongList(SESSION_COLUMNS, _KEYSET, [*ways.lead, *_dates(wanted)], ways.sieves)
    return find_page(connection, listed, page, session_of)


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
