"""Columns that a rule names stay masked however a MySQL client queries them, through the gateway to a MariaDB."""

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

from postern.domain.identity.credential import Issued
from postern.domain.rules.masking import Strategy, Strictness, TypeGroup

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
        {
            "name": "my-columns",
            "columns": (f"{DATABASE}.heirs.surname",),
            "strictness": Strictness.STRICT,
            "connection_ids": (str(connection.id),),
        }
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
def test_named_column_is_masked_however_it_is_queried(client: Any, statements: tuple[str, ...]) -> None:
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
def test_statement_of_unknown_origin_is_denied(client: Any, statements: tuple[str, ...]) -> None:
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
        "prepare p from concat('select ''', @m)",  # a syntax error near the value
        "begin not atomic prepare p from concat('select ''', @m); end",
    ],
)
def test_attack_signal_with_a_chosen_text_shows_no_masked_value(client: Any, statement: str) -> None:
    ask(client, "set @m = (select surname from heirs)")
    with pytest.raises(pymysql.err.MySQLError) as caught:
        ask(client, statement)
    assert SECRET.lower() not in str(caught.value).lower()


def test_attack_column_description_reveals_no_length_of_a_masked_value(client: Any) -> None:
    ask(client, "set @m = (select surname from heirs), @n = (select length(surname) from heirs)")
    with client.cursor() as cursor:
        cursor.execute("select note, repeat('a', @n), -@n from heirs")
        assert cursor.fetchall() == (("a note", "****", "****"),)
        lengths = [column[3] for column in cursor.description]
        cursor.execute("execute immediate 'select ?, 1' using @m")
        assert cursor.fetchall() == (("****", 1),)
    assert lengths[1] == lengths[2]
    with pytest.raises(pymysql.err.MySQLError, match="masking rule 'my-columns'") as caught:
        ask(client, "execute immediate concat('select 1 as `', @m, '`')")
    assert SECRET.lower() not in str(caught.value).lower()


def test_attack_warning_count_reveals_no_masked_value(client: Any) -> None:
    with client.cursor() as cursor:
        cursor.execute("select cast(surname as signed), 1 / (length(surname) - length(surname)) from heirs")
        assert client._result.warning_count == 0
    for statement in ("select @@warning_count", "show count(*) warnings", "show warnings"):
        with pytest.raises(pymysql.err.MySQLError, match="masking rule 'my-columns'"):
            ask(client, statement)


def test_generated_insert_ids_are_reported_and_computed_ones_are_not(client: Any) -> None:
    ask(client, "create temporary table numbered (id int auto_increment primary key)")
    ask(client, "insert into numbered values (null), (null)")
    assert client.insert_id() == 1
    ask(client, "set @m = (select length(surname) from heirs)")
    ask(client, "update numbered set id = last_insert_id(@m + 100) where id = 1")
    assert client.insert_id() == 0


def test_columns_that_no_rule_names_are_shown(client: Any) -> None:
    assert ask(client, "select id, note, count(*) from heirs") == [(1, "a note", 1)]
    assert ask(client, "select note from heirs where surname like 'Love%'") == [("a note",)]
    assert ask(client, "show tables")


def test_named_column_is_masked_in_the_binary_protocol(gateway: Gateway, marked: Issued) -> None:
    own = {"use_pure": True, "autocommit": True, "collation": "utf8mb4_general_ci"}
    with (
        mysql.connector.connect(**login(gateway, marked, **own)) as connection,
        connection.cursor(prepared=True) as cursor,
    ):
        cursor.execute(
            "select id, repeat(surname, ?), round(1.25, (select length(surname) from heirs)) from heirs", (1,)
        )
        assert cursor.fetchall() == [(1, "****", "****")]
        cursor.execute("select id, surname, note from heirs where id = ?", (1,))
        [row] = cursor.fetchall()
    assert SECRET not in str(row)
    assert [str(cell) for cell in row][::2] == ["1", "a note"]


def test_named_column_is_masked_in_a_dump(gateway: Gateway, marked: Issued) -> None:
    dumped = program(gateway, marked, "--skip-lock-tables", DATABASE, "heirs", name="mysqldump")
    assert dumped.returncode == 0, dumped.stderr
    assert SECRET not in dumped.stdout
    assert "a note" in dumped.stdout


COMPUTED = [
    "upper(surname)",
    "length(surname)",
    "-9000000000000000000 + salary",
    "cast(-9000000000000000000 + salary as decimal(30))",
    "born + interval 300000 day",
    "cast('3000-01-01' as date) + interval salary day",
    "timestamp('3000-01-01') + interval salary second",
    "sec_to_time(salary)",
    "year(born)",
    "salary + 0e0",
    "nullif(salary % 2, 0)",
    "if(salary > 50000, 1, null)",
    "salary > 50000",
    "json_array(surname)",
    "json_object('a', nullif(salary % 2, 0))",
    "json_extract('[1, \"a\", null]', concat('$[', salary % 3, ']'))",
    "cast(surname as binary)",
    "surname is null",
    "(select 1 from dual where s.salary > 50000)",
    "exists (select 1 from dual where s.salary > 50000)",
    "(select count(*) from dual where s.salary > 50000)",
    "count(nullif(salary % 2, 0)) over (partition by id)",
    "rank() over (order by surname)",
    "@v := surname",
    "cast(salary as char(10))",
    "b'101' + salary",
]


@pytest.fixture(scope="module", params=Strategy)
def walkers(request: pytest.FixtureRequest, gateway: Gateway, maria: MariaDbServer, shop: Issued) -> Issued:
    """A connection that masks by one strategy. The rows of the table differ in nothing but hidden values."""
    run(maria, f"create or replace table {DATABASE}.walkers (id int, surname varchar(50), salary int, born date)")
    run(
        maria,
        f"insert into {DATABASE}.walkers values (1, 'Lovelace', 83412, '1987-06-05'), (1, 'Doe', 7, '1990-01-02'),"
        " (1, null, null, null)",
    )
    name = f"my-walking-{request.param}"
    connection = mysql_connection(gateway, name, maria)
    gateway.masking_rule(
        {
            "name": name,
            "columns": ("walkers.surname", "walkers.salary", "walkers.born"),
            "strategy": request.param,
            "groups": (TypeGroup("CONTACT", ("EMAIL_ADDRESS",)),),
            "connection_ids": (str(connection.id),),
        }
    )
    return gateway.credential(name)


def test_attack_computed_value_is_one_constant(gateway: Gateway, walkers: Issued) -> None:
    """Attack: compute something whose value or absence tells one row from another, in both protocols."""
    client = connect(gateway, walkers)
    try:
        found = {value: {row[0] for row in ask(client, f"select {value} from walkers s")} for value in COMPUTED}
    finally:
        client.close()
    assert {value: len(one) for value, one in found.items()} == dict.fromkeys(COMPUTED, 1), found
    own = {"use_pure": True, "autocommit": True, "collation": "utf8mb4_general_ci"}
    with mysql.connector.connect(**login(gateway, walkers, **own)) as connection:
        for value in COMPUTED:
            if "@" in value:
                continue
            with connection.cursor(prepared=True) as cursor:
                cursor.execute(f"select {value} from walkers s")
                assert len(set(map(str, cursor.fetchall()))) == 1, value


def test_attack_chosen_values_are_never_hashed(gateway: Gateway, walkers: Issued) -> None:
    client = connect(gateway, walkers)
    guesses = [
        "select 83412 + 0 * salary from walkers",
        "select salary from walkers union all select 83412",
        "select salary from walkers right join (select 83412 as salary) w using (salary)",
        "insert into walkers (id, salary) values (1, 83412) returning salary",
    ]
    try:
        ask(client, "begin")
        found = {str(value) for guess in guesses for row in ask(client, guess) for value in row}
        ask(client, "rollback")
        assert found <= {"0", "None"}
        assert ask(client, "select count(surname), count(distinct salary) from walkers") == [(2, 2)]
    finally:
        client.close()


@pytest.mark.parametrize(
    "statement",
    [
        "begin not atomic declare v varchar(5); select concat('ZA', lpad(salary % 1000, 3, '0')) into v from walkers"
        " where surname = '{}'; if v = 'ZA412' then signal sqlstate 'ZA412'; else signal sqlstate 'ZA007'; end if; end",
        "begin not atomic declare v int; select salary into v from walkers where surname = '{}';"
        " signal sqlstate '45000' set mysql_errno = v % 1000 + 1, message_text = 'x'; end",
        "/* o a b */ select extractvalue('<a/>', concat('~', substr(surname, 1, 1))) from walkers where surname = '{}'",
    ],
)
def test_attack_errors_raised_with_masked_values_are_all_the_same(
    gateway: Gateway, walkers: Issued, statement: str
) -> None:
    """Attack: let a masked value choose the number or SQLSTATE of an error, or have it repeat a letter."""
    found: set[tuple[Any, ...]] = set()
    client = connect(gateway, walkers)
    try:
        for name in ("Lovelace", "Doe"):
            with pytest.raises(pymysql.err.MySQLError) as caught:
                ask(client, statement.replace("{}", name))
            found.add(caught.value.args)
    finally:
        client.close()
    assert len(found) == 1, found
