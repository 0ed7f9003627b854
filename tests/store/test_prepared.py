"""Prepared statements, compared with SQLAlchemy's own execution of the same statements."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Engine,
    LargeBinary,
    MetaData,
    String,
    Table,
    Uuid,
    bindparam,
    create_engine,
    event,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.pool import StaticPool
from tests.support.examples import examples

from postern.store.prepared import PreparedStatement
from postern.store.schema.columns import Utc

THINGS = Table(
    "things",
    MetaData(),
    Column("id", Uuid, primary_key=True),
    Column("at", Utc),
    Column("data", JSON),
    Column("yes", Boolean),
    Column("blob", LargeBinary),
    Column("text", String(20)),
    Column("number", BigInteger),
)
ADD = insert(THINGS)
FIND = select(*THINGS.c, func.coalesce(THINGS.c.text, "none").label("known")).where(THINGS.c.id == bindparam("wanted"))
CHANGE = update(THINGS).where(THINGS.c.id == bindparam("wanted"), THINGS.c.text != "kept")
CHANGE = CHANGE.values({"data": bindparam("new_data", type_=JSON), "at": bindparam("new_at", type_=Utc)})

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
JSONS = st.recursive(st.none() | st.booleans() | st.integers(-9, 9) | TEXT, lambda inner: st.dictionaries(TEXT, inner))
MOMENTS = st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=2))])).filter(
    lambda at: 2 < at.year < 9998
)
ROWS = st.fixed_dictionaries(
    {
        "id": st.uuids(),
        "at": st.none() | MOMENTS,
        "data": JSONS,
        "yes": st.none() | st.booleans(),
        "blob": st.none() | st.binary(max_size=8),
        "text": st.none() | TEXT | st.just("kept"),
        "number": st.none() | st.integers(-(2**63), 2**63 - 1),
    }
)


@pytest.fixture(scope="module")
def engine() -> Engine:
    made = create_engine("sqlite://", poolclass=StaticPool)
    THINGS.metadata.create_all(made)
    return made


@given(ROWS, JSONS, MOMENTS)
@settings(max_examples=examples(150), deadline=None)
def test_prepared_statement_behaves_as_in_sqlalchemy(engine: Engine, row: dict[str, Any], data: Any, at: Any) -> None:
    add, find, change = PreparedStatement(ADD), PreparedStatement(FIND), PreparedStatement(CHANGE)
    wanted = {"wanted": row["id"]}
    changes = {**wanted, "new_data": data, "new_at": at}
    outcomes = []
    for ours in (True, False):
        with engine.connect() as connection:
            added = add.count(connection, row) if ours else connection.execute(ADD, row).rowcount
            seen = [[dict(found) for found in connection.execute(FIND, wanted).mappings()]]
            seen.append([dict(found) for found in find.rows(connection, wanted)])
            changed = change.count(connection, changes) if ours else connection.execute(CHANGE, changes).rowcount
            seen.append([dict(found) for found in find.rows(connection, wanted)])
            connection.rollback()
            connection.exec_driver_sql("delete from things")
            connection.commit()
        assert seen[0] == seen[1]
        outcomes.append((added, changed, seen))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0] == 1


def test_prepared_query_without_a_match_returns_no_rows(engine: Engine) -> None:
    with engine.connect() as connection:
        assert PreparedStatement(FIND).rows(connection, {"wanted": uuid4()}) == []


def test_prepared_statement_reaches_the_statement_listeners(engine: Engine) -> None:
    heard: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        heard.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    try:
        with engine.connect() as connection:
            PreparedStatement(FIND).rows(connection, {"wanted": uuid4()})
    finally:
        event.remove(engine, "before_cursor_execute", note)
    assert [text.split()[0] for text in heard] == ["SELECT"]
