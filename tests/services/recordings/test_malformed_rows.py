"""Verification of rows with any content ends with findings and never with an error.

SQLite accepts any value in any column; on PostgreSQL, values that its types accept are tried.
"""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from tests.services.recordings.test_records import Evidence
from tests.support.recorded import Records

from postern.store.schema.columns import metadata

pytestmark = pytest.mark.ci

READ = (
    *("audit_log", "checkpoints", "ledger", "ledger_heads", "ledger_keys", "ledger_records"),
    *("review_voices", "reviews", "segments", "sessions"),
)
# What SQLite takes, as it stands in a statement; the last ones are what PostgreSQL may take as well.
STRANGE = ("x'ff00'", "'not what it was'", "-1", "1e300", "9223372036854775807", "null", "'[[1]]'", "''")
# Where another value is as good: nothing binds it, or it is not read.
FREE = {
    "checkpoints.introduces",
    "ledger.session_id",
    "ledger_keys.created_at",
    "ledger_keys.retired_at",
    "reviews.asked_by",
    "reviews.estimate",
}


async def broken(evidence: Evidence, table: str, column: str, value: str) -> bool:
    """Verify with that value in the first row, and put back what was there. False where the engine takes no such
    value."""
    is_sqlite = evidence.records.world.database.is_sqlite
    row = "rowid" if is_sqlite else "ctid"
    # Of a session that has not ended nothing binds how it ends.
    ended = " where closed_entry is not null" if table == "sessions" else ""
    first = f"{row} = (select min({row}) from {table}{ended})" if is_sqlite else "true"
    database = evidence.records.world.database
    async with database.statement() as connection:
        kept: Any = (await connection.execute(text(f'select {row}, "{column}" from {table} where {first}'))).first()
    try:
        async with database.statement() as connection:
            await connection.execute(text(f'update {table} set "{column}" = {value} where {first}'))
    except DBAPIError:
        return False
    report = await evidence.services.verifier.verify(evidence.records.world.org_id)
    # NULL and the JSON value null are the same to who reads them.
    is_same = kept is not None and (repr(kept[1]) == value or (value == "null" and kept[1] in (None, "null")))
    is_free = f"{table}.{column}" in FREE or column not in BOUND.get(table, {column})
    assert not report.is_good or is_same or is_free, (table, column, value)
    if is_sqlite:
        restored = text(f'update {table} set "{column}" = :value where rowid = :row')
        async with database.statement() as connection:
            await connection.execute(restored, {"value": kept[1], "row": kept[0]})
    return True


# Of these the ledger binds some columns; the others may be anything that can be read.
BOUND = {
    "sessions": {
        *("id", "org_id", "principal_id", "connection_id", "connection", "connection_subtype", "type", "verb"),
        *("user", "user_id", "user_name", "start_date", "end_date", "end_reason", "exit_code", "script", "source"),
        *("event_size", "masked", "refused", "metrics", "review_id", "credential_id"),
    },
    "segments": {"session_id", "number", "digest", "size", "place"},
}


async def all_columns(evidence: Evidence, tables: tuple[str, ...], values: tuple[str, ...]) -> int:
    done = 0
    for table in tables:
        for column in [one.name for one in metadata.tables[table].c]:
            for value in values:
                done += await broken(evidence, table, column, value)
    return done


async def with_segments(records: Records) -> Evidence:
    evidence = await Evidence.make(records)
    await records.recorded(2)
    await evidence.services.checkpoints.make(records.user)
    assert (await evidence.online()).is_good
    return evidence


@pytest.mark.slow
@pytest.mark.parametrize("table", READ)
async def test_any_other_value_in_any_column_is_a_finding(records: Records, table: str) -> None:
    if not records.world.database.is_sqlite:
        pytest.skip("PostgreSQL refuses what is not of a column's type")
    evidence = await with_segments(records)
    assert await all_columns(evidence, (table,), STRANGE)
    assert (await evidence.online()).is_good  # all is as it was


@pytest.mark.parametrize("value", ["x'ff00'", "'not what it was'"])
async def test_value_of_another_type_in_a_row_is_a_finding(records: Records, value: str) -> None:
    if not records.world.database.is_sqlite:
        pytest.skip("PostgreSQL refuses what is not of a column's type")
    evidence = await with_segments(records)
    for table, column in (
        *(("ledger", "content"), ("ledger", "number"), ("ledger_heads", "at"), ("ledger_keys", "public")),
        *(("checkpoints", "signature"), ("sessions", "start_date"), ("sessions", "metrics"), ("segments", "digest")),
        *(("ledger_records", "subject"), ("audit_log", "body"), ("reviews", "owner"), ("review_voices", "at")),
    ):
        assert await broken(evidence, table, column, value), f"{table}.{column}"


JSON_SHAPES = ("'[]'", "'{}'", "'null'", "'1.5'", """'"x"'""", """'{"a": {"b": [1e300]}}'""")


@pytest.mark.parametrize("shape", JSON_SHAPES)
async def test_json_of_another_shape_in_a_row_is_a_finding(records: Records, shape: str) -> None:
    evidence = await Evidence.make(records)
    places = (("audit_log", "body"), ("reviews", "owner"), ("reviews", "demands"), ("review_voices", "groups"))
    for table, column in places:
        await evidence.sql(f'update {table} set "{column}" = {shape}')
        assert not (await evidence.online()).is_good
