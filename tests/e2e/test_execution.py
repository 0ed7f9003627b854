"""Scripts run by `exec`: through the same link, with the same rules."""

from __future__ import annotations

import psycopg
import pytest
from tests.support.gateway import Gateway, running
from tests.support.postgres import free_port
from tests.support.promises import wait_until

from postern.domain.sessions.session import Session
from postern.domain.targets.connection import Connection
from postern.errors import NotFound


def execute(gateway: Gateway, script: str, connection: str = "target") -> Session:
    submitted = gateway.call(gateway.services.sessions.submit(gateway.admin, connection, script, source="127.0.0.1"))
    return gateway.finished(submitted.id)


def test_success(gateway: Gateway) -> None:
    session = execute(gateway, "select 'grüße', n from generate_series(1, 3) n; select null")
    assert (session.exit_code, session.metadata["end_reason"]) == (0, "completed")
    assert "grüße\t1\ngrüße\t2\ngrüße\t3\n" in gateway.text(session.id)
    assert session.script_size == len("select 'grüße', n from generate_series(1, 3) n; select null".encode())


def test_failure_is_all_or_nothing_as_postgresql_has_it(gateway: Gateway, direct: psycopg.Connection) -> None:
    direct.execute("drop table if exists half_done")
    session = execute(gateway, "create table half_done (n int); select 1/0; select 'never'")
    assert session.exit_code == 1
    assert "division by zero" in gateway.text(session.id)
    assert direct.execute("select to_regclass('half_done')").fetchone() == (None,)


def test_a_refused_script_fails(gateway: Gateway, guarded: Connection) -> None:
    session = execute(gateway, "select 1; drop table if exists x", "guarded")
    assert (session.exit_code, session.metrics["refused"]) == (1, 1)
    assert "no-drop" in gateway.text(session.id)


def test_large_output_is_kept_up_to_the_limit(gateway: Gateway) -> None:
    session = execute(gateway, "select repeat('x', 1000) from generate_series(1, 30000)")
    assert session.exit_code == 0
    assert session.metrics["truncated"] is True
    assert session.event_size < 17 * 1024 * 1024


def test_copy_from_stdin_in_a_script_has_no_data(gateway: Gateway) -> None:
    session = execute(gateway, "copy pg_class from stdin")
    assert session.exit_code == 1


def test_killed_while_it_runs(gateway: Gateway, direct: psycopg.Connection) -> None:
    submitted = gateway.call(
        gateway.services.sessions.submit(gateway.admin, "target", "select 'runs', pg_sleep(60)", source="127.0.0.1")
    )
    wait_until(lambda: running(direct, "'runs'"))
    gateway.call(gateway.services.sessions.kill(gateway.admin, submitted.id))
    session = gateway.finished(submitted.id)
    assert (session.exit_code, session.metadata["end_reason"]) == (1, "killed")
    wait_until(lambda: not running(direct, "'runs'"))


def test_an_unreachable_target_is_a_failure_that_says_so(gateway: Gateway) -> None:
    gateway.connection("exec-unreachable", secret={"PORT": str(free_port())})
    session = execute(gateway, "select 1", "exec-unreachable")
    assert (session.exit_code, session.metadata["end_reason"]) == (6, "failed")
    assert "cannot be reached" in gateway.text(session.id)


def test_many_at_once_run_once_each(gateway: Gateway, direct: psycopg.Connection) -> None:
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


def test_a_recording_of_nobody_is_not_found(gateway: Gateway) -> None:
    from uuid import uuid4

    with pytest.raises(NotFound):
        gateway.session(uuid4())
