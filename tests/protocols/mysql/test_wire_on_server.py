"""Real clients and a real MariaDB server through a link, with and without interceptors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mysql.connector
import pymysql
import pytest
from pymysql.constants import CLIENT
from tests.support.links import Masks, ReadsAll, Words
from tests.support.mariadb import MariaDbServer
from tests.support.mysql import Relay, listening, running_mariadb

from postern.interception.events import Operation
from postern.interception.pipeline import Interceptor

pytestmark = pytest.mark.ci

EVERYTHING = """
create table everything (
  id int primary key auto_increment, tiny tinyint, small smallint unsigned, medium mediumint, big bigint unsigned,
  exact decimal(20,4), single float, twice double, day date, clock time(6), moment datetime(6), stamp timestamp null,
  born year, bits bit(10), word varchar(200), fixed char(5), bytes varbinary(20), note longtext, raw longblob,
  choice enum('a','b'), several set('x','y'), document json, place point
)
"""
VALUES = """
insert into everything values
 (1, -5, 65535, -70000, 18446744073709551615, 12345.6789, 1.5, 2.25, '2024-02-29', '-12:34:56.789000',
  '2024-02-29 01:02:03.000004', '2024-02-29 01:02:03', 2024, b'1010101010', 'größe', 'abc', x'00ff', 'note', x'010203',
  'b', 'x,y', '{"a": 1}', point(1,2)),
 (2, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
  null, null, null)
"""


@pytest.fixture(scope="module")
def mariadb() -> Iterator[MariaDbServer]:
    with running_mariadb("--max-allowed-packet=64M", "--local-infile=1", "--max-statement-time=50") as server:
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("create database shop")
            cursor.execute("use shop")
            cursor.execute(EVERYTHING)
            cursor.execute(VALUES)
            cursor.execute("create procedure both_of(in a int, out b int) begin select a; select a + 1; set b = 9; end")
        yield server


def connected(port: int, **options: Any) -> Any:
    return pymysql.connect(
        host="127.0.0.1", port=port, user="root", database="shop", charset="utf8mb4", autocommit=True,
        client_flag=CLIENT.MULTI_STATEMENTS, read_timeout=60, **options,
    )  # fmt: skip


def prepared(port: int) -> Any:
    return mysql.connector.connect(
        host="127.0.0.1", port=port, user="root", database="shop", use_pure=True, autocommit=True,
        ssl_disabled=True, charset="utf8mb4", collation="utf8mb4_general_ci",
    )  # fmt: skip


async def through(relay: Relay, work: Callable[[int], Any]) -> Any:
    async with listening(relay) as port:
        return await asyncio.to_thread(work, port)


def asked(*texts: str) -> Callable[[int], list[Any]]:
    def work(port: int) -> list[Any]:
        found: list[Any] = []
        connection = connected(port)
        try:
            for text in texts:
                with connection.cursor() as cursor:
                    try:
                        cursor.execute(text)
                        found.append(cursor.fetchall())
                        while cursor.nextset():
                            found.append(cursor.fetchall())
                    except pymysql.err.MySQLError as error:
                        found.append(error.args)
        finally:
            connection.close()
        return found

    return work


LOOKERS: dict[str, tuple[Interceptor, ...]] = {"no interceptor": (), "reading": (ReadsAll(),)}


@pytest.mark.parametrize("who", LOOKERS)
async def test_queries_through_a_link_have_the_answers_of_the_server(mariadb: MariaDbServer, who: str) -> None:
    texts = (
        "select * from everything order by id",
        "select 1; select 2; set @a = 1; select 3",
        "call both_of(1, @b)",
        "select @b",
        "select nothing from nowhere",
        "select repeat('x', 100000), 1",
        "",
        "select 1 from dual where 1 = 0",
    )
    relay = Relay(mariadb, LOOKERS[who])
    assert await through(relay, asked(*texts)) == asked(*texts)(mariadb.port)


def _prepared(port: int) -> list[Any]:
    found: list[Any] = []
    connection = prepared(port)
    names = "id, tiny, small, medium, big, exact, single, twice, day, clock, moment, stamp, word, note, raw, choice"
    try:
        cursor = connection.cursor(prepared=True)
        cursor.execute(f"select {names} from everything order by id")  # this driver cannot read a year or bits
        found.append(cursor.fetchall())
        for value in ("größe", "nothing", None):
            cursor.execute("select id, word from everything where word = %s", (value,))
            found.append(cursor.fetchall())
        cursor.execute("select %s, %s, %s, %s", (5, 2.5, "text", b"\0\xff"))
        found.append(cursor.fetchall())
        cursor.close()
        connection.cmd_reset_connection()
        cursor = connection.cursor(prepared=True)
        cursor.execute("select id from everything where id > %s", (0,))
        found.append(cursor.fetchall())
    finally:
        connection.close()
    return found


@pytest.mark.parametrize("who", LOOKERS)
async def test_prepared_statements_through_a_link_have_the_answers_of_the_server(
    mariadb: MariaDbServer, who: str
) -> None:
    relay = Relay(mariadb, LOOKERS[who])
    assert await through(relay, _prepared) == await asyncio.to_thread(_prepared, mariadb.port)
    values = [event.values for event in relay.events if isinstance(event, Operation)]
    assert ("größe".encode(),) in values


async def test_text_rows_and_binary_rows_of_a_server_are_masked(mariadb: MariaDbServer) -> None:
    relay = Relay(mariadb, (Masks(),))
    assert await through(relay, asked("select 'secret-1', 1, 'secret-22 and more'")) == [(("***", 1, "*** and more"),)]

    def work(port: int) -> Any:
        connection = prepared(port)
        try:
            cursor = connection.cursor(prepared=True)
            cursor.execute("select 'secret-1', %s, null, cast(4242424242424242 as signed)", (7,))
            return cursor.fetchall()
        finally:
            connection.close()

    assert await through(Relay(mariadb, (Masks(),)), work) == [("***", 7, None, 0)]


@pytest.mark.parametrize("who", LOOKERS)
async def test_packets_around_16_mib_pass_through_a_link_to_a_server(mariadb: MariaDbServer, who: str) -> None:
    def work(port: int) -> list[Any]:
        connection = connected(port, max_allowed_packet=1 << 26)
        try:
            with connection.cursor() as cursor:
                found: list[Any] = []
                for size in ((1 << 24) - 6, (1 << 24) - 5, (1 << 24) - 4, (1 << 24) + 5):
                    cursor.execute("select length(%s), repeat('y', %s), 'behind'", ("x" * size, size))
                    length, text, behind = cursor.fetchone()
                    found.append((length == size, text == "y" * size, behind))
                    cursor.execute("select 1")
                    found.append(cursor.fetchall())
                return found
        finally:
            connection.close()

    relay = Relay(mariadb, LOOKERS[who], {"max_message": 40 << 20})
    assert await through(relay, work) == [(True, True, "behind"), ((1,),)] * 4


async def test_statement_or_row_too_large_to_inspect_is_denied(mariadb: MariaDbServer) -> None:
    texts = ("select length('" + "x" * 200_000 + "')", "select 1", "select repeat('x', 200000)", "select 2")
    found = await through(Relay(mariadb, (ReadsAll(),), {"max_message": 100_000}), asked(*texts))
    assert [one[0] for one in found] == [1153, (1,), 1153, (2,)]
    found = await through(Relay(mariadb, (), {"max_message": 100_000}), asked(*texts[1:]))
    assert found == [((1,),), (("x" * 200_000,),), ((2,),)]


async def test_connection_is_usable_after_a_denied_statement(mariadb: MariaDbServer) -> None:
    found = await through(Relay(mariadb, (Words(),)), asked("drop table everything", "select count(*) from everything"))
    assert found == [(1227, "the word drop is not allowed"), ((2,),)]


async def test_local_file_is_loaded_into_a_server_only_if_allowed(mariadb: MariaDbServer, tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("".join([f"{row},word {row}\n" for row in range(5000)]))
    load = f"load data local infile '{tmp_path}/data.csv' into table loaded fields terminated by ','"
    texts = ("create or replace table loaded (id int, word text)", load, "select count(*), max(word) from loaded")

    def work(port: int) -> list[Any]:
        found: list[Any] = []
        connection = connected(port, local_infile=True)
        try:
            for text in texts:
                with connection.cursor() as cursor:
                    try:
                        cursor.execute(text)
                        found.append(cursor.fetchall())
                    except pymysql.err.MySQLError as error:
                        found.append(error.args[0])
        finally:
            connection.close()
        return found

    assert await through(Relay(mariadb, (), {"local_files": True}), work) == [[], [], ((5000, "word 999"),)]
    assert await through(Relay(mariadb, (ReadsAll(),)), work) == [[], 3948, ((0, None),)]
