"""Values that a statement returns by parameters × how it is called × what becomes of its review × masking, with real
drivers of SQL Server and Oracle Database.

Each call also writes a row, which shows whether it ran.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import oracledb
import pymssql
import pytds
import pytest
from tests.e2e.test_waiting_clients import person, reviews_of, waiting
from tests.support.gateway import Gateway
from tests.support.mssql_gateway import ask_mssql, connect_pymssql, connect_pytds, mssql_connection
from tests.support.mssql_server import SqlServer
from tests.support.oracle_gateway import ask_directly, ask_oracle, connect_oracle, oracle_connection, plain_dsn
from tests.support.oracledb.running_server import OracleTestServer
from tests.support.promises import wait_until

from postern.domain.identity.credential import Issued
from postern.domain.identity.principal import Principal
from postern.domain.reviews.review import Choice, ReviewEvent
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.rules.guardrail import Action, Rule, RuleType
from postern.domain.targets.connection import Connection

pytestmark = pytest.mark.slow

NAME: Final = "Zyxanna"
WORD: Final = "four_eyes"
OUTCOMES: Final = ("approved", "rejected", "cancelled", "expired")
MASKED: Final = (False, True)


@dataclass(frozen=True)
class Call:
    """A call, which returns a value of the column. `shown` is what the client gets where the column is masked."""

    run: Callable[[Any], object]
    shown: str = "****"


@contextmanager
def reviewed(
    gateway: Gateway, connection: Connection, name: str, columns: tuple[str, ...], word: str
) -> Iterator[tuple[Principal, Issued]]:
    """A user whose calls with a word need a review, and their credential. These columns are masked."""
    rule = Rule(RuleType.PATTERN_MATCH, (), word, "four eyes", action=Action.REVIEW)
    fields = {"name": name, "input": (rule,), "connection_ids": (str(connection.id),)}
    rail = gateway.call(gateway.services.guardrails.create(gateway.admin, fields))
    if columns:
        gateway.masking_rule({"name": name, "columns": columns, "connection_ids": (str(connection.id),)})
    ann = person(gateway, f"{name}@example.com", "dev")
    yield ann, gateway.credential(name, principal=ann)
    gateway.call(gateway.services.guardrails.remove(gateway.admin, str(rail.id)))


def settle(gateway: Gateway, ann: Principal, outcome: str, cancel: Callable[[], object]) -> None:
    review = waiting(gateway, ann)
    if outcome == "cancelled":
        cancel()
    elif outcome == "expired":
        gateway.call(gateway.services.reviews.close(review.id, ReviewEvent.EXPIRED))
    else:
        choice = Choice.APPROVED if outcome == "approved" else Choice.REJECTED
        gateway.call(gateway.services.reviews.decide(gateway.admin, str(review.id), choice, comment="because"))


def check_review(gateway: Gateway, ann: Principal, outcome: str) -> None:
    status = {
        "approved": ReviewStatus.APPROVED,
        "rejected": ReviewStatus.REJECTED,
        "cancelled": ReviewStatus.WITHDRAWN,
        "expired": ReviewStatus.EXPIRED,
    }[outcome]
    wait_until(lambda: [review.status for review in reviews_of(gateway, ann)] == [status], 20)


@pytest.fixture
def name() -> str:
    return f"held-{uuid4().hex[:8]}"


# SQL Server

TEXT: Final = f"insert into ran values (1) /* {WORD} */ select @o = name from staff where id = 1"
DECLARED: Final = "@o nvarchar(40) output"


def pytds_out() -> Any:
    return pytds.output(param_type="nvarchar(40)")


def by_pytds(procedure: str, *parameters: object) -> Callable[[Any], object]:
    def run(client: Any) -> object:
        with client.cursor() as cursor:
            return cursor.callproc(procedure, (*parameters, pytds_out()))[-1]

    return run


def by_pymssql(procedure: str, *parameters: object) -> Callable[[Any], object]:
    def run(client: Any) -> object:
        with client.cursor() as cursor:
            return cursor.callproc(procedure, (*parameters, pymssql.output(str)))[-1]

    return run


def prepare_and_execute(client: Any) -> object:
    with client.cursor() as cursor:
        handle = pytds.output(param_type="int")
        return cursor.callproc("sp_prepexec", (handle, DECLARED, TEXT, pytds_out()))[-1]


Connect = Callable[..., Any]
MSSQL_CALLS: Final[Mapping[str, tuple[Connect, Call]]] = {
    "sp_executesql": (connect_pytds, Call(by_pytds("sp_executesql", TEXT, DECLARED))),
    "sp_executesql in a schema": (connect_pytds, Call(by_pytds("[sys].sp_executesql", TEXT, DECLARED))),
    "sp_executesql of FreeTDS": (connect_pymssql, Call(by_pymssql("sp_executesql", TEXT, DECLARED))),
    "sp_prepexec": (connect_pytds, Call(prepare_and_execute)),
    "a procedure": (connect_pytds, Call(by_pytds(f"p_{WORD}"), "denied")),
    "a procedure of FreeTDS": (connect_pymssql, Call(by_pymssql(f"p_{WORD}"), "denied")),
}


@pytest.fixture(scope="module")
def staff(mssql: SqlServer) -> SqlServer:
    mssql.run("create database held")
    for text in (
        "create table staff (id int not null primary key, name nvarchar(40))",
        f"insert into staff values (1, N'{NAME}')",
        "create table ran (n int)",
        f"create procedure p_{WORD} @o nvarchar(40) output as begin insert into ran values (1) "
        "select @o = name from staff where id = 1 end",
    ):
        with mssql.connection(database="held") as connection, connection.cursor() as cursor:
            cursor.execute(text)
    return mssql


def rows_of(staff: SqlServer) -> int:
    with staff.connection(database="held") as connection, connection.cursor() as cursor:
        cursor.execute("select n from ran")
        return len(cursor.fetchall())


# python-tds cannot cancel from another thread. FreeTDS cancels after a timeout, and closes the connection.
MSSQL_CASES: Final = [
    (call, outcome)
    for call, (connect, _) in MSSQL_CALLS.items()
    for outcome in OUTCOMES
    if outcome != "cancelled" or connect is connect_pymssql
]


@pytest.mark.parametrize("masked", MASKED)
@pytest.mark.parametrize(("call", "outcome"), MSSQL_CASES)
def test_held_call_of_sql_server(
    gateway: Gateway, staff: SqlServer, name: str, call: str, outcome: str, masked: bool
) -> None:
    connect, called = MSSQL_CALLS[call]
    connection = mssql_connection(gateway, name, staff, secret={"DB": "held"})
    before = rows_of(staff)
    patience = {"timeout": 8} if outcome == "cancelled" else {}
    with reviewed(gateway, connection, name, ("staff.name",) if masked else (), WORD) as (ann, issued):
        with connect(gateway, issued, database="held", **patience) as client, ThreadPoolExecutor(1) as pool:
            running = pool.submit(called.run, client)
            settle(gateway, ann, outcome, lambda: None)
            try:
                value: object = running.result(60)
            except (pytds.Error, pymssql.Error) as error:
                value = error
            check_review(gateway, ann, outcome)
            if outcome != "cancelled":
                assert ask_mssql(client, "select 1") == [(1,)]
        check_value(value, outcome, called.shown if masked else NAME)
    assert rows_of(staff) - before == (outcome == "approved")
    if masked:
        assert NAME not in gateway.text(gateway.newest_finished(name).id)


def check_value(value: object, outcome: str, shown: str) -> None:
    text = str(value)
    if outcome != "approved":
        assert isinstance(value, Exception)
        assert NAME not in text
        assert {"rejected": "because", "expired": "expired without a decision", "cancelled": ""}[outcome] in text
    elif shown == "denied":
        assert "blocked by masking rule" in text or "depend on values that are masked" in text
        assert NAME not in text
    else:
        assert value == shown, text


# Oracle Database

WRITE: Final = "update people set runs = runs + 1 where id = 1"


def out_of(statement: str) -> Callable[[Any], object]:
    def run(client: Any) -> object:
        with client.cursor() as cursor:
            value = cursor.var(str)
            cursor.execute(statement, [value])
            client.commit()
            shown = value.getvalue()
            return shown[0] if isinstance(shown, list) else shown

    return run


def rows_out_of(client: Any) -> object:
    with client.cursor() as cursor:
        rows = cursor.var(oracledb.CURSOR)
        cursor.execute(f"begin {WRITE}; open :1 for select name from people where id = 1; end;", [rows])
        client.commit()
        return rows.getvalue().fetchone()[0]


def returned_by_many(client: Any) -> object:
    with client.cursor() as cursor:
        value = cursor.var(str, arraysize=2)
        cursor.setinputsizes(None, value)
        statement = "update people set runs = runs + :1 where id = :2 returning name into :3"
        cursor.setinputsizes(None, None, value)
        cursor.executemany(statement, [[1, 1], [1, 2]])
        client.commit()
        return value.getvalue(0)[0]


ORACLE_CALLS: Final[Mapping[str, Call]] = {
    "a block": Call(out_of(f"begin {WRITE}; select name into :1 from people where id = 1; end;")),
    "a computed value": Call(
        out_of(f"begin {WRITE}; select name into :1 from people where id = 1; :1 := :1 || ''; end;")
    ),
    "RETURNING": Call(out_of(f"{WRITE} returning name into :1")),
    "RETURNING of several rows": Call(returned_by_many),
    "a cursor": Call(rows_out_of, "denied"),
}


@pytest.fixture(scope="module")
def people(oracle: OracleTestServer) -> OracleTestServer:
    ask_directly(
        oracle,
        "create table people (id number, name varchar2(40), runs number)",
        f"insert into people values (1, '{NAME}', 0)",
    )
    return oracle


@pytest.mark.parametrize("masked", MASKED)
@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("call", ORACLE_CALLS)
def test_held_call_of_oracle(
    gateway: Gateway, people: OracleTestServer, name: str, call: str, outcome: str, masked: bool
) -> None:
    called = ORACLE_CALLS[call]
    connection = oracle_connection(gateway, name, people)
    runs = "select runs from people"
    ((before,),) = ask_directly(people, runs)
    with reviewed(gateway, connection, name, ("people.name",) if masked else (), "runs") as (ann, issued):
        with connect_oracle(gateway, issued, dsn=plain_dsn(gateway)) as client, ThreadPoolExecutor(1) as pool:
            running = pool.submit(called.run, client)
            settle(gateway, ann, outcome, client.cancel)
            try:
                value: object = running.result(60)
            except oracledb.Error as error:
                value = error
            check_review(gateway, ann, outcome)
            assert ask_oracle(client, "select 1 from dual") == [(1,)]
        check_value(value, outcome, called.shown if masked else NAME)
    ((after,),) = ask_directly(people, runs)
    is_denied = masked and called.shown == "denied"  # it ran, and was not committed
    assert after - before == (outcome == "approved" and not is_denied)
    if masked:
        assert NAME not in gateway.text(gateway.newest_finished(name).id)
