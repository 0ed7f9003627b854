"""Lineage against the server for tests, which runs Oracle's SQL over SQLite: a column that changes with a value has the
column of this value as a source."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.oracledb.database import Database, DatabaseSession
from tests.support.oracledb.sql_translation import SqlError

from postern.domain.targets.target_schema import ColumnRef, Relation, TargetSchema
from postern.interception.events import Column, TextKind
from postern.protocols.oracledb.lineage.oracle_lineage import OracleLineage
from postern.protocols.oracledb.lineage.oracle_session_lineage import OracleSessionLineage

TABLES: dict[str, dict[str, str]] = {
    "USERS": {"EMAIL": "Uemail1", "NAME": "Uname1", "CITY": "Ucity1"},
    "ORDERS": {"NOTE": "Onote1", "PLACE": "Oplace1"},
}
KEYS = {"USERS": {"ID": 1}, "ORDERS": {"ID": 1, "USER_ID": 1}}
SCHEMA = TargetSchema(
    {("POSTERN", name): Relation("POSTERN", name, (*KEYS[name], *columns)) for name, columns in TABLES.items()},
    {},
    ("POSTERN",),
)
QUERIES = Path(__file__).with_name("oracle_queries.sql").read_text().splitlines()
LINEAGE = OracleLineage()


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DatabaseSession]:
    now = datetime.datetime(2024, 5, 6, tzinfo=datetime.UTC)
    session = DatabaseSession(Database(tmp_path_factory.mktemp("oracle"), lambda: now), "POSTERN")
    for table, columns in TABLES.items():
        names = [*[f"{key} number(9)" for key in KEYS[table]], *[f"{column} varchar2(30)" for column in columns]]
        session.run(session.prepare(f"create table {table} ({', '.join(names)})"), ())
        values = [*map(str, KEYS[table].values()), *[f"'{value}'" for value in columns.values()]]
        session.run(session.prepare(f"insert into {table} values ({', '.join(values)})"), ())
    session.commit()
    yield session
    session.close()


def answer(session: DatabaseSession, text: str) -> tuple[list[str], list[tuple[str, ...]]] | None:
    """Return the names and the values of each column; None if the server refuses the query."""
    try:
        result = session.run(session.prepare(text), ())
    except SqlError:
        return None
    names = [column.name for column in result.columns]
    return names, [tuple(repr(row[at]) for row in result.rows) for at in range(len(names))]


def dependencies(session: DatabaseSession, text: str) -> tuple[list[str], list[set[ColumnRef]]] | None:
    """Return the columns on which each column of the answer depends."""
    before = answer(session, text)
    if before is None:
        return None
    found: list[set[ColumnRef]] = [set() for _ in before[0]]
    for table, columns in TABLES.items():
        for column in columns:
            session.run(session.prepare(f"update {table} set {column} = replace({column}, '1', '29')"), ())
            after = answer(session, text)
            session.rollback()
            for at, (one, other) in enumerate(zip(before[1], after[1] if after else (), strict=False)):
                if one != other and len(one) == len(other):
                    found[at].add(ColumnRef("POSTERN", table, column))
    return before[0], found


@pytest.mark.parametrize("text", QUERIES)
def test_lineage_has_every_column_on_which_an_answer_depends(session: DatabaseSession, text: str) -> None:
    found = dependencies(session, text)
    assert found is not None, "the server does not run this"
    names, needed = found
    lineage = OracleSessionLineage(LINEAGE, lambda: SCHEMA)
    lineage.record_statement(text)
    origins = lineage.of(text, tuple(Column(name, TextKind.TEXT) for name in names))
    assert origins is not None
    for name, refs, origin in zip(names, needed, origins, strict=True):
        assert origin is not None, f"the origin of {name!r} is unknown"
        assert refs <= origin.refs, f"{name!r} depends on {refs - origin.refs}"


def test_most_columns_of_the_queries_depend_on_a_table(session: DatabaseSession) -> None:
    needed = [refs for text in QUERIES for refs in (dependencies(session, text) or ([], []))[1]]
    assert sum(map(bool, needed)) > len(needed) * 0.6
