"""Tasks with drivers of Python: `python mssql_tasks.py DRIVER HOST PORT USER PASSWORD DATABASE ENCRYPTION AUTHORITY`.

Each prints `task: answer`. DRIVER is pymssql (FreeTDS), pytds, or odbc (Microsoft's driver in mssql-python).
"""

from __future__ import annotations

import datetime
import decimal
import io
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

DRIVER, HOST, PORT, USER, PASSWORD, DATABASE, ENCRYPTION, AUTHORITY = sys.argv[1:]
MARK = {"pymssql": "%s", "pytds": "%s", "odbc": "?"}[DRIVER]
TYPES = """
select cast(7 as tinyint), cast(-300 as smallint), 100000, cast(9000000000 as bigint), cast(1 as bit),
 cast(0.5 as float),
 cast('12.50' as decimal(10,2)), cast('3.25' as money), cast('grün' as varchar(10)), N'żółw',
 cast('ab' as char(4)),
 cast(0x0102 as varbinary(8)), cast('2024-02-29' as date), cast('2024-02-29 13:14:15.123' as datetime),
 cast('2024-02-29 13:14:15.1234567' as datetime2), cast('13:14:15' as time(0)),
 cast('6F9619FF-8B86-D011-B42D-00C04FC964FF' as uniqueidentifier), cast(N'<a>ü</a>' as xml), null
"""


def connect(autocommit: bool = True) -> Any:
    if DRIVER == "pymssql":
        import pymssql

        return pymssql.connect(
            server=HOST, port=PORT, user=USER, password=PASSWORD, database=DATABASE, autocommit=autocommit
        )
    if DRIVER == "pytds":
        import pytds

        tls: dict[str, Any] = {} if ENCRYPTION == "no" else {"cafile": AUTHORITY, "validate_host": False}
        if ENCRYPTION == "login":
            tls["enc_login_only"] = True
        return pytds.connect(
            dsn=HOST, port=int(PORT), user=USER, password=PASSWORD, database=DATABASE, autocommit=autocommit, **tls
        )
    import mssql_python

    wanted = {"yes": "yes;TrustServerCertificate=yes", "login": "no", "strict": f"strict;ServerCertificate={AUTHORITY}"}
    text = f"Server={HOST},{PORT};Database={DATABASE};UID={USER};PWD={{{PASSWORD}}};Encrypt={wanted[ENCRYPTION]}"
    return mssql_python.connect(text, autocommit=autocommit)


@contextmanager
def cursor(autocommit: bool = True) -> Iterator[Any]:
    connection = connect(autocommit)
    try:
        yield connection.cursor()
    finally:
        connection.close()


def rows(used: Any, text: str, *values: Any) -> list[Any]:
    used.execute(text, tuple(values)) if values else used.execute(text)
    return [tuple(row) for row in used.fetchall()]


def shown(value: Any) -> str:
    if isinstance(value, decimal.Decimal):
        return format(value.normalize(), "f")
    if isinstance(value, bytes | bytearray):
        return value.hex()
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ", "microseconds")
    return str(value).upper() if isinstance(value, uuid.UUID) else str(value)


def number_of(error: Exception) -> str:
    found = getattr(error, "number", None) or (error.args[0] if error.args and isinstance(error.args[0], int) else None)
    if found is not None:
        return str(found)
    text = str(error)
    known = {"Divide by zero": 8134, "duplicate key": 2627, "converting": 245, "truncated": 2628}
    return str(next((number for words, number in known.items() if words in text), text))


def fails(used: Any, text: str) -> str:
    try:
        rows(used, text)
    except Exception as error:
        return number_of(error)
    return "no error"


def types() -> str:
    with cursor() as used:
        return " ".join(shown(value) for value in rows(used, TYPES)[0])


def parameters() -> str:
    with cursor() as used:
        text = f"select {MARK}, {MARK}, {MARK}, {MARK}"
        return " ".join(shown(value) for value in rows(used, text, 5, "grün", decimal.Decimal("1.5"), None)[0])


def repeated() -> str:
    with cursor() as used:
        return " ".join(str(rows(used, f"select {MARK} * 2", number)[0][0]) for number in range(4))


def results() -> str:
    with cursor() as used:
        used.execute("select 1; select 2 union all select 3")
        found = [len(used.fetchall())]
        while used.nextset():
            found.append(len(used.fetchall()))
        return " ".join(map(str, found))


def many_rows() -> str:
    with cursor() as used:
        used.execute(
            "with n as (select 1 as i union all select i + 1 from n where i < 5000) "
            "select i from n option (maxrecursion 0)"
        )
        return str(sum(row[0] for row in used.fetchall()))


def large_value() -> str:
    with cursor() as used:
        text = "ü" * 100_000
        return str(rows(used, f"select {MARK}", text)[0][0] == text)


def changes() -> str:
    with cursor() as used:
        used.execute("create table #changes (id int identity(1,1) primary key, name nvarchar(10))")
        counts = []
        for text in (
            "insert into #changes (name) values ('a'), ('b'), ('c')",
            "update #changes set name = 'x' where id > 1",
        ):
            used.execute(text)
            counts.append(used.rowcount)
        used.execute("delete from #changes")
        return " ".join(map(str, [*counts, used.rowcount]))


def errors() -> str:
    with cursor() as used:
        used.execute("create table #errors (id int primary key, name nvarchar(3)); insert into #errors values (1, 'a')")
        texts = ("select 1/0", "select cast('abc' as int)", "insert into #errors values (1, 'b')")
        return " ".join(fails(used, text) for text in (*texts, "insert into #errors values (2, 'abcd')"))


def transactions() -> str:
    with cursor() as used:
        used.execute(f"if object_id('tx_{DRIVER}') is not null drop table tx_{DRIVER}")
        used.execute(f"create table tx_{DRIVER} (id int)")
    connection = connect(autocommit=False)
    used = connection.cursor()
    counts = []
    for end in (connection.rollback, connection.commit):
        used.execute(f"insert into tx_{DRIVER} values (1)")
        end()
        counts.append(rows(used, f"select count(*) from tx_{DRIVER}")[0][0])
        connection.commit()
    connection.close()
    return " ".join(map(str, counts))


def procedure() -> str:
    with cursor() as used:
        used.execute(f"create or alter procedure twice_{DRIVER} @a int, @b int output as begin set @b = @a * 2 end")
        if DRIVER == "odbc":
            text = f"declare @b int; exec twice_{DRIVER} ?, @b output; select @b"
            return str(rows(used, text, 21)[0][0])
        if DRIVER == "pymssql":
            import pymssql

            return str(used.callproc(f"twice_{DRIVER}", (21, pymssql.output(int)))[1])
        import pytds

        return str(used.callproc(f"twice_{DRIVER}", (21, pytds.output(param_type="int")))[1])


def batch() -> str:
    with cursor() as used:
        used.execute("create table #batch (id int, name nvarchar(20))")
        used.executemany(
            f"insert into #batch values ({MARK}, {MARK})", [(number, f"n{number}") for number in range(50)]
        )
        return str(rows(used, "select sum(id) from #batch")[0][0])


def bulk() -> str:
    connection = connect()
    used = connection.cursor()
    table = f"bulk_{DRIVER}"
    used.execute(f"if object_id('{table}') is not null drop table {table}")
    used.execute(f"create table {table} (id int, name nvarchar(20))")
    if DRIVER == "pymssql":
        connection.bulk_copy(table, [(number, f"n{number}") for number in range(1000)])
    elif DRIVER == "odbc":
        used.bulkcopy(table, [(number, f"n{number}") for number in range(1000)])
    else:
        lines = "".join(f"{number}\tn{number}\n" for number in range(1000))
        used.copy_to(io.StringIO(lines), table, columns=["id", "name"])
    total = rows(used, f"select sum(id) from {table}")[0][0]
    connection.close()
    return str(total)


TASKS: dict[str, Callable[[], str]] = {
    "types": types,
    "parameters": parameters,
    "repeated": repeated,
    "results": results,
    "many rows": many_rows,
    "large value": large_value,
    "changes": changes,
    "errors": errors,
    "transactions": transactions,
    "procedure": procedure,
    "batch": batch,
    "bulk": bulk,
}

if __name__ == "__main__":
    for name, task in TASKS.items():
        print(f"{name}: {task()}", flush=True)
