"""Guardrails, masking, reviews, recordings, scripts, kills and target tasks for MySQL."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import pymysql
import pytest
from tests.e2e.test_waiting_clients import person
from tests.support.gateway import Gateway
from tests.support.mariadb import MariaDbServer
from tests.support.mysql_gateway import ask, connect, mysql_connection, run
from tests.support.promises import wait_until
from tests.support.world import CLIENT

from postern.api.sessions.result_answers import ResultWriter
from postern.cli.terminal.forward import PortForward, StreamRequest
from postern.domain.identity.credential import Issued
from postern.domain.identity.login import LoginMethod
from postern.domain.identity.principal import Principal
from postern.domain.lists import Page
from postern.domain.reviews.review import Choice, Review
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.rules.guardrail import Action, Rule, RuleType
from postern.domain.sessions.results import Row
from postern.domain.sessions.session import Session
from postern.domain.targets.command import Invocation
from postern.domain.targets.connection import Connection
from postern.domain.targets.target_task import TargetTaskKind
from postern.errors import Malformed
from postern.interception.events import ClientOutput
from postern.store.ports.review_ports import ReviewFilter
from postern.wiring import tls

MAIL, CARD = "ada.lovelace@example.org", "4111 1111 1111 1111"


@pytest.fixture(scope="module")
def people(maria: MariaDbServer, shop: Issued) -> None:
    run(maria, "create or replace table shop.people (id int primary key, mail varchar(80), card text, note text)")
    run(
        maria,
        "insert into shop.people select seq, if(seq % 3 = 0, null, concat(seq, %s)), %s, concat('note ', seq)"
        " from shop.seq_1_to_1000".replace("seq % 3", "seq %% 3"),
        MAIL,
        CARD,
    )


@pytest.fixture(scope="module")
def guarded(gateway: Gateway, maria: MariaDbServer, people: None) -> Connection:
    connection = mysql_connection(gateway, "my-guarded", maria)
    rules = (
        Rule(RuleType.PATTERN_MATCH, (), r"(?i)drop\s+table", "no drops"),
        Rule(RuleType.REQUIRE_WHERE, name="where"),
        Rule(RuleType.PATTERN_MATCH, (), "(?i)watched", "watch", action=Action.WARN),
        Rule(RuleType.PATTERN_MATCH, (), "(?i)four_eyes", "four eyes", action=Action.REVIEW),
    )
    fields = {
        "name": "my rules",
        "input": rules,
        "output": (Rule(RuleType.PATTERN_MATCH, (), "top-secret", "hidden"),),
        "connection_ids": (str(connection.id),),
    }
    gateway.call(gateway.services.guardrails.create(gateway.admin, fields))
    return connection


@pytest.fixture
def client(gateway: Gateway, guarded: Connection) -> Iterator[Any]:
    connected = connect(gateway, gateway.credential("my-guarded"))
    yield connected
    if connected.open:
        connected.close()


def refused(work: Callable[[], Any]) -> str:
    with pytest.raises(pymysql.err.MySQLError) as caught:
        work()
    return str(caught.value)


def failed(waiting: Future[Any]) -> str:
    return refused(lambda: waiting.result(60))


def execute(gateway: Gateway, script: str, connection: str = "shop") -> Session:
    submitted = gateway.call(gateway.services.sessions.submit(gateway.admin, connection, script, source="127.0.0.1"))
    return gateway.finished(submitted.id)


def test_parameters_of_a_script_become_literals(gateway: Gateway, people: None) -> None:
    hostile = "' or 1=1 -- \\' \" ü"
    script = "select :a, :n + 1, :nothing, ':a'; select count(*) from people where id < :n and note <> :a"
    invocation = Invocation(parameters={"a": hostile, "n": 3, "nothing": None})
    submitted = gateway.call(
        gateway.services.sessions.submit(gateway.admin, "shop", script, source="127.0.0.1", invocation=invocation)
    )
    session = gateway.finished(submitted.id)
    assert (session.exit_code, session.script) == (0, script)
    results = [tuple(result.cells) for result in gateway.services.sessions.results(session) if isinstance(result, Row)]
    assert results == [(hostile, "4", None, ":a"), ("2",)]
    (operation,) = gateway.operations(session.id)
    assert operation.startswith("select '" + hostile.replace("\\", "\\\\").replace("'", "''") + "', 3 + 1, NULL")


# Guardrails


def test_denied_statement_did_not_run_and_the_connection_continues(client: Any, maria: MariaDbServer) -> None:
    run(maria, "create or replace table shop.kept (n int)")
    assert 'blocked by guardrail "my rules"' in refused(lambda: ask(client, "drop table kept"))
    assert "where" in refused(lambda: ask(client, "delete from kept"))
    assert "where" in refused(lambda: ask(client, "select 1; delete from kept"))
    assert ask(client, "select count(*) from kept") == [(0,)]
    assert ask(client, "delete from kept where n = 1") == []


def test_statement_in_an_executable_comment_is_denied(client: Any) -> None:
    assert "where" in refused(lambda: ask(client, "/*!50000 delete from people */"))
    assert "where" in refused(lambda: ask(client, "/*M! delete from people */"))


def test_statement_prepared_by_sql_is_denied(client: Any) -> None:
    assert "where" in refused(lambda: ask(client, "prepare p from 'delete from people'") or ask(client, "execute p"))


def test_deny_rule_about_a_table_denies_views_that_read_it(
    gateway: Gateway, maria: MariaDbServer, people: None
) -> None:
    for text in (
        "create or replace table shop.salaries (id int, amount int)",
        "create or replace view shop.pay as select amount from shop.salaries",
        "create or replace view shop.pay_of_pay as select * from shop.pay",
    ):
        run(maria, text)
    connection = mysql_connection(gateway, "my-vault", maria)
    rule = Rule(RuleType.DENY_STATEMENTS, objects=("shop.salaries",), name="no salaries")
    fields = {"name": "vault", "input": (rule,), "connection_ids": (str(connection.id),)}
    gateway.call(gateway.services.guardrails.create(gateway.admin, fields))
    with connect(gateway, gateway.credential("my-vault")) as client:
        for text in ("select * from pay_of_pay", "select * from salaries", "prepare p from 'select * from pay'"):
            assert "no salaries" in refused(partial(ask, client, text))
        assert ask(client, "select count(*) from people") == [(1000,)]
        run(maria, "create or replace view shop.pay_now as select amount from shop.salaries")
        assert "pay_now is unknown" in refused(lambda: ask(client, "select * from pay_now"))


def test_denied_answer_is_not_shown_and_not_recorded(gateway: Gateway, client: Any) -> None:
    assert "hidden" in refused(lambda: ask(client, "select 'a', concat('top', '-secret') union select 'b', 'c'"))
    assert ask(client, "select 1") == [(1,)]
    client.close()
    session = gateway.newest_finished("my-guarded")
    shown = b"".join(event.data for event in gateway.records(session.id) if isinstance(event, ClientOutput))
    assert b"top-secret" not in shown


def test_warning_of_a_guardrail_is_recorded(gateway: Gateway, client: Any) -> None:
    assert ask(client, "select 'watched'") == [("watched",)]
    client.close()
    session = gateway.newest_finished("my-guarded")
    assert session.metrics["warned"] == 1
    assert "watch" in gateway.text(session.id)


def reviews(gateway: Gateway) -> list[Review]:
    wanted = ReviewFilter(status=ReviewStatus.PENDING)
    return list(gateway.call(gateway.services.reviews.find(gateway.admin, wanted, Page())).items)


def test_held_statement_runs_if_approved_and_fails_if_rejected(gateway: Gateway, client: Any) -> None:
    other = person(gateway, "my-second@example.com", "admin")
    for choice in (Choice.APPROVED, Choice.REJECTED):
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(ask, client, "select 'four_eyes'")
            [review] = wait_until(lambda: reviews(gateway))
            assert not waiting.done()
            gateway.call(gateway.services.reviews.decide(other, str(review.id), choice, comment="because"))
            if choice is Choice.APPROVED:
                assert waiting.result(60) == [("four_eyes",)]
            else:
                assert "because" in failed(waiting)
    assert ask(client, "select 1") == [(1,)]


# Masking


def test_masked_answer_keeps_all_its_rows(gateway: Gateway, maria: MariaDbServer, people: None) -> None:
    mysql_connection(gateway, "my-masked", maria, redact_enabled=True)
    with connect(gateway, gateway.credential("my-masked")) as client:
        rows = ask(client, "select * from people order by id")
    assert len(rows) == 1000
    assert MAIL not in str(rows)
    assert CARD not in str(rows)
    assert rows[2][1] is None
    assert [row[3] for row in rows] == [f"note {n}" for n in range(1, 1001)]
    session = gateway.newest_finished("my-masked")
    counted = session.metrics["data_masking"]["info_types"]
    assert (counted["CREDIT_CARD"], counted["EMAIL_ADDRESS"]) == (1000, 667)
    shown = b"".join(event.data for event in gateway.records(session.id) if isinstance(event, ClientOutput))
    assert MAIL.encode() not in shown
    assert CARD.encode() not in shown


# Reviews at login


def test_client_waits_at_login_for_its_review_and_is_then_admitted_or_rejected(
    gateway: Gateway, maria: MariaDbServer
) -> None:
    dba = person(gateway, "my-dba@example.com", "my-dba")
    ann = person(gateway, "my-ann@example.com", "dev")
    mysql_connection(gateway, "my-asked", maria, reviewers=("my-dba",))
    issued = gateway.credential("my-asked", principal=ann)
    for choice in (Choice.REJECTED, Choice.APPROVED):
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(connect, gateway, issued)
            [review] = wait_until(lambda: reviews(gateway))
            assert not waiting.done()
            gateway.call(gateway.services.reviews.decide(dba, str(review.id), choice, comment="not today"))
            if choice is Choice.REJECTED:
                assert "not today" in failed(waiting)
            else:
                with waiting.result(60) as client:
                    assert ask(client, "select 1") == [(1,)]


# Behind a tunnel


@contextmanager
def carried(gateway: Gateway, who: Principal, name: str, protocol: str = "mysql") -> Iterator[int]:
    """A local port as `postern connect` opens it."""
    account = gateway.call(gateway.services.users.get(gateway.admin, who.email))
    login = gateway.call(gateway.services.logins.open(account, LoginMethod.LOCAL, CLIENT))
    authority = tls.authority(gateway.settings)
    assert authority is not None
    url = f"wss://localhost:{gateway.settings.tunnel_port}"
    forward = PortForward(
        StreamRequest(url, login.token, name, authority.read_text(), protocol=protocol), lambda _: None
    )
    yield gateway.call(forward.start(0))
    gateway.call(forward.stop())


@pytest.mark.parametrize("password", ["", "whatever"])
def test_port_of_postern_connect_accepts_any_password(gateway: Gateway, shop: Issued, password: str) -> None:
    with (
        carried(gateway, gateway.admin, "shop") as port,
        pymysql.connect(host="127.0.0.1", port=port, user="me", password=password) as client,
    ):
        assert ask(client, "select database()") == [("shop",)]
    assert gateway.newest_finished("shop").user == gateway.admin.email


def test_port_of_postern_connect_rejects_a_client_of_another_subtype(gateway: Gateway, shop: Issued) -> None:
    with carried(gateway, gateway.admin, "target") as port:
        said = refused(lambda: pymysql.connect(host="127.0.0.1", port=port, user="me"))
    assert "is of subtype 'postgres', not 'mysql'" in said


# Recordings and scripts


def test_recording_shows_statements_results_and_errors(gateway: Gateway, shop: Issued) -> None:
    with connect(gateway, shop) as client:
        ask(client, "select 'grüße' as größe, null as b")
        refused(lambda: ask(client, "select nope"))
    session = gateway.newest_finished("shop")
    assert "select 'grüße' as größe, null as b" in gateway.operations(session.id)
    text = gateway.text(session.id)
    assert "größe\tb\ngrüße\tNULL\n1 row in set\n" in text
    assert "ERROR 1054 (42S22): Unknown column 'nope'" in text


def test_script_returns_the_result_of_each_statement(gateway: Gateway, shop: Issued, maria: MariaDbServer) -> None:
    script = """
        create or replace table shop.made (n int); insert into made select seq from seq_1_to_3;
        select n, null, 'grüße;' from made where n > 1; -- a comment; with a semicolon
        update made set n = n + 1
    """
    session = execute(gateway, script)
    assert (session.exit_code, session.metadata["end_reason"]) == (0, "completed")
    found = json.loads("".join(ResultWriter(gateway.services.sessions.results(session)).json()))
    assert [part["tag"] for part in found] == [
        "Query OK, 0 rows affected",
        "Query OK, 3 rows affected, Records: 3  Duplicates: 0  Warnings: 0",
        "2 rows in set",
        "Query OK, 3 rows affected, Rows matched: 3  Changed: 3  Warnings: 0",
    ]
    assert found[2]["rows"] == [["2", None, "grüße;"], ["3", None, "grüße;"]]
    assert run(maria, "select sum(n) from shop.made") == [(9,)]


def test_script_ends_at_its_first_error(gateway: Gateway, shop: Issued, maria: MariaDbServer) -> None:
    run(maria, "create or replace table shop.half (n int)")
    session = execute(gateway, "insert into half values (1); select nope; insert into half values (2)")
    assert session.exit_code == 1
    assert "Unknown column 'nope'" in gateway.text(session.id)
    assert run(maria, "select n from shop.half") == [(1,)]


def test_denied_script_runs_none_of_its_statements(gateway: Gateway, guarded: Connection, maria: MariaDbServer) -> None:
    run(maria, "create or replace table shop.kept (n int)")
    session = execute(gateway, "insert into kept values (1); drop table kept", "my-guarded")
    assert (session.exit_code, session.metrics["refused"]) == (1, 1)
    assert run(maria, "select count(*) from shop.kept") == [(0,)]


def test_killed_session_cancels_its_running_statement(gateway: Gateway, shop: Issued, maria: MariaDbServer) -> None:
    def runs() -> bool:
        return bool(run(maria, "select 1 from information_schema.processlist where info like %s", "%'to end'%sleep(1%"))

    with connect(gateway, shop) as client, ThreadPoolExecutor(1) as pool:
        running = pool.submit(ask, client, "select 'to end', sleep(120)")
        wait_until(runs)
        session = gateway.newest("shop")
        gateway.call(gateway.services.sessions.kill(gateway.admin, session.id))
        assert "this session was killed" in refused(lambda: running.result(60))
    wait_until(lambda: not runs())
    assert gateway.finished(session.id).metadata["end_reason"] == "killed"


# Target tasks


def target_task(gateway: Gateway, kind: TargetTaskKind, connection: str = "shop", **given: str | None) -> Any:
    return gateway.call(
        gateway.services.target_tasks.ask(gateway.admin, connection, kind, given, source="127.0.0.1")
    ).result


def test_target_tasks_list_databases_tables_and_columns(gateway: Gateway, people: None, maria: MariaDbServer) -> None:
    assert target_task(gateway, TargetTaskKind.TEST) == {"success": True}
    assert "shop" in target_task(gateway, TargetTaskKind.DATABASES)["databases"]
    [schema] = target_task(gateway, TargetTaskKind.TABLES)["schemas"]
    assert schema["name"] == "shop"
    assert "people" in schema["tables"]
    columns = target_task(gateway, TargetTaskKind.COLUMNS, table="people")["columns"]
    assert columns[1] == {"name": "mail", "type": "varchar(80)", "nullable": True}
    mysql_connection(gateway, "my-wrong", maria, secret={"PASS": "wrong"})
    with pytest.raises(Malformed, match="refused: Access denied"):
        target_task(gateway, TargetTaskKind.TEST, "my-wrong")
