"""Row counts of the built-in agent on a real PostgreSQL: correct, without writes, and without user-defined code."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import psycopg
import pytest
from tests.support.counted import DATABASE, LIMITS, START, Watched, permit
from tests.support.postgres import PostgresServer
from tests.support.promises import wait_until

from postern.domain.rules.row_count import PartCount
from postern.errors import Unavailable
from postern.gateway.rules.row_count_estimates import CountLimits
from postern.gateway.rules.row_counts import HeldStatement
from postern.protocols.postgres.postgres_row_counts import postgres_row_counts
from postern.protocols.wire_base import TransactionState
from postern.relay.relay_target import Start

DEFINITIONS = """
create schema hr;
create role app login;
grant create, usage on schema public, hr to app;
create table people (id int primary key, name text, born date, mark int, tags jsonb, made timestamptz default now());
insert into people select n, 'p' || n % 7, date '2000-01-01' + n, n % 5, jsonb_build_object('a', n % 3)
  from generate_series(1, 100) n;
create table bonuses (person int, amount numeric(10,2));
insert into bonuses select n % 60, n * 1.5 from generate_series(1, 90) n;
create table hr.people_of_hr (id int, name text);
create table twice (n int); create table hr.twice (n int);
create type mood as enum ('sad', 'glad');
create table moods (id int, mood mood, score int);
insert into moods values (1, 'sad', 1), (2, 'glad', 2), (3, 'glad', 3);
create table parts (id int, n int) partition by list (n);
create table parts_0 partition of parts for values in (0);
create table parts_1 partition of parts for values in (1);
insert into parts select n, n % 2 from generate_series(1, 9) n;
create table parents (id int); create table heirs () inherits (parents);
insert into parents values (1), (2); insert into heirs values (3), (4), (5);
create view seen as select * from people;
grant all on all tables in schema public, hr to app;
"""


@pytest.fixture(scope="module")
def server(postgres_server: PostgresServer) -> Iterator[PostgresServer]:
    with psycopg.connect(postgres_server.dsn(), autocommit=True) as admin:
        admin.execute(f"create database {DATABASE}")
        with psycopg.connect(postgres_server.dsn(DATABASE), autocommit=True) as inside:
            inside.execute(DEFINITIONS)
        yield postgres_server
        admin.execute(f"drop database {DATABASE} with (force)")
        admin.execute("drop role app")


@pytest.fixture
def direct(server: PostgresServer) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server.dsn(DATABASE), autocommit=True) as connection:
        yield connection


@pytest.fixture
async def dialer() -> Watched:
    return Watched()


async def count(
    server: PostgresServer,
    dialer: Watched,
    text: str,
    *values: bytes | None,
    user: str = "postgres",
    limits: CountLimits = LIMITS,
) -> list[PartCount]:
    estimates = postgres_row_counts(dialer, limits)
    found = await estimates.of(permit(server, user), START, [HeldStatement(text, values)])
    return [] if found is None else list(found.parts)


async def why_not(server: PostgresServer, dialer: Watched, text: str, *values: bytes | None, user: str = "app") -> str:
    (part,) = await count(server, dialer, text, *values, user=user)
    assert part.rows is None, part
    assert part.why_not
    return part.why_not


COUNTED = [
    "update people set name = 'x'",
    "update people set name = 'x' where id <= 10",
    "update people set mark = mark + 1 where name = 'p3' and born between '2000-01-10' and '2000-02-20'",
    "update people p set name = 'x' from bonuses b where b.person = p.id and b.amount > 10",
    "update people set name = 'x' from bonuses join moods on moods.id = bonuses.person where people.id = moods.id",
    "delete from people using bonuses b, moods m where b.person = people.id and m.id < 3",
    "delete from people where id in (select person from bonuses where amount > 100) and mark is not null",
    "delete from people where exists (select from bonuses where person = people.id) or tags ->> 'a' = '2'",
    "delete from people where tags @> '{\"a\": 1}' and not (name like 'p1%' or name similar to 'p(2|3)')",
    "delete from people where (id, mark) in ((1, 1), (2, 2), (3, 4)) or id = any('{7,8,9}'::int[])",
    "delete from people where case mark when 1 then true else id > 90 end and coalesce(name, '') <> lower('P0')",
    "delete from people where extract(year from born) = 2000 and born > current_date - interval '100 years'",
    "with old as (select id from people where id < 20) delete from people where id in (select id from old)",
    "with recursive up(n) as (select 1 union all select n + 1 from up where n < 5)"
    " update people set name = 'x' where id in (select n from up)",
    "with people as (select 1 as id) delete from people where mark = 2",
    "delete from moods where mood = 'glad'",
    "update moods set score = 0 where score > 1 and mood is not null",
    "delete from parts where id > 3",
    "delete from only parts",
    "delete from parents",
    "delete from only parents where id > 0",
    "delete from hr.twice",
    "delete from people where to_char(born, 'YYYY-MM') = '2000-01' and id::text <> '7' and name || 'x' <> 'p1x'",
    "delete from people p using bonuses b where b.person = p.id and p.name collate \"C\" < 'p5'",
    "merge into people p using bonuses b on p.id = b.person and b.amount > 100"
    " when matched and p.mark = 1 then do nothing when matched then delete"
    " when not matched and b.amount < 50 then insert (id, name) values (b.amount::int + 1000, 'new')",
    "merge into people p using (select distinct person from bonuses) b on p.id = b.person"
    " when matched and p.mark < 3 then update set name = 'x' when matched then delete",
]


@pytest.mark.parametrize("text", COUNTED)
async def test_estimated_row_count_equals_the_count_of_the_statement(
    server: PostgresServer, dialer: Watched, direct: psycopg.Connection, text: str
) -> None:
    (part,) = await count(server, dialer, text)
    with direct.transaction(force_rollback=True):
        touched = direct.execute(text.encode()).rowcount
    assert part.why_not == ""
    assert part.rows == touched


async def test_estimated_row_count_of_a_merge_by_source_is_correct(
    server: PostgresServer, dialer: Watched, direct: psycopg.Connection
) -> None:
    if direct.info.server_version < 170_000:
        text = "merge into moods m using bonuses b on m.id = b.person when not matched by source then delete"
        (part,) = await count(server, dialer, text)
        assert part.rows == 0
        return
    text = (
        "merge into people p using bonuses b on p.id = b.person and b.amount > 120"
        " when matched then do nothing when not matched by source and p.mark = 2 then delete"
    )
    (part,) = await count(server, dialer, text)
    with direct.transaction(force_rollback=True):
        assert part.rows == direct.execute(text.encode()).rowcount


async def test_estimate_uses_bind_values_of_conditions_and_omits_assigned_ones(
    server: PostgresServer, dialer: Watched
) -> None:
    text = "update people set name = $1 where id > $3 and (name = $2 or $2 is null) and mark < $3 + 4"
    (part,) = await count(server, dialer, text, b"new", b"p3", b"10")
    assert part.rows == len([n for n in range(11, 101) if n % 7 == 3])
    (part,) = await count(server, dialer, text, b"new", None, b"90")
    assert part.rows == 10
    assert "$3 is missing" in await why_not(server, dialer, text, b"new")
    assert "rejected the query (SQLSTATE 22P02)" in await why_not(server, dialer, text, b"new", b"p3", b"secret")
    assert "not text" in await why_not(server, dialer, text, b"new", b"\xff", b"10")
    estimates = postgres_row_counts(dialer, LIMITS)
    found = await estimates.of(permit(server), START, [HeldStatement(text, (b"new", b"p3", b"10"), truncated=True)])
    assert found is not None
    assert found.parts[0].why_not == "a bind value is too large"
    guessed = await estimates.of(permit(server), START, [HeldStatement(text, (b"new", b"p3", b"10"), unsure=(3,))])
    assert guessed is not None
    assert guessed.parts[0].why_not == "the type of the bind value $3 is unknown"


async def test_attack_table_name_with_control_characters_is_escaped(
    server: PostgresServer, dialer: Watched, direct: psycopg.Connection
) -> None:
    name = '"a\u202e\x1b[2J"'
    direct.execute(f"create table {name} (n int)".encode())
    try:
        estimates = postgres_row_counts(dialer, LIMITS)
        found = await estimates.of(permit(server), START, [HeldStatement(f"delete from {name}; delete from x.{name}")])
        assert found is not None
        assert found.as_json()["said"] == [
            "DELETE public.a\\u202e\\x1b[2J: 0 rows",
            "DELETE x.a\\u202e\\x1b[2J: cannot be counted, because there is no table x.a\\u202e\\x1b[2J",
            "each part is counted as if the others had not run",
        ]
        shown = str(found.as_json())
        assert "\u202e" not in shown
        assert "\x1b" not in shown
    finally:
        direct.execute(f"drop table {name}".encode())


async def test_each_part_of_a_statement_is_counted(server: PostgresServer, dialer: Watched) -> None:
    text = (
        "update people set name = 'x' where id < 11; select 1; delete from moods; insert into moods values (9);"
        "with gone as (delete from parts where id < 3 returning id), more as (update moods set score = 1 returning id)"
        " delete from people where id in (select id from gone)"
    )
    first, second, third, fourth, last = await count(server, dialer, text)
    assert (first.said, second.rows) == ("UPDATE public.people: 10 rows", 3)
    assert "another part of the statement" in third.why_not
    assert (fourth.rows, last.rows) == (2, 3)
    assert dialer.dialled == 1
    assert await count(server, dialer, "select * from people; insert into moods values (1); truncate moods") == []
    assert dialer.dialled == 1


async def test_attack_part_beyond_the_limit_is_reported_as_not_counted(server: PostgresServer, dialer: Watched) -> None:
    """Many harmless statements precede the one that matters."""
    asked = [HeldStatement(f"delete from people where id = {number}") for number in range(1, 21)]
    found = await postgres_row_counts(dialer, LIMITS).of(
        permit(server), START, [*asked, HeldStatement("delete from people")]
    )
    assert found is not None
    assert found.rows is None
    assert found.parts[-1].said == "the rest: cannot be counted, because there are more than 20 parts that change rows"
    exactly = await postgres_row_counts(dialer, LIMITS).of(permit(server), START, asked)
    assert exactly is not None
    assert exactly.rows == 20


async def test_row_counting_writes_nothing_to_the_target(
    server: PostgresServer, dialer: Watched, direct: psycopg.Connection
) -> None:
    """Neither a row, nor a lock that remains, nor a transaction id."""

    def state() -> tuple[object, ...]:
        row = direct.execute(
            "select pg_snapshot_xmax(pg_current_snapshot())::text,"
            " (select md5(string_agg(p::text || p.xmin || p.ctid, ',' order by p.ctid)) from people p),"
            " (select count(*) from pg_locks where pid <> pg_backend_pid() and database ="
            "   (select oid from pg_database where datname = current_database()))"
        ).fetchone()
        assert row is not None
        return tuple(row)

    before = state()
    for text in COUNTED:
        await count(server, dialer, text)
    await count(server, dialer, "update people set name = 'x'; delete from people; delete from nowhere")
    assert await count(server, dialer, "update people set id = nextval('s') where id = txid_current()")
    gone = "select from pg_stat_activity where application_name = 'postern row count'"
    await asyncio.to_thread(wait_until, lambda: direct.execute(gone).fetchone() is None)
    assert state() == before


async def test_row_counting_keeps_startup_settings_that_affect_text_values(
    server: PostgresServer, dialer: Watched
) -> None:
    start = Start(DATABASE, {"DateStyle": "German", "search_path": "evil", "options": "-c role=app", "TimeZone": "UTC"})
    estimates = postgres_row_counts(dialer, LIMITS)
    asked = [
        HeldStatement("delete from people where born < '05.01.2000'"),
        HeldStatement("delete from pg_catalog.pg_class"),
    ]
    found = await estimates.of(permit(server), start, asked, TransactionState(in_transaction=True))
    assert found is not None
    assert found.parts[0].rows == 3
    assert "a system table" in found.parts[1].why_not
    assert found.rows is None
    assert found.as_json()["said"] == [
        "DELETE public.people: 3 rows",
        "DELETE pg_catalog.pg_class: cannot be counted, because pg_class is a system table",
        "uncommitted changes of its session are not counted, and can change which rows match",
        "each part is counted as if the others had not run",
    ]
    assert dialer.starts[0].parameters == {
        "DateStyle": "German",
        "options": "-c role=app",
        "TimeZone": "UTC",
        "application_name": "postern row count",
        "client_encoding": "UTF8",
    }


async def test_row_count_over_the_limit_is_reported_as_more_than_it(
    server: PostgresServer, dialer: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postern.protocols.postgres.dialect.postgres_count_plans.MOST_ROWS", 50)
    monkeypatch.setattr("postern.domain.rules.row_count.MOST_ROWS", 50)
    (part,) = await count(server, dialer, "delete from people")
    assert (part.rows, part.more, part.said) == (50, True, "DELETE public.people: more than 50 rows")
    (part,) = await count(server, dialer, "delete from people where id <= 50")
    assert (part.rows, part.more) == (50, False)


# Attacks: whoever is held makes the gateway run what they have prepared. Each says so in the server's log if it runs,
# which no rollback takes back.

SPY = "create function {} returns {} language plpgsql {} as $$ begin raise log 'SPIED {}'; return {}; end $$"

# What is made by the application's user, what is sent, and why it is not counted.
ATTACKS = {
    "a user-defined function": (
        [SPY.format("spy(int)", "bool", "immutable", 1, "true")],
        "delete from people where spy(id)",
        "it calls spy()",
    ),
    "a function by its schema": ([], "delete from people where public.lower(name) = 'x'", "it calls public.lower()"),
    "a better fitting overload": (
        [SPY.format("lower(name text, more int default 1)", "text", "immutable", 2, "name")],
        "delete from people where lower(name) = 'x'",
        "a user has created a function public.lower(",
    ),
    "a user-defined operator": (
        [
            SPY.format("public.same(a int, b int)", "bool", "immutable", 3, "true"),
            "create operator public.= (leftarg = int, rightarg = int, function = public.same)",
        ],
        "delete from people where id = 1",
        "a user has created an operator",
    ),
    "an operator by its schema": ([], "delete from people where id operator(public.=) 1", "the operator public.="),
    "an operator of its enumeration": (
        [
            "create type colour as enum ('red')",
            "create table painted (c colour)",
            SPY.format("public.alike(a colour, b colour)", "bool", "immutable", 4, "true"),
            "create operator public.= (leftarg = colour, rightarg = colour, function = public.alike)",
        ],
        "delete from painted where c = 'red'",
        "a user has created an operator",
    ),
    "a user-defined cast": (
        [
            "create type colour as enum ('red')",
            "create table painted (c colour)",
            SPY.format("public.made(a colour)", "int", "immutable", 5, "1"),
            "create cast (colour as int) with function public.made(colour) as implicit",
        ],
        "delete from painted where c = 1",
        "a user has created a cast",
    ),
    "a row type": (
        ["create type pair as (a int, b int)", "create table pairs (p pair)"],
        "delete from pairs where p = row(1, 2)",
        "has the type public.pair",
    ),
    "a domain with a check": (
        [
            SPY.format("public.checked(a text)", "bool", "immutable", 6, "true"),
            "create domain careful as text check (public.checked(value))",
        ],
        "delete from people where name::careful = 'x'",
        "it casts to the type careful",
    ),
    "a view": (
        [
            SPY.format("public.shown(a int)", "bool", "volatile", 7, "true"),
            "create view spying with (security_barrier) as select * from people where public.shown(id)",
        ],
        "delete from spying",
        "spying is a view",
    ),
    "a view in a sub-select": ([], "delete from people where id in (select id from seen)", "seen is a view"),
    "a rule": (
        ["create table ruled (id int)", "create rule r as on delete to ruled do instead select public.noted(1)"],
        "delete from ruled",
        "rules rewrite",
    ),
    "an index": (
        [
            "create table indexed (id int)",
            SPY.format("public.indexing(a int)", "int", "immutable", 8, "a"),
            "create index on indexed ((id + 1)) where public.indexing(1) = 1",
        ],
        "delete from indexed where id > 0",
        "an index, a condition or a column of its tables calls",
    ),
    "a condition": (
        [
            "create table conditioned (id int)",
            SPY.format("public.allowing(a int)", "bool", "immutable", 9, "true"),
            "alter table conditioned add check (public.allowing(1) and id > 0)",
        ],
        "delete from conditioned where id < 0",
        "an index, a condition or a column of its tables calls",
    ),
    "an heir with a condition": (
        [
            "create table old (id int)",
            SPY.format("public.heirs(a int)", "bool", "immutable", 10, "true"),
            "create table young (check (public.heirs(1) and id > 0)) inherits (old)",
        ],
        "delete from old where id < 0",
        "an index, a condition or a column of its tables calls",
    ),
    "a policy": (
        [
            "create table secret (id int)",
            SPY.format("public.sees(a int)", "bool", "stable", 11, "true"),
            "alter table secret enable row level security",
            "alter table secret force row level security",
            "create policy p on secret using (public.sees(id))",
        ],
        "delete from secret",
        "row security decides",
    ),
    "the condition of a domain": (
        [
            SPY.format("public.fits(a text)", "bool", "immutable", 15, "true"),
            "create domain fitting as text check (public.fits(value))",
            "create table fitted (id int, all_of fitting[])",
        ],
        "delete from fitted where all_of = '{x}'",  # which is read as an array of these
        "a column has the domain public.fitting, whose condition can run",
    ),
    "the condition of a domain, by the server's own function": (
        [
            SPY.format("public.ran()", "int", "volatile", 16, "1"),
            "create domain fitting as text check (query_to_xml('select public.ran()', true, true, value) is not null)",
            "create table fitted (id int, one fitting)",
        ],
        "delete from fitted where array[one] = '{x}'",
        "a column has the domain public.fitting, whose condition can run",
    ),
    "a type by the name of the server's": (
        ["create type text as enum ('x')"],
        "delete from people where name::text = 'x'",
        "a user has created a type",
    ),
    "a volatile function": ([], "delete from people where random() < 0.5", "it calls random()"),
    "a sequence": ([], "delete from people where nextval('s') > 1", "it calls nextval()"),
    "the number of a transaction": ([], "delete from people where txid_current() > 1", "it calls txid_current()"),
    "a query as text": ([], "delete from people where query_to_xml('x', true, true, '') is null", "query_to_xml"),
    "rows of any type": (
        [],
        "delete from people where (jsonb_populate_record(null::people, '{}')).id = 1",
        "it calls jsonb_populate_record()",
    ),
    "who the user is": ([], "delete from people where name = current_user", "it uses the session's user"),
    "a setting": ([], "delete from people where current_setting('x.y', true) is null", "it calls current_setting()"),
    "a lock": ([], "delete from people where id in (select id from moods for update)", "it locks"),
    "a change in a WITH": (
        [],
        "with gone as (insert into moods values (7) returning id) delete from people where id in (select id from gone)",
        "another part of the statement",
    ),
    "a table of several schemas": ([], "delete from twice", "there are several tables twice"),
    "a function in the place of a column": (
        [],
        "delete from people where (id).pg_advisory_lock is null",
        "it can call pg_advisory_lock(bigint)",
    ),
    "a function in the place of a column of a function": (
        [],
        "delete from people where exists (select from generate_series(1, 1) g where g.pg_sleep is null)",
        "it can call pg_sleep(double precision)",
    ),
    "a user-defined function in the place of a column": (
        [SPY.format("public.text(a int)", "text", "immutable", 17, "'x'")],
        "delete from people where exists (select from generate_series(1, 1) g where g.text = 'x')",
        "a user has created a function public.text(integer)",
    ),
    "an operator class where none is named": (
        [
            "create table spots (p point)",
            "grant all on spots to app",
            "insert into spots values ('1,1'), ('1,1')",
            SPY.format("public.spot_less(a point, b point)", "bool", "immutable", 18, "false"),
            SPY.format("public.spot_same(a point, b point)", "bool", "immutable", 18, "true"),
            SPY.format("public.spot_order(a point, b point)", "int", "immutable", 18, "0"),
            "create operator public.<< (leftarg = point, rightarg = point, function = public.spot_less)",
            "create operator public.=== (leftarg = point, rightarg = point, function = public.spot_same)",
            "create operator class public.spots default for type point using btree as operator 1 public.<<,"
            " operator 3 public.===, function 1 public.spot_order(point, point)",
        ],
        "delete from people where id in (select 1 from (select distinct p from spots) s)",
        "a user has created a default operator class for point",
    ),
    "a collation": (
        ["create collation public.\"C\" (provider = icu, locale = 'und', deterministic = false)"],
        "delete from people where name < 'x' collate \"C\"",
        "a user has created a collation",
    ),
    "a collation by its schema": ([], "delete from people where name = 'x' collate public.c", "the collation public.c"),
    "row security of another table": (
        ["create table kept (id int)", "alter table kept enable row level security", "insert into kept values (1)"],
        "delete from people where id not in (select id from kept)",
        "row security can hide rows of public.kept",
    ),
    "row security of a table that is merged": (
        ["create table kept (id int)", "alter table kept enable row level security"],
        "merge into kept using people p on kept.id = p.id when not matched then insert values (1)",
        "row security can hide rows of public.kept",
    ),
    "a name of the server's own schema": (
        ["create table columns (id int)"],
        "delete from people where id not in (select id from columns)",
        "columns is a view",
    ),
    "a setting of NULL": ([], "delete from people where name = null", "compares with NULL"),
    "a setting of arrays": ([], "delete from people where '{a,NuLL}' = array[name]", "an array with a NULL"),
    "a setting of arrays, by columns": (
        [],
        "delete from people where ('{nu' || 'll}')::text[] = array[name]",
        "it casts text to an array",
    ),
    "a setting of floating numbers": (
        ["create table floats (f float8)"],
        "delete from floats where f::text = '0.1'",
        "it converts floating-point numbers",
    ),
    "a setting of floating numbers, by functions": (
        [],
        "delete from people where sqrt(id) || '' = '1'",
        "it converts floating-point numbers",
    ),
    "a setting of bytes": (
        ["create table floats (f bytea)"],
        "delete from floats where concat(f) = '\\x00'",
        "",
    ),
    "a setting of moments": (
        [],
        "delete from people where made < '2020-01-01 00:00 IST'",
        "a time zone abbreviation",
    ),
    "a setting of a locale": ([], "delete from people where to_char(born, 'TMMonth') = 'May'", "it calls to_char()"),
    "a setting of text searches": ([], "delete from people where to_tsvector(name) is null", "it calls to_tsvector()"),
    "a setting of text searches, by an operator": ([], "delete from people where name @@ 'x'", "it searches text"),
    "money": (["create table paid (m money)"], "delete from paid where m = '1'", "a column has the type money"),
    "a name that the search_path finds": ([], "delete from people where id::oid = regclass('x')", "regclass()"),
    "a name that the search_path finds, in the place of a column": (
        [],
        "delete from people where (name).regtype is null",
        "it can create a value of the type regtype",
    ),
    "an array in the place of a column": (
        [],
        "delete from people where (name)._int4 is null",
        "it can create a value of the type _int4",
    ),
    "a name that the search_path finds, as a column": (
        ["create table classes (c regclass)"],
        "delete from classes where c = 'x'",
        "a column has the type regclass",
    ),
    "no such table": ([], "delete from nowhere", "there is no table nowhere"),
    "no such column": ([], "delete from people where nothing = 1", "a column that does not exist"),
    "a table of the server": (
        [],
        "delete from people where id in (select oid::int from pg_class)",
        "a system table",
    ),
    "a natural join": (
        [],
        "delete from people using moods natural join parts where moods.id = people.id",
        "NATURAL JOIN",
    ),
    "a sample": (
        [],
        "delete from people where id in (select id from moods tablesample system (1))",
        "RangeTableSample",
    ),
    "a cursor": ([], "delete from people where current of c", "at a cursor"),
    "XML": ([], "delete from people where xmlserialize(document '<a/>' as public.t) = ''", "XmlSerialize"),
    "invalid SQL": ([], "delete from people where", ""),
    "two ways to read": ([], "delete from people where name = '\\' or id > 0 --'", "standard_conforming_strings"),
}


@pytest.mark.parametrize("attack", ATTACKS)
async def test_attack_row_counting_runs_no_user_code(
    server: PostgresServer, dialer: Watched, direct: psycopg.Connection, attack: str
) -> None:
    made, text, reason = ATTACKS[attack]
    with contextlib.ExitStack() as stack:
        clean = "drop owned by app cascade; grant create, usage on schema public, hr to app;"
        stack.callback(direct.execute, (clean + "grant all on all tables in schema public, hr to app").encode())
        mighty = attack == "an operator class where none is named"
        if mighty:
            stack.callback(direct.execute, b"drop operator family public.spots using btree cascade; drop table spots")
        with psycopg.connect(server.dsn(DATABASE, user="postgres" if mighty else "app"), autocommit=True) as own:
            if "rule" in attack:
                own.execute(SPY.format("public.noted(a int)", "int", "volatile", 12, "a").encode())
            for statement in made:
                own.execute(statement.encode())
        started = len(server.log())
        # As the mightiest user there is, and as the one whose objects these are.
        for user in ("app",) if "policy" in attack or "row security" in attack else ("postgres", "app"):
            found = await count(server, dialer, text, user=user)
            if reason:
                assert [part.rows for part in found] == [None]
                assert reason in found[0].why_not
            else:
                assert not found or found[0].rows is None
        assert "SPIED" not in server.log()[started:]


async def test_spy_function_that_runs_is_logged(server: PostgresServer, direct: psycopg.Connection) -> None:
    """The attacks rely on this log line."""
    direct.execute(SPY.format("pg_temp.spy()", "int", "volatile", 0, "1").encode())
    direct.execute("select pg_temp.spy()")
    assert "SPIED 0" in server.log()


# What does not forbid to count, and must be known of what was counted.

NOTED = {
    "a trigger": (
        [
            "create table observed (id int)",
            SPY.format("public.observes()", "trigger", "volatile", 13, "null"),
            "create trigger watches before delete on observed for each row execute function public.observes()",
            "insert into observed values (1), (2)",
        ],
        "delete from observed",
        "the trigger watches of public.observed can change that",
    ),
    "rows that go with them": (
        [
            "create table orders (id int primary key, code int unique)",
            "create table items (o int references orders on delete cascade, c int references orders (code))",
            "insert into orders values (1, 1), (2, 2)",
        ],
        "delete from orders",
        "rows of public.items refer to these rows, and are changed or deleted with them",
    ),
    "policies that this user does not see": (
        [
            "create table guarded (id int)",
            SPY.format("public.guards(a int)", "bool", "stable", 14, "true"),
            "alter table guarded enable row level security",
            "create policy p on guarded using (public.guards(id))",
            "insert into guarded values (1), (2)",
        ],
        "delete from guarded",
        "row security of public.guarded can hide some of them if the session has another role",
    ),
}


@pytest.mark.parametrize("case", NOTED)
async def test_row_count_notes_what_can_change_it(
    server: PostgresServer, dialer: Watched, direct: psycopg.Connection, case: str
) -> None:
    made, text, note = NOTED[case]
    try:
        with psycopg.connect(server.dsn(DATABASE, user="app"), autocommit=True) as own:
            for statement in made:
                own.execute(statement.encode())
        started = len(server.log())
        (part,) = await count(server, dialer, text, user="app")
        assert (part.rows, part.notes) == (2, (note,))
        assert "SPIED" not in server.log()[started:]
        (part,) = await count(server, dialer, text.replace("delete from", "update") + " set id = id", user="app")
        assert bool(part.notes) is (case == "policies that this user does not see")
    finally:
        direct.execute(
            b"drop owned by app cascade; grant create, usage on schema public, hr to app;"
            b"grant all on all tables in schema public, hr to app"
        )


# A count hurts neither the target nor those who work on it.


async def test_row_counting_does_not_wait_for_a_locked_table(
    server: PostgresServer, dialer: Watched, direct: psycopg.Connection
) -> None:
    with direct.transaction(force_rollback=True):
        direct.execute("lock table moods in access exclusive mode")
        reason = await why_not(server, dialer, "delete from moods", user="postgres")
    assert reason == "another session has locked its table"
    (part,) = await count(server, dialer, "delete from moods")
    assert part.rows == 3


@pytest.mark.ci
async def test_row_counting_of_a_slow_statement_times_out(server: PostgresServer, dialer: Watched) -> None:
    text = "delete from people where (select count(*) from generate_series(1, 1000000000)) > id; delete from moods"
    first, second = await count(server, dialer, text, limits=CountLimits(statement=1, lock=5, whole=120, turn=120))
    assert first.why_not == "the query took too long"
    assert second.rows == 3


async def test_cancelled_row_counting_stops_on_the_target(
    server: PostgresServer, dialer: Watched, direct: psycopg.Connection
) -> None:
    text = "delete from people where (select count(*) from generate_series(1, 1000000000)) > id"
    patient = CountLimits(statement=3600, lock=5, whole=3600, turn=120)
    slow = asyncio.create_task(count(server, dialer, text, limits=patient))
    running = "select 1 from pg_stat_activity where query like '%generate_series%' and application_name like 'postern%'"
    await asyncio.to_thread(wait_until, lambda: direct.execute(running).fetchone())
    slow.cancel()
    await asyncio.wait([slow])
    async with asyncio.timeout(60):
        await dialer.cancelled.wait()
    await asyncio.to_thread(wait_until, lambda: direct.execute(running).fetchone() is None)


async def test_one_row_count_runs_at_a_time_and_waiting_ones_are_limited(
    server: PostgresServer, dialer: Watched, direct: psycopg.Connection
) -> None:
    limits = CountLimits(statement=60, lock=30, whole=120, turn=120, most_waiting=2)
    estimates = postgres_row_counts(dialer, limits)
    asked = [HeldStatement("delete from moods")]
    with direct.transaction(force_rollback=True):
        direct.execute("lock table moods in access exclusive mode")
        counts = []
        for _ in range(3):
            counts.append(asyncio.create_task(estimates.of(permit(server), START, asked)))
            await asyncio.to_thread(wait_until, lambda: dialer.dialled)
        await asyncio.to_thread(wait_until, lambda: estimates.waiting == 2)
        refused = await estimates.of(permit(server), START, asked)
        assert refused is not None
        assert refused.parts[0].why_not == "the gateway is busy with other counts"
        assert dialer.dialled == 1
    done = await asyncio.gather(*counts)
    assert [one.rows for one in done if one is not None] == [3, 3, 3]


@pytest.mark.parametrize("refusal", [Unavailable("the agent is away"), ConnectionError(), OSError("no"), ValueError()])
async def test_unavailable_target_is_the_reason_of_a_missing_count(
    server: PostgresServer, dialer: Watched, refusal: Exception
) -> None:
    dialer.refusal = refusal
    estimates = postgres_row_counts(dialer, LIMITS)
    found = await estimates.of(permit(server), START, [HeldStatement("delete from moods")])
    if isinstance(refusal, ValueError):
        assert found is None  # an error of ours; the log has it
    else:
        assert found is not None
        assert found.parts[0].why_not == "the target could not be queried"


async def test_rejected_login_is_the_reason_of_a_missing_count(server: PostgresServer, dialer: Watched) -> None:
    assert await why_not(server, dialer, "delete from moods", user="nobody") == "the target could not be queried"
