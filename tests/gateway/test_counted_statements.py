"""The estimated rows of a statement are the rows that it then affects, compared on a real PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import psycopg
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.support.counted import DATABASE, LIMITS, START, Watched, permit
from tests.support.postgres import PostgresServer, database

from postern.gateway.rules.row_counts import HeldStatement
from postern.protocols.postgres.postgres_row_counts import postgres_row_counts

DEFINITIONS = """
create table plain (id int, a int, b text); create table other (id int, a int, b text);
create table parent (id int, a int, b text); create table heir () inherits (parent);
create table parts (id int, a int, b text) partition by list (id);
create table parts_0 partition of parts for values in (0, 2, 4, 6); create table parts_n partition of parts default;
create table "Odd name" (id int, a int, b text);
create index on plain (a); create unique index on "Odd name" (id, a, b);
insert into plain select n % 7, nullif(n % 4, 3), chr(97 + n % 3) from generate_series(0, 29) n;
insert into other select n % 5, nullif(n % 6, 5), nullif(chr(97 + n % 4), 'd') from generate_series(0, 9) n;
insert into parent select id, a, b from plain where id < 3; insert into heir select * from plain where id > 4;
insert into parts select id, a, b from plain; insert into "Odd name" select distinct id, a, b from plain;
analyze;
"""
TABLES = ["plain", "other", "parent", "only parent", "heir", "parts", "parts_0", '"Odd name"', "public.plain"]
SERIES = "(select n as id, n % 2 as a, 'a' as b from generate_series(1, 3) n) u"


@pytest.fixture(scope="module")
def direct(postgres_server: PostgresServer) -> Iterator[psycopg.Connection]:
    with database(postgres_server, DATABASE, DEFINITIONS) as inside:
        yield inside


def numbers(names: tuple[str, ...]) -> st.SearchStrategy[str]:
    columns = st.sampled_from([f"{name}.{column}" for name in names for column in ("id", "a")])
    simple = columns | st.integers(-2, 8).map(str) | st.sampled_from([f"length({name}.b)" for name in names])
    return (
        simple
        | st.builds("({} {} {})".format, simple, st.sampled_from("+-*%"), st.integers(1, 4).map(str))
        | (st.builds("coalesce({}, {})".format, columns, simple))
    )


def conditions(names: tuple[str, ...], depth: int = 2) -> st.SearchStrategy[str]:
    number = numbers(names)
    text = st.sampled_from([f"{name}.b" for name in names])
    letters = st.sampled_from(["'a'", "'b'", "'c'", "''", "upper('a')"])
    compared = st.sampled_from(["=", "<>", "<", ">=", "is distinct from"])
    found = [
        st.builds("{} {} {}".format, number, compared, number),
        st.builds("{} {} {}".format, text, compared, letters),
        st.builds("{} is {}null".format, number | text, st.sampled_from(["", "not "])),
        st.builds("{} between {} {} and {}".format, number, st.sampled_from(["", "symmetric"]), number, number),
        st.builds("{} {}in ({}, {})".format, number, st.sampled_from(["", "not "]), number, number),
        st.builds("{} = {}('{{1,3,4}}'::int[])".format, number, st.sampled_from(["any", "all"])),
        st.builds("{} {}like '{}%'".format, text, st.sampled_from(["", "not ", "i"]), st.sampled_from("abA")),
    ]
    if depth:
        inner, below = conditions(names, depth - 1), conditions((*names, "z"), depth - 1)
        tables = st.sampled_from(TABLES)
        found += [
            st.builds("not ({})".format, inner),
            st.builds("({}) {} ({})".format, inner, st.sampled_from(["and", "or"]), inner),
            st.builds("case when {} then {} else {} end".format, inner, inner, inner),
            st.builds("{}exists (select from {} z where {})".format, st.sampled_from(["", "not "]), tables, below),
            st.builds("{} {}in (select z.a from {} z)".format, number, st.sampled_from(["", "not "]), tables),
            st.builds("{} > (select max(z.id) from {} z where {})".format, number, tables, below),
        ]
    return st.one_of(found)


@st.composite
def statements(draw: st.DrawFn) -> str:
    table = draw(st.sampled_from(TABLES))
    alias = draw(st.sampled_from(["t", "as t"]))
    source = draw(st.sampled_from([*(f"{one} u" for one in TABLES), SERIES]))
    begin = ""
    if draw(st.booleans()):
        how, of, only = (draw(st.sampled_from(each)) for each in (["", "materialized "], TABLES, ["true", "z.a > 0"]))
        begin, source = f"with w as {how}(select * from {of} z where {only}) ", "w u"
    kind = draw(st.sampled_from(["update", "delete", "update from", "delete using", "merge"]))
    if kind == "merge":
        when = [
            "when matched and {} then delete",
            "when matched then update set b = 'x'",
            "when matched and {} then do nothing",
            "when not matched then insert values (u.id, 1, 'new')",
            "when not matched and {} then do nothing",
        ]
        chosen = draw(st.lists(st.sampled_from(when), min_size=1, max_size=3, unique=True))
        # A clause without a condition ends those of its kind.
        for sort in ("when matched", "when not matched"):
            mine = [one for one in chosen if one.startswith(sort + " ")]
            for behind in mine[next((n for n, one in enumerate(mine) if "{}" not in one), len(mine)) + 1 :]:
                chosen.remove(behind)
        filled = [
            one.format(draw(conditions(("u",) if "not matched" in one else ("t", "u"), 1))) if "{}" in one else one
            for one in chosen
        ]
        on = f"t.id = u.id and {draw(conditions(('t', 'u'), 0))}"
        return f"{begin}merge into {table} {alias} using {source} on {on} {' '.join(filled)}"
    names = ("t", "u") if " " in kind else ("t",)
    where = draw(st.none() | conditions(names))
    end = f" where {where}" if where else ""
    end += draw(st.sampled_from(["", " returning *", " returning t.id, t.ctid"]))
    others = f" {kind.split()[1]} {source}" if " " in kind else ""
    if kind.startswith("update"):
        return f"{begin}update {table} {alias} set b = 'x'{others}{end}"
    return f"{begin}delete from {table} {alias}{others}{end}"


@given(statements())
@pytest.mark.ci
def test_row_count_equals_the_rows_that_any_statement_touches(
    postgres_server: PostgresServer, direct: psycopg.Connection, text: str
) -> None:
    async def counted() -> tuple[int | None, str]:
        found = await postgres_row_counts(Watched(), LIMITS).of(permit(postgres_server), START, [HeldStatement(text)])
        assert found is not None
        return found.rows, found.parts[0].why_not

    with direct.transaction(force_rollback=True):
        try:
            touched = direct.execute(text.encode()).rowcount
        except (psycopg.errors.CardinalityViolation, psycopg.errors.IntegrityError):
            assume(False)  # the statement fails, whatever is counted
    assert asyncio.run(counted()) == (touched, "")
