"""Reviewers of a held statement at SQL Server see how many rows it would change, and it then changes as many."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import mssql_python
import pytest
from tests.e2e.test_waiting_clients import person
from tests.support.gateway import Gateway
from tests.support.mssql_gateway import ask_mssql, connect_odbc, connect_pymssql, connect_pytds, mssql_connection
from tests.support.mssql_server import SqlServer
from tests.support.promises import wait_until

from postern.domain.identity.principal import Principal
from postern.domain.lists import Page
from postern.domain.reviews.review import Choice, Review
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.rules.guardrail import Action, Rule, RuleType
from postern.store.ports.review_ports import ReviewFilter

CONNECT = {"pymssql": connect_pymssql, "pytds": connect_pytds, "odbc": connect_odbc}
NAME = "mssql-counted"


@pytest.fixture(scope="module")
def reviewer(gateway: Gateway, mssql: SqlServer) -> Principal:
    """A second administrator, of a connection under a rule that holds changes of the tables `counted…`."""
    mssql.run("create table counted (id int, name nvarchar(20), born date)")
    mssql.run("create table counted_orders (person int)")
    mssql.run("insert into counted_orders values (1), (1), (2), (99)")
    connection = mssql_connection(gateway, NAME, mssql)
    rule = Rule(RuleType.PATTERN_MATCH, (), r"(?i)(update|delete).+counted", "held", action=Action.REVIEW)
    fields = {"name": "mssql-care", "input": (rule,), "output": (), "connection_ids": (str(connection.id),)}
    gateway.call(gateway.services.guardrails.create(gateway.admin, fields))
    return person(gateway, "mssql-counts@example.com", "admin")


@pytest.fixture(params=CONNECT)
def client(request: pytest.FixtureRequest, gateway: Gateway, reviewer: Principal, mssql: SqlServer) -> Iterator[Any]:
    mssql.run("truncate table counted")
    mssql.run(
        "insert into counted values " + ", ".join([f"({n}, N'p{n % 3}', '2020-01-{n:02}')" for n in range(1, 13)])
    )
    connected = CONNECT[request.param](gateway, gateway.credential(NAME))
    yield connected
    connected.close()


def pending(gateway: Gateway) -> list[Review]:
    wanted = ReviewFilter(status=ReviewStatus.PENDING)
    return list(gateway.call(gateway.services.reviews.find(gateway.admin, wanted, Page())).items)


def changed(client: Any, statement: str, values: Any) -> int:
    """Run a statement, and return how many rows it has changed, as the client is told."""
    with client.cursor() as cursor:
        cursor.execute(statement, values) if values is not None else cursor.execute(statement)
        return int(cursor.rowcount)


def approved(gateway: Gateway, reviewer: Principal, client: Any, statement: str, values: Any = None) -> tuple[Any, int]:
    """Return the estimate that reviewers see, and the number of rows that the statement changes after an approval."""
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(changed, client, statement, values)
        [review] = wait_until(lambda: pending(gateway))
        estimate = wait_until(lambda: pending(gateway)[0].estimate)
        gateway.call(gateway.services.reviews.decide(reviewer, str(review.id), Choice.APPROVED))
        return estimate, waiting.result(60)


COUNTED = {
    "a batch": ("delete from counted where name = 'p1'", None, 4),
    "values": ("delete from counted where id > {} and name <> {}", (4, "p2"), 5),
    "a date": ("update counted set name = {} where born < {}", ("x", "2020-01-03"), 2),
    "another table": ("delete from counted where id in (select person from counted_orders)", None, 2),
}


@pytest.mark.parametrize("case", COUNTED)
def test_approved_statement_changes_as_many_rows_as_reviewers_saw(
    gateway: Gateway, reviewer: Principal, client: Any, case: str
) -> None:
    text, values, number = COUNTED[case]
    mark = "?" if isinstance(client, mssql_python.Connection) else "%s"
    estimate, rows = approved(gateway, reviewer, client, text.format(*[mark] * len(values or ())), values)
    assert (estimate["rows"], rows) == (number, number)
    assert estimate["said"][0].endswith(f"dbo.counted: {number} rows")


def test_options_of_the_session_are_those_of_the_count(gateway: Gateway, reviewer: Principal, client: Any) -> None:
    ask_mssql(client, "set dateformat dmy")
    estimate, rows = approved(gateway, reviewer, client, "delete from counted where id = 5")
    assert (estimate["rows"], rows) == (1, 1)
    ask_mssql(client, "set rowcount 2")
    estimate, _ = approved(gateway, reviewer, client, "delete from counted where id > 5")
    assert estimate["said"] == [
        "DELETE counted: cannot be counted, because SET ROWCOUNT limits the rows of its session's statements"
    ]


def test_open_transaction_is_counted_beside_with_a_note(gateway: Gateway, reviewer: Principal, client: Any) -> None:
    ask_mssql(client, "begin transaction; insert into counted_orders values (5)")
    estimate, rows = approved(gateway, reviewer, client, "delete from counted where id in (1, 2)")
    assert (estimate["rows"], rows) == (2, 2)
    assert "uncommitted changes" in estimate["notes"][0]
    ask_mssql(client, "rollback")
