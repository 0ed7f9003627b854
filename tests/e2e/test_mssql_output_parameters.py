"""Output parameters of drivers under a strict rule about a column: masked, passed, or denied with the connection as it
was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pymssql
import pytds
import pytest
from tests.e2e.test_mssql_direct import gateway_address
from tests.support.gateway import Gateway
from tests.support.installed_tools import installed_tool
from tests.support.mongodb_drivers import node
from tests.support.mssql_drivers import PROGRAMS, java_command, run_program
from tests.support.mssql_gateway import ask_mssql, connect_pymssql, connect_pytds, mssql_connection
from tests.support.mssql_server import SqlServer

from postern.domain.identity.credential import Issued

NAME: Final = "Zyxanna"
SALARY: Final = 83412
TABLES: Final = (
    "create table staff (id int not null primary key, name nvarchar(40), salary int)",
    f"insert into staff (id, name, salary) values (1, N'{NAME}', {SALARY})",
    "create procedure p_out @o nvarchar(40) output as select @o = name from staff where id = 1",
    "create procedure p_return as begin declare @s int select @s = salary from staff where id = 1 return @s end",
)
TEXT_OUT: Final = "@o nvarchar(40) output"
NUMBER_OUT: Final = "@o int output"
# Texts that assign @o, its declaration, and what a client gets: a mask, the value, or the error of the rule.
TEXTS: Final = (
    ("select @o = name from staff where id = 1", TEXT_OUT, "****"),
    ("select @o = name from staff where id = 1", "@o nvarchar(3) output", "***"),
    ("set @o = (select name from staff where id = 1)", TEXT_OUT, "****"),
    ("declare @n nvarchar(40) select @n = name from staff where id = 1 set @o = @n + 'x'", TEXT_OUT, "****"),
    ("select @o = salary from staff where id = 1", NUMBER_OUT, 0),
    ("select @o = len(name) from staff where id = 1", NUMBER_OUT, 0),
    ("exec sp_executesql N'select @x = name from staff', N'@x nvarchar(40) output', @o output", TEXT_OUT, "****"),
    ("select @o = id from staff where id = 1", NUMBER_OUT, 1),
    ("select @o = count(*) from staff", NUMBER_OUT, 1),
    ("set @o = 'known'", TEXT_OUT, "known"),
    ("exec p_out @o output", TEXT_OUT, "denied"),
    ("exec @o = p_return", NUMBER_OUT, "denied"),
)  # fmt: skip


@pytest.fixture(scope="module")
def staff(mssql: SqlServer) -> SqlServer:
    mssql.run("create database outputs")
    for text in TABLES:
        with mssql.connection(database="outputs") as connection, connection.cursor() as cursor:
            cursor.execute(text)
    return mssql


@pytest.fixture(scope="module")
def issued(gateway: Gateway, staff: SqlServer) -> Issued:
    connection = mssql_connection(gateway, "mssql-outputs", staff, secret={"DB": "outputs"})
    columns = ("staff.name", "staff.salary")
    gateway.masking_rule({"name": "mssql outputs", "columns": columns, "connection_ids": (str(connection.id),)})
    return gateway.credential("mssql-outputs")


@pytest.fixture(scope="module")
def python_tds(gateway: Gateway, issued: Issued) -> Iterator[Any]:
    with connect_pytds(gateway, issued, database="outputs") as connected:
        yield connected


@pytest.fixture(scope="module")
def freetds(gateway: Gateway, issued: Issued) -> Iterator[Any]:
    with connect_pymssql(gateway, issued, database="outputs") as connected:
        yield connected


def _call(client: Any, name: str, parameters: tuple[Any, ...], errors: Any) -> Any:
    """Return the last parameter after a call, or its error."""
    with client.cursor() as cursor:
        try:
            return cursor.callproc(name, parameters)[-1]
        except errors as error:
            return "denied" if "blocked by masking rule" in str(error) else str(error)


@pytest.mark.parametrize(("text", "declared", "outcome"), TEXTS)
def test_output_parameter_of_a_text_with_python_tds(python_tds: Any, text: str, declared: str, outcome: object) -> None:
    kind = "int" if declared == NUMBER_OUT else declared.split()[1]
    output = pytds.output(param_type=kind)
    assert _call(python_tds, "sp_executesql", (text, declared, output), pytds.Error) == outcome
    assert ask_mssql(python_tds, "select 1") == [(1,)]


@pytest.mark.parametrize(("text", "declared", "outcome"), TEXTS)
def test_output_parameter_of_a_text_with_pymssql(freetds: Any, text: str, declared: str, outcome: object) -> None:
    output = pymssql.output(int if declared == NUMBER_OUT else str)
    found = _call(freetds, "sp_executesql", (text, declared, output), pymssql.Error)
    assert found == outcome or (outcome == "***" and found == "****")  # pymssql declares a size of its own
    assert ask_mssql(freetds, "select 1") == [(1,)]


def test_outputs_of_procedures_are_denied(python_tds: Any, freetds: Any) -> None:
    assert _call(python_tds, "p_out", (pytds.output(param_type="nvarchar(40)"),), pytds.Error) == "denied"
    assert _call(freetds, "p_out", (pymssql.output(str),), pymssql.Error) == "denied"


@pytest.mark.slow
@pytest.mark.parametrize("encryption", ["no", "yes"])
def test_output_parameters_with_tedious(gateway: Gateway, issued: Issued, tmp_path: Path, encryption: str) -> None:
    address = gateway_address(gateway, issued, tmp_path)
    program = str(PROGRAMS / "mssql_node" / "mssql_outputs.mjs")
    arguments = [*address.arguments()[:4], "outputs", encryption, str(address.authority)]
    command = [node(), program, str(installed_tool("mssql-node")), *arguments]
    expected = "values: **** 1\nknown: 7\nshort: **\ncomputed: 0\nprocedure: denied\n"
    assert run_program(command, tmp_path) == expected


@pytest.mark.slow
@pytest.mark.parametrize("encryption", ["false", "true"])
def test_output_parameters_with_jdbc(gateway: Gateway, issued: Issued, tmp_path: Path, encryption: str) -> None:
    address = gateway_address(gateway, issued, tmp_path)
    command = [*java_command("MssqlOutputs"), *address.arguments()[:4], "outputs", encryption]
    # An output of a text within the text can be any of its variables.
    expected = "values: **** 0\nprepared: **** 0\nknown: 7\ncomputed: 0\nprocedure: denied\nreturn value: denied\n"
    assert run_program(command, tmp_path) == expected
