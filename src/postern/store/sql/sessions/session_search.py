"""Search of sessions by their texts, newest first, bounded however common the words are.

Both engines keep for each word the list of texts that have it. *Keys* are words of a second column that say whose text
it is: organisation, user, connection and other filters of sessions. They are looked up like words, so a user who sees
few sessions reads few entries.

SQLite: FTS5 keeps its lists in the order of `place`, so the newest are read first and reading ends with the last wanted
one. PostgreSQL: GIN returns all matches unordered; therefore a key is the week, and weeks are searched from the newest
on, each time twice as many, until there are enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any
from uuid import UUID

from sqlalchemy import Boolean, Column, Connection, TextualSelect, literal_column, select, text

from postern.domain.lists import Position
from postern.domain.sessions.session import Session
from postern.domain.sessions.words import Search, Term
from postern.store.ports.target_ports import SessionFilter
from postern.store.schema.session_tables import session_texts

CANDIDATES = 2_000  # texts that filters which are no keys are tried on in one call
_WEEK = 7 * 24 * 3600 * 1000  # milliseconds
_LEVELS = 6
_ID_BITS = 20
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_KEYED = (
    *("user_id", "user", "connection_id", "connection", "connection_subtype", "type", "verb", "end_reason"),
    "correlation_id",
)


@dataclass(frozen=True, slots=True)
class Candidate:
    place: int
    session_id: UUID

    @property
    def position(self) -> Position:
        return Position(_EPOCH + timedelta(milliseconds=self.place >> _ID_BITS), self.session_id)


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """Results, newest first. `last` is the oldest text that was examined; None if all of them were."""

    candidates: list[Candidate]
    last: Candidate | None


@dataclass(frozen=True, slots=True)
class Sought:
    """A search; `equal` are columns of sessions with their required values."""

    org_id: UUID
    criteria: SessionFilter
    equal: tuple[tuple[Column[Any], Any], ...]
    after: Position | None

    @property
    def keys(self) -> list[str]:
        keys = [_org(self.org_id)]
        keys += [_key(name.name, value) for name, value in self.equal if name.name in _KEYED]
        keys += [_key("label", pair) for pair in self.criteria.labels]
        keys += [_key("metadata", pair) for pair in self.criteria.metadata]
        keys += [_key("tag", (key, value)) for key, value, equal in self.criteria.tags if equal and value is not None]
        keys += [_key(name, True) for name in ("refused", "masked") if getattr(self.criteria, name)]
        return keys

    @property
    def is_keyed(self) -> bool:
        """Whether the keys cover all conditions, so that hardly any candidate is left out."""
        session_filter = self.criteria
        names = [name for name in (session_filter.user, session_filter.connection) if name is not None]
        columns = [name for name, _ in self.equal if name.name in ("user_id", "user", "connection_id", "connection")]
        return (
            len(columns) == len(names) + (session_filter.owner is not None)
            and session_filter.min_duration is None
            and session_filter.max_duration is None
            and session_filter.refused is not False
            and session_filter.masked is not False
            and session_filter.held is None
            and session_filter.issue is None
            and all(equal and value is not None for _, value, equal in session_filter.tags)
        )

    @property
    def search(self) -> Search:
        assert self.criteria.search is not None
        return self.criteria.search

    @property
    def bounds(self) -> tuple[int, int]:
        """The places: the first one in bounds, and the first one after."""
        low, high = 0, 2**63 - 1
        if self.criteria.start is not None:
            low = _milliseconds(self.criteria.start) << _ID_BITS
        if self.criteria.end is not None:
            high = (_milliseconds(self.criteria.end) + 1) << _ID_BITS
        if self.after is not None:
            high = min(high, place_of(self.after.at, self.after.id))
        return max(low, 0), max(high, 0)


def place_of(at: datetime, session_id: UUID) -> int:
    """Return milliseconds since 1970, then bits of the identifier, so that sessions of one moment have places of
    their own."""
    return _milliseconds(at) << _ID_BITS | session_id.int & ((1 << _ID_BITS) - 1)


def keys_of(session: Session, *, refused: int, masked: int) -> list[str]:
    """Return the keys of a session. A running one has fewer than an ended one."""
    values: dict[str, Any] = {name: getattr(session, name, None) for name in _KEYED}
    values["end_reason"] = session.metadata.get("end_reason")
    week = _milliseconds(session.start_date) // _WEEK
    keys = [_org(session.org_id), *(_week(week, level) for level in range(_LEVELS))]
    keys += [_key(name, value) for name, value in values.items() if value is not None]
    keys += [_key("label", pair) for pair in session.labels.items()]
    keys += [_key("metadata", pair) for pair in session.metadata.items()]
    keys += [_key("tag", pair) for pair in session.connection_tags.items()]
    keys += [_key(name, True) for name, count in (("refused", refused), ("masked", masked)) if count]
    return keys


def candidates(connection: Connection, sought: Sought, most: int) -> SearchProgress:
    """Return the first `most` matches; fewer where one call has looked at as many texts as it can."""
    find = _in_sqlite if connection.dialect.name == "sqlite" else _in_postgres
    return find(connection, sought, most)


def _milliseconds(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(milliseconds=1)


def _org(org_id: UUID) -> str:
    return f"o{org_id.hex}"


def _week(number: int, level: int = 0) -> str:
    """Return the key of the block of 4 ** level weeks that contains the week."""
    return f"w{level}x{number >> 2 * level}"


def _key(name: str, value: object) -> str:
    """Return a word of letters and digits only, whatever the value is."""
    text = "=".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return f"k{blake2b(f'{name}={text}'.encode('utf-8', 'surrogatepass'), digest_size=8).hexdigest()}"


_SQLITE = text(
    """select texts.place, texts.session_id
    from (select rowid as place from session_words
          where session_words match :query and rowid >= :low and rowid < :high
          order by rowid desc limit :most) as found
    cross join session_texts as texts on texts.place = found.place
    order by texts.place desc"""
).columns(session_texts.c.place, session_texts.c.session_id)


def _in_sqlite(connection: Connection, sought: Sought, most: int) -> SearchProgress:
    low, high = sought.bounds
    values = {"query": fts_query(sought.search, sought.keys), "low": low, "high": high, "most": most}
    found_candidates = [Candidate(row.place, row.session_id) for row in connection.execute(_SQLITE, values)]
    return SearchProgress(found_candidates, found_candidates[-1] if len(found_candidates) == most else None)


def fts_query(search: Search, keys: Sequence[str]) -> str:
    """Return the query. All words are in quotes and have letters and digits only, so nothing in them is syntax."""
    parts = [f'keys : "{key}"' for key in keys] + [_fts_term(term) for term in search.wanted]
    query = " AND ".join(f"({part})" for part in parts)
    unwanted = " OR ".join(f"({_fts_term(term)})" for term in search.unwanted)
    return f"({query}) NOT ({unwanted})" if unwanted else query


def _fts_term(term: Term) -> str:
    return f'folded : "{" ".join(term.words)}"{" *" if term.is_prefix else ""}'


def _in_postgres(connection: Connection, sought: Sought, most: int) -> SearchProgress:
    low, high = sought.bounds
    oldest, newest = _ends(connection, low, high)
    statement, values = _statement(sought)
    looked_at: list[Candidate] = []
    found_candidates: list[Candidate] = []
    has_phrases = any(len(term.words) > 1 for term in sought.search.terms)
    enough = CANDIDATES if has_phrases else most
    for weeks in _windows(oldest, newest):
        parameters = {**values, "weeks": weeks, "low": low, "high": high, "most": enough - len(looked_at)}
        for row in connection.execute(statement, parameters):
            looked_at.append(Candidate(row.place, row.session_id))
            if row.fits:
                found_candidates.append(looked_at[-1])
        if len(looked_at) >= enough or len(found_candidates) >= most:
            break
    else:
        return (
            SearchProgress(found_candidates, None)
            if len(found_candidates) < most
            else SearchProgress(found_candidates[:most], found_candidates[most - 1])
        )
    return (
        SearchProgress(found_candidates[:most], found_candidates[most - 1])
        if len(found_candidates) >= most
        else SearchProgress(found_candidates, looked_at[-1])
    )


def _statement(sought: Sought) -> tuple[TextualSelect, dict[str, Any]]:
    """Return the statement. The index knows words; that they follow each other is checked in the text, of a bounded
    number of texts.

    `+ 0` keeps the order of places from being read from their own index, one text after the other: the plan of a
    prepared statement does not depend on how rare its words are.
    """
    query = [f"'{word}'{_star(term, at)}" for term in sought.search.wanted for at, word in enumerate(term.words)]
    query += [f"!'{term.words[0]}'{_star(term, 0)}" for term in sought.search.unwanted if len(term.words) == 1]
    values: dict[str, Any] = {"keys": sought.keys, "query": " & ".join(query)}
    fits = ["true"]
    for number, term in enumerate(term for term in sought.search.terms if len(term.words) > 1):
        fits.append(f"folded {'' if term.is_wanted else 'not '}like :phrase{number}")
        values[f"phrase{number}"] = f"% {' '.join(term.words)}{'' if term.is_prefix else ' '}%"
    statement = text(
        f"""select place, session_id, {" and ".join(fits)} as fits from (
            select place, session_id, folded from session_texts
            where words @@ cast(:query as tsquery) and keys @> cast(:keys as text[])
            and keys && cast(:weeks as text[]) and place + 0 >= :low and place + 0 < :high
            order by place + 0 desc limit :most
        ) as newest order by place desc"""  # noqa: S608 - texts of this module, values are parameters
    )
    fit = literal_column("fits", Boolean)
    return statement.columns(session_texts.c.place, session_texts.c.session_id, fit), values


def _star(term: Term, at: int) -> str:
    return ":*" if term.is_prefix and at == len(term.words) - 1 else ""


def _ends(connection: Connection, low: int, high: int) -> tuple[int, int]:
    """Return the weeks of the oldest and the newest text in these bounds; (0, -1) where there is none."""
    place = session_texts.c.place
    within = select(place).where(place >= low, place < high).limit(1)
    first = connection.execute(within.order_by(place)).scalar_one_or_none()
    last = connection.execute(within.order_by(place.desc())).scalar_one_or_none()
    if first is None or last is None:
        return 0, -1
    return (first >> _ID_BITS) // _WEEK, (last >> _ID_BITS) // _WEEK


def _windows(oldest: int, newest: int) -> Iterator[list[str]]:
    """Yield ranges of weeks, newest first, each time twice as many."""
    width = 1
    while newest >= oldest:
        begin = max(newest - width + 1, oldest)
        yield _blocks(begin, newest)
        newest, width = begin - 1, width * 2


def _blocks(begin: int, end: int) -> list[str]:
    """Return the fewest blocks that are exactly the weeks from `begin` to `end`, both included."""
    blocks = []
    while begin <= end:
        level = 0
        while level + 1 < _LEVELS and begin % 4 ** (level + 1) == 0 and begin + 4 ** (level + 1) - 1 <= end:
            level += 1
        blocks.append(_week(begin, level))
        begin += 4**level
    return blocks
