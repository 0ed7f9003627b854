"""Ways to the values of masked columns of SQL Server, through a gateway: none of them shows one, and the connection
stays usable. The lineage behind them has attacks of its own in tests/bypass/masking."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from typing import Any

import pytds
import pytest
from tests.support.gateway import Gateway
from tests.support.mssql_gateway import ask_mssql, connect_pytds, mssql_connection
from tests.support.mssql_server import SqlServer
from tests.support.protocols import mssql_test_messages as ms

from postern.agent import dialling
from postern.protocols.mssql.login.mssql_login import MssqlTargetLogin
from postern.protocols.mssql.login.mssql_login import connect as log_in
from postern.protocols.mssql.wire import mssql_packets as p
from postern.protocols.mssql.wire import mssql_requests as r
from postern.relay.relay_handshake import StreamHandshake

SALARY = 83412
SECRETS = ("zyxanna", str(SALARY), str(2 * SALARY), "zyx", "anna")
TABLES = [
    "create table staff (id int not null primary key, name nvarchar(40), salary int, twice as (salary * 2))",
    f"insert into staff (id, name, salary) values (1, N'Zyxanna', {SALARY}), (2, N'Bob', 5)",
    "create view v_staff as select id, upper(name) as who from staff",
    "create synonym s_staff for staff",
    "create synonym s3_staff for shop.dbo.staff",
    "create procedure p_staff as select name from staff",
    "create procedure p_out @o nvarchar(40) output as select @o = name from staff where id = 1",
    "create procedure p_return as begin declare @s int select @s = salary from staff where id = 1 return @s end",
    "create database other",
]
_FETCHED = (
    "declare @n nvarchar(40), @s int, @a int select @n = name, @s = salary, @a = ascii(name) from staff where id = 1"
)
_FAILS = "begin try select cast(name as int) from staff end try begin catch {} end catch"
ATTACKS = [
    "select id, name from staff",
    "select cast(name as sql_variant) as v from staff",
    "select cast(salary as sql_variant) as v from staff",
    "select name from staff for xml path",
    "select name from staff for json auto",
    "select cast(name as int) from staff",
    "select 1 + name from staff",
    "select convert(varbinary(40), name) from staff",
    "select string_agg(name, ',') from staff",
    "select max(name) as m, sum(salary) as s from staff",
    "select name collate Latin1_General_CI_AS from staff",
    "select substring(name, 1, 3) from staff",
    "select cast(salary as varchar(20)) from staff",
    "select name as id from staff union all select 'a'",
    "select (select top 1 name from staff)",
    "with c as (select name as n from staff) select n from c",
    "select * from (select name from staff) as x(y)",
    "declare @t table (n nvarchar(40)) insert into @t select name from staff select n from @t",
    "select name into #t from staff; select * from #t",
    "select * from #t",
    "create table #u (n nvarchar(40)); insert into #u select name from staff; select n from #u",
    "select twice from staff",
    "select * from staff",
    "select * from v_staff",
    "select name from s_staff",
    "select * from s3_staff",
    "select name from shop.dbo.staff",
    "select name from shop..staff",
    "use other; select name from shop.dbo.staff",
    "use shop; select name from staff",
    "update staff set name = name output inserted.name where id = 1",
    "exec('select name from staff')",
    "exec sp_executesql N'select name from staff'",
    "declare @x nvarchar(99) = 'select na' + 'me from staff' exec(@x)",
    "exec p_staff",
    "declare @o nvarchar(40) exec p_out @o output select @o",
    "declare @r int exec @r = p_return select @r",
    "insert into staff (id, name, salary) values (1, 'x', 1)",
    f"{_FETCHED} print @n",
    f"{_FETCHED} raiserror(@n, 16, 1)",
    f"{_FETCHED} raiserror('x %s', 10, 1, @n)",
    f"{_FETCHED} raiserror('****', 16, @a)",
    f"{_FETCHED} raiserror('****', 9, @a)",
    f"{_FETCHED}; throw 51000, @n, 1",
    f"{_FETCHED}; throw 51000, '****', @a",
    f"{_FETCHED} set @s = @s + 50000; throw @s, '****', 1",
    _FAILS.format("select error_message()"),
    _FAILS.format("print error_message()"),
    _FAILS.format("throw"),
    "declare @i int = 85 while @i < 95 begin if exists (select 1 from staff where ascii(name) > @i) print 'more' "
    "else print 'less' set @i = @i + 1 end",
]
CALLS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "output parameter": ("p_out", (pytds.output(param_type=str, value=""),)),
    "return value": ("p_return", ()),
    "prepared": ("sp_prepexec", (pytds.output(param_type=int), "", "select name from staff")),
    "executed": ("sp_executesql", ("select name from staff where id = @o", "@o int", 1)),
}
FIRST_LETTER = ord("Z")


@pytest.fixture(scope="module")
def staff(mssql: SqlServer) -> SqlServer:
    for text in TABLES:
        mssql.run(text)
    return mssql


@pytest.fixture(scope="module")
def client(gateway: Gateway, staff: SqlServer) -> Iterator[Any]:
    """A connection on which names and salaries are masked."""
    connection = mssql_connection(gateway, "mssql-staff", staff)
    columns = ("staff.name", "staff.salary")
    gateway.masking_rule({"name": "mssql staff", "columns": columns, "connection_ids": (str(connection.id),)})
    with connect_pytds(gateway, gateway.credential("mssql-staff")) as connected:
        yield connected


def shown(client: Any, statement: str) -> str:
    """Return everything that the client gets: descriptions, rows, messages and errors with all of their fields."""
    with client.cursor() as cursor:
        return _everything(cursor, lambda: cursor.execute(statement))


def _everything(cursor: Any, run: Any) -> str:
    parts: list[object] = []
    try:
        run()
        while True:
            if cursor.description:
                parts += [cursor.description, *map(tuple, cursor.fetchall())]
            if not cursor.nextset():
                break
        parts += [vars(error) for _, error in cursor.messages]
        parts += [cursor.get_proc_return_status(), cursor.get_proc_outputs()]
    except pytds.Error as error:
        parts.append(vars(error))
    return str(parts).lower()


def leaked(text: str) -> list[str]:
    return [secret for secret in SECRETS if secret in text]


@pytest.mark.parametrize("attack", range(len(ATTACKS)))
def test_masked_value_is_not_shown(client: Any, attack: int) -> None:
    text = shown(client, ATTACKS[attack])
    assert not leaked(text), text
    assert f"'state': {FIRST_LETTER}" not in text
    assert "'more'" not in text
    assert ask_mssql(client, "select 1") == [(1,)]


@pytest.mark.parametrize("call", CALLS)
def test_masked_value_is_not_returned_by_a_call(client: Any, call: str) -> None:
    name, parameters = CALLS[call]
    with client.cursor() as cursor:
        text = _everything(cursor, lambda: cursor.callproc(name, parameters))
    assert not leaked(text), text
    assert ask_mssql(client, "select 1") == [(1,)]


async def _talk(port: int, login: MssqlTargetLogin, *requests: bytes) -> list[bytes]:
    """The payloads of the answers to these requests."""
    context = dialling.tls_context("require", "", newest=ssl.TLSVersion.TLSv1_2)
    stream = StreamHandshake(context, server_name="localhost")
    await asyncio.get_running_loop().create_connection(lambda: stream, "127.0.0.1", port)
    await log_in(stream, login)
    answers: list[bytes] = []
    for request in requests:
        stream.write(request)
        answers.append(b"")
        is_last = False
        while not is_last:
            head = await stream.read(p.HEAD)
            answers[-1] += await stream.read(int(p.packet_size(head, 0)) - p.HEAD)
            is_last = bool(head[1] & p.EOM)
    stream.close()
    return answers


_OPEN = ms.rpc(
    ms.call(
        r.CURSOR_OPEN,
        ms.integer(None, status=1),
        ms.nvarchar("select id, name from staff"),
        ms.integer(8, status=1),
        ms.integer(1, status=1),
        ms.integer(0, status=1),
    )
)
_FETCH = ms.rpc(ms.call(r.CURSOR_FETCH, ms.integer(180_150_003), ms.integer(2), ms.integer(0), ms.integer(9)))


async def test_rows_of_a_server_cursor_are_masked(gateway: Gateway, client: Any) -> None:
    issued = await asyncio.to_thread(gateway.credential, "mssql-staff")
    login = MssqlTargetLogin(issued.credential.username, issued.password, sslmode="require")
    opened, fetched = await _talk(gateway.settings.mssql_port, login, _OPEN, _FETCH)
    assert "ROWSTAT".encode("utf-16-le") in opened
    assert "****".encode("utf-16-le") in fetched
    assert "Zyxanna".encode("utf-16-le") not in opened + fetched


def test_attacks_show_the_values_without_a_gateway(staff: SqlServer) -> None:
    """Else they would prove nothing: at least one of the values, or an error of the server that quotes one."""
    with pytds.connect(
        dsn="localhost", port=staff.port, user="plain", password="secret-4711", database="shop", autocommit=True
    ) as direct:
        silent = [text for text in ATTACKS if not leaked(shown(direct, text))]
    states = [text for text in silent if "'****'" not in text and "'more'" not in text]
    assert states == ["insert into staff (id, name, salary) values (1, 'x', 1)"]


def test_login_into_another_database_is_recorded_and_judged_as_a_use(gateway: Gateway, staff: SqlServer) -> None:
    connection = mssql_connection(gateway, "mssql-no-other", staff)
    gateway.guardrail("mssql-no-other", connection, deny=r"USE \[other\]")
    issued = gateway.credential("mssql-no-other")
    with connect_pytds(gateway, issued, database="other") as refused:
        for _ in range(2):
            with pytest.raises(pytds.Error, match="mssql-no-other"):
                ask_mssql(refused, "select 1")
    session = gateway.newest_finished("mssql-no-other")
    assert gateway.operations(session.id) == ["USE [other]", "select 1", "select 1"]
    with connect_pytds(gateway, issued) as client:
        assert ask_mssql(client, "select 1") == [(1,)]
    assert gateway.operations(gateway.newest_finished("mssql-no-other").id) == ["select 1"]
