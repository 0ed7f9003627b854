"""Does the tasks of test_oracle_direct.py by python-oracledb: HOST PORT SERVICE USER PASSWORD."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import oracledb

HOST, PORT, SERVICE, USER, PASSWORD = sys.argv[1:]


def connect(**changed: Any) -> oracledb.Connection:
    arguments = {"host": HOST, "port": int(PORT), "service_name": SERVICE, "user": USER, "password": PASSWORD}
    return oracledb.connect(**(arguments | changed))


def code(work: Callable[[], object]) -> int | str:
    try:
        work()
    except oracledb.Error as error:
        return error.args[0].code or error.args[0].full_code
    return "no error"


def shown(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ", "milliseconds")
    return value.hex() if isinstance(value, bytes) else str(value)


oracledb.defaults.fetch_decimals = True
connection = connect()
cursor = connection.cursor()
print("user", cursor.execute("select user from dual").fetchone()[0])
cursor.execute(
    "create table py_types (id number(10) primary key, amount number(12,2), name varchar2(40), born date,"
    " seen timestamp(6), token raw(16), ratio binary_double, title nvarchar2(40))"
)
cursor.setinputsizes(
    None, None, None, None, oracledb.DB_TYPE_TIMESTAMP, None, oracledb.DB_TYPE_BINARY_DOUBLE, oracledb.DB_TYPE_NVARCHAR
)
values = [
    (
        1,
        Decimal("1234567.25"),
        "Zoë",
        datetime.datetime.fromisoformat("1990-02-03 04:05:06"),
        datetime.datetime.fromisoformat("2024-01-02 03:04:05.678"),
        bytes.fromhex("00ff10"),
        1.5,
        "Ærø",
    ),
    (2, Decimal("-0.5"), None, None, None, None, None, None),
]
for row in values:
    cursor.execute("insert into py_types values (:1, :2, :3, :4, :5, :6, :7, :8)", row)
for number, row in enumerate(cursor.execute("select * from py_types order by id").fetchall()):
    print("nulls" if number else "types", *map(shown, row))

cursor.execute("create table py_lobs (id number, note clob, photo blob)")
note, photo = "éa" * 30_000, bytes(range(256)) * 300
clob, blob = connection.createlob(oracledb.DB_TYPE_CLOB), connection.createlob(oracledb.DB_TYPE_BLOB)
clob.write(note)
blob.write(photo)
cursor.execute("insert into py_lobs values (1, :1, :2)", [clob, blob])
cursor.execute("select note, photo from py_lobs")
read_note, read_photo = (lob.read() for lob in cursor.fetchone())
print("lobs", len(read_note), read_note == note, len(read_photo), read_photo == photo)

cursor.execute("create table py_rows (id number(10) primary key, name varchar2(20) not null)")
cursor.executemany("insert into py_rows values (:1, :2)", [(n, f"name {n // 7}") for n in range(1000)])
print("array", cursor.rowcount)
rows = cursor.execute("select id, name from py_rows order by id").fetchall()
print("rows", len(rows), sum(row[0] for row in rows), len({row[1] for row in rows}))
connection.commit()
cursor.execute("delete from py_rows where id >= :least", least=10)
deleted = cursor.rowcount
connection.rollback()
print("transaction", deleted, cursor.execute("select count(*) from py_rows").fetchone()[0])
print(
    "errors",
    code(lambda: cursor.execute("select * from missing")),
    code(lambda: cursor.execute("insert into py_rows values (1, 'twice')")),
    code(lambda: cursor.execute("insert into py_rows values (2000, null)")),
    code(lambda: cursor.execute("select missing from py_rows")),
)
answer = cursor.var(int)
cursor.execute("begin :answer := 6 * 7; end;", [answer])
print("block", answer.getvalue())
cursor.execute("create sequence py_sequence start with 100")
returned = cursor.var(int)
cursor.execute("insert into py_rows values (py_sequence.nextval + 5000, 'new') returning id into :id", [returned])
print("returning", returned.getvalue()[0])
print("sequence", cursor.execute("select max(id) from py_rows").fetchone()[0])
people = cursor.var(oracledb.DB_TYPE_CURSOR)
cursor.execute("begin open :people for select id, name from py_rows where id < 3 order by id; end;", [people])
print("cursor", *(f"{number}={name}" for number, name in people.getvalue()))
line, status = cursor.var(str), cursor.var(int)
cursor.execute("begin dbms_output.enable(null); end;")
cursor.execute("begin dbms_output.put_line('printed by ' || 'a block'); end;")
cursor.execute("begin dbms_output.get_line(:line, :status); end;", [line, status])
print("output", line.getvalue())
connection.call_timeout = 700
cancelled = code(lambda: cursor.execute("begin dbms_session.sleep(30); end;"))
connection.call_timeout = 0
print("cancelled", cancelled != "no error", cursor.execute("select 6 from dual").fetchone()[0])
connection.ping()
connection.close()
print("denied", code(lambda: connect(password="wrong")))
print("refused", code(lambda: connect(service_name="missing")) != "no error")
