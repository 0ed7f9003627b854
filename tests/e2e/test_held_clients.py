"""Real clients whose statements are held: no client hangs, nothing runs without approval, and outcomes are recorded."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import asyncpg
import psycopg
import pytest
from tests.e2e.test_reviews import REVIEW, decide, waiting, waits_for
from tests.support.clients import clean_environment, need
from tests.support.gateway import Gateway
from tests.support.postgres import PostgresServer
from tests.support.promises import wait_until

from postern.domain.identity.principal import Principal, PrincipalStatus
from postern.domain.reviews.review import Review
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.rules.guardrail import Action, Rule, RuleType, Unknown
from postern.domain.targets.connection import Connection

pytestmark = pytest.mark.slow

NAME = "held-clients"
WRITES = Rule(
    RuleType.DENY_STATEMENTS, name="copies", objects=("*.copied",), action=Action.REVIEW, unknown=Unknown.ALLOW
)


@pytest.fixture(scope="module")
def held(gateway: Gateway, target: PostgresServer) -> Iterator[Connection]:
    connection = gateway.connection(NAME, target)
    fields = {"name": NAME, "input": (REVIEW, WRITES), "connection_ids": (str(connection.id),)}
    made = gateway.call(gateway.services.guardrails.create(gateway.admin, fields))
    yield connection
    gateway.call(gateway.services.guardrails.remove(gateway.admin, str(made.id)))


@pytest.fixture(scope="module")
def chief(gateway: Gateway) -> Principal:
    fields = {"email": "chief@example.com", "groups": ("admin",), "status": PrincipalStatus.ACTIVE}
    return gateway.call(gateway.services.users.create(gateway.admin, fields)).principal


@pytest.fixture(autouse=True)
def kept(direct: psycopg.Connection) -> None:
    direct.execute("drop table if exists watched, copied")
    direct.execute("create table watched as select 1 as n; create table copied (n int)")


def rows(direct: psycopg.Connection, table: str = "watched") -> int:
    found = direct.execute(f"select count(*) from {table}").fetchone()
    assert found is not None
    return int(found[0])


class Psql:
    def __init__(self, url: str, *arguments: str, script: str = "") -> None:
        command = [need("psql"), "-X", "-A", "-t", *arguments, url]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=clean_environment()
        )
        assert self.process.stdin is not None
        self.process.stdin.write(script)
        self.process.stdin.close()
        self.process.stdin = None

    def end(self) -> tuple[str, str]:
        return self.process.communicate(timeout=60)


def decided(gateway: Gateway, chief: Principal, *, approve: bool) -> Review:
    asked = waits_for(gateway, chief)
    decide(gateway, chief, asked, approve=approve)
    return asked


def idle(gateway: Gateway, chief: Principal) -> None:
    wait_until(lambda: not waiting(gateway, chief))
    gateway.all_closed(connection=NAME)


SCRIPTS: dict[str, tuple[list[str], str]] = {
    "a line": ([], "delete from watched;\nselect 'next';\n"),
    "two commands": (["-c", "delete from watched", "-c", "select 'next'"], ""),
    "gexec": ([], "select 'delete from watched' \\gexec\nselect 'next';\n"),
    "expanded": ([], "\\o /dev/null\nselect 1;\n\\o\ndelete from watched \\gx\nselect 'next';\n"),
}


@pytest.mark.parametrize("approve", [True, False])
@pytest.mark.parametrize("kind", SCRIPTS)
def test_psql_continues_after_the_decision_on_a_held_statement(
    gateway: Gateway, held: Connection, chief: Principal, direct: psycopg.Connection, kind: str, approve: bool
) -> None:
    arguments, script = SCRIPTS[kind]
    client = Psql(gateway.url(NAME), *arguments, script=script)
    waits_for(gateway, chief)
    assert rows(direct) == 1
    decided(gateway, chief, approve=approve)
    out, err = client.end()
    assert rows(direct) == (0 if approve else 1)
    assert "next" in out
    assert "it waits for a decision" in err
    assert f"{chief.email} {'approved' if approve else 'rejected'} it" in err
    idle(gateway, chief)
    said = gateway.text(gateway.newest_finished(NAME).id)
    assert f"{chief.email} {'approved' if approve else 'rejected'} it" in said


def test_rejected_statement_rolls_back_the_single_transaction_of_a_psql_file(
    gateway: Gateway, held: Connection, chief: Principal, direct: psycopg.Connection, tmp_path: Path
) -> None:
    file = tmp_path / "change.sql"
    file.write_text("insert into watched values (2);\ndelete from watched;\ninsert into watched values (3);\n")
    client = Psql(gateway.url(NAME), "-1", "-v", "ON_ERROR_STOP=1", "-f", str(file))
    decided(gateway, chief, approve=False)
    _, err = client.end()
    assert client.process.returncode == 3
    assert "rejected it" in err
    assert direct.execute("select array_agg(n) from watched").fetchone() == ([1],)
    idle(gateway, chief)


@pytest.mark.parametrize("approve", [True, False])
def test_held_copy_runs_only_if_approved(
    gateway: Gateway, held: Connection, chief: Principal, direct: psycopg.Connection, approve: bool, tmp_path: Path
) -> None:
    file = tmp_path / "rows"
    file.write_text("1\n2\n")
    client = Psql(gateway.url(NAME), script=f"\\copy copied from '{file}'\nselect 'next';\n")
    waits_for(gateway, chief)
    assert rows(direct, "copied") == 0
    decided(gateway, chief, approve=approve)
    out, _ = client.end()
    assert rows(direct, "copied") == (2 if approve else 0)
    assert "next" in out
    idle(gateway, chief)


def test_ctrl_c_withdraws_the_review_of_a_held_statement(
    gateway: Gateway, held: Connection, chief: Principal, direct: psycopg.Connection
) -> None:
    client = Psql(gateway.url(NAME), "-c", "delete from watched", "-c", "select 'next'")
    waits_for(gateway, chief)
    client.process.send_signal(signal.SIGINT)
    _, err = client.end()
    assert "cancel" in err.lower()
    assert rows(direct) == 1
    idle(gateway, chief)


def test_killed_client_withdraws_the_review_of_its_held_statement(
    gateway: Gateway, held: Connection, chief: Principal, direct: psycopg.Connection
) -> None:
    client = Psql(gateway.url(NAME), "-c", "delete from watched", "-c", "delete from watched where n = 1")
    waits_for(gateway, chief)
    client.process.kill()
    client.end()
    idle(gateway, chief)
    assert rows(direct) == 1


def over_asyncpg(url: str, work: Callable[[asyncpg.Connection], Awaitable[None]]) -> Callable[[], list[BaseException]]:
    """Runs it in a thread of its own; the answer waits for it and tells what it raised."""
    raised: list[BaseException] = []

    async def main() -> None:
        connection = await asyncpg.connect(url)
        try:
            await work(connection)
        finally:
            await connection.close(timeout=10)

    def run() -> None:
        try:
            asyncio.run(asyncio.wait_for(main(), 60))
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def ended() -> list[BaseException]:
        thread.join(60)
        assert not thread.is_alive()
        return raised

    return ended


@pytest.mark.parametrize("approve", [True, False])
def test_asyncpg_prepares_at_once_and_is_held_on_execute(
    gateway: Gateway, held: Connection, chief: Principal, direct: psycopg.Connection, approve: bool
) -> None:
    async def work(connection: asyncpg.Connection) -> None:
        try:
            await connection.execute("delete from watched where n = n or $1::int > 0", 7)
        except asyncpg.InsufficientPrivilegeError:
            assert not approve
        assert await connection.fetchval("select 1") == 1

    client = over_asyncpg(gateway.url(NAME), work)
    asked = waits_for(gateway, chief)
    assert "-- $1 =" in asked.input
    decided(gateway, chief, approve=approve)
    assert client() == []
    assert rows(direct) == (0 if approve else 1)
    idle(gateway, chief)


def test_transaction_with_a_rejected_statement_is_rolled_back(
    gateway: Gateway, held: Connection, chief: Principal, direct: psycopg.Connection
) -> None:
    async def work(connection: asyncpg.Connection) -> None:
        async with connection.transaction():
            await connection.execute("insert into watched values (2)")
            await connection.execute("delete from watched")

    client = over_asyncpg(gateway.url(NAME), work)
    decided(gateway, chief, approve=False)
    (error,) = client()
    assert isinstance(error, asyncpg.InsufficientPrivilegeError)
    assert direct.execute("select array_agg(n) from watched").fetchone() == ([1],)
    idle(gateway, chief)


def test_timeout_of_asyncpg_cancels_a_held_statement(
    gateway: Gateway, held: Connection, chief: Principal, direct: psycopg.Connection
) -> None:
    async def work(connection: asyncpg.Connection) -> None:
        with pytest.raises(asyncio.TimeoutError):
            await connection.execute("delete from watched", timeout=1)
        assert await connection.fetchval("select 1") == 1

    client = over_asyncpg(gateway.url(NAME), work)
    assert client() == []
    idle(gateway, chief)
    assert rows(direct) == 1


@pytest.mark.parametrize("approve", [(True, True), (True, False), (False, True), (False, False)])
def test_held_statements_of_a_pipeline_are_reviewed_one_after_the_other(
    gateway: Gateway, held: Connection, chief: Principal, direct: psycopg.Connection, approve: tuple[bool, bool]
) -> None:
    """The second has its own review, whatever was decided about the first."""
    raw = psycopg.connect(gateway.url(NAME), autocommit=True).pgconn
    raw.enter_pipeline_mode()
    for text in (b"delete from watched where true", b"delete from copied where true", b"select 1"):
        raw.send_query_params(text, None)
        raw.pipeline_sync()
    raw.flush()
    direct.execute("insert into copied values (1)")
    first = decided(gateway, chief, approve=approve[0])
    assert "watched" in first.input
    assert "copied" not in first.input
    second = decided(gateway, chief, approve=approve[1])
    assert "copied" in second.input
    wait_until(lambda: rows(direct) == (0 if approve[0] else 1))
    wait_until(lambda: rows(direct, "copied") == (0 if approve[1] else 1))
    raw.finish()
    idle(gateway, chief)


def test_attack_statement_name_redefined_during_a_hold_runs_the_approved_text(
    gateway: Gateway, held: Connection, chief: Principal, direct: psycopg.Connection
) -> None:
    """The new meaning of the name gets its own review."""
    raw = psycopg.connect(gateway.url(NAME), autocommit=True).pgconn
    raw.prepare(b"s", b"delete from watched where n = 99 or true")
    raw.enter_pipeline_mode()
    raw.send_query_prepared(b"s", None)
    raw.pipeline_sync()
    raw.send_query_params(b"deallocate s", None)
    raw.pipeline_sync()
    raw.send_prepare(b"s", b"delete from copied where true")
    raw.send_query_prepared(b"s", None)
    raw.pipeline_sync()
    raw.flush()
    direct.execute("insert into copied values (1)")
    first = decided(gateway, chief, approve=True)
    assert "copied" not in first.input
    second = waits_for(gateway, chief)
    assert "delete from copied" in second.input
    wait_until(lambda: rows(direct) == 0)
    assert rows(direct, "copied") == 1
    decided(gateway, chief, approve=False)
    raw.finish()
    idle(gateway, chief)
    assert rows(direct, "copied") == 1


def test_attack_held_statement_of_a_killed_session_is_withdrawn_and_never_runs(
    gateway: Gateway, held: Connection, chief: Principal, direct: psycopg.Connection
) -> None:
    client = Psql(gateway.url(NAME), "-c", "delete from watched")
    asked = waits_for(gateway, chief)
    gateway.call(gateway.services.sessions.kill(gateway.admin, str(asked.session_id)))
    client.end()
    idle(gateway, chief)
    found = gateway.call(gateway.services.reviews.get(chief, str(asked.id)))
    assert found.status is ReviewStatus.WITHDRAWN
    assert rows(direct) == 1
