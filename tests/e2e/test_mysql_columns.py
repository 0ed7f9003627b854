"""Columns that a rule names stay masked however a MySQL client asks for them, through the gateway to a MariaDB."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mysql.connector
import pymysql
import pytest
from tests.e2e.test_mysql import program
from tests.support.gateway import Gateway
from tests.support.mariadb import MariaDbServer
from tests.support.mysql_gateway import DATABASE, ask, connect, login, mysql_connection, run

from postern.domain.masking import Strictness
from postern.services.credentials import Issued
from postern.services.masking_rules import MaskingRuleFields

SECRET = "Lovelace"


@pytest.fixture(scope="module")
def marked(gateway: Gateway, maria: MariaDbServer, shop: Issued) -> Issued:
    run(maria, f"create or replace table {DATABASE}.heirs (id int primary key, surname varchar(50), note varchar(50))")
    run(maria, f"insert into {DATABASE}.heirs values (1, '{SECRET}', 'a note')")
    run(maria, f"create or replace view {DATABASE}.v_heirs as select concat(surname, '!') as who from {DATABASE}.heirs")
    fills = f"set @x = (select surname from {DATABASE}.heirs)"
    run(maria, f"create or replace procedure {DATABASE}.heirs_fill() {fills}")
    connection = mysql_connection(gateway, "my-marked", maria)
    gateway.masking_rule(
        MaskingRuleFields(
            "my-columns",
            columns=(f"{DATABASE}.heirs.surname",),
            strictness=Strictness.STRICT,
            connection_ids=(str(connection.id),),
        )
    )
    return gateway.credential("my-marked")


@pytest.fixture
def client(gateway: Gateway, marked: Issued) -> Iterator[Any]:
    connected = connect(gateway, marked)
    yield connected
    connected.close()


@pytest.mark.parametrize(
    "statements",
    [
        ("select surname from heirs",),
        ("select SURNAME as note from heirs",),
        ("select * from heirs",),
        ("select * from v_heirs",),
        ("select x from (select concat('a', surname) as x from heirs) t",),
        ("select note from (select surname as note from heirs) t union select 'x'",),
        ("select group_concat(surname) from heirs",),
        ("set @x = (select surname from heirs)", "select @x"),
        ("set @q = 'select surname from heirs'", "prepare p from @q", "execute p"),
        ("handler heirs open", "handler heirs read first"),
        ("use information_schema", f"select surname from {DATABASE}.heirs"),
        ("select 1; select surname from heirs",),
    ],
)
def test_what_is_named_is_masked(client: Any, statements: tuple[str, ...]) -> None:
    for statement in statements[:-1]:
        ask(client, statement)
    with client.cursor() as cursor:
        cursor.execute(statements[-1])
        answers = [cursor.fetchall()]
        while cursor.nextset():
            answers.append(cursor.fetchall())
    assert SECRET not in str(answers)
    assert "love" not in str(answers).lower()
    assert any(answers)


@pytest.mark.parametrize(
    "statements",
    [
        ("create temporary table mine as select surname as n from heirs", "select n from mine"),
        ("select cast(surname as signed) from heirs", "show warnings"),
        ("explain format=json select * from heirs where surname > 'a'",),
        ("select * from heirs procedure analyse()",),
        ("call heirs_fill()", "select @x"),
    ],
)
def test_what_cannot_be_known_is_refused(client: Any, statements: tuple[str, ...]) -> None:
    for statement in statements[:-1]:
        ask(client, statement)
    with pytest.raises(pymysql.err.MySQLError, match="masking rule 'my-columns'") as caught:
        ask(client, statements[-1])
    assert SECRET not in str(caught.value)
    assert ask(client, "select note from heirs") == [("a note",)]


@pytest.mark.parametrize(
    "statement",
    [
        "signal sqlstate '45000' set message_text = @m",
        "signal sqlstate '45000' set message_text = @m, mysql_errno = 1064",
        "execute immediate concat('select ', @m, '()')",  # FUNCTION … does not exist
    ],
)
def test_attack_an_error_in_words_of_ones_own(client: Any, statement: str) -> None:
    ask(client, "set @m = (select surname from heirs)")
    with pytest.raises(pymysql.err.MySQLError) as caught:
        ask(client, statement)
    assert SECRET.lower() not in str(caught.value).lower()


def test_what_is_not_named_is_shown(client: Any) -> None:
    assert ask(client, "select id, note, count(*) from heirs") == [(1, "a note", 1)]
    assert ask(client, "select note from heirs where surname like 'Love%'") == [("a note",)]
    assert ask(client, "show tables")


def test_rows_in_the_binary_protocol(gateway: Gateway, marked: Issued) -> None:
    own = {"use_pure": True, "autocommit": True, "collation": "utf8mb4_general_ci"}
    with (
        mysql.connector.connect(**login(gateway, marked, **own)) as connection,
        connection.cursor(prepared=True) as cursor,
    ):
        cursor.execute("select id, surname, note from heirs where id = ?", (1,))
        [row] = cursor.fetchall()
    assert SECRET not in str(row)
    assert [str(cell) for cell in row][::2] == ["1", "a note"]


def test_a_dump_of_all_of_it(gateway: Gateway, marked: Issued) -> None:
    dumped = program(gateway, marked, "--skip-lock-tables", DATABASE, "heirs", name="mysqldump")
    assert dumped.returncode == 0, dumped.stderr
    assert SECRET not in dumped.stdout
    assert "a note" in dumped.stdout
