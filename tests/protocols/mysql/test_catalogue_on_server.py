"""Catalogue of a real MariaDB server, queried as by the gateway."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from tests.support.mariadb import MariaDbServer
from tests.support.mysql import running_mariadb

from postern.domain.targets.target_schema import TargetSchema
from postern.domain.targets.target_task import TargetTaskKind
from postern.protocols.gateway_queries import Row
from postern.protocols.mysql.queries.mysql_catalogue import CATALOGUE
from postern.protocols.mysql.queries.mysql_query import MysqlQuery
from postern.protocols.mysql.queries.mysql_schema import QUESTIONS, UNREADABLE, target_schema

SHOP = """
create database shop; create database other; use shop;
create table customers (id int primary key, email varchar(80) comment 'where to write to #pii #contact',
  born date, year_born int as (year(born)) stored) comment 'those who buy #personal';
create view mails as select email as mail from customers;
create table other.`a?b` (`c'd` int not null, t text);
create function shop.greet(name varchar(20)) returns varchar(40) deterministic no sql return concat('hi ', name);
create procedure shop.greet() select 1;
create user reader identified by 'x'; grant select on shop.* to reader
"""


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDbServer]:
    with running_mariadb() as running:
        with running.connect() as connection, connection.cursor() as cursor:
            cursor.execute(SHOP)
            while cursor.nextset():
                pass
        yield running


def ask(connection: Any, statement: str, values: Sequence[str | None] = ()) -> list[Row]:
    stream = connection._sock
    query = MysqlQuery(statement, values)
    stream.sendall(query.start())
    rows: list[Row] = []
    while not query.finished:
        rows += query.feed(stream.recv(query.needs))
    assert query.error is None, query.error
    return rows


def answer(
    server: MariaDbServer, kind: TargetTaskKind, database: str | None = None, **arguments: str
) -> dict[str, Any]:
    question = CATALOGUE.target_tasks[kind]
    with server.connect(database=database) as connection:
        return question.shape(ask(connection, question.statement, [arguments.get(name) for name in question.values]))


def test_connection_test_and_database_list_are_answered_by_a_server(server: MariaDbServer) -> None:
    assert answer(server, TargetTaskKind.TEST) == {"success": True}
    assert answer(server, TargetTaskKind.DATABASES) == {"databases": ["other", "shop"]}


def test_table_list_of_a_server_is_filtered_by_schema(server: MariaDbServer) -> None:
    other, shop = {"name": "other", "tables": ["a?b"]}, {"name": "shop", "tables": ["customers", "mails"]}
    assert answer(server, TargetTaskKind.TABLES) == {"schemas": [other, shop]}
    assert answer(server, TargetTaskKind.TABLES, "shop") == {"schemas": [shop]}
    assert answer(server, TargetTaskKind.TABLES, "shop", schema="other") == {"schemas": [other]}
    assert answer(server, TargetTaskKind.TABLES, schema="x' or 1=1 -- ") == {"schemas": []}


def test_column_list_of_a_server_has_types_and_nullability(server: MariaDbServer) -> None:
    columns = answer(server, TargetTaskKind.COLUMNS, "shop", table="customers")["columns"]
    assert [one["name"] for one in columns] == ["id", "email", "born", "year_born"]
    assert columns[1] == {"name": "email", "type": "varchar(80)", "nullable": True}
    odd = answer(server, TargetTaskKind.COLUMNS, schema="other", table="a?b")["columns"]
    assert [(one["name"], one["nullable"]) for one in odd] == [("c'd", False), ("t", True)]
    assert answer(server, TargetTaskKind.COLUMNS, "shop", table="none") == {"columns": []}


def test_whole_schema_of_a_server_has_tables_views_and_columns(server: MariaDbServer) -> None:
    whole = answer(server, TargetTaskKind.SCHEMA, "shop")
    assert (whole["database"], whole["databases"]) == ("shop", ["other", "shop"])
    (shop,) = whole["schemas"]
    assert [(table["name"], table["kind"]) for table in shop["tables"]] == [("customers", "table"), ("mails", "view")]
    assert shop["tables"][0]["columns"][:2] == [
        {"name": "id", "type": "int(11)", "nullable": False},
        {"name": "email", "type": "varchar(80)", "nullable": True},
    ]
    every = answer(server, TargetTaskKind.SCHEMA)
    assert (every["database"], [schema["name"] for schema in every["schemas"]]) == (None, ["other", "shop"])
    assert every["schemas"][0]["tables"][0]["columns"][0] == {"name": "c'd", "type": "int(11)", "nullable": False}


def schema_for(server: MariaDbServer, user: str = "root", database: str | None = "shop") -> TargetSchema:
    with server.connect(user, database) as connection:
        return target_schema([ask(connection, question) for question in QUESTIONS])


def test_schema_of_a_server_has_tags_generated_columns_views_and_functions(server: MariaDbServer) -> None:
    schema = schema_for(server)
    assert schema.search_path == ("shop",)
    customers = schema.relations["shop", "customers"]
    assert customers.columns == ("id", "email", "born", "year_born")
    assert customers.tags == {"personal"}
    assert customers.definition == ""
    assert customers.column_tags == {"email": {"pii", "contact"}}
    assert customers.generated == {"year_born": "year(`born`)"}
    assert "`shop`.`customers`" in schema.relations["shop", "mails"].definition
    assert not schema.functions["shop", "greet"].harmless
    assert ("information_schema", "TABLES") in schema.relations
    assert schema_for(server, database=None).search_path == ()


def test_view_with_a_hidden_definition_is_marked_as_unreadable(server: MariaDbServer) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("alter user reader identified by ''")
    schema = schema_for(server, "reader")
    assert schema.relations["shop", "mails"].definition == UNREADABLE
    assert ("other", "a?b") not in schema.relations
