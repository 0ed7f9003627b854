"""Clients of PostgreSQL that send requests without waiting: they see what they would see without the gateway.

A habit is what a client sends and waits for. Each is tried on the target itself and through the gateway, under rules
that need whole batches and rules that do not.
"""

from __future__ import annotations

import itertools
import socket
import struct
import time
from dataclasses import dataclass, field

import psycopg
import pytest
from psycopg import pq
from tests.e2e.test_reviews import decide, waiting, waits_for
from tests.support import wire
from tests.support.gateway import Gateway, running
from tests.support.postgres import PostgresServer
from tests.support.promises import wait_until
from tests.support.protocols import postgres_test_messages as pg

from postern.domain.identity.principal import Principal, PrincipalStatus
from postern.domain.rules.guardrail import Action, Rule, RuleType, Unknown
from postern.domain.targets.connection import Connection

REVIEW = Rule(RuleType.REQUIRE_WHERE, name="where", action=Action.REVIEW, unknown=Unknown.ALLOW)
POLICIES = ("no-rule", "masking", "deny", "review")
PAUSE = 0.15  # seconds: longer than a batch is waited for where no review can come of it


def statement(text: str) -> bytes:
    return pg.parse(text) + pg.bind() + pg.execute()


def batch(*texts: str) -> bytes:
    return b"".join(statement(text) for text in texts) + pg.sync()


# What a client sends (bytes), and the type of message that it waits for (str).
Habit = list[bytes | str]

INSERT = "insert into pipelined values (1)"
FAILS = "insert into pipelined select 1/0"
SLEEPS = "select pg_sleep(60)"
HABITS: dict[str, Habit] = {
    "simple query": [pg.query(INSERT), "Z"],
    "extended with Sync": [batch(INSERT), "Z"],
    "extended with Describe": [
        pg.parse("select n from pipelined") + pg.bind() + pg.describe_portal() + pg.execute() + pg.sync(),
        "Z",
    ],
    "prepare with Flush, then run": [
        pg.parse(INSERT, "s") + pg.describe_statement("s") + pg.flush(),
        "n",
        pg.bind("", "s") + pg.execute() + pg.sync(),
        "Z",
    ],
    "prepare only, with Sync": [pg.parse("select 1", "s") + pg.describe_statement("s") + pg.sync(), "Z"],
    "close": [pg.parse("select 1", "s") + pg.sync(), "Z", pg.close_statement("s") + pg.flush(), "3", pg.sync(), "Z"],
    "pipeline with Flush": [statement(INSERT) + pg.flush(), "C", statement(INSERT) + pg.flush(), "C", pg.sync(), "Z"],
    "pipeline with neither, error in Parse": [pg.parse("selec 1"), "E", pg.sync(), "Z"],
    "pipeline with neither, error in the first": [statement(FAILS) + statement(INSERT), "E", batch(INSERT), "Z"],
    "pipeline with neither, error in the second": [statement(INSERT), statement(FAILS), "E", pg.sync(), "Z"],
    "error in a transaction": [batch("begin"), "Z", statement(FAILS), "E", pg.sync(), "Z", batch("rollback"), "Z"],
    "many statements after an error": [statement(FAILS) + statement(INSERT) * 20_000, "E", pg.sync(), "Z"],
    "several Syncs in flight": [batch(INSERT) + batch(INSERT) + batch(FAILS) + batch(INSERT), "Z", "Z", "Z", "Z"],
    "Sync alone": [pg.sync() + pg.sync(), "Z", "Z"],
    "query behind a pipeline": [statement(INSERT) + pg.query(INSERT), "Z"],
    "query that is skipped": [statement(FAILS) + pg.query(INSERT) + pg.sync(), "E", "Z"],
    "function call behind a pipeline": [statement(INSERT) + pg.function_call(1610), "Z"],
    "statement_timeout": [batch("set statement_timeout = '100ms'"), "Z", statement(SLEEPS), "E", pg.sync(), "Z"],
    "row limit": [
        pg.parse("select n from generate_series(1, 5) n") + pg.bind("p") + pg.execute("p", 2) + pg.flush(),
        "s",
        pg.execute("p", 2) + pg.flush(),
        "s",
        pg.execute("p", 2) + pg.sync(),
        "Z",
    ],
    "copy in": [
        statement("copy pipelined from stdin"),
        "G",
        pg.copy_data("1\n2\n") + pg.copy_done() + pg.sync(),
        "Z",
    ],
    "copy in that fails": [
        statement("copy pipelined from stdin"),
        "G",
        pg.copy_data("one\n") + pg.copy_done(),
        "E",
        pg.sync(),
        "Z",
    ],
    "copy out": [statement("copy pipelined to stdout") + pg.sync(), "Z"],
    "names used again": [
        (pg.parse("select 1") + pg.bind() + pg.execute()) * 3 + pg.close_portal() + pg.close_statement() + pg.sync(),
        "Z",
    ],
}


@dataclass
class Client:
    """A socket and what came over it."""

    stream: socket.socket
    key: bytes
    seen: list[tuple[bytes, bytes]] = field(default_factory=list)

    def do(self, habit: Habit) -> None:
        for step in habit:
            if isinstance(step, bytes):
                self.stream.sendall(step)
            else:
                self.until(step.encode())

    def until(self, tag: bytes) -> bytes:
        while True:
            found, body = wire.read_message(self.stream)
            self.seen.append((found, body))
            if found == tag:
                return body

    def error(self) -> bytes:
        return self.until(b"E")


def direct_client(target: PostgresServer) -> Client:
    """A login of trust, past the gateway."""
    stream = wire.connect(target.port)
    stream.sendall(wire.startup(user="postgres", database="postgres"))
    client = Client(stream, b"")
    client.until(b"Z")
    client.seen.clear()
    return client


@pytest.fixture(scope="module", autouse=True)
def policies(gateway: Gateway, target: PostgresServer) -> dict[str, Connection]:
    made = {
        name: gateway.connection(f"pipelines-{name}", target, redact_enabled=name == "masking") for name in POLICIES
    }
    gateway.guardrail("pipelines deny", made["deny"], deny=r"(?i)drop\s+table")
    fields = {"name": "pipelines review", "input": (REVIEW,), "connection_ids": (str(made["review"].id),)}
    gateway.call(gateway.services.guardrails.create(gateway.admin, fields))
    return made


@pytest.fixture(scope="module")
def reviewer(gateway: Gateway) -> Principal:
    fields = {"email": "pipelines@example.com", "groups": ("admin",), "status": PrincipalStatus.ACTIVE}
    return gateway.call(gateway.services.users.create(gateway.admin, fields)).principal


@pytest.fixture(autouse=True)
def pipelined(direct: psycopg.Connection) -> None:
    direct.execute("drop table if exists pipelined")
    direct.execute("create table pipelined (n int)")


def rows(direct: psycopg.Connection) -> int:
    found = direct.execute("select count(*) from pipelined").fetchone()
    assert found is not None
    return int(found[0])


def client_of(gateway: Gateway, policy: str) -> Client:
    issued = gateway.credential(f"pipelines-{policy}")
    stream = wire.connect(gateway.settings.postgres_port)
    key = wire.log_in(stream, issued.credential.username, issued.password.reveal())
    return Client(stream, key)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("habit", HABITS)
def test_pipelining_client_receives_the_same_answers_as_from_the_target(
    gateway: Gateway, target: PostgresServer, direct: psycopg.Connection, habit: str, policy: str
) -> None:
    alone = direct_client(target)
    with alone.stream:
        alone.do(HABITS[habit])
    expected_rows = rows(direct)
    direct.execute("truncate pipelined")
    through = client_of(gateway, policy)
    with through.stream:
        through.do(HABITS[habit])
    assert through.seen == alone.seen
    assert rows(direct) == expected_rows


@pytest.mark.parametrize("policy", POLICIES)
def test_cancel_request_cancels_a_statement_sent_without_a_sync(
    gateway: Gateway, direct: psycopg.Connection, policy: str
) -> None:
    through = client_of(gateway, policy)
    with through.stream:
        through.stream.sendall(statement(f"select pg_sleep(60), 'cancel {policy}'"))
        wait_until(lambda: running(direct, f"'cancel {policy}'"))
        wire.cancel(gateway.settings.postgres_port, struct.unpack("!I", through.key[:4])[0], through.key[4:])
        assert b"C57014\0" in through.error()
        through.do([pg.sync(), "Z"])


@pytest.mark.parametrize("policy", POLICIES)
def test_client_lost_in_the_middle_of_a_batch_leaves_nothing_on_the_target(
    gateway: Gateway, direct: psycopg.Connection, policy: str
) -> None:
    through = client_of(gateway, policy)
    with through.stream:
        through.do([statement(INSERT), pg.flush(), "C"])
        through.stream.sendall(statement(f"select pg_sleep(60), 'gone {policy}'"))
        wait_until(lambda: running(direct, f"'gone {policy}'"))
    wait_until(lambda: not running(direct, f"'gone {policy}'"))
    gateway.all_closed(connection=f"pipelines-{policy}")
    assert rows(direct) == 0


# A batch that a rule refuses. What is sent in front of the refused statement, and how the target is left.

REFUSED = b"C42501\0"
DROP = "drop table pipelined"
BEFORE: dict[str, list[bytes | str | float]] = {
    "nothing": [],
    "in the same write": [statement(INSERT)],
    "in front of a pause": [statement(INSERT), PAUSE],
    "in front of a Flush": [statement(INSERT) + pg.flush(), "C"],
    "prepared in front of a pause": [pg.parse(INSERT, "s"), PAUSE, pg.bind("", "s") + pg.execute()],
    "in a transaction": [batch("begin", INSERT), "Z", statement(INSERT), PAUSE],
}

RUNS_BEFORE = ("nothing", "in the same write", "in front of a pause", "in front of a Flush")


def send(client: Client, steps: list[bytes | str | float]) -> None:
    """As a habit; a number is a pause. Writes without one between them are one."""
    unsent = b""
    for step in steps:
        if isinstance(step, bytes):
            unsent += step
            continue
        client.stream.sendall(unsent)
        unsent = b""
        if isinstance(step, str):
            client.until(step.encode())
        else:
            time.sleep(step)
    client.stream.sendall(unsent)


@pytest.mark.parametrize("end", ["with a Sync", "without", "by a query"])
@pytest.mark.parametrize("before", BEFORE)
def test_denied_statement_rolls_back_the_earlier_statements_of_its_batch(
    gateway: Gateway, direct: psycopg.Connection, before: str, end: str
) -> None:
    """The client gets the error at once, even before its Sync. The target keeps no change and no lock."""
    through = client_of(gateway, "deny")
    refused = {"with a Sync": batch(DROP), "without": statement(DROP), "by a query": pg.query(DROP)}[end]
    with through.stream:
        send(through, [*BEFORE[before], refused])
        assert REFUSED in through.error()
        if end == "without":
            if before in RUNS_BEFORE:
                direct.execute("truncate pipelined")  # waits for locks
            through.stream.sendall(statement(INSERT) + pg.sync())
        status = through.until(b"Z")
        if before == "in a transaction":
            assert status == b"E"
            through.do([batch("rollback"), "Z"])
        else:
            assert status == b"I"
        assert rows(direct) == 0
        through.do([batch(INSERT), "Z"])
    assert rows(direct) == 1


# A batch of which a rule wants a statement reviewed.


@pytest.mark.parametrize("approve", [True, False])
@pytest.mark.parametrize("pauses", [False, True])
def test_reviewed_batch_has_not_run_when_the_review_opens(
    gateway: Gateway, direct: psycopg.Connection, reviewer: Principal, approve: bool, pauses: bool
) -> None:
    """If the client sends no Sync, everything it has sent is reviewed as a whole."""
    direct.execute("insert into pipelined values (1), (2)")
    through = client_of(gateway, "review")
    with through.stream:
        through.stream.sendall(statement(INSERT) + statement("delete from pipelined") + (b"" if pauses else pg.sync()))
        asked = waits_for(gateway, reviewer)
        assert "insert into pipelined" in asked.input
        assert rows(direct) == 2
        decide(gateway, reviewer, asked, approve=approve)
        if pauses:
            through.until(b"C" if approve else b"E")
            through.stream.sendall(pg.sync())
        assert through.until(b"Z") == b"I"
    assert rows(direct) == (0 if approve else 2)


@pytest.mark.parametrize("before", [[statement(INSERT), 1.5], [statement(INSERT) + pg.flush(), "C"]])
def test_statement_that_needs_a_review_after_an_executed_part_is_denied_with_advice(
    gateway: Gateway, direct: psycopg.Connection, reviewer: Principal, before: list[bytes | str | float]
) -> None:
    through = client_of(gateway, "review")
    with through.stream:
        send(through, [*before, batch("delete from pipelined")])
        error = through.error()
        assert REFUSED in error
        assert b"statements before it in the same batch have already run" in error
        assert b"in a batch of its own" in error
        assert through.until(b"Z") == b"I"
        assert rows(direct) == 0
        assert not waiting(gateway, reviewer)
        through.stream.sendall(batch("delete from pipelined"))
        decide(gateway, reviewer, waits_for(gateway, reviewer), approve=True)
        assert through.until(b"Z") == b"I"


# psycopg, as it is used


@pytest.mark.parametrize("policy", POLICIES)
def test_psycopg_gets_an_error_before_its_pipeline_ends(gateway: Gateway, policy: str) -> None:
    """libpq reads the error of a request that no Sync and no Flush followed."""
    connection = psycopg.connect(gateway.url(f"pipelines-{policy}"), autocommit=True)
    raw = connection.pgconn
    raw.enter_pipeline_mode()
    raw.send_query_params(b"select 1/0", None)
    raw.send_query_params(b"select 'skipped'", None)
    raw.flush()
    raw.nonblocking = 0
    while raw.is_busy():
        raw.consume_input()
    result = raw.get_result()
    assert result is not None
    assert result.status == pq.ExecStatus.FATAL_ERROR
    assert result.error_field(pq.DiagnosticField.SQLSTATE) == b"22012"
    assert raw.get_result() is None
    skipped = raw.get_result()
    assert skipped is not None
    assert skipped.status == pq.ExecStatus.PIPELINE_ABORTED
    raw.finish()


@pytest.mark.parametrize("policy", POLICIES[:3])
def test_psycopg_stops_an_executemany_after_an_early_error(
    gateway: Gateway, direct: psycopg.Connection, policy: str
) -> None:
    """Even on a busy machine, the error arrives before 300 MB have been sent."""
    row, total = "x" * 1000, 300_000
    values = itertools.chain([("not a number", row)], ((str(n), row) for n in range(total)))
    with psycopg.connect(gateway.url(f"pipelines-{policy}"), autocommit=True) as connection:
        connection.execute("create temp table many (n int, t text)")
        with pytest.raises(psycopg.errors.InvalidTextRepresentation), connection.cursor() as cursor:
            cursor.executemany("insert into many values (%s::text::int, %s)", values)
        assert connection.execute("select count(*) from many").fetchone() == (0,)
    session = gateway.newest_finished(f"pipelines-{policy}")
    assert session.metrics["operations"] < total


@pytest.mark.parametrize("policy", POLICIES)
def test_psycopg_reads_results_in_the_middle_of_a_pipeline(gateway: Gateway, policy: str) -> None:
    with psycopg.connect(gateway.url(f"pipelines-{policy}"), autocommit=True) as connection:
        with connection.pipeline() as pipeline:
            first = connection.execute("select 1").fetchone()
            second = connection.execute("select 2")
            pipeline.sync()
            assert (first, second.fetchone()) == ((1,), (2,))
            third = connection.execute("select 3")
        assert third.fetchone() == (3,)
