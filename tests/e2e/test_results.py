"""Scripts on a real PostgreSQL, and their answers as values: masked, complete and bounded."""

from __future__ import annotations

import csv
import io
import json
import resource
from typing import Any

import psycopg
import pytest
from tests.support.gateway import Gateway
from tests.support.postgres import PostgresServer
from tests.support.promises import wait_until

from postern.api.sessions.result_answers import ResultWriter
from postern.domain.sessions.results import Mask, Result, ResultColumns, Row
from postern.domain.sessions.session import Session, SessionStatus


def execute(gateway: Gateway, script: str, connection: str = "target") -> Session:
    submitted = gateway.call(gateway.services.sessions.submit(gateway.admin, connection, script, source="127.0.0.1"))
    return gateway.finished(submitted.id, 60)


def results(gateway: Gateway, session: Session) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads("".join(ResultWriter(gateway.services.sessions.results(session)).json()))
    return found


@pytest.fixture(scope="module")
def masked(gateway: Gateway, target: PostgresServer) -> str:
    gateway.connection("results-masked", target, redact_enabled=True, redact_types=("EMAIL_ADDRESS",))
    return "results-masked"


def test_every_statement_of_a_script_has_its_result(gateway: Gateway) -> None:
    script = """
        select null::text, '', 'grüße 🦊', array['a,b', null, 'ü'], '\\xdead'::bytea, 12345678901234567890.10, true;
        create temp table t (n int); insert into t select generate_series(1, 3);
        do $$ begin raise notice 'mind; this' using hint = 'look'; end $$; -- a comment; with a semicolon
        select n from t where n > 5
    """
    one, two, three, four, five = results(gateway, execute(gateway, script))
    assert one["rows"] == [[None, "", "grüße 🦊", '{"a,b",NULL,ü}', "\\xdead", "12345678901234567890.10", "t"]]
    assert [part["tag"] for part in (two, three, four)] == ["CREATE TABLE", "INSERT 0 3", "DO"]
    assert [(notice["text"], notice["hint"]) for notice in four["notices"]] == [("mind; this", "look")]
    assert (five["columns"], five["rows"], five["tag"]) == (["n"], [], "SELECT 0")


def test_script_stops_at_the_first_error_and_reports_its_position(gateway: Gateway, direct: psycopg.Connection) -> None:
    direct.execute("drop table if exists results_half")
    session = execute(
        gateway, "create table results_half (n int);\nselect 1 as one;\nselect größe from nichts;\nselect 2"
    )
    assert session.exit_code == 1
    error = results(gateway, session)[-1]["error"]
    assert error["code"] == "42P01"
    script = session.script or ""
    assert script[error["position"] - 1 :].startswith("nichts")
    assert len(results(gateway, session)) == 3
    assert direct.execute("select to_regclass('results_half')").fetchone() == (None,)


def test_results_are_masked_as_json_and_csv(gateway: Gateway, masked: str) -> None:
    session = execute(gateway, "select 'ann@example.com' as a, array['bob@example.com', null]; select 1/0", masked)
    shown = results(gateway, session)
    assert shown[0]["rows"][0][0] == "****@****"
    written = "".join(ResultWriter(gateway.services.sessions.results(session)).csv())
    assert "****@****" in written
    assert "example.com" not in written + json.dumps(shown)


def test_denied_script_runs_none_of_its_statements(
    gateway: Gateway, guarded: object, direct: psycopg.Connection
) -> None:
    """The rule is about the last statement; the first one would have left a table."""
    direct.execute("drop table if exists results_refused")
    session = execute(gateway, "create table results_refused (n int); drop table if exists x", "guarded")
    assert session.exit_code == 1
    (only,) = results(gateway, session)
    assert "no-drop" in only["error"]["text"]
    assert direct.execute("select to_regclass('results_refused')").fetchone() == (None,)


def test_answer_blocked_by_a_rule_is_an_error_in_the_results(gateway: Gateway, guarded: object) -> None:
    session = execute(gateway, "select 'harmless'; select 'top-' || 'secret'", "guarded")
    assert session.exit_code == 1
    shown = results(gateway, session)
    assert shown[-1]["error"] is not None
    assert "top-secret" not in json.dumps(shown)


def test_copy_from_stdin_fails_as_there_is_no_data(gateway: Gateway) -> None:
    session = execute(gateway, "copy pg_class from stdin")
    assert session.exit_code == 1
    assert results(gateway, session)[-1]["error"] is not None


def test_unreachable_target_is_a_notice_in_the_results(gateway: Gateway) -> None:
    gateway.connection("results-unreachable", secret={"PORT": "1"})
    session = execute(gateway, "select 1", "results-unreachable")
    assert "cannot be reached" in results(gateway, session)[0]["notices"][0]["text"]


def test_million_rows_are_read_with_little_memory_up_to_the_limit(gateway: Gateway) -> None:
    before = gateway.worker.resident()
    session = execute(gateway, "select n, 'row ' || n as text from generate_series(1, 1000000) n; select 'after'")
    assert session.exit_code == 0
    assert gateway.worker.resident() - before < 100 * 1024 * 1024
    assert session.metrics["truncated"] is True  # at recording_output_limit, 16 MiB by default
    here = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    count = 0
    tail = ""
    for piece in ResultWriter(gateway.services.sessions.results(session)).json():
        count += piece.count("row ")
        tail = (tail + piece)[-3000:]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - here < 50 * 1024  # KiB
    assert 300_000 < count < 1_000_000
    assert '"truncated": true' in tail
    assert '"tag": "SELECT 1000000"' in tail


def test_csv_of_results_reads_back_unchanged(gateway: Gateway) -> None:
    script = (
        "select n, case n % 3 when 0 then null when 1 then '' else E'a,\"b\"\\r\\nc' end from generate_series(1,9) n"
    )
    session = execute(gateway, script)
    written = "".join(ResultWriter(gateway.services.sessions.results(session)).csv())
    rows = list(csv.reader(io.StringIO(written, newline="")))
    assert rows[0] == ["n", "case"]
    assert rows[1:4] == [["1", ""], ["2", 'a,"b"\r\nc'], ["3", ""]]
    assert '\r\n1,""\r\n' in written
    assert written.endswith("9,\r\n")


def test_rows_are_there_while_the_script_runs_and_masked(gateway: Gateway, masked: str) -> None:
    """PostgreSQL sends an answer once it has 8 KiB of it, or has ended the script."""
    script = "select n, 'u' || n || '@example.com' as mail from generate_series(1, 2000) n; select pg_sleep(120)"
    session = gateway.call(gateway.services.sessions.submit(gateway.admin, masked, script, source="127.0.0.1"))
    tail = gateway.services.sessions.recordings.result_tail(session)
    found: list[Result] = []
    try:

        def read() -> bool:
            found.extend(tail.read())
            return len(found) > 1_000

        wait_until(read, 60)
        assert gateway.session(session.id).status is not SessionStatus.DONE
        assert isinstance(found[0], ResultColumns)
        assert found[0].names == ("n", "mail")
        assert found[1] == Row(("1", "****@****"), ((1, Mask("", "replace", ("EMAIL_ADDRESS",))),))
    finally:
        tail.close()
        gateway.call(gateway.services.sessions.kill(gateway.admin, session.id))
        gateway.finished(session.id, 60)
