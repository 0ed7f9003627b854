"""Scripts run by `exec`, through the same link and with the same rules."""

from __future__ import annotations

import psycopg
import pytest
from tests.support.gateway import Gateway, running
from tests.support.postgres import free_port
from tests.support.promises import wait_until

from postern.domain.sessions.results import Problem, Row
from postern.domain.sessions.script_parameters import Parameters
from postern.domain.sessions.session import Session
from postern.domain.targets.command import Invocation
from postern.domain.targets.connection import Connection
from postern.errors import NotFound
from postern.interception.events import Operation


def execute(gateway: Gateway, script: str, connection: str = "target", parameters: Parameters | None = None) -> Session:
    invocation = Invocation(parameters=parameters or {})
    submitted = gateway.call(
        gateway.services.sessions.submit(gateway.admin, connection, script, source="127.0.0.1", invocation=invocation)
    )
    return gateway.finished(submitted.id)


def test_successful_script_has_exit_code_0_and_its_output(gateway: Gateway) -> None:
    session = execute(gateway, "select 'grüße', n from generate_series(1, 3) n; select null")
    assert (session.exit_code, session.metadata["end_reason"]) == (0, "completed")
    assert "grüße\t1\ngrüße\t2\ngrüße\t3\n" in gateway.text(session.id)
    assert session.script_size == len("select 'grüße', n from generate_series(1, 3) n; select null".encode())


def test_failed_script_is_rolled_back_completely(gateway: Gateway, direct: psycopg.Connection) -> None:
    direct.execute("drop table if exists half_done")
    session = execute(gateway, "create table half_done (n int); select 1/0; select 'never'")
    assert session.exit_code == 1
    assert "division by zero" in gateway.text(session.id)
    assert direct.execute("select to_regclass('half_done')").fetchone() == (None,)


def test_denied_script_fails_and_names_the_rule(gateway: Gateway, guarded: Connection) -> None:
    session = execute(gateway, "select 1; drop table if exists x", "guarded")
    assert (session.exit_code, session.metrics["refused"]) == (1, 1)
    assert "no-drop" in gateway.text(session.id)


def test_large_output_is_recorded_up_to_the_limit(gateway: Gateway) -> None:
    session = execute(gateway, "select repeat('x', 1000) from generate_series(1, 30000)")
    assert session.exit_code == 0
    assert session.metrics["truncated"] is True
    assert session.event_size < 17 * 1024 * 1024


def test_copy_from_stdin_in_a_script_fails(gateway: Gateway) -> None:
    session = execute(gateway, "copy pg_class from stdin")
    assert session.exit_code == 1


def test_killed_script_stops_its_running_statement(gateway: Gateway, direct: psycopg.Connection) -> None:
    submitted = gateway.call(
        gateway.services.sessions.submit(gateway.admin, "target", "select 'runs', pg_sleep(60)", source="127.0.0.1")
    )
    wait_until(lambda: running(direct, "'runs'"))
    gateway.call(gateway.services.sessions.kill(gateway.admin, submitted.id))
    session = gateway.finished(submitted.id)
    assert (session.exit_code, session.metadata["end_reason"]) == (1, "killed")
    wait_until(lambda: not running(direct, "'runs'"))


def test_script_for_an_unreachable_target_fails_with_exit_code_6(gateway: Gateway) -> None:
    gateway.connection("exec-unreachable", secret={"PORT": str(free_port())})
    session = execute(gateway, "select 1", "exec-unreachable")
    assert (session.exit_code, session.metadata["end_reason"]) == (6, "failed")
    assert "cannot be reached" in gateway.text(session.id)


def test_concurrent_scripts_run_exactly_once_each(gateway: Gateway, direct: psycopg.Connection) -> None:
    direct.execute("drop table if exists ran; create table ran (n int)")
    submitted = [
        gateway.call(
            gateway.services.sessions.submit(
                gateway.admin, "target", f"insert into ran values ({n})", source="127.0.0.1"
            )
        )
        for n in range(40)
    ]
    assert {gateway.finished(session.id, 60).exit_code for session in submitted} == {0}
    assert direct.execute("select count(*), count(distinct n) from ran").fetchone() == (40, 40)


def test_recording_of_an_unknown_session_is_not_found(gateway: Gateway) -> None:
    from uuid import uuid4

    with pytest.raises(NotFound):
        gateway.session(uuid4())


# Parameters


def rows(gateway: Gateway, session: Session) -> list[tuple[str | None, ...]]:
    results = gateway.services.sessions.results(gateway.session(session.id))
    return [tuple(result.cells) for result in results if isinstance(result, Row)]


def test_parameters_are_bound_by_the_protocol(gateway: Gateway) -> None:
    hostile = "'; drop table x; -- \\ $1 :b"
    script = "select :a, :b + 1, :c::text, :d::bool, ':a' -- :e\n; select n from generate_series(1, 9) n where n > :b"
    session = execute(gateway, script, parameters={"a": hostile, "b": 7, "c": None, "d": True})
    assert (session.exit_code, session.script) == (0, script)
    assert rows(gateway, session) == [(hostile, "8", None, "t", ":a"), ("8",), ("9",)]
    operations = [event for event in gateway.records(session.id) if isinstance(event, Operation)]
    assert [(operation.text, operation.values) for operation in operations] == [
        ("select $1, $2 + 1, $3::text, $4::bool, ':a' -- :e", (hostile.encode(), b"7", None, b"true")),
        ("select n from generate_series(1, 9) n where n > $1", (b"7",)),
    ]


def test_script_with_parameters_is_one_transaction(gateway: Gateway, direct: psycopg.Connection) -> None:
    direct.execute("drop table if exists half_bound")
    script = "create table half_bound as select :n::int as n; select 1 / :zero; select 'never'"
    session = execute(gateway, script, parameters={"n": 1, "zero": 0})
    assert session.exit_code == 1
    assert "division by zero" in gateway.text(session.id)
    assert direct.execute("select to_regclass('half_bound')").fetchone() == (None,)


def test_position_of_an_error_is_that_of_the_script(gateway: Gateway) -> None:
    script = "select :number::int,\n  nothing from nowhere"
    session = execute(gateway, script, parameters={"number": "1"})
    problems = [
        result
        for result in gateway.services.sessions.results(gateway.session(session.id))
        if isinstance(result, Problem)
    ]
    assert [problem.position for problem in problems] == [script.index("nowhere") + 1]


def test_guardrail_sees_values_and_denies_the_whole_script(
    gateway: Gateway, guarded: Connection, direct: psycopg.Connection
) -> None:
    direct.execute("drop table if exists never_made")
    script = "create table never_made (n int); select :word"
    session = execute(gateway, script, "guarded", {"word": "drop table x"})
    assert (session.exit_code, session.metrics["refused"]) == (1, 1)
    assert "no-drop" in gateway.text(session.id)
    assert direct.execute("select to_regclass('never_made')").fetchone() == (None,)
    assert execute(gateway, "select :word", "guarded", {"word": "harmless"}).exit_code == 0
