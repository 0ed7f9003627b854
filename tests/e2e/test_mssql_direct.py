"""Drivers of SQL Server against the server of tests, without a gateway and through one: driver and server have to agree
before they test a gateway.

The table of `mssql_drivers` says which driver has which features. The drivers are independent of each other, and of the
server: FreeTDS (pymssql, tsql), python-tds, tedious, JDBC, go-mssqldb, and Microsoft's ODBC driver.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pymssql
import pytds
import pytest
import sqlalchemy
from tests.support.clients import clean_environment, need
from tests.support.gateway import Gateway
from tests.support.mssql_bridge import BRIDGE_PASSWORD, BRIDGE_USER, PysqlBridge, running_pysqlbridge
from tests.support.mssql_drivers import DRIVERS, DriverAddress, SqlServerDriver, run_program
from tests.support.mssql_gateway import mssql_connection, mssql_login
from tests.support.mssql_server import DATABASE, HOST, PASSWORD, USER, SqlServer, running_sqlserver

from postern.domain.identity.credential import Issued
from postern.domain.rules.masking import Strictness
from postern.wiring import tls


@pytest.fixture(scope="module")
def mssql() -> Iterator[SqlServer]:
    with running_sqlserver() as server:
        yield server
        assert server.errors == ""


def address_of(server: SqlServer) -> DriverAddress:
    certificate = server.folder / "certificate.pem"
    return DriverAddress(HOST, server.port, USER, PASSWORD, DATABASE, server.authority, certificate)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("driver", DRIVERS, ids=str)
def test_driver_has_these_features(mssql: SqlServer, driver: SqlServerDriver, tmp_path: Path) -> None:
    before = len(mssql.log)
    assert run_program(driver.command(address_of(mssql)), tmp_path) == driver.expected()
    logins = re.findall(r"login user=app tds=\w+ encryption=(\w+)", mssql.log[before:])
    assert set(logins) == {driver.encrypted}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("driver", DRIVERS, ids=str)
def test_driver_has_these_features_through_the_gateway(
    gateway: Gateway, mssql: SqlServer, driver: SqlServerDriver, tmp_path: Path
) -> None:
    """Rules look at all that passes, and find nothing."""
    name = f"driver-{driver}"
    masked = {"redact_enabled": True, "redact_types": ("EMAIL_ADDRESS",)}
    connection = mssql_connection(gateway, name, mssql, **masked)
    gateway.guardrail(name, connection, deny="never sent", deny_output="never shown")
    rule = {"name": name, "columns": ("nowhere.shown",), "strictness": Strictness.BEST_EFFORT}
    gateway.masking_rule({**rule, "connection_ids": (str(connection.id),)})
    address = gateway_address(gateway, gateway.credential(name), tmp_path)
    assert run_program(driver.command(address), tmp_path) == driver.expected()


def gateway_address(gateway: Gateway, issued: Issued, folder: Path) -> DriverAddress:
    login, files = mssql_login(gateway, issued), tls.own_files(gateway.settings)
    port, user, password = int(login["port"]), login["user"], login["password"]
    authority = folder / "authority.pem"  # go-mssqldb goes by the ending of the name
    authority.write_bytes(files.authority.read_bytes())
    return DriverAddress(HOST, port, user, password, DATABASE, authority, files.certificate)


@pytest.mark.parametrize(
    ("version", "told"), [("7.1", "71000001"), ("7.2", "72090002"), ("7.3", "730b0003"), ("7.4", "74000004")]
)
def test_freetds_reads_values_in_each_version(mssql: SqlServer, version: str, told: str) -> None:
    text = "select cast(N'ü' as nvarchar(max)), cast(1.5 as decimal(5,2)), cast('x' as text), cast(null as xml)"
    with mssql.connection(tds_version=version) as connection, connection.cursor() as cursor:
        cursor.execute(text)
        assert [str(value) for value in cursor.fetchall()[0]] == ["ü", "1.50", "x", "None"]
    assert f"tds={told}" in mssql.log


@pytest.mark.parametrize("version", [0x71000001, 0x72090002, 0x730A0003, 0x730B0003, 0x74000004])
def test_python_tds_reads_values_in_each_version(mssql: SqlServer, version: int) -> None:
    with pytds.connect(
        dsn=HOST, port=mssql.port, user=USER, password=PASSWORD, database=DATABASE, tds_version=version
    ) as connection:
        cursor = connection.cursor()
        cursor.execute("select cast(N'ü' as nvarchar(max)), cast('x' as ntext), cast('<a/>' as xml), %s", ("é" * 5000,))
        assert cursor.fetchall() == [("ü", "x", "<a/>", "é" * 5000)]


@pytest.mark.parametrize("size", [512, 4096, 32767])
def test_packets_have_the_size_that_was_settled(mssql: SqlServer, size: int) -> None:
    with pytds.connect(
        dsn=HOST, port=mssql.port, user=USER, password=PASSWORD, database=DATABASE, blocksize=size
    ) as connection:
        cursor = connection.cursor()
        cursor.execute("select %s", ("ü" * 50_000,))
        assert cursor.fetchall() == [("ü" * 50_000,)]


SHELLS = {
    "tsql": (["tsql", "-H", HOST, "-p", "{port}", "-U", USER, "-P", PASSWORD, "-D", DATABASE, "-o", "fq"], "go"),
    "bsqldb": (["bsqldb", "-S", "{name}", "-U", USER, "-P", PASSWORD, "-D", DATABASE], "go"),
    "fisql": (["fisql", "-S", "{name}", "-U", USER, "-P", PASSWORD, "-D", DATABASE], "go"),
}


@pytest.mark.parametrize("shell", SHELLS)
def test_shell_of_freetds_prints_results_and_errors(mssql: SqlServer, shell: str, tmp_path: Path) -> None:
    need(shell, "freetds-bin")
    settings = tmp_path / "freetds.conf"
    settings.write_text(f"[here]\nhost = {HOST}\nport = {mssql.port}\ntds version = 7.4\nclient charset = UTF-8\n")
    command, go = SHELLS[shell]
    script = f"select 'gr' + N'ün' as colour, 6 * 7 as answer\n{go}\nselect 1/0\n{go}\n"
    done = subprocess.run(
        [part.format(port=mssql.port, name="here") for part in command],
        input=script,
        capture_output=True,
        text=True,
        timeout=60,
        env=clean_environment(FREETDSCONF=str(settings), TDSVER="7.4"),
        check=False,
    )
    shown = done.stdout + done.stderr
    assert "grün" in shown
    assert "42" in shown
    assert "Divide by zero" in shown


@pytest.mark.parametrize("route", ["direct", "through the gateway"])
def test_sqlalchemy_creates_reflects_and_maps_tables(
    gateway: Gateway, mssql: SqlServer, route: str, tmp_path: Path
) -> None:
    mssql.run("if object_id('mapped') is not null drop table mapped")
    address = address_of(mssql)
    if route != "direct":
        mssql_connection(gateway, "sqlalchemy", mssql)
        address = gateway_address(gateway, gateway.credential("sqlalchemy"), tmp_path)
    url = sqlalchemy.URL.create("mssql+pymssql", address.user, address.password, HOST, address.port, address.database)
    engine = sqlalchemy.create_engine(url)
    metadata = sqlalchemy.MetaData()
    table = sqlalchemy.Table(
        "mapped",
        metadata,
        sqlalchemy.Column("id", sqlalchemy.Integer, primary_key=True),
        sqlalchemy.Column("name", sqlalchemy.Unicode(20), nullable=False),
        sqlalchemy.Column("born", sqlalchemy.Date),
    )
    with engine.begin() as connection:
        metadata.create_all(connection, checkfirst=False)
        inserted = connection.execute(table.insert().values(name="Grün"))
        assert inserted.inserted_primary_key == (1,)
        assert connection.execute(sqlalchemy.select(table.c.name).where(table.c.id == 1)).scalar() == "Grün"
    engine.dispose()


@pytest.mark.parametrize(
    ("encryption", "tls", "works"),
    [
        ("required", True, True),
        ("required", False, False),
        ("unavailable", False, True),
        ("unavailable", True, False),
    ],
)
def test_encryption_is_what_both_sides_allow(encryption: str, tls: bool, works: bool) -> None:
    with running_sqlserver(encryption=encryption) as server:
        options = {"cafile": str(server.authority), "validate_host": False} if tls else {}
        login = {"user": USER, "password": PASSWORD, "database": DATABASE, "login_timeout": 5}
        if not works:
            with pytest.raises(Exception, match=r"(?i)encrypt|timeout|closed|tls|ssl"):
                pytds.connect(dsn=HOST, port=server.port, **login, **options)
            return
        with pytds.connect(dsn=HOST, port=server.port, **login, **options) as connection:
            cursor = connection.cursor()
            cursor.execute("select 1")
            assert cursor.fetchall() == [(1,)]


@pytest.mark.parametrize(
    ("login", "number"), [({"password": "wrong"}, 18456), ({"user": "nobody"}, 18456), ({"database": "missing"}, 18456)]
)
def test_login_is_refused_with_a_number(mssql: SqlServer, login: dict[str, str], number: int) -> None:
    with pytest.raises(pymssql.OperationalError, match=str(number)), mssql.connection(**login):
        pass


def test_routing_sends_the_client_to_another_server(mssql: SqlServer) -> None:
    with running_sqlserver(routed=(HOST, mssql.port)) as router:
        with pytds.connect(dsn=HOST, port=router.port, user=USER, password=PASSWORD, database=DATABASE) as connection:
            cursor = connection.cursor()
            cursor.execute("select 'routed'")
            assert cursor.fetchall() == [("routed",)]
        assert "routed" not in router.log
    assert "select 'routed'" in mssql.log


# What both servers answer, so that the one of tests is compared with one that was compared with SQL Server.
SAME = [
    "select 1 as a, 'x' as b, N'grün' as c, 1.5 as d, null as e",
    "select upper('ab') + lower('CD'), len('abc  '), substring('abcdef', 2, 3), charindex('c', 'abc')",
    "select replace('aa', 'a', 'b'), left('abc', 2), right('abc', 2), stuff('abc', 2, 1, 'x')",
    "select 7 / 2, -7 / 2, 7 % 3, 7.0 / 2, abs(-3), round(2.567, 1), ceiling(1.2), floor(-1.2)",
    "select cast('12' as int) + 1, convert(varchar(10), 42), try_cast('x' as int), isnull(null, 'y')",
    "select year('2024-02-29'), month('2024-02-29'), datediff(day, '2024-02-28', '2024-03-01')",
    "select case when 1 = 1 then 'yes' else 'no' end, iif(2 > 1, 'a', 'b')",
    "declare @a int = 3; set @a = @a + 1; select @a",
    "declare @i int = 0; while @i < 3 begin set @i = @i + 1 end; select @i",
    "create table #t (a int, b varchar(5)); insert into #t values (1, 'x'), (2, 'y'); select * from #t order by a desc",
    "with n as (select 1 as i union all select 3) select sum(i), count(*), max(i), avg(i) from n",
    "begin try select 1 / 0 end try begin catch select error_number(), error_severity() end catch",
]


@pytest.fixture(scope="module")
def bridge() -> Iterator[PysqlBridge]:
    with running_pysqlbridge() as server:
        yield server


def answered(port: int, user: str, password: str, database: str, text: str) -> list[list[str]]:
    """Return the texts of the cells of the last result."""
    with pymssql.connect(
        server="127.0.0.1", port=str(port), user=user, password=password, database=database, autocommit=True
    ) as connection:
        cursor = connection.cursor()
        cursor.execute(text)
        rows: list[list[str]] = []
        while True:
            if cursor.description:
                rows = [[plain(cell) for cell in row] for row in cursor]
            if not cursor.nextset():
                return rows


def plain(cell: object) -> str:
    return format(Decimal(str(cell)).normalize(), "f") if isinstance(cell, Decimal | float) else str(cell)


@pytest.mark.parametrize("text", SAME)
def test_server_of_tests_answers_as_pysqlbridge_does(mssql: SqlServer, bridge: PysqlBridge, text: str) -> None:
    expected = answered(bridge.port, BRIDGE_USER, BRIDGE_PASSWORD, "master", text)
    assert answered(mssql.port, USER, PASSWORD, DATABASE, text) == expected


@pytest.mark.parametrize(
    ("text", "number"),
    [("select * from missing", 208), ("select 1/0", 8134), ("select cast('x' as int)", 245), ("select @a", 137)],
)
def test_errors_have_the_numbers_of_pysqlbridge(mssql: SqlServer, bridge: PysqlBridge, text: str, number: int) -> None:
    for login in (
        (mssql.port, USER, PASSWORD, DATABASE),
        (bridge.port, BRIDGE_USER, BRIDGE_PASSWORD, "master"),
    ):
        with pytest.raises(pymssql.Error) as raised:
            answered(*login, text)
        assert raised.value.args[0] == number
