"""Unmodified SQL Server clients, through the gateway, to the SQL Server of tests."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import mssql_python
import pymssql
import pytds
import pytest
from tests.support.certificates import issue
from tests.support.gateway import Gateway
from tests.support.mssql_gateway import (
    ask_mssql,
    connect_odbc,
    connect_pymssql,
    connect_pytds,
    mssql_connection,
    mssql_login,
)
from tests.support.mssql_server import SqlServer
from tests.support.promises import wait_until

from postern.domain.identity.credential import Issued
from postern.domain.targets.connection import Connection

CONNECT = {"pymssql": connect_pymssql, "pytds": connect_pytds, "odbc": connect_odbc}
ERRORS = (pymssql.Error, pytds.Error, mssql_python.Error)


@pytest.fixture(scope="module")
def sql_server(mssql: SqlServer) -> SqlServer:
    """The server with the table `people`."""
    mssql.run("create table people (id int not null, name nvarchar(40), card varchar(20))")
    mssql.run("insert into people values (1, N'Ann', '4111111111111111'), (2, N'Bob', null)")
    return mssql


@pytest.fixture(scope="module")
def books(gateway: Gateway, sql_server: SqlServer) -> Issued:
    """A credential of the connection `books`, which has no rule."""
    mssql_connection(gateway, "mssql-books", sql_server)
    return gateway.credential("mssql-books")


@pytest.fixture(scope="module")
def ruled(gateway: Gateway, sql_server: SqlServer) -> Connection:
    """The connection `mssql-ruled`: DROP TABLE is denied, `top-secret` is withheld, and cards are masked."""
    connection = mssql_connection(gateway, "mssql-ruled", sql_server)
    gateway.guardrail("mssql-no-drop", connection, deny=r"(?i)drop\s+table", deny_output="top-secret")
    return connection


@pytest.fixture(params=CONNECT)
def client(request: pytest.FixtureRequest, gateway: Gateway, books: Issued) -> Iterator[Any]:
    connected = CONNECT[request.param](gateway, books)
    yield connected
    connected.close()


@pytest.fixture(params=CONNECT)
def ruled_client(request: pytest.FixtureRequest, gateway: Gateway, ruled: Connection) -> Iterator[Any]:
    connected = CONNECT[request.param](gateway, gateway.credential("mssql-ruled"))
    yield connected
    connected.close()


def place(client: Any) -> str:
    """How the client writes a placeholder."""
    return "?" if isinstance(client, mssql_python.Connection) else "%s"


def test_client_runs_statements(client: Any) -> None:
    mark = place(client)
    for value in ("it's;--", "grüße 🦊", ""):  # ODBC prepares at the first, and executes at the next
        row = ask_mssql(client, f"select {mark}, {mark}", (value, 42))
        assert [tuple(each) for each in row] == [(value, 42)]
    ask_mssql(client, "create table #t (a int, b nvarchar(20))")
    ask_mssql(client, "insert into #t values (1, N'x'), (2, null)")
    assert [tuple(row) for row in ask_mssql(client, "select a, b from #t order by a")] == [(1, "x"), (2, None)]


def test_client_gets_the_servers_errors_and_works_on(client: Any) -> None:
    with pytest.raises(ERRORS, match="nothing_here"):
        ask_mssql(client, "select * from nothing_here")
    assert [tuple(row) for row in ask_mssql(client, "select 1")] == [(1,)]


def test_denied_statement_is_an_error_and_the_connection_stays(ruled_client: Any, sql_server: SqlServer) -> None:
    with pytest.raises(ERRORS, match="mssql-no-drop"):
        ask_mssql(ruled_client, "drop table people")
    with pytest.raises(ERRORS, match="mssql-no-drop"):
        ask_mssql(ruled_client, f"drop table people -- {place(ruled_client)}", ("x",))
    assert [tuple(row) for row in ask_mssql(ruled_client, "select 1")] == [(1,)]
    assert sql_server.run("select count(*) from people") == [(2,)]


@pytest.mark.parametrize("statement", ["select 'top-secret' as a", "raiserror('the top-secret', 16, 1)"])
def test_withheld_answer_is_an_error_and_the_connection_stays(ruled_client: Any, statement: str) -> None:
    with pytest.raises(ERRORS, match="mssql-no-drop"):
        ask_mssql(ruled_client, statement)
    assert [tuple(row) for row in ask_mssql(ruled_client, "select 1")] == [(1,)]


@pytest.mark.parametrize("connect", [connect_pymssql, connect_pytds])
def test_column_is_masked_wherever_the_statement_takes_it(gateway: Gateway, ruled: Connection, connect: Any) -> None:
    rule = {"name": f"names {connect.__name__}", "columns": ("people.name",), "connection_ids": (str(ruled.id),)}
    gateway.masking_rule(rule)
    with connect(gateway, gateway.credential("mssql-ruled")) as client:
        assert ask_mssql(client, "select id, name from people") == [(1, "****"), (2, "****")]
        assert ask_mssql(client, "select name + 'x' as y from people p") == [("****",), ("****",)]
        assert ask_mssql(client, "select count(*) from people") == [(2,)]


@pytest.mark.parametrize("connect", [connect_odbc, connect_pytds])  # pymssql repeats an earlier text
def test_wrong_password_and_unknown_user_are_refused_alike(gateway: Gateway, books: Issued, connect: Any) -> None:
    for wrong in ({"password": "wrong"}, {"user": "nobody"}):
        with pytest.raises(ERRORS, match="password is wrong"):
            connect(gateway, books, **wrong)


def test_preview_judges_each_batch_of_a_script(gateway: Gateway, ruled: Connection) -> None:
    script = "select 1\nGO\ndrop table people\nGO\nselect 2"
    previews = gateway.services.script_previews
    previewed = gateway.call(
        previews.preview(gateway.admin, ruled.name, script, database=None, parameters={}, source="127.0.0.1")
    )
    assert previewed.result["outcome"] == "deny"
    assert [part["outcome"] for part in previewed.result["statements"]] == ["allow", "deny", "allow"]


def test_transactions_commit_and_roll_back(gateway: Gateway, books: Issued, sql_server: SqlServer) -> None:
    sql_server.run("create table moved (n int)")
    client = connect_pytds(gateway, books, autocommit=False)
    ask_mssql(client, "insert into moved values (1)")
    client.rollback()
    ask_mssql(client, "insert into moved values (2)")
    client.commit()
    client.close()
    assert sql_server.run("select n from moved") == [(2,)]


def test_rows_of_a_bulk_load_arrive(gateway: Gateway, books: Issued, sql_server: SqlServer) -> None:
    sql_server.run("create table loaded (id int, name nvarchar(40))")
    with connect_pytds(gateway, books) as client, client.cursor() as cursor:
        text = "".join([f"{at}\tname {at}\n" for at in range(2000)])
        cursor.copy_to(io.StringIO(text), "loaded", columns=["id", "name"])
    assert sql_server.run("select count(*), max(id) from loaded") == [(2000, 1999)]


def test_long_value_passes(gateway: Gateway, books: Issued) -> None:
    with connect_pytds(gateway, books) as client:
        ask_mssql(client, "create table #long (a nvarchar(max))")
        ask_mssql(client, "insert into #long values (replicate(cast(N'ü' as nvarchar(max)), 500000))")
        ((value,),) = ask_mssql(client, "select a from #long")
    assert value == "ü" * 500_000


def test_cancelled_result_leaves_the_connection_usable(gateway: Gateway, books: Issued) -> None:
    with connect_pytds(gateway, books) as client:
        cursor = client.cursor()
        cursor.execute("select p.*, q.*, r.* from people p cross join people q cross join people r")
        cursor.fetchone()
        cursor.cancel()
        assert ask_mssql(client, "select 1") == [(1,)]


def test_session_records_client_and_statements(gateway: Gateway, books: Issued) -> None:
    with connect_pymssql(gateway, books, appname="payroll") as client:
        ask_mssql(client, "select 'recorded 1'")
    session = gateway.newest_finished("mssql-books")
    assert session.metadata["application_name"] == "payroll"


def test_target_without_the_login_is_an_error_that_names_no_secret(gateway: Gateway, sql_server: SqlServer) -> None:
    mssql_connection(gateway, "mssql-locked", sql_server, secret={"PASS": "wrong"})
    with pytest.raises(ERRORS, match="did not accept the gateway's own login"):
        connect_pytds(gateway, gateway.credential("mssql-locked"))


@pytest.mark.parametrize("connect", CONNECT.values(), ids=CONNECT)
def test_target_is_reached_by_tds_8(gateway: Gateway, sql_server: SqlServer, connect: Any) -> None:
    name = f"strict-{connect.__name__}".replace("_", "-")
    mssql_connection(gateway, name, sql_server, secret={"ENCRYPT": "strict"})
    with connect(gateway, gateway.credential(name)) as client:
        assert [tuple(row) for row in ask_mssql(client, "select name from people where id = 1")] == [("Ann",)]
    assert "tds=08000000 encryption=strict" in sql_server.log


def test_client_that_is_too_old_for_tds_8_is_told_so(gateway: Gateway, sql_server: SqlServer) -> None:
    mssql_connection(gateway, "mssql-strict-old", sql_server, secret={"ENCRYPT": "strict"})
    with pytest.raises(ERRORS, match=r"older than TDS 7\.4"):
        connect_pytds(gateway, gateway.credential("mssql-strict-old"), tds_version=0x730B0003)


@pytest.mark.parametrize(
    ("secret", "reason"),
    [
        ({"SSLROOTCERT": "another"}, "(?i)certificate"),
        ({"SSLROOTCERT": "another", "ENCRYPT": "strict"}, "(?i)certificate"),
        ({"ENCRYPT": "strict", "SSLMODE": "require"}, "needs SSLMODE verify-full"),
        ({"ENCRYPT": "on"}, "must be strict"),
    ],
    ids=["another authority", "another authority, TDS 8.0", "TDS 8.0 without verification", "an unknown value"],
)
def test_target_that_cannot_be_trusted_gets_no_password(
    gateway: Gateway, sql_server: SqlServer, secret: dict[str, str], reason: str
) -> None:
    logins = sql_server.log.count(" login ")
    name = f"untrusted-{uuid4().hex[:8]}"
    if "SSLROOTCERT" in secret:
        secret = {**secret, "SSLROOTCERT": issue("localhost").authority}
    mssql_connection(gateway, name, sql_server, secret=secret)
    with pytest.raises(ERRORS, match=reason):
        connect_odbc(gateway, gateway.credential(name))
    assert sql_server.log.count(" login ") == logins


def test_windows_login_is_refused_with_its_reason(gateway: Gateway, books: Issued) -> None:
    # In a process of its own: after a failed login, pymssql does not show the text of the next one's error.
    code = "import json, sys, pymssql; pymssql.connect(**json.load(sys.stdin))"
    login = json.dumps(mssql_login(gateway, books, user="DOMAIN\\bob"))
    ended = subprocess.run(
        [sys.executable, "-c", code], input=login, capture_output=True, text=True, timeout=60, check=False
    )
    assert re.search(r"Windows authentication .* does not work through Postern", ended.stderr), ended.stderr


def test_login_of_entra_is_refused_with_its_reason(gateway: Gateway, books: Issued) -> None:
    with pytest.raises(ERRORS, match="Microsoft Entra authentication does not work through Postern"):
        connect_pytds(gateway, books, user=None, password=None, access_token_callable=lambda: "token")


def test_unknown_database_is_the_targets_own_error(gateway: Gateway, books: Issued) -> None:
    with pytest.raises(ERRORS, match="nowhere"):
        connect_odbc(gateway, books, database="nowhere")


def test_routing_is_followed_by_the_agent(gateway: Gateway, sql_server: SqlServer) -> None:
    router = SqlServer(routed=("localhost", sql_server.port), issued=sql_server.issued)
    router.start()
    try:
        mssql_connection(gateway, "mssql-routed", router)
        with connect_pytds(gateway, gateway.credential("mssql-routed")) as client:
            assert ask_mssql(client, "select count(*) from people") == [(2,)]
    finally:
        router.stop()
    wait_until(lambda: " closed" in sql_server.log)


def test_several_active_results_are_answered_as_absent(gateway: Gateway, books: Issued) -> None:
    with connect_pytds(gateway, books, use_mars=True) as client:
        assert ask_mssql(client, "select 1") == [(1,)]
