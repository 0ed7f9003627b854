"""Catalogue queries, scripts and readers of recordings with the server of tests, without a gateway."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from typing import Any

import pytds
import pytest
from tests.support.mssql_server import DATABASE, HOST, PASSWORD, USER, SqlServer, running_sqlserver

from postern.domain.sessions.results import Finished, Problem, ResultColumns
from postern.domain.targets.target_schema import Function, TargetSchema
from postern.domain.targets.target_task import TargetTaskKind
from postern.protocols.gateway_queries import Row
from postern.protocols.mssql.queries.mssql_catalogue import CATALOGUE
from postern.protocols.mssql.queries.mssql_query import MssqlQuery
from postern.protocols.mssql.queries.mssql_schema import QUESTIONS, UNREADABLE, target_schema
from postern.protocols.mssql.queries.mssql_script import MssqlScript
from postern.protocols.mssql.recorded.mssql_tables import MssqlResults
from postern.protocols.mssql.recorded.mssql_text_renderer import MssqlTextRenderer

SHOP = """
create table dbo.customers (id int identity(1,1) primary key, email varchar(80) null, born date null,
  pay decimal(10,2) not null, note nvarchar(max), twice as (pay * 2));
create table other.[a?b] ([c'd] int not null, t nvarchar(20));
create synonym clients for dbo.customers
"""
VIEW = "create view mails as select email as mail from dbo.customers"
PROCEDURE = "create procedure greet @name varchar(20) as select 'hi ' + @name"
PROPERTY = """
exec sp_addextendedproperty 'MS_Description', 'those who buy #personal', 'SCHEMA', 'dbo', 'TABLE', 'customers';
exec sp_addextendedproperty 'MS_Description', 'where to write to #pii #contact', 'SCHEMA', 'dbo', 'TABLE', 'customers',
  'COLUMN', 'email'
"""


@pytest.fixture(scope="module")
def mssql() -> Iterator[SqlServer]:
    with running_sqlserver() as server:
        for batch in (SHOP, VIEW, PROCEDURE, PROPERTY):
            server.run(batch)
        yield server
        assert server.errors == ""


@pytest.fixture
def stream(mssql: SqlServer) -> Iterator[socket.socket]:
    """A connection that python-tds has logged in, in clear text."""
    connection = pytds.connect(
        dsn=HOST, port=mssql.port, user=USER, password=PASSWORD, database=DATABASE, autocommit=True
    )
    with connection:
        yield connection._tds_socket.main_session._transport


def ask(stream: socket.socket, statement: str, values: Sequence[str | None] = ()) -> list[Row]:
    query = MssqlQuery(statement, values)
    stream.sendall(query.start())
    rows: list[Row] = []
    while not query.finished:
        rows += query.feed(stream.recv(query.needs))
    if query.error is not None:
        raise query.error
    return rows


def answer(stream: socket.socket, kind: TargetTaskKind, **arguments: str) -> dict[str, Any]:
    question = CATALOGUE.target_tasks[kind]
    return question.shape(ask(stream, question.statement, [arguments.get(name) for name in question.values]))


def test_connection_test_and_database_list_are_answered_by_a_server(stream: socket.socket) -> None:
    assert answer(stream, TargetTaskKind.TEST) == {"success": True}
    assert answer(stream, TargetTaskKind.DATABASES) == {"databases": ["shop"]}


def test_table_list_of_a_server_is_filtered_by_schema(stream: socket.socket) -> None:
    dbo, other = {"name": "dbo", "tables": ["customers", "mails"]}, {"name": "other", "tables": ["a?b"]}
    assert answer(stream, TargetTaskKind.TABLES) == {"schemas": [dbo, other]}
    assert answer(stream, TargetTaskKind.TABLES, schema="other") == {"schemas": [other]}
    assert answer(stream, TargetTaskKind.TABLES, schema="x' or 1=1 -- ") == {"schemas": []}


def test_column_list_of_a_server_has_types_and_nullability(stream: socket.socket) -> None:
    columns = answer(stream, TargetTaskKind.COLUMNS, table="customers")["columns"]
    assert [(one["name"], one["type"], one["nullable"]) for one in columns][:5] == [
        ("id", "int", False),
        ("email", "varchar(80)", True),
        ("born", "date", True),
        ("pay", "decimal(10,2)", False),
        ("note", "nvarchar(max)", True),
    ]
    odd = answer(stream, TargetTaskKind.COLUMNS, schema="other", table="a?b")["columns"]
    assert [(one["name"], one["type"], one["nullable"]) for one in odd] == [
        ("c'd", "int", False),
        ("t", "nvarchar(20)", True),
    ]
    assert answer(stream, TargetTaskKind.COLUMNS, table="none") == {"columns": []}


def test_whole_schema_of_a_server_is_answered_at_once(stream: socket.socket) -> None:
    whole = answer(stream, TargetTaskKind.SCHEMA)
    assert (whole["database"], whole["databases"]) == ("shop", ["shop"])
    tables = {table["name"]: table for schema in whole["schemas"] for table in schema["tables"]}
    assert set(tables) == {"customers", "mails", "a?b"}
    assert tables["mails"]["kind"] == "view"
    assert [column["name"] for column in tables["customers"]["columns"]][:3] == ["id", "email", "born"]


def test_error_of_a_query_leaves_the_connection_usable(stream: socket.socket) -> None:
    with pytest.raises(Exception, match="Invalid object name 'missing'"):
        ask(stream, "select * from missing where name = ?", ["x"])
    assert ask(stream, "select ?, ?, ?", ["ü'\u20ac\0", None, "x" * 9000]) == [("ü'\u20ac\0", None, "x" * 9000)]


@pytest.fixture
def schema(stream: socket.socket) -> TargetSchema:
    return target_schema([ask(stream, question) for question in QUESTIONS])


def test_schema_of_a_server_has_tags_views_computed_columns_and_procedures(schema: TargetSchema) -> None:
    customers = schema.relations["dbo", "customers"]
    assert customers.columns == ("id", "email", "born", "pay", "note", "twice")
    assert customers.tags == {"personal"}
    assert customers.column_tags == {"email": {"pii", "contact"}}
    assert customers.generated == {"twice": "(pay * 2)"}
    assert schema.relations["dbo", "mails"].definition == "CREATE VIEW mails AS select email as mail from dbo.customers"
    assert schema.functions["dbo", "greet"] == Function("dbo", "greet", harmless=False)
    assert (schema.search_path, schema.database) == (("dbo",), "shop")


def test_synonym_is_a_view_of_all_columns_of_its_object(schema: TargetSchema) -> None:
    clients = schema.relations["dbo", "clients"]
    assert (clients.columns[:2], clients.definition) == (("id", "email"), "SELECT * FROM dbo.customers")


def test_view_without_a_definition_is_unreadable() -> None:
    answers: list[list[Row]] = [[("shop", "dbo")], [("dbo", "v", None)], [], [("dbo", "v", None)], [], []]
    assert target_schema(answers).relations["dbo", "v"].definition == UNREADABLE


def run_script(stream: socket.socket, text: str) -> tuple[int, bytes]:
    script, shown = MssqlScript(text), b""
    waiting = script.start()
    while not script.finished:
        stream.sendall(waiting)
        waiting = b""
        while not waiting and not script.finished:
            data = stream.recv(4096)
            shown += data
            waiting = script.feed(data)
    return script.exit_code(), shown


def test_script_runs_each_batch_and_its_recording_is_text(stream: socket.socket) -> None:
    first = "print 'begun'\nselect 1 as a, N'ü' as b, 0x0102 as c"
    text = f"{first}\nGO\ncreate table #t (a int); insert into #t values (1), (2)"
    code, shown = run_script(stream, text)
    assert code == 0, MssqlTextRenderer().feed(shown)
    (piece,) = MssqlTextRenderer().feed(shown)
    assert piece == ("o", "begun\na\tb\tc\n1\tü\t0x0102\n(1 row affected)\n(2 rows affected)\n".encode())


def test_script_ends_with_the_first_batch_that_fails(stream: socket.socket) -> None:
    code, shown = run_script(stream, "select 1/0\nGO\nselect 'not run'\nGO")
    assert code == 1
    assert MssqlTextRenderer().feed(shown) == [
        ("e", b"Msg 8134, Level 16, State 1, Line 1: Divide by zero error encountered.\n")
    ]


def test_recording_of_a_call_is_a_table_with_types(stream: socket.socket) -> None:
    query = MssqlQuery("select cast(1.5 as decimal(5,2)) as price, cast(? as nvarchar(20)) as name, null", ["ü"])
    stream.sendall(query.start())
    shown = b""
    while not query.finished:
        data = stream.recv(query.needs)
        shown += data
        query.feed(data)
    columns, row, finished = MssqlResults().feed(shown)
    assert columns == ResultColumns(("price", "name", ""), ("decimal(5,2)", "nvarchar(20)", "int"))
    assert getattr(row, "cells", None) == ("1.50", "ü", None)
    assert finished == Finished("1 row affected")


def test_recording_has_errors_and_messages_with_their_numbers(stream: socket.socket) -> None:
    _, shown = run_script(stream, "print 'said'; declare @a int; select @a = cast('x' as int)")
    assert MssqlResults().feed(shown) == [
        Problem("INFO", "said", fails=False),
        Finished("Commands completed successfully"),
        Problem("ERROR", "Conversion failed when converting the varchar value 'x' to data type int.", "245", "Line 1"),
    ]


@pytest.mark.parametrize("version", [0x71000001, 0x72090002, 0x74000004])
def test_recording_of_each_version_is_read(mssql: SqlServer, version: int) -> None:
    text = "print 'x'; select id, email from customers; select cast('grün' as varchar(10)) as word, 5.25 as number"
    login = {"user": USER, "password": PASSWORD, "database": DATABASE, "autocommit": True}
    connection = pytds.connect(dsn=HOST, port=mssql.port, tds_version=version, **login)
    with connection:
        stream = connection._tds_socket.main_session._transport
        script = MssqlScript(text)
        message = script.start()
        if version == 0x71000001:  # it has no headers
            message = bytes((1, 1)) + (len(message) - 22).to_bytes(2, "big") + message[4:8] + message[30:]
        stream.sendall(message)
        shown = b""
        while not shown or not shown[1] & 1:
            shown += stream.recv(65536)
    for size in (1, 7, len(shown)):
        renderer = MssqlTextRenderer()
        pieces = [piece for pos in range(0, len(shown), size) for piece in renderer.feed(shown[pos : pos + size])]
        expected = "x\nid\temail\n(0 rows affected)\nword\tnumber\ngrün\t5.25\n(1 row affected)\n"
        assert b"".join(text for _, text in pieces).decode() == expected
