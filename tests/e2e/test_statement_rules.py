"""Guardrails about statements, rows, warnings and masks, on a real PostgreSQL: denied statements did not run, warned
statements did, and the connection remains usable."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from uuid import UUID

import asyncpg
import psycopg
import pytest
from psycopg import pq
from tests.support.clients import psql
from tests.support.gateway import Gateway
from tests.support.postgres import PostgresServer
from tests.support.promises import wait_until

from postern.domain.rules.guardrail import Action, Guardrail, Rule, RuleType, Unknown
from postern.domain.rules.statement import Effect
from postern.domain.rules.trial import Simulation, UserHits
from postern.domain.targets.connection import Connection
from postern.errors import Invalid, TooMany
from postern.services.rules.guardrail_trials import Period

REFUSED = psycopg.errors.InsufficientPrivilege


@pytest.fixture(scope="module")
def ruled(gateway: Gateway, target: PostgresServer) -> Connection:
    return gateway.connection("ruled", target)


@pytest.fixture(autouse=True)
def kept(direct: psycopg.Connection) -> None:
    direct.execute("drop table if exists kept, other")
    direct.execute("create table kept (n int, t text)")
    direct.execute("insert into kept select n, 'row ' || n from generate_series(1, 3) n")


def rows(direct: psycopg.Connection) -> int:
    found = direct.execute("select count(*) from kept").fetchone()
    assert found is not None
    return int(found[0])


@contextmanager
def rules(gateway: Gateway, connection: Connection, *given: Rule, output: tuple[Rule, ...] = ()) -> Iterator[Guardrail]:
    fields = {"name": "care", "input": given, "output": output, "connection_ids": (str(connection.id),)}
    made = gateway.call(gateway.services.guardrails.create(gateway.admin, fields))
    try:
        yield made
    finally:
        gateway.call(gateway.services.guardrails.remove(gateway.admin, str(made.id)))


NO_DDL = Rule(RuleType.DENY_STATEMENTS, effects=frozenset({Effect.DDL, Effect.GRANT, Effect.ADMIN}), name="no ddl")
WHERE = Rule(RuleType.REQUIRE_WHERE, name="where")
READ_ONLY = Rule(RuleType.READ_ONLY, name="read only")
NO_KEPT = Rule(RuleType.DENY_STATEMENTS, objects=("public.kept",), effects=frozenset({Effect.WRITE}), name="not kept")
DRAFT = Guardrail(UUID(int=1), UUID(int=2), "draft")
WARN_WHERE = Rule(RuleType.REQUIRE_WHERE, name="where", action=Action.WARN, unknown=Unknown.ALLOW)


@pytest.mark.parametrize(
    ("rule", "statement"),
    [
        (NO_DDL, "drop table kept"),
        (NO_DDL, "create table other (n int)"),
        (NO_DDL, "select 1; alter table kept add x int"),
        (NO_DDL, "grant all on kept to public"),
        (NO_DDL, "copy kept to program 'cat'"),
        (WHERE, "delete from kept"),
        (WHERE, "update kept set n = 0 where true"),
        (WHERE, "with gone as (delete from kept returning *) select count(*) from gone"),
        (READ_ONLY, "insert into kept values (4)"),
        (READ_ONLY, "select * into other from kept"),
        (READ_ONLY, "truncate kept"),
        (NO_KEPT, "insert into kept values (4)"),
        (NO_KEPT, 'update public."kept" set n = 5 where n = 1'),
    ],
)
def test_denied_statement_does_not_run_in_either_protocol(
    gateway: Gateway, ruled: Connection, direct: psycopg.Connection, rule: Rule, statement: str
) -> None:
    with rules(gateway, ruled, rule):
        done = psql(gateway.url("ruled"), "-c", statement, "-c", "select 'goes on'")
        assert f'guardrail "care" (rule "{rule.name}")' in done.stderr
        assert "goes on" in done.stdout
        with psycopg.connect(gateway.url("ruled"), autocommit=True) as connection:
            if ";" not in statement:
                with pytest.raises(REFUSED, match="care"):
                    connection.execute(statement.encode(), prepare=True)
            assert connection.execute("select n from kept where n = %s", [1]).fetchone() == (1,)
    found = direct.execute("select count(*), min(n), to_regclass('other') is null from kept").fetchone()
    assert found == (3, 1, True)


ATTACKS = [
    "/* harmless */ delete/**/from kept",
    "explain analyze delete from kept",
    "do $$ begin delete from kept; end $$",
    "do $x$ begin execute 'del' || 'ete from kept'; end $x$",
    "select query_to_xml('delete from kept', true, true, '')",
    "prepare gone as delete from kept; execute gone",
    "begin; delete from kept; commit",
    "copy (delete from kept returning *) to stdout",
    "merge into kept using (select 1) x on true when matched then delete",
    "set standard_conforming_strings = off; select 'a\\''; delete from kept; --'",
    "select 1 union select 2; ; ;delete from only kept",
    "with a as (with b as (delete from kept returning 1) select 1) select 1",
    "create rule r as on insert to kept do instead delete from kept",
]


@pytest.mark.parametrize("attack", ATTACKS)
def test_attack_disguised_write_is_denied_by_read_only(
    gateway: Gateway, ruled: Connection, direct: psycopg.Connection, attack: str
) -> None:
    with rules(gateway, ruled, READ_ONLY):
        psql(gateway.url("ruled"), "-c", attack)
        with psycopg.connect(gateway.url("ruled"), autocommit=True) as connection, pytest.raises(psycopg.Error):
            connection.execute(attack.encode())
    assert rows(direct) == 3


def test_attack_statement_prepared_by_protocol_or_sql_is_denied_on_execute(
    gateway: Gateway, ruled: Connection, direct: psycopg.Connection
) -> None:
    """EXECUTE with a name does not show what the statement does."""
    with rules(gateway, ruled, READ_ONLY), psycopg.connect(gateway.url("ruled"), autocommit=True) as connection:
        raw = connection.pgconn
        assert raw.prepare(b"gone", b"delete from kept").status == pq.ExecStatus.FATAL_ERROR
        assert raw.exec_(b"execute gone").status == pq.ExecStatus.FATAL_ERROR
        assert raw.exec_(b"prepare gone as delete from kept").status == pq.ExecStatus.FATAL_ERROR
        assert raw.exec_prepared(b"gone", []).status == pq.ExecStatus.FATAL_ERROR
    assert rows(direct) == 3


def test_denied_statement_ends_its_pipeline(gateway: Gateway, ruled: Connection, direct: psycopg.Connection) -> None:
    with rules(gateway, ruled, WHERE), psycopg.connect(gateway.url("ruled"), autocommit=True) as connection:
        with pytest.raises(psycopg.Error), connection.pipeline():  # noqa: PT012 - the error comes out of its end
            connection.execute("insert into kept values (4)")
            connection.execute("delete from kept")
            connection.execute("insert into kept values (5)")
        assert connection.execute("select 1").fetchone() == (1,)
    assert direct.execute("select count(*) from kept where n in (1, 2, 3)").fetchone() == (3,)


Told = tuple[str | None, str | None, str | None, str | None]


def told(connection: psycopg.Connection) -> list[Told]:
    """Severity, SQLSTATE, text and hint of each notice; they are gone once the handler returns."""
    heard: list[Told] = []
    connection.add_notice_handler(
        lambda one: heard.append((one.severity, one.sqlstate, one.message_primary, one.message_hint))
    )
    return heard


def test_warned_statement_runs_with_one_warning_in_every_mode(
    gateway: Gateway, ruled: Connection, direct: psycopg.Connection
) -> None:
    with rules(gateway, ruled, WARN_WHERE), psycopg.connect(gateway.url("ruled"), autocommit=True) as connection:
        heard = told(connection)
        connection.execute("update kept set t = 'simple'")
        connection.execute("update kept set t = %s", ["extended"])
        connection.execute("update kept set t = 'prepared'", prepare=True)
        assert len(heard) == 3
        assert heard[0][:3] == (
            *("WARNING", "01000"),
            'warning of guardrail "care" (rule "where"): UPDATE has no condition',
        )
        assert "not blocked" in (heard[0][3] or "")
        with connection.pipeline():
            first = connection.execute("select 1 as one")
            connection.execute("update kept set t = 'piped'")
            last = connection.execute("select 2 as two")
        assert first.fetchone() == (1,)
        assert last.fetchone() == (2,)
        assert len(heard) == 4
        connection.execute("update kept set t = 'mine' where n = 1")
        assert len(heard) == 4
    assert direct.execute("select array_agg(t order by n) from kept").fetchone() == (["mine", "piped", "piped"],)
    session = gateway.newest_finished("ruled")
    assert "warning of guardrail" in gateway.text(session.id)
    assert session.metrics["warned"] == 4


def test_warned_statement_in_a_transaction_can_be_committed_or_rolled_back(
    gateway: Gateway, ruled: Connection, direct: psycopg.Connection
) -> None:
    with rules(gateway, ruled, WARN_WHERE), psycopg.connect(gateway.url("ruled")) as connection:
        heard = told(connection)
        connection.execute("delete from kept")
        connection.rollback()
        assert rows(direct) == 3
        connection.execute("delete from kept")
        connection.commit()
        assert len(heard) == 2
    assert rows(direct) == 0


async def test_asyncpg_receives_one_warning_for_a_prepared_statement(gateway: Gateway, ruled: Connection) -> None:
    with rules(gateway, ruled, WARN_WHERE):
        connection = await asyncpg.connect(gateway.url("ruled"))
        heard: list[str] = []
        connection.add_log_listener(lambda _connection, message: heard.append(message.message))
        statement = await connection.prepare("update kept set t = 'asyncpg'")
        await statement.fetch()
        assert await connection.fetchval("select 7") == 7
        await connection.close()
    assert len(heard) == 1  # it was prepared before it was run
    assert "UPDATE has no condition" in heard[0]


def test_mask_rule_masks_values_and_keeps_the_answer_complete(gateway: Gateway, ruled: Connection) -> None:
    mask = Rule(RuleType.PATTERN_MATCH, pattern_regex="secret-[0-9]+", name="secrets", action=Action.MASK)
    with rules(gateway, ruled, output=(mask,)), psycopg.connect(gateway.url("ruled"), autocommit=True) as connection:
        for binary in (False, True):
            row = connection.execute(
                "select 'a secret-1', array['x', 'secret-2'], '{\"k\": \"secret-3\"}'::jsonb, 'ünï secret-4', 5",
                binary=binary,
            ).fetchone()
            mark = "[masked:secrets]"
            assert row == (f"a {mark}", ["x", mark], {"k": mark}, f"ünï {mark}", 5)
        with connection.cursor().copy("copy (select 1, 'secret-9') to stdout") as copy:
            assert b"".join(bytes(part) for part in copy) == b"1\t[masked:secrets]\n"
        with pytest.raises(psycopg.Error) as caught:
            connection.execute("select ('secret-7' || '')::int")
        assert "secret-7" not in str(caught.value)
        assert connection.execute("select 'sec' || 'ret-8'").fetchone() == ("[masked:secrets]",)
    assert "secret-8" not in gateway.text(gateway.newest_finished("ruled").id)


@pytest.mark.parametrize("prepare", [False, True])
def test_answer_with_too_many_rows_is_denied_and_the_connection_continues(
    gateway: Gateway, ruled: Connection, prepare: bool
) -> None:
    most = Rule(RuleType.MAX_ROWS, most=1000, name="most")
    with rules(gateway, ruled, output=(most,)), psycopg.connect(gateway.url("ruled"), autocommit=True) as connection:
        for _ in range(3):
            with pytest.raises(REFUSED, match="more than 1000 rows"):
                connection.execute("select n, repeat('x', 50) from generate_series(1, 200000) n", prepare=prepare)
            found = connection.execute("select n from generate_series(1, 1000) n", prepare=prepare).fetchall()
            assert len(found) == 1000
        cursor = connection.cursor()
        with pytest.raises(REFUSED), cursor.copy("copy (select generate_series(1, 5000)) to stdout") as copy:
            list(copy)
        assert connection.execute("select 1").fetchone() == (1,)
        with connection.transaction():
            with pytest.raises(REFUSED), connection.transaction():
                connection.execute("select generate_series(1, 5000)")
            assert connection.execute("select 2").fetchone() == (2,)


@pytest.mark.parametrize("prepare", [False, True])
@pytest.mark.parametrize("copies", [False, True])
def test_denied_answer_cancels_the_statement_on_the_target(
    gateway: Gateway, ruled: Connection, direct: psycopg.Connection, prepare: bool, copies: bool
) -> None:
    """Otherwise the gateway would wait forever for the end of an endless answer."""
    most = Rule(RuleType.MAX_ROWS, most=100, name="most")
    endless = "with recursive t(n) as (select 1 union all select n + 1 from t) select n, repeat('x', 100) from t"
    with (
        rules(gateway, ruled, output=(most,)),
        psycopg.connect(gateway.url("ruled"), autocommit=True, application_name="endless") as connection,
    ):
        for number in range(3):
            cursor = connection.cursor()
            if copies:
                with (
                    pytest.raises(REFUSED, match="more than 100 rows"),
                    cursor.copy(f"copy ({endless}) to stdout") as out,
                ):
                    list(out)
            else:
                with pytest.raises(REFUSED, match="more than 100 rows"):
                    cursor.execute(endless, prepare=prepare)
            assert connection.execute("select %s::int", [number]).fetchone() == (number,)
        running = "select count(*) from pg_stat_activity where application_name = 'endless' and state = 'active'"
        assert direct.execute(running).fetchone() == (0,)


async def read_in_parts(connection: asyncpg.Connection, got: list[int]) -> None:
    async with connection.transaction():
        portal = await connection.cursor("select generate_series(1, 1000)")
        for _ in range(10):
            got.append(len(await portal.fetch(40)))


async def test_attack_rows_fetched_in_parts_count_against_one_limit(gateway: Gateway, ruled: Connection) -> None:
    """By a cursor of SQL, and by a portal with a row limit in each request."""
    most = Rule(RuleType.MAX_ROWS, most=100, name="most")
    with rules(gateway, ruled, output=(most,)):
        with psycopg.connect(gateway.url("ruled")) as connection, connection.cursor("bits") as cursor:
            cursor.itersize = 40
            cursor.execute("select generate_series(1, 1000)")
            with pytest.raises(REFUSED, match="more than 100 rows"):
                cursor.fetchall()
        with psycopg.connect(gateway.url("ruled")) as connection:
            for _ in range(2):  # another cursor of that name counts anew
                with connection.cursor("bits") as cursor:
                    cursor.execute("select generate_series(1, 90)")
                    assert [len(cursor.fetchmany(45)) for _ in range(3)] == [45, 45, 0]
        other = await asyncpg.connect(gateway.url("ruled"))
        got: list[int] = []
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="more than 100 rows"):
            await read_in_parts(other, got)
        assert got == [40, 40]
        assert await other.fetchval("select 1") == 1
        await other.close()


@pytest.mark.parametrize("options", ["", "(format csv)", "(format binary)"])
def test_rows_of_a_copy_are_counted_in_every_format(gateway: Gateway, ruled: Connection, options: str) -> None:
    most = Rule(RuleType.MAX_ROWS, most=100, name="most")
    with rules(gateway, ruled, output=(most,)), psycopg.connect(gateway.url("ruled"), autocommit=True) as connection:
        for count, shown in ((100, True), (101, False), (100_000, False)):
            cursor = connection.cursor()
            statement = f"copy (select generate_series(1, {count})) to stdout {options}"
            if shown:
                with cursor.copy(statement) as copy:
                    list(copy)
            else:
                with pytest.raises(REFUSED, match="more than 100 rows"), cursor.copy(statement) as copy:
                    list(copy)
        connection.execute("prepare several as select generate_series(1, $1)")
        assert len(connection.execute("execute several (100)").fetchall()) == 100
        with pytest.raises(REFUSED, match="more than 100 rows"):
            connection.execute("execute several (101)")


def test_changed_guardrail_applies_at_the_next_statement(
    gateway: Gateway, ruled: Connection, direct: psycopg.Connection
) -> None:
    """A statement judged by earlier rules is judged again."""
    with psycopg.connect(gateway.url("ruled"), autocommit=True) as connection:
        statement = "update kept set t = 'again'"
        connection.execute(statement, prepare=True)
        with rules(gateway, ruled, WHERE) as made:

            def is_refused() -> bool:
                try:
                    connection.execute(statement, prepare=True)
                except REFUSED:
                    return True
                return False

            wait_until(is_refused)
            fields = {"name": "care", "input": (WARN_WHERE,)}
            gateway.call(gateway.services.guardrails.replace(gateway.admin, str(made.id), fields))
            heard = told(connection)
            wait_until(lambda: not is_refused())
            assert heard
        wait_until(lambda: not is_refused())


def test_large_statements_are_judged_alone_and_in_a_pipeline(
    gateway: Gateway, ruled: Connection, direct: psycopg.Connection
) -> None:
    values = ",".join(f"({n}, 'row {n}')" for n in range(10, 5010))
    with rules(gateway, ruled, WHERE), psycopg.connect(gateway.url("ruled"), autocommit=True) as connection:
        connection.execute(f"insert into kept values {values}".encode())
        assert rows(direct) == 5003
        with pytest.raises(REFUSED):
            connection.execute(f"insert into kept values {values}; delete from kept".encode())
        with connection.pipeline():
            for _ in range(3):
                connection.execute(f"insert into kept values {values}".encode())
        assert connection.execute("select 1").fetchone() == (1,)
    assert rows(direct) == 20003


def test_attack_statement_too_large_to_be_parsed_is_denied(gateway: Gateway, ruled: Connection) -> None:
    with rules(gateway, ruled, WHERE), psycopg.connect(gateway.url("ruled"), autocommit=True) as connection:
        with pytest.raises(REFUSED, match="exceeds the"):
            connection.execute(b"select 1 -- " + b"x" * 1_100_000)
        assert connection.execute("select 1").fetchone() == (1,)


def test_client_that_disconnects_while_its_statement_is_judged_ends_its_session(
    gateway: Gateway, ruled: Connection
) -> None:
    values = ",".join(f"({n}, 'row {n}')" for n in range(30000))
    with rules(gateway, ruled, WHERE):
        connection = psycopg.connect(gateway.url("ruled"), autocommit=True)
        connection.pgconn.send_query(f"insert into kept values {values}".encode())
        connection.pgconn.flush()
        connection.pgconn.finish()
        assert gateway.newest_finished("ruled") is not None


def test_simulation_reports_what_a_rule_would_have_done(
    gateway: Gateway, target: PostgresServer, direct: psycopg.Connection
) -> None:
    past = gateway.connection("past", target)
    with psycopg.connect(gateway.url("past"), autocommit=True) as connection:
        for number in range(1200):
            connection.execute(f"select {number}".encode())
        connection.execute("delete from kept")
        connection.execute("insert into kept values (1)")
    hit = gateway.newest_finished("past")
    psql(gateway.url("past"), "-c", "select 1")
    gateway.newest_finished("past")
    trials = gateway.services.guardrail_trials
    rail = replace(DRAFT, org_id=past.org_id, input=(WHERE, replace(READ_ONLY, action=Action.WARN)))
    steps: list[int] = []

    async def run(period: Period) -> Simulation:
        async for found in trials.simulate(gateway.admin, rail, period):
            steps.append(found.statements_read)
        return found

    found = gateway.call(run(Period(connections=("past",))))
    assert found.is_done
    assert (found.sessions_read, found.statements_read) == (2, 1203)
    assert found.actions == {Action.DENY: 1, Action.WARN: 1}
    assert found.rules == {"where": 1, "read only": 1}
    assert found.sessions == [hit.id]
    assert found.users_with_most_hits() == [UserHits("past", hit.user, 2, 1, [hit.id])]
    assert [one.statement for one in found.samples] == ["delete from kept", "insert into kept values (1)"]
    assert found.samples[0].reason == "DELETE has no condition"
    assert len(steps) >= 3  # progress on the way: with each session at least
    assert steps == sorted(steps)
    assert rows(direct) == 1  # nothing was run again
    assert any("views and functions" in one for one in found.caveats)
    bounded = gateway.call(run(Period(connections=("past",), most=1)))
    assert (bounded.sessions_read, bounded.stopped) == (1, "1 sessions were read")
    with pytest.raises(Invalid, match="start_date"):
        gateway.call(run(Period(start=hit.start_date, end=hit.start_date)))


def test_simulation_judges_bind_values_prepared_names_and_answers(gateway: Gateway, target: PostgresServer) -> None:
    past = gateway.connection("answered", target)
    with psycopg.connect(gateway.url("answered"), autocommit=True) as connection:
        connection.execute("select %s::text, %s::int", ["the launch code", 7])
        connection.execute("prepare wipe as delete from kept where n = $1")
        connection.execute("execute wipe(1)")
        connection.execute("select 'top-' || 'secret', n from generate_series(1, 30) n", prepare=True, binary=True)
        connection.execute("update kept set n = n")
        with connection.cursor().copy("copy (select 'copied-secret') to stdout") as copy:
            list(copy)
        with pytest.raises(psycopg.Error):
            connection.execute("select ('error-' || 'secret')::int")
    gateway.newest_finished("answered")
    trials = gateway.services.guardrail_trials
    code = Rule(RuleType.DENY_WORDS_LIST, words=("launch code",), name="values")
    secret = Rule(RuleType.PATTERN_MATCH, pattern_regex="[a-z]+-secret", name="answers", action=Action.MASK)
    most = Rule(RuleType.MAX_ROWS, most=20, name="most")
    write = replace(NO_KEPT, name="writes", objects=("*.kept",))
    rail = replace(DRAFT, org_id=past.org_id, input=(code, write), output=(secret, most))

    async def run() -> Simulation:
        async for found in trials.simulate(gateway.admin, rail, Period(connections=("answered",))):
            last = found
        return last

    found = gateway.call(run())
    assert found.is_done
    assert not found.skipped
    assert found.values_read == 2
    assert found.rules["values"] == 1
    assert found.rules["most"] == 1, "an UPDATE of 3 rows shows none"
    assert found.rules["writes"] >= 2, "the DELETE by its name, and the UPDATE"
    assert found.rules["answers"] == 31, "30 rows but the one too many, a copy and an error"
    (by_value,) = (one for one in found.samples if one.rule == "values")
    assert by_value.values == ("the launch code", "7")
    assert {one.direction for one in found.samples} == {"input", "output"}
    assert len(found.caveats) == 3


def test_abandoned_simulation_frees_its_slot(gateway: Gateway, ruled: Connection) -> None:
    trials = gateway.services.guardrail_trials
    rail = replace(DRAFT, org_id=ruled.org_id, input=(READ_ONLY,))

    async def left() -> None:
        for _ in range(5):
            steps = trials.simulate(gateway.admin, rail, Period())
            await anext(steps)
            await steps.aclose()

    gateway.call(left())

    async def crowd() -> None:
        several = [trials.simulate(gateway.admin, rail, Period()) for _ in range(3)]
        try:
            for one in several:
                await anext(one)
        finally:
            for one in several:
                await one.aclose()

    with pytest.raises(TooMany):
        gateway.call(crowd())


def test_long_statement_judged_by_another_process_runs_or_is_denied(
    gateway: Gateway, ruled: Connection, direct: psycopg.Connection
) -> None:
    many = ", ".join(map(str, range(20_000)))
    with rules(gateway, ruled, READ_ONLY), psycopg.connect(gateway.url(ruled.name), autocommit=True) as connection:
        for _ in range(2):
            assert connection.execute(f"select n from kept where n in ({many}) order by n").fetchall() == [
                (1,), (2,), (3,),
            ]  # fmt: skip
            with pytest.raises(REFUSED, match="read only"):
                connection.execute(f"delete from kept where n in ({many})")
    assert rows(direct) == 3


def test_pipeline_longer_than_one_read_is_judged_to_its_end(
    gateway: Gateway, ruled: Connection, direct: psycopg.Connection
) -> None:
    with rules(gateway, ruled, READ_ONLY), psycopg.connect(gateway.url(ruled.name), autocommit=True) as connection:
        with connection.pipeline():
            cursors = [connection.execute(f"select n + {number} from kept where n = 1") for number in range(500)]
        assert [cursor.fetchone() for cursor in cursors] == [(1 + number,) for number in range(500)]
        texts = [f"select n + {number} from kept" for number in range(400)] + ["delete from kept"]
        with pytest.raises(REFUSED, match="read only"), connection.pipeline():
            list(map(connection.execute, texts))
    assert rows(direct) == 3
