"""Session rows and recordings state what happened, even if the worker is killed or its disk is full."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import psycopg
import pytest
from tests.support.clients import psql
from tests.support.gateway import Gateway
from tests.support.postgres import PostgresServer, free_port
from tests.support.promises import wait_until

from postern.domain.targets.connection import Connection
from postern.interception.events import Completed, Operation, Refusal


def test_session_row_agrees_with_its_recording(gateway: Gateway) -> None:
    with psycopg.connect(gateway.url(application_name="teller"), autocommit=True) as connection:
        connection.execute("create temp table told (n int, t text)")
        connection.execute("insert into told select n, 'row ' || n from generate_series(1, %s) n", [7])
        connection.execute("select t from told where n between %s and %s order by n", [2, None])
        connection.execute("select t from told where t = %s", ["row 3"])
        with pytest.raises(psycopg.errors.UndefinedTable):
            connection.execute("select * from missing")
    session = gateway.newest_finished()
    assert (session.user, session.connection, session.verb, session.exit_code) == (
        "admin@localhost", "target", "connect", None,
    )  # fmt: skip
    assert session.metadata["end_reason"] == "client_closed"
    assert session.metrics["operations"] == 5
    assert session.start_date is not None
    assert session.end_date is not None
    assert session.event_size > 0
    records = gateway.records(session.id)
    operations = [event for event in records if isinstance(event, Operation)]
    completed = [event for event in records if isinstance(event, Completed)]
    assert [event.values for event in operations] == [(), (b"7",), (b"2", None), (b"row 3",), ()]
    assert [event.rows for event in completed] == [None, 7, 0, 1, None]
    assert completed[-1].error_code == "42P01"
    assert all(event.micros > 0 for event in completed)
    text = gateway.text(session.id)
    assert "-- $2 = NULL" in text
    assert "row 3" in text
    assert 'relation "missing" does not exist' in text


def test_denied_statement_is_recorded_with_its_rule(gateway: Gateway, guarded: Connection) -> None:
    done = psql(gateway.url("guarded"), "-c", "drop table customers")
    assert done.returncode == 1
    session = gateway.newest_finished("guarded")
    found = [event for event in gateway.records(session.id) if isinstance(event, Refusal)]
    assert len(found) == 1
    assert "no-drop" in found[0].message
    assert gateway.operations(session.id) == ["drop table customers"]


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_killed_worker_loses_no_rows_that_a_client_received(
    target: PostgresServer, direct: psycopg.Connection, store: str
) -> None:
    url = None
    if store == "postgres":
        direct.execute("drop database if exists crash_store with (force)")
        direct.execute("create database crash_store")
        url = target.dsn("crash_store", scheme="postgresql+asyncpg")
    gateway = Gateway(store=url)
    try:
        gateway.start()
        gateway.connection("target", target)
        shown: dict[int, list[str]] = {}
        threads = [threading.Thread(target=_talk, args=(gateway.url(), n, shown)) for n in range(4)]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(shown) == 4 and all(len(rows) > 50 for rows in shown.values()))
        gateway.worker.kill()
        for thread in threads:
            thread.join(60)
        assert {str(session.status) for session in gateway.sessions()} == {"open"}
        gateway.worker.start()
        sessions = gateway.sessions()
        assert len(sessions) == 4
        assert {session.metadata["end_reason"] for session in sessions} == {"gateway_crashed"}
        texts = [gateway.text(session.id) for session in sessions]
        assert all("gateway stopped without closing this session" in text for text in texts)
        for rows in shown.values():
            (text,) = [text for text in texts if rows[0] in text]
            assert all(f"{row}\n" in text for row in rows)
        with psycopg.connect(gateway.url()) as connection:
            assert connection.execute("select 1").fetchone() == (1,)
    finally:
        gateway.stop()


def _talk(url: str, number: int, shown: dict[int, list[str]]) -> None:
    """Asks for rows until the gateway is gone; keeps every row that arrived."""
    rows = shown[number] = []
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            for count in range(1_000_000):
                row = connection.execute("select %s::text", [f"client {number} row {count}"]).fetchone()
                assert row is not None
                rows.append(row[0])
    except psycopg.OperationalError:
        return


@pytest.fixture
def fresh(target: PostgresServer) -> Iterator[Gateway]:
    """A gateway of its own, whose store is still small."""
    running = Gateway()
    try:
        running.start()
        running.connection("target", target)
        yield running
    finally:
        running.stop()


def test_full_disk_ends_only_the_session_that_cannot_be_recorded(fresh: Gateway, direct: psycopg.Connection) -> None:
    """A file size limit simulates the full disk: the write fails in the middle."""
    limit = 2 * 1024 * 1024
    worker = fresh.add_worker("full", postgres_port=free_port(), tunnel_port=free_port(), file_limit=limit)
    direct.execute("drop table if exists unrecorded; create table unrecorded (n int)")
    with (
        psycopg.connect(fresh.url(port=worker.port), autocommit=True) as small,
        psycopg.connect(fresh.url(port=worker.port), autocommit=True) as large,
    ):
        small.execute("select 1")
        session = fresh.newest()
        with pytest.raises(psycopg.OperationalError, match="the gateway cannot record this session"):
            large.execute("select repeat('x', 1000) from generate_series(1, 10000)")
        assert small.execute("select 'goes on'").fetchone() == ("goes on",)
    ended = fresh.finished(session.id)
    assert ended.metadata["end_reason"] == "recording_failed"
    assert "xxx" in fresh.text(session.id)
    wait_until(lambda: "its recording could not be written" in worker.log())
    with psycopg.connect(fresh.url(port=worker.port), autocommit=True) as connection:
        session = fresh.newest()
        # What cannot be recorded does not run.
        with pytest.raises(psycopg.OperationalError, match="cannot record"):
            connection.execute("insert into unrecorded select length(%s)", ["x" * (limit + 1)])
    assert direct.execute("select count(*) from unrecorded").fetchone() == (0,)
    worker.kill()
    del fresh.workers["full"]


def test_session_whose_recording_cannot_be_created_is_denied(gateway: Gateway) -> None:
    """No session stays open in the store."""
    worker = gateway.add_worker("nowhere", postgres_port=free_port(), tunnel_port=free_port())
    (gateway.home / "spool" / "nowhere").write_text("a file where the folder should be")
    with pytest.raises(psycopg.OperationalError, match="recording"):
        psycopg.connect(gateway.url(port=worker.port))
    assert gateway.newest_finished().metadata["end_reason"] == "recording_failed"
    worker.stop()
    del gateway.workers["nowhere"]


def test_script_that_cannot_be_recorded_is_not_run(target: PostgresServer, direct: psycopg.Connection) -> None:
    direct.execute("drop table if exists not_run; create table not_run (n int)")
    gateway = Gateway()
    try:
        gateway.start()
        gateway.connection("target", target)
        (gateway.home / "spool").mkdir(exist_ok=True)
        (gateway.home / "spool" / "w1").write_text("a file where the folder should be")
        submitted = gateway.call(
            gateway.services.sessions.submit(gateway.admin, "target", "insert into not_run values (1)", source="test")
        )
        session = gateway.finished(submitted.id)
        assert (session.exit_code, session.metadata["end_reason"]) == (1, "recording_failed")
        assert direct.execute("select count(*) from not_run").fetchone() == (0,)
    finally:
        gateway.stop()


def test_recording_files_are_accessible_to_the_owner_only(gateway: Gateway) -> None:
    with psycopg.connect(gateway.url()) as connection:
        connection.execute("select 1")
        for path in [*gateway.home.glob("spool/*/*"), *gateway.home.glob("sealed/*/*/*")]:
            with suppress(FileNotFoundError):  # that of an earlier session is sealed meanwhile
                assert path.stat().st_mode & 0o077 == 0


def test_idle_sessions_use_little_memory(gateway: Gateway, record_property: Callable[[str, object], None]) -> None:
    """The figure is reported; the limit here only finds gross regressions."""
    worker = gateway.add_worker("memory", postgres_port=free_port(), tunnel_port=free_port())
    url = gateway.url(port=worker.port)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    warm = [psycopg.connect(url) for _ in range(20)]
    before = worker.resident()
    connections = [psycopg.connect(url) for _ in range(200)]
    each = (worker.resident() - before) / len(connections)
    record_property("bytes_per_idle_session", int(each))
    print(f"{each / 1024:.1f} KiB per idle session")
    for connection in (*warm, *connections):
        connection.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert each < 200 * 1024
    worker.stop()
    del gateway.workers["memory"]
    assert os.getpid() != worker.pid
