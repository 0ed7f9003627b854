"""Drivers of SQL Server against the server of tests, without a gateway: both have to agree before they test one.

The table of `mssql_drivers` says which driver has which features. The drivers are independent of each other, and of the
server: FreeTDS (pymssql, tsql), python-tds, tedious, JDBC, go-mssqldb, and Microsoft's ODBC driver.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pymssql
import pytds
import pytest
import sqlalchemy
from tests.support.clients import clean_environment, need
from tests.support.mssql_drivers import DRIVERS, DriverAddress, SqlServerDriver, run_program
from tests.support.mssql_server import DATABASE, HOST, PASSWORD, USER, SqlServer, running_sqlserver


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


def test_sqlalchemy_creates_reflects_and_maps_tables(mssql: SqlServer) -> None:
    url = sqlalchemy.URL.create("mssql+pymssql", USER, PASSWORD, HOST, mssql.port, DATABASE)
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
