"""The filters of the list of sessions as conditions, and which of them leads.

One filter *leads*: it has an index in which the rows are in the list's order (see schema.py), so that a page of the
newest is read from one place. The others *sieve* its rows. SQLite does not know how rare a value is, so the order in
which filters lead is fixed here; the columns of the others are hidden from its choice of an index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    String,
    column,
    exists,
    false,
    func,
    literal_column,
    or_,
    select,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from postern.domain.sessions.session import SessionStatus
from postern.store.ports.target_ports import SessionFilter
from postern.store.schema.review_tables import reviews
from postern.store.schema.session_tables import sessions
from postern.store.sql.rows import as_uuid
from postern.store.sql.targets.connection_conditions import tag_fits

_Equal = tuple[Column[Any], Any]


@dataclass(frozen=True, slots=True)
class Plan:
    """`lead` and `sieves` are conditions; `equal` are the columns with a required value, whichever of them leads.
    `hidden` are all conditions as sieves, for rows that are found by their keys."""

    lead: list[ColumnElement[bool]]
    sieves: list[ColumnElement[bool]]
    equal: list[_Equal]
    hidden: list[ColumnElement[bool]]

    @property
    def all(self) -> list[ColumnElement[bool]]:
        return [*self.lead, *self.sieves]


def plan(connection: Connection, org_id: UUID, criteria: SessionFilter) -> Plan | None:
    """Return the plan; None when nothing can match."""
    equal, either = _plain(criteria), []
    for columns in _names(criteria):
        occurring = _find_occurring(connection, org_id, columns)
        if not occurring:
            return None
        if len(occurring) == 1:
            equal += occurring
        else:
            either.append(or_(*(_Hidden(name) == value for name, value in occurring)))
    tests: list[tuple[Column[Any] | None, ColumnElement[bool], ColumnElement[bool]]] = [
        (name, has_status(value) if name is sessions.c.status else name == value, _Hidden(name) == value)
        for name, value in equal
    ]
    for name, is_there in (
        (sessions.c.refused, criteria.refused),
        (sessions.c.masked, criteria.masked),
        (sessions.c.holds, criteria.held),
    ):
        if is_there is not None:
            tests.append((name, name > 0, _Hidden(name) > 0) if is_there else (None, false(), _Hidden(name) == 0))
    others = [*either, *_in_json(criteria, connection), *_durations(criteria), *_review_conditions(criteria)]
    hidden = [_Hidden(sessions.c.org_id) == org_id, *(test for _, _, test in tests), *others]
    first = _leading([name for name, _, _ in tests], criteria.status)
    lead = [sessions.c.org_id == org_id]
    if first is not None:
        lead.append(tests.pop(first)[1])
    return Plan(lead, [*(test for _, _, test in tests), *others], equal, hidden)


def _plain(criteria: SessionFilter) -> list[_Equal]:
    """Return an equality, never LIKE: a name with `%` in it is only a name."""
    equal = {
        sessions.c.correlation_id: criteria.correlation_id,
        sessions.c.issue_key: criteria.issue,
        sessions.c.user_id: criteria.owner,
        sessions.c.end_reason: criteria.end_reason,
        sessions.c.connection_subtype: criteria.subtype,
        sessions.c.type: criteria.type,
        sessions.c.verb: criteria.verb,
        sessions.c.status: criteria.status,
    }
    return [(name, value) for name, value in equal.items() if value is not None]


def _names(criteria: SessionFilter) -> list[list[_Equal]]:
    """Return the columns that a text may mean; a look-up decides."""
    alternatives: list[list[_Equal]] = []
    if criteria.user is not None:
        alternatives.append([(sessions.c.user_id, criteria.user), (sessions.c.user, criteria.user)])
    if criteria.connection is not None:
        key = as_uuid(criteria.connection)
        named: list[_Equal] = [(sessions.c.connection, criteria.connection)]
        alternatives.append(named if key is None else [*named, (sessions.c.connection_id, key)])
    return alternatives


def _find_occurring(connection: Connection, org_id: UUID, columns: list[_Equal]) -> list[_Equal]:
    """Return those in which the value occurs; each is one look into an index."""
    if len(columns) == 1:
        return columns
    checks = [exists().where(sessions.c.org_id == org_id, name == value) for name, value in columns]
    occurrences = connection.execute(select(*checks)).one()
    return [column for column, is_there in zip(columns, occurrences, strict=True) if is_there]


def has_status(status: SessionStatus) -> ColumnElement[bool]:
    """Return the condition in the form for which an index finds sessions that are not done."""
    is_it: ColumnElement[bool] = sessions.c.status == status
    return is_it if status is SessionStatus.DONE else is_it & (sessions.c.status != literal_column("'done'"))


def _leading(names: Sequence[Column[Any] | None], status: SessionStatus | None) -> int | None:
    """Return which of these leads: the one with the fewest rows for each value.

    A column may occur twice, as that of the user where users only see their own sessions: then one leads and the other
    sieves. The status done never leads: nearly every session has it.
    """
    order = ["holds", "correlation_id", "issue_key", "user_id", "user", "connection_id", "connection"]
    order += ["refused", "masked"]
    order += ["end_reason", *([] if status is SessionStatus.DONE else ["status"]), "connection_subtype", "type", "verb"]
    positions = [(name.name, at) for at, name in enumerate(names) if name is not None]
    ranked = [(order.index(name), at) for name, at in positions if name in order]
    return min(ranked)[1] if ranked else None


def _in_json(criteria: SessionFilter, connection: Connection) -> list[ColumnElement[bool]]:
    is_sqlite = connection.dialect.name == "sqlite"
    pairs = [(sessions.c.labels, criteria.labels), (sessions.c.metadata, criteria.metadata)]
    conditions = [_has_pair(name, *pair, is_sqlite) for name, wants in pairs for pair in wants]
    return conditions + [tag_fits(sessions.c.connection_tags, *tag) for tag in criteria.tags]


def _has_pair(column_value: Column[Any], key: str, value: str, is_sqlite: bool) -> ColumnElement[bool]:
    """Return the condition of a pair. Any text can be a key, so it is never a part of a path."""
    taken_apart = func.json_each if is_sqlite else func.json_each_text
    pair = taken_apart(column_value).table_valued(column("key", String), column("value", String), name="pair")
    condition: ColumnElement[bool] = exists(
        select(pair.c.key).where(pair.c.key == key, pair.c.value == value).correlate(sessions)
    )
    return condition


def _durations(criteria: SessionFilter) -> list[ColumnElement[bool]]:
    """Return the conditions; a session without an end has no duration, and the comparison is not true."""
    lasted = _Seconds(sessions.c.start_date, sessions.c.end_date)
    conditions: list[ColumnElement[bool]] = []
    if criteria.min_duration is not None:
        conditions.append(lasted >= criteria.min_duration)
    if criteria.max_duration is not None:
        conditions.append(lasted <= criteria.max_duration)
    return conditions


def _review_conditions(session_filter: SessionFilter) -> list[ColumnElement[bool]]:
    if session_filter.review is None:
        return []
    is_so = exists().where(reviews.c.id == sessions.c.review_id, reviews.c.status == session_filter.review)
    return [sessions.c.review_id.is_not(None), is_so.correlate(sessions)]


class _Hidden(FunctionElement[Any]):
    """A column that is hidden from the choice of an index (https://sqlite.org/optoverview.html, "Unary + operator")."""

    inherit_cache = True
    name = "hidden"

    def __init__(self, hidden: Column[Any]) -> None:
        super().__init__(hidden)
        self.type = hidden.type


@compiles(_Hidden)
def _plainly(element: _Hidden, compiler: Any, **options: Any) -> str:
    return str(compiler.process(element.clauses, **options))


@compiles(_Hidden, "sqlite")
def _compile_hidden(element: _Hidden, compiler: Any, **options: Any) -> str:
    return f"+{compiler.process(element.clauses, **options)}"


class _Seconds(FunctionElement[float]):
    """The seconds between two timestamps."""

    inherit_cache = True
    name = "seconds"


@compiles(_Seconds)
def _seconds(element: _Seconds, compiler: Any, **options: Any) -> str:
    start, end = (compiler.process(clause, **options) for clause in element.clauses)
    return f"extract(epoch from {end} - {start})"


@compiles(_Seconds, "sqlite")
def _seconds_of_sqlite(element: _Seconds, compiler: Any, **options: Any) -> str:
    start, end = (compiler.process(clause, **options) for clause in element.clauses)
    return f"round((julianday({end}) - julianday({start})) * 86400, 3)"
