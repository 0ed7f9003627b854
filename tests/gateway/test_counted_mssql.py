"""Row counts of the built-in agent on the SQL Server of tests: correct, without writes, and without user code."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping

import pytest
from tests.support.counted import LIMITS, Watched, mssql_permit
from tests.support.mssql_server import DATABASE, SqlServer, running_sqlserver
from tests.support.promises import wait_until
from tests.support.protocols import mssql_test_messages as ms

from postern.domain.rules.row_count import PartCount, RowCount
from postern.gateway.rules.row_count_estimates import CountLimits
from postern.gateway.rules.row_counts import HeldStatement
from postern.protocols.mssql.mssql_row_counts import mssql_row_counts
from postern.protocols.mssql.wire import mssql_packets as p
from postern.protocols.mssql.wire import mssql_requests as r
from postern.protocols.wire_base import TransactionState
from postern.relay.relay_target import Start

DEFINITIONS = [
    "create table people (id int primary key, name nvarchar(20), born date, mark int, note xml, twice as (mark * 2))",
    "insert into people (id, name, born, mark) values (1, N'p1', '2020-01-01', 1), (2, N'p2', '2020-01-02', 2),"
    " (3, N'p3', null, 3), (4, N'p4', '2020-03-01', null), (5, N'q5', null, 1)",
    "create table orders (person int, total decimal(10,2))",
    "insert into orders values (1, 1.5), (1, 3), (1, 7), (2, 1), (4, 9), (77, 5), (78, 500)",
    "create table hr.staff (id int, name nvarchar(20))",
    "insert into hr.staff values (1, N'x'), (2, N'y')",
    "create table several (id int)",
    "create table hr.several (id int)",
    "create synonym clients for dbo.people",
    "create view seen as select id from dbo.people",
    "create function own (@a int) returns int as begin return 1 end",
    "create table guarded (id int)",
    "create security policy own_rows add filter predicate dbo.own(id) on dbo.guarded",
    "create table observed (id int)",
    "create trigger watches on observed after delete, update as select 1",
    "create table replaced (id int)",
    "create trigger decides on replaced instead of delete as select 1",
    "create table parents (id int primary key, code int)",
    "create table children (id int, parent int references parents (id) on delete cascade)",
    "create table checked (a int check (dbo.own(a) = 1))",
    "create table plainly (a int check (a > 0))",
    "create external table far (a int) with (location = 'x')",
    "create table numbers (n int)",
    "insert into numbers values " + ", ".join([f"({number})" for number in range(900)]),
]


@pytest.fixture(scope="module")
def server() -> Iterator[SqlServer]:
    with running_sqlserver() as running:
        for batch in DEFINITIONS:
            running.run(batch)
        yield running
        assert running.errors == ""


@pytest.fixture
async def dialer() -> Watched:
    return Watched()


async def estimate(
    server: SqlServer,
    dialer: Watched,
    *asked: HeldStatement,
    standing: TransactionState | None = None,
    start: Start | None = None,
    limits: CountLimits = LIMITS,
) -> RowCount:
    found = await mssql_row_counts(dialer, limits).of(mssql_permit(server), start or Start(), asked, standing)
    assert found is not None
    return found


async def count(server: SqlServer, dialer: Watched, text: str, bound: bytes = b"") -> PartCount:
    (part,) = (await estimate(server, dialer, HeldStatement(text, bound=bound))).parts
    return part


JOINED = "from people p join orders o on o.person = p.id"
COUNTED: Mapping[str, int] = {
    "delete people": 5,
    "delete from dbo.people where id > 2 and name like N'p%'": 2,
    "delete from People where NAME = N'P1'": 1,
    "update people set mark = 9 where mark is null or mark between 2 and 3": 3,
    "update people set mark = 9 where born >= '2020-01-02' and len(name) = 2": 2,
    "update people set mark = 9 where coalesce(mark, 0) in (0, 1) and not name like 'q%'": 2,
    "delete from people where case mark when 1 then 1 else 0 end = 1": 2,
    "delete from people where id in (select person from orders where total > 2)": 2,
    "delete from people where exists (select * from orders o where o.person = people.id)": 3,
    "delete from people where mark > (select min(mark) from people)": 2,
    "with old as (select id from people where born is not null) delete from people where id in (select id from old)": 3,
    "delete top (2) from people": 2,
    "update top (99) people set mark = 1": 5,
    "delete from hr.staff": 2,
    "delete from plainly": 0,
    "set nocount on; delete from people where id = 1": 1,
    # With a FROM, each row of the target counts once
    f"update people set mark = 1 {JOINED}": 3,
    f"update p set mark = 1 {JOINED} where o.total > 2": 2,
    f"delete p {JOINED} and o.total > 2 where p.id = 1": 1,
    "delete p from people p left join orders o on o.person = p.id where o.person is null": 2,
    "delete p from orders o left join people p on o.person = p.id": 3,
    "delete p from orders o left join people p on o.person = p.id where p.id is null": 0,
    "delete p from people p, orders o where o.total > p.id": 5,
    "delete p from people p join people q on q.mark = p.mark and q.id <> p.id": 2,
    # A MERGE counts what each of its actions takes
    "merge people p using orders o on p.id = o.person and o.total > 8 when matched then delete;": 1,
    "merge people p using orders o on p.id = o.person when not matched then insert (id) values (o.person);": 2,
    "merge people p using (select distinct person from orders) o on p.id = o.person when matched and p.id > 1 then"
    " delete when not matched then insert (id) values (o.person) when not matched by source and p.mark = 3 then"
    " update set mark = 0;": 5,
}


@pytest.mark.parametrize("text", COUNTED)
async def test_estimated_row_count_is_correct(server: SqlServer, dialer: Watched, text: str) -> None:
    part = await count(server, dialer, text)
    assert (part.why_not, part.rows, part.more) == ("", COUNTED[text], False)


_OTHERS = ("delete people", "delete p ", "merge", "with")
RUN = [text for text in COUNTED if " join " not in text and not text.startswith(_OTHERS)]


@pytest.mark.parametrize("text", RUN)
def test_server_changes_as_many_rows_as_were_counted(server: SqlServer, text: str) -> None:
    """The table above is right about those statements that the server of tests runs."""
    with server.connection() as connection, connection.cursor() as cursor:
        cursor.execute(f"begin transaction; {text}; select @@rowcount; rollback")
        rows = list(cursor.fetchall()) if cursor.description else []
        while not rows and cursor.nextset():
            rows = list(cursor.fetchall()) if cursor.description else []
    assert rows == [(COUNTED[text],)]


# Attacks: whoever is held makes the gateway run what they have prepared.

ATTACKS = {
    "a view": ("delete from seen", "seen is a view"),
    "a view in a condition": ("delete from people where id in (select id from seen)", "seen is a view"),
    "a synonym": ("delete from clients", "clients is a synonym"),
    "an external table": ("delete from far", "far is stored on another server"),
    "row-level security": ("delete from guarded", "row-level security"),
    "row-level security of another table": ("delete from people where id in (select id from guarded)", "security"),
    "a CHECK with a function": ("delete from checked", "a CHECK of checked calls a function"),
    "a computed column": ("delete from people where twice = 2", "its column twice is computed"),
    "a computed column by a star": (
        "delete from orders where person in (select d.id from (select * from people) d)",
        "its column note has the type xml",
    ),
    "a column of a large type": ("delete from people where note is null", "its column note has the type xml"),
    "a function": ("delete from people where dbo.own(id) = 1", "it calls dbo.own()"),
    "a table of several schemas": ("delete from several", "there are several tables several"),
    "no such table": ("delete from nothing", "there is no table nothing"),
    "a table of another schema": ("delete from staff", "there is no table staff"),
    "a system view": ("delete from people where id in (select object_id from sys.objects)", "there is no table"),
    "no such column": ("delete from people where people.nothing = 1", "a column that does not exist"),
    "a division by zero": ("delete from people where 1 / (id - 1) = 1", "(error 8134)"),
    "a variable": ("delete from people where id = @a", "@a, which is not a parameter"),
}


@pytest.mark.parametrize("attack", ATTACKS)
async def test_attack_row_counting_runs_no_user_code(server: SqlServer, dialer: Watched, attack: str) -> None:
    text, why = ATTACKS[attack]
    part = await count(server, dialer, text)
    assert part.rows is None
    assert why in part.why_not


async def test_attack_function_with_the_name_of_a_rowset_prevents_the_count(server: SqlServer, dialer: Watched) -> None:
    text = "delete from people where id in (select value from string_split('1,2', ',') s)"
    server.run("create function string_split (@a int) returns int as begin return 1 end")
    part = await count(server, dialer, text)
    assert part.why_not == "a user has created a function with the name of one of the server's"


NOTED = {
    "delete from observed": "the trigger watches of dbo.observed runs, and can change more rows",
    "update observed set id = 1": "the trigger watches of dbo.observed runs, and can change more rows",
    "delete from replaced": "the trigger decides runs in its place, and decides what is changed",
    "update replaced set id = 1": "",
    "delete from parents": "rows of children refer to these rows, and are changed or deleted with them",
    "update parents set code = 1": "",
    "update parents set id = 1": "",  # without ON UPDATE, the statement fails
}


@pytest.mark.parametrize("text", NOTED)
async def test_what_can_change_the_count_is_noted(server: SqlServer, dialer: Watched, text: str) -> None:
    part = await count(server, dialer, text)
    assert (part.rows, part.notes) == (0, (NOTED[text],) if NOTED[text] else ())


def bound(declaration: str, *values: bytes) -> bytes:
    payload = ms.rpc(ms.call(r.EXECUTE_SQL, *values))[p.HEAD :]
    (call,) = r.read_calls(payload, r.after_headers(payload, True), True)
    return r.encode_bound(payload, declaration, call.parameters)


async def test_bind_values_of_the_request_are_those_of_the_count(server: SqlServer, dialer: Watched) -> None:
    text = "delete from people where id > @low and name like @like"
    values = bound("@like nvarchar(20), @low int", ms.nvarchar("p%"), ms.integer(1))
    assert (await count(server, dialer, text, values)).rows == 3
    assert (await count(server, dialer, text, bound("@like nvarchar(20), @low int", ms.nvarchar("p%")))).rows is None


# The session


async def test_count_has_the_login_and_the_options_of_the_session(server: SqlServer, dialer: Watched) -> None:
    options = {"flags": "e0030000", "language": "", "host": "ann's desk", "application": "shop", "version": "1"}
    before = len(server.log)
    found = await estimate(
        server,
        dialer,
        HeldStatement("delete from people"),
        start=Start("master", options),
        standing=TransactionState(reported={"database": DATABASE}, texts=("set dateformat dmy set ansi_nulls off",)),
    )
    assert found.rows == 5
    (start,) = dialer.starts
    assert start.database == DATABASE
    assert start.parameters["application"] == "postern row count"
    assert {name: start.parameters[name] for name in ("flags", "language", "host")} == {
        "flags": "e0030000",
        "language": "",
        "host": "postern",
    }
    said = server.log[before:]
    assert said.index("SET DATEFORMAT DMY; SET ANSI_NULLS OFF; SET NOCOUNT ON") < said.index("COUNT_BIG")


UNCLEAR = {
    "its options are unknown": (TransactionState(texts=None), "cannot be repeated"),
    "its options are unclear": (TransactionState(texts=("set noexec on",)), "cannot be repeated"),
    "it changes few rows only": (TransactionState(texts=("set rowcount 3",)), "SET ROWCOUNT limits"),
    "it may have another user": (TransactionState(reported={"switched": "yes"}), "switched to another user"),
    "it waits for a response": (TransactionState(unsettled=True), "are still running"),
}


@pytest.mark.parametrize("case", UNCLEAR)
async def test_attack_session_with_another_meaning_is_not_counted(
    server: SqlServer, dialer: Watched, case: str
) -> None:
    standing, why = UNCLEAR[case]
    found = await estimate(server, dialer, HeldStatement("delete from people"), standing=standing)
    assert why in found.parts[0].why_not


async def test_open_transaction_is_noted_and_not_waited_for(server: SqlServer, dialer: Watched) -> None:
    with server.connection() as connection, connection.cursor() as cursor:
        cursor.execute("begin transaction; delete from orders where person = 1")
        found = await estimate(
            server, dialer, HeldStatement("delete from orders"), standing=TransactionState(in_transaction=True)
        )
        cursor.execute("rollback")
    assert found.rows == 7
    assert "uncommitted changes of its session are not counted" in found.notes[0]


async def test_request_with_several_statements_has_several_counts(server: SqlServer, dialer: Watched) -> None:
    first = HeldStatement("delete from orders where person = 1; insert into orders values (1, 1)")
    found = await estimate(server, dialer, first, HeldStatement("delete people"))
    assert [part.said for part in found.parts] == ["DELETE dbo.orders: 3 rows", "DELETE dbo.people: 5 rows"]
    assert dialer.dialled == 1
    after = await estimate(server, dialer, HeldStatement("exec p"), HeldStatement("delete people"))
    assert after.parts[0].why_not == "earlier statements can change its meaning"


# A count hurts neither the target nor those who work on it.

SLOW = "delete from orders where person > (select count(*) from numbers a, numbers b, numbers c, numbers d)"


async def test_row_counting_changes_nothing(server: SqlServer, dialer: Watched) -> None:
    before, place = server.run("select count(*) from people"), len(server.log)
    await count(server, dialer, "delete from people")
    said = server.log[place:]
    assert "BEGIN TRANSACTION; SELECT COUNT_BIG(*)" in said
    assert "; ROLLBACK TRANSACTION" in said
    assert "delete" not in said.lower().replace("delete_referential_action", "")
    assert server.run("select count(*) from people") == before


@pytest.mark.ci
async def test_slow_row_count_is_stopped_and_the_next_one_counts(server: SqlServer, dialer: Watched) -> None:
    limits = CountLimits(statement=1, lock=1, whole=120, turn=120)
    place = len(server.log)
    found = await estimate(server, dialer, HeldStatement(SLOW + "; delete from people"), limits=limits)
    assert [part.said for part in found.parts] == [
        "DELETE orders: cannot be counted, because the query took too long",
        "DELETE dbo.people: 5 rows",
    ]
    assert "attention" in server.log[place:]


async def test_cancelled_row_count_is_stopped_on_the_target(server: SqlServer, dialer: Watched) -> None:
    place = len(server.log)
    slow = asyncio.create_task(
        estimate(server, dialer, HeldStatement(SLOW), limits=CountLimits(statement=3600, whole=3600, turn=120))
    )
    await asyncio.to_thread(wait_until, lambda: "COUNT_BIG" in server.log[place:])
    slow.cancel()
    await asyncio.wait([slow])
    assert slow.cancelled()
    await asyncio.to_thread(wait_until, lambda: "attention" in server.log[place:])


async def test_row_count_over_the_limit_is_reported_as_more_than_it(
    server: SqlServer, dialer: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("postern.protocols.mssql.dialect.tsql_count_plans", "postern.domain.rules.row_count"):
        monkeypatch.setattr(f"{module}.MOST_ROWS", 3)
    found = await estimate(server, dialer, HeldStatement("delete from people"))
    assert found.parts[0].said == "DELETE dbo.people: more than 3 rows"
    assert json.loads(json.dumps(found.as_json()))["more"] is True
