"""Oracle's SQL as the server for tests runs it over SQLite."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from tests.support.oracledb import type_codings as types
from tests.support.oracledb.database import Database, DatabaseSession
from tests.support.oracledb.plsql_blocks import BlockRunner, split_statements
from tests.support.oracledb.sql_translation import SqlError, number_binds
from tests.support.oracledb.type_codings import NUMBER_TYPE, Scalar, text_type

NOW = datetime.datetime(2024, 5, 6, 7, 8, 9, 250_000, datetime.UTC)
TABLE = """
create table staff (id number(10) primary key, name varchar2(20) not null, boss number references staff(id),
  pay number(12,2) check (pay > 0), born date, note clob)
"""


@pytest.fixture
def session(tmp_path: Path) -> Iterator[DatabaseSession]:
    session = DatabaseSession(Database(tmp_path, lambda: NOW), "POSTERN")
    run(session, TABLE)
    for row in ((1, "Ann", None, Decimal("10.5")), (2, "Bob", 1, 20), (3, "Cid", 1, None)):
        run(session, "insert into staff (id, name, boss, pay) values (:1, :2, :3, :4)", *row)
    yield session
    session.close()


def run(session: DatabaseSession, sql: str, *values: Scalar) -> list[tuple[Scalar, ...]]:
    return session.run(session.prepare(sql), values).rows


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("select 1 from dual", [(1,)]),
        ("select dummy from sys.dual", [("X",)]),
        ("select id from staff where rownum <= 2", [(1,), (2,)]),
        ("select id from staff where rownum < 2 and boss is not null", [(2,)]),
        ("select rownum, name from staff where id > 1", [(1, "Bob"), (2, "Cid")]),
        ("select name from (select * from staff order by id desc) where rownum = 1", [("Cid",)]),
        ("select nvl(boss, 0) from staff where id = 1", [(0,)]),
        ("select decode(id, 1, 'one', 'other') from staff where id < 3", [("one",), ("other",)]),
        ("select name || '-' || boss from staff order by id", [("Ann-",), ("Bob-1",), ("Cid-1",)]),
        ("select '' from dual", [(None,)]),
        ("select pay from staff order by pay", [(Decimal("10.5"),), (20,), (None,)]),
        ("select sysdate from dual", [(datetime.datetime.fromisoformat("2024-05-06 07:08:09"),)]),
        ("select to_char(sysdate, 'YYYY-MM-DD') from dual", [("2024-05-06",)]),
        ("select to_date('06.05.2024', 'DD.MM.YYYY') from dual", [(datetime.datetime.fromisoformat("2024-05-06"),)]),
        ("select user from dual", [("POSTERN",)]),
        ("select count(*), max(id) from staff", [(3, 3)]),
        ("select b.name from staff a join staff b on b.boss = a.id order by b.id", [("Bob",), ("Cid",)]),
        ("with bosses as (select distinct boss from staff) select count(boss) from bosses", [(1,)]),
        ("select id from staff order by id offset 1 rows fetch next 1 rows only", [(2,)]),
        ("select column_name from user_tab_columns where data_type = 'CLOB'", [("NOTE",)]),
    ],
)
def test_query_has_the_rows_of_oracle(session: DatabaseSession, sql: str, rows: list[tuple[Scalar, ...]]) -> None:
    assert run(session, sql) == rows


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("select * from missing", 942),
        ("select missing from staff", 904),
        ("selec", 900),
        ("insert into staff (id, name) values (1, 'x')", 1),
        ("insert into staff (id) values (9)", 1400),
        ("update staff set name = null", 1407),
        ("insert into staff (id, name, pay) values (9, 'x', -1)", 2290),
        ("insert into staff (id, name, boss) values (9, 'x', 99)", 2291),
        ("create table staff (id number)", 955),
        ("create table other (id nothing)", 902),
        ("select missing.nextval from dual", 2289),
        ("select to_number('x') from dual", 1722),
    ],
)
def test_error_has_the_number_of_oracle(session: DatabaseSession, sql: str, code: int) -> None:
    with pytest.raises(SqlError) as raised:
        run(session, sql)
    assert raised.value.code == code


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("select * from staff", [types.NUMBER, types.VARCHAR2, types.NUMBER, types.NUMBER, types.DATE, types.CLOB]),
        ("select max(born), count(*), pay * 2 from staff", [types.DATE, types.NUMBER, types.NUMBER]),
        ("select s.note, s.born from (select note, born from staff where id = 0) s", [types.CLOB, types.DATE]),
        (
            "select systimestamp, sysdate, 'x', null from dual",
            [types.TIMESTAMP_TZ, types.DATE, types.VARCHAR2, types.VARCHAR2],
        ),
    ],
)
def test_columns_have_their_types_without_rows(session: DatabaseSession, sql: str, columns: list[int]) -> None:
    run(session, "delete from staff")
    assert [column.type.number for column in session.run(session.prepare(sql), ()).columns] == columns


def test_sequence_counts_and_ignores_rollbacks(session: DatabaseSession) -> None:
    run(session, "create sequence numbers start with 5 increment by 2")
    assert run(session, "select numbers.nextval from dual") == [(5,)]
    session.rollback()
    assert run(session, "select numbers.nextval, numbers.currval from dual") == [(7, 7)]


@pytest.mark.parametrize(
    ("sql", "once", "numbered", "names"),
    [
        ("select :a, :b, :a from t", False, "select :B1, :B2, :B3 from t", ["A", "B", "A"]),
        ("begin :a := :b; :a := 1; end;", True, "begin :B1 := :B2; :B1 := 1; end;", ["A", "B"]),
        ("select ':a', \":b\" -- :c\n, :d /* :e */", False, "select ':a', \":b\" -- :c\n, :B1 /* :e */", ["D"]),
        ("select 'it''s :a', :1", False, "select 'it''s :a', :B1", ["1"]),
    ],
)
def test_bind_variables_are_numbered(sql: str, once: bool, numbered: str, names: list[str]) -> None:
    assert number_binds(sql, once) == (numbered, names)


def test_block_runs_its_statements_in_order(session: DatabaseSession) -> None:
    blocks = BlockRunner(session, threading.Event())
    block = (
        "begin insert into staff (id, name) values (7, :B1); select count(*) into :B2 from staff; :B2 := :B2 * 10; end;"
    )
    assert blocks.run(block, ["Dot", None], [text_type(10), NUMBER_TYPE]) == {1: 40}


def test_sleep_ends_when_the_call_is_cancelled(session: DatabaseSession) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(SqlError, match="ORA-01013"):
        BlockRunner(session, stop).run("begin dbms_session.sleep(3600); end;", [], [])


def test_statements_are_split_outside_of_quotations() -> None:
    assert split_statements(" a('x;y'); b(1, (2)) ; -- c;\n d ") == ["a('x;y')", "b(1, (2))", "-- c;\n d"]
