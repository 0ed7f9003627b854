"""What a newcomer does, with the real thing: `postern up`, a pasted psql line, and the command line after it."""

from __future__ import annotations

import base64
import json
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.support.promises import wait_until, within
from tests.support.running import Gateway, started

pytestmark = pytest.mark.slow

MASTER = base64.b64encode(os.urandom(32)).decode()
RULE = {
    "name": "no secrets",
    "input": {"rules": [{"type": "deny_words_list", "words": ["launch codes"], "pattern_regex": ""}]},
}


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with started() as made:
        yield made


def uri(gateway: Gateway) -> str:
    return shlex.split(gateway.told["psql"])[1]


def ends(connection: psycopg.Connection[tuple[object, ...]], seconds: float) -> bool:
    """Whether the gateway ends it in that many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            connection.execute("select 1")
        except psycopg.Error:
            return True
        time.sleep(0.05)
    return False


def newest_session(gateway: Gateway, **wanted: str) -> dict[str, str]:
    """Once it is done: its row is closed a moment after the client left."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        page = json.loads(gateway.run("sessions", "--json").stdout)
        found = [one for one in page["data"] if all(one[key] == value for key, value in wanted.items())]
        if found and found[0]["status"] == "done":
            session: dict[str, str] = found[0]
            return session
        time.sleep(0.1)
    raise AssertionError("no such session was closed in time")


def test_what_is_printed_is_also_in_the_file(gateway: Gateway) -> None:
    printed = (gateway.folder / "printed").read_text()
    assert set(gateway.told) == {"api_url", "admin_email", "admin_password", "setup_url", "psql"}
    for value in gateway.told.values():
        assert value in printed
    assert (gateway.home / "first-run.json").stat().st_mode & 0o777 == 0o600
    for secret in ("admin_password", "setup_url"):
        assert gateway.told[secret] not in gateway.log


@pytest.mark.skipif(
    shutil.which("psql") is None and os.environ.get("CI") != "true",
    reason="needs psql: install Debian's postgresql-client",
)
def test_the_psql_line_works_as_pasted(gateway: Gateway) -> None:
    done = subprocess.run(
        f"{gateway.told['psql']} -At -c 'select count(*) from customers' -c 'drop table customers'",
        shell=True,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == "500\n"
    assert 'blocked by guardrail "no destructive statements"' in done.stderr


def test_a_driver_is_refused_and_goes_on(gateway: Gateway) -> None:
    with psycopg.connect(uri(gateway), autocommit=True) as connection:
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="delete without where"):
            connection.execute("delete from customers")
        assert connection.execute("select count(*) from customers").fetchone() == (500,)


def test_personal_data_come_masked(gateway: Gateway) -> None:
    with psycopg.connect(uri(gateway), autocommit=True) as connection:
        rows = connection.execute(
            "select email, phone, card, ssn, iban, host(ip), notes::text from customers"
        ).fetchall()
        assert len(rows) == 500
        assert {row[0] for row in rows} == {"****"}
        shown = " ".join(str(value) for row in rows for value in row)
        assert not re.search(r"@example|\b555[- ]01\d\d|\d{3}-\d{2}-\d{4}|TEST\d|192\.0\.2|2001:db8", shown)
        assert not re.search(r"\b4242 ?4242|\b4111 ?1111|\b3782", shown)
    session = newest_session(gateway, verb="connect")
    printed = gateway.run("sessions", "show", session["id"], "--output").stdout
    assert "customer data=" in printed  # masked values are counted by the rule that names the column
    assert "@example" not in printed


def test_sessions_show_what_happened(gateway: Gateway) -> None:
    with psycopg.connect(uri(gateway), autocommit=True) as connection:
        connection.execute("select 41 + 1 as answer")
        with pytest.raises(psycopg.Error):
            connection.execute("truncate orders")
    session = newest_session(gateway, verb="connect")
    listed = gateway.run("sessions")
    assert session["id"] in listed.stdout
    shown = gateway.run("sessions", "show", session["id"]).stdout
    assert "select 41 + 1 as answer" in shown
    assert "-> SELECT 1" in shown
    assert 'blocked by guardrail "no destructive statements" (rule "truncate")' in shown
    assert "42\n" not in shown
    assert "42\n" in gateway.run("sessions", "show", session["id"], "--output").stdout
    replayed = gateway.run("sessions", "replay", session["id"], "--max-pause", "0.05s").stdout
    assert replayed.index("select 41 + 1 as answer") < replayed.index("42\n") < replayed.index("truncate orders")
    exported = gateway.run("sessions", "export", session["id"]).stdout.splitlines()
    assert [json.loads(line)["statement"] for line in exported][:2] == ["select 41 + 1 as answer", "truncate orders"]


def test_what_was_asked_is_found_soon_after_a_session_ended(gateway: Gateway) -> None:
    with psycopg.connect(uri(gateway), autocommit=True) as connection:
        connection.execute("select 'xylophone' as instrument")
    session = newest_session(gateway, verb="connect")

    def found() -> str:
        shown = gateway.run("sessions", "search", "instrument", "xylo*").stdout
        return shown if session["id"] in shown else ""

    assert "select 'xylophone' as instrument" in wait_until(found)


def test_a_connection_is_tested_and_looked_into(gateway: Gateway) -> None:
    done = gateway.run("connections", "test", "shop-demo")
    assert (done.returncode, done.stdout.startswith("shop-demo works")) == (0, True), done.stderr
    assert json.loads(gateway.run("connections", "test", "shop-demo", "--json").stdout) == {"success": True}
    tables = gateway.run("connections", "schema", "shop-demo").stdout
    assert re.search(r"^public\tcustomers$", tables, re.MULTILINE)
    columns = gateway.run("connections", "schema", "shop-demo", "--table", "customers").stdout
    assert re.search(r"^email\ttext\tno$", columns, re.MULTILINE), columns
    found = json.loads(gateway.run("connections", "schema", "shop-demo", "--databases", "--json").stdout)
    assert found["databases"]
    every = gateway.run("connections", "schema", "shop-demo", "--columns").stdout
    assert "public.customers" in every
    assert "public.orders" in every
    missing = gateway.run("connections", "schema", "shop-demo", "--table", "no such table")
    assert (missing.returncode, missing.stdout) == (5, "")
    assert "the table does not exist" in missing.stderr
    assert gateway.run("connections", "schema", "shop-demo", "--databases", "--table", "x").returncode == 2
    assert gateway.run("connections", "schema", "shop-demo", "--columns", "--table", "x").returncode == 2


def test_a_connection_that_does_not_work_says_why(gateway: Gateway) -> None:
    secrets = ("--env", "HOST=127.0.0.1", "--env", "PORT=1", "--env", "USER=x")
    assert gateway.run("connections", "create", "broken", *secrets).returncode == 0
    failed = gateway.run("connections", "test", "broken")
    assert (failed.returncode, failed.stdout) == (6, "")
    assert "127.0.0.1:1 cannot be reached" in failed.stderr
    ran = gateway.run("exec", "broken", "-i", "select 1")
    assert (ran.returncode, ran.stdout) == (6, "")
    assert "127.0.0.1:1 cannot be reached" in ran.stderr
    assert "\tfailed 20" in next(line for line in gateway.run("connections").stdout.splitlines() if "broken" in line)


def test_exec_prints_results_as_json_and_csv(gateway: Gateway) -> None:
    script = "select 1 as one, null as nothing, '' as empty; select email from customers where id = 1"
    done = gateway.run("exec", "shop-demo", "-i", script, "--format", "csv")  # what runs it here makes CRLF a newline
    assert (done.returncode, done.stdout) == (0, 'one,nothing,empty\n1,,""\n\nemail\n****\n'), done.stderr
    one, two = json.loads(gateway.run("exec", "shop-demo", "-i", script, "--format", "json").stdout)
    assert (one["rows"], two["rows"], two["tag"]) == ([["1", None, ""]], [["****"]], "SELECT 1")
    failed = gateway.run("exec", "shop-demo", "-i", "select 1;\nselect 2 frm x y", "--format", "csv")
    assert failed.returncode == 1
    assert "syntax error" in failed.stderr
    lines = failed.stderr.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("LINE 2: select 2 frm"))
    assert lines[at][lines[at + 1].index("^")] == "x"
    assert gateway.run("exec", "shop-demo", "-i", "select 1", "--json", "--format", "csv").returncode == 2


@pytest.mark.parametrize("form", ["text", "ndjson"])
def test_exec_prints_rows_while_the_script_runs(gateway: Gateway, form: str) -> None:
    script = "select n, repeat('x', 1000), pg_sleep(0.05) from generate_series(1, 100) n"
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "postern", "exec", "shop-demo", "-i", script, "--format", form],
        env=gateway.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    assert process.stderr
    first = [process.stdout.readline() for _ in range(2)]
    assert process.poll() is None
    assert gateway.sessions("--verb", "exec", "--status", "open")
    output, errors = process.stdout.read(), process.stderr.read()
    assert process.wait(60) == 0, errors
    process.stdout.close()
    process.stderr.close()
    if form == "text":
        rows = [line.split("\t")[0].strip() for line in [*first, *output.splitlines()]]
        assert rows[:-1] == ["n", *[str(number) for number in range(1, 101)]]
        assert rows[-1] == "SELECT 100"
    else:
        lines = [json.loads(line) for line in [*first, *output.splitlines()]]
        assert [row[0] for line in lines for row in line.get("rows", [])] == [str(n) for n in range(1, 101)]
        assert [line["type"] for line in lines if line["type"] != "rows"] == ["columns", "done", "end"]
    assert errors.count("postern: session ") == 1


def test_exec_prints_output_and_errors_apart(gateway: Gateway) -> None:
    done = gateway.run("exec", "shop-demo", "-i", "select name from customers where id = 1")
    assert "Hana Dale" in done.stdout
    assert done.returncode == 0
    failed = gateway.run("exec", "shop-demo", stdin="select nonsense from nowhere")
    assert failed.returncode == 1
    assert "nowhere" in failed.stderr
    assert "nowhere" not in failed.stdout
    as_json = json.loads(gateway.run("exec", "shop-demo", "-i", "select 1", "--json").stdout)
    assert as_json["output_status"] == "success"


def test_native_connect_issues_a_credential_that_revoking_ends(gateway: Gateway) -> None:
    made = json.loads(gateway.run("connect", "shop-demo", "--native", "--hours", "1", "--json").stdout)
    with psycopg.connect(shlex.split(made["psql"])[1], autocommit=True) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
        assert gateway.run("credentials", "revoke", "shop-demo", made["id"]).returncode == 0
        assert ends(connection, within(2))
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(shlex.split(made["psql"])[1])


def test_connect_opens_a_port_for_several_clients(gateway: Gateway) -> None:
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "postern", "connect", "shop-demo"],
        env=gateway.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout
    line = process.stdout.readline()
    address = shlex.split(line)[1]
    with (
        psycopg.connect(address, autocommit=True) as one,
        psycopg.connect(address.replace("disable", "prefer"), autocommit=True) as two,
    ):
        assert one.execute("select count(*) from orders").fetchone() == (1500,)
        # A client that has much unread does not hold up its neighbour.
        cursor = one.cursor()
        cursor.execute("begin")
        cursor.execute("declare c cursor for select repeat('x', 1000) from generate_series(1, 20000)")
        cursor.execute("fetch 5000 from c")
        assert two.execute("select 2").fetchone() == (2,)
        assert len(cursor.fetchall()) == 5000
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    process.stdout.close()


def test_connections_are_made_shown_and_deleted(gateway: Gateway) -> None:
    password = "s3cret-of-the-target"
    place = ["--env", "HOST=127.0.0.1", "--env", "USER=app"]
    options = [*place, "--env", f"PASS={password}", "--tag", "team=x", "--redact", "EMAIL_ADDRESS"]
    made = gateway.run("connections", "create", "orders", *options)
    assert made.returncode == 0, made.stderr
    assert "team=x" in gateway.run("connections", "list", "--tags", "team=x").stdout
    shown = gateway.run("connections", "show", "orders")
    assert "EMAIL_ADDRESS" in shown.stdout
    assert password not in shown.stdout + gateway.log
    again = gateway.run("connections", "create", "orders", *place)
    assert again.returncode == 1
    assert "exists already" in again.stderr
    assert gateway.run("connections", "delete", "orders", "--yes").returncode == 0
    missing = gateway.run("connections", "create", "orders", "--env", "NO_SUCH_VARIABLE")
    assert missing.returncode == 2
    assert "set the environment variable" in missing.stderr
    gone = gateway.run("connections", "show", "orders")
    assert (gone.returncode, gone.stdout) == (5, "")


def test_guardrails_are_made_changed_and_deleted(gateway: Gateway) -> None:
    made = gateway.run("guardrails", "create", "-", stdin=json.dumps(RULE))
    assert made.returncode == 0, made.stderr
    shown = gateway.run("guardrails", "show", "no secrets")
    assert "launch codes" in shown.stdout
    shop = json.loads(gateway.run("connections", "show", "shop-demo", "--json").stdout)
    applied = gateway.run(
        "guardrails", "update", "no secrets", "-", stdin=json.dumps({**RULE, "connection_ids": [shop["id"]]})
    )
    assert applied.returncode == 0, applied.stderr
    refused = gateway.run("exec", "shop-demo", "-i", "select 'launch codes'")
    assert refused.returncode == 1
    assert "no secrets" in refused.stderr
    assert "ask an administrator to change the guardrail" in refused.stderr
    said = "Ask at https://access.example.com"
    assert gateway.run("admin", "orgs", "update", "--access-help", said).returncode == 0
    refused = gateway.run("exec", "shop-demo", "-i", "select 'launch codes'")
    assert f'If you need this on connection "shop-demo": {said}' in refused.stderr
    assert gateway.run("admin", "orgs", "update", "--access-help", "").returncode == 0
    assert gateway.run("guardrails", "delete", "no secrets", "--yes").returncode == 0
    assert gateway.run("exec", "shop-demo", "-i", "select 'launch codes'").returncode == 0
    preset = gateway.run("guardrails", "create", "reads", "--preset", "read-only", "--connection", "shop-demo")
    assert preset.returncode == 0, preset.stderr
    refused = gateway.run("exec", "shop-demo", "-i", "create table x (n int)")
    assert refused.returncode == 1
    assert 'guardrail "reads" (rule "read only"): CREATE TABLE (ddl)' in refused.stderr
    tried = gateway.run("guardrails", "test", "reads", stdin="delete from orders")
    assert tried.returncode == 1
    assert "DELETE (write)" in tried.stdout
    assert gateway.run("guardrails", "test", "reads", "--text", "select 1").returncode == 0
    simulated = gateway.run("guardrails", "simulate", "reads", "--since", "1h", "--json")
    found = json.loads(simulated.stdout)
    assert found["event"] == "result"
    assert found["statements_read"] >= 3
    assert found["caveats"]
    assert "create table x" in [one["statement"][:14] for one in found["samples"]]
    assert "read only" in gateway.run("guardrails", "simulate", "reads").stdout
    assert gateway.run("guardrails", "delete", "reads", "--yes").returncode == 0
    assert "read-only" in gateway.run("guardrails", "presets").stdout
    bad = {**RULE, "input": {"rules": [{"type": "pattern_match", "words": [], "pattern_regex": "("}]}}
    wrong = gateway.run("guardrails", "create", "-", stdin=json.dumps(bad))
    assert wrong.returncode == 1
    assert "pattern_regex" in wrong.stderr


def test_masking_rules_are_made_tried_changed_and_deleted(gateway: Gateway, tmp_path: Path) -> None:
    file = tmp_path / "rule.json"
    rule = {
        "name": "people",
        "supported_entity_types": [{"name": "CONTACT", "entity_types": ["EMAIL_ADDRESS"]}],
        "columns": ["secret_*"],
        "strategy": "partial",
    }
    file.write_text(json.dumps(rule))
    tried = gateway.run("masking", "test", str(file), "to ann@example.com", "--cell", "secret_name=Lovelace")
    assert tried.returncode == 0, tried.stderr
    assert tried.stdout.splitlines() == ["to a***@example.com", "secret_name  L****"]
    assert "EMAIL_ADDRESS: 1" in tried.stderr
    assert gateway.run("masking", "create", str(file)).returncode == 0
    assert "people" in gateway.run("masking").stdout
    assert "secret_*" in gateway.run("masking", "show", "people").stdout
    again = gateway.run("masking", "test", "people", "nothing", "--json")
    assert json.loads(again.stdout) == {"texts": ["nothing"], "rows": [], "info_types": {}}
    shop = json.loads(gateway.run("connections", "show", "shop-demo", "--json").stdout)
    applied = gateway.run(
        "masking", "update", "people", "-", stdin=json.dumps({**rule, "connection_ids": [shop["id"]]})
    )
    assert applied.returncode == 0, applied.stderr
    assert "people" in gateway.run("connections", "show", "shop-demo").stdout
    masked = gateway.run("exec", "shop-demo", "-i", "select 'Lovelace' as secret_name").stdout
    assert masked.splitlines()[:2] == ["secret_name", "****"]
    assert gateway.run("masking", "delete", "people", "--yes").returncode == 0
    assert "Lovelace" in gateway.run("exec", "shop-demo", "-i", "select 'Lovelace' as secret_name").stdout
    assert gateway.run("masking", "test", "people").returncode == 2
    gone = gateway.run("masking", "show", "people")
    assert gone.returncode == 5
    assert "`postern masking` lists the existing ones" in gone.stderr


def test_login_and_logout(gateway: Gateway, tmp_path: Path) -> None:
    other = Gateway(gateway.folder)
    other.environment = {**gateway.environment, "XDG_CONFIG_HOME": str(tmp_path)}
    url = gateway.told["api_url"]
    assert other.run("sessions").returncode == 3
    wrong = other.run("login", url, "--email", "admin@localhost", "--password-stdin", stdin="wrong\n")
    assert wrong.returncode == 3
    right = other.run(
        "login", url, "--email", "admin@localhost", "--password-stdin", stdin=gateway.told["admin_password"] + "\n"
    )
    assert right.returncode == 0, right.stderr
    assert other.run("sessions").returncode == 0
    assert other.run("logout").returncode == 0
    assert other.run("sessions").returncode == 3
    other.environment["POSTERN_API_URL"] = "http://127.0.0.1:1"
    other.environment["POSTERN_TOKEN"] = "t"
    assert other.run("sessions").returncode == 6


def test_a_second_gateway_on_the_same_home_is_refused(gateway: Gateway) -> None:
    second = gateway.run_apart("up")
    assert second.returncode == 1
    assert f"another postern (process {gateway.process and gateway.process.pid})" in second.stderr


def test_a_killed_worker_comes_back_and_its_session_is_closed(gateway: Gateway) -> None:
    connection = psycopg.connect(uri(gateway), autocommit=True)
    connection.execute("select 'shown before the crash'")
    os.kill(worker_of(gateway), signal.SIGKILL)
    assert ends(connection, within(5))
    wait_until(lambda: "w1 has restarted" in gateway.log, 60)
    assert "w1 was ended by signal SIGKILL; restarting it" in gateway.log
    with psycopg.connect(uri(gateway)) as again:
        assert again.execute("select 1").fetchone() == (1,)

    def crashed() -> list[dict[str, Any]]:
        done = gateway.sessions("--status", "done", "--verb", "connect")
        return [one for one in done if one["metadata"].get("end_reason") == "gateway_crashed"]

    cut = wait_until(crashed)
    assert len(cut) == 1
    assert "shown before the crash" in gateway.run("sessions", "show", cut[0]["id"]).stdout


def worker_of(gateway: Gateway) -> int:
    assert gateway.process is not None
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = (entry / "stat").read_text().rsplit(")", 1)[1].split()[1]
            command = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if int(parent) == gateway.process.pid and b"worker" in command:
            return int(entry.name)
    raise AssertionError("no worker runs")


def test_the_next_start_finds_its_state(gateway: Gateway) -> None:
    """Last: it stops the gateway of this module."""
    before = gateway.told
    sessions = json.loads(gateway.run("sessions", "--json").stdout)["total"]
    assert gateway.stop() == 0
    assert gateway.log.rstrip().endswith("postern has stopped")
    printed = gateway.start()
    assert before["admin_password"] not in printed
    assert gateway.told["admin_password"] == before["admin_password"]
    assert json.loads(gateway.run("sessions", "--json").stdout)["total"] == sessions
    with psycopg.connect(uri(gateway)) as connection:
        assert connection.execute("select count(*) from customers").fetchone() == (500,)


def test_the_log_of_all_processes_is_shown_and_followed(gateway: Gateway) -> None:
    shown = gateway.run("admin", "logs", "--limit", "50")
    assert shown.returncode == 0, shown.stderr
    assert "supervisor" in shown.stdout or "api" in shown.stdout
    following = subprocess.Popen(
        [sys.executable, "-m", "postern", "admin", "logs", "--follow", "--json", "--limit", "1"],
        env=gateway.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    with following:
        try:
            assert following.stdout is not None
            assert json.loads(following.stdout.readline())["message"]  # the last one that was there
            gateway.run(
                "login", "--profile", "nobody", "--email", "nobody@example.com", "--password-stdin", stdin="x\n"
            )
            gateway.run("exec", "shop-demo", "-i", "select 1")
            assert select.select([following.stdout], [], [], 60)[0]
            assert json.loads(following.stdout.readline())["message"]
            following.send_signal(signal.SIGINT)
            assert following.wait(60) == 1
        finally:
            following.kill()


def test_who_started_the_gateway_is_logged_in_as_its_administrator(gateway: Gateway) -> None:
    who = json.loads(gateway.run("whoami", "--json").stdout)
    assert (who["email"], who["role"], who["login_method"]) == (gateway.told["admin_email"], "admin", "local")
    assert gateway.run("profiles").stdout.count(gateway.told["api_url"]) == 1


@pytest.mark.slow
def test_recordings_are_encrypted_under_a_master_key_from_the_environment_and_renewed_while_it_runs() -> None:
    """From a statement to a blob that nobody reads without the key, and back; no process was restarted between."""
    with started(MASTER_KEY="env:POSTERN_OUR_MASTER", OUR_MASTER=MASTER) as gateway:
        recordings = gateway.home / "recordings"

        def recorded(text: str) -> tuple[str, bytes]:
            """(session, data key) of one with that statement, once its blob is there."""
            before = set(recordings.rglob("*.zst"))
            with psycopg.connect(uri(gateway)) as connection:
                connection.execute(f"select '{text}'")
            (blob,) = wait_until(lambda: set(recordings.rglob("*.zst")) - before)
            content = blob.read_bytes()
            assert content.startswith(b"PSTN\1")
            assert text.encode() not in content
            return blob.parent.name, content[5:21]

        first, old = recorded("before the renewal")
        assert gateway.run("keys", "renew").returncode == 0

        def recorded_anew() -> tuple[str, bytes] | None:
            session, key = recorded("after the renewal")
            return (session, key) if key != old else None

        second, new = wait_until(recorded_anew, 60)  # as soon as the archiver was told
        for session, text in ((first, "before the renewal"), (second, "after the renewal")):
            shown = gateway.run("sessions", "show", session)
            assert text in shown.stdout, shown
        status = json.loads(gateway.run("keys", "status", "--json").stdout)
        segments = {key["id"].replace("-", ""): key["segments"] for key in status["data_keys"]}
        assert (segments[old.hex()] >= 1, segments[new.hex()]) == (True, 1)
        wait_until(lambda: not list((gateway.home / "sealed").rglob("*.zst")))
        environments = [Path(f"/proc/{pid}/environ").read_bytes() for pid in gateway.processes("demo")]
        assert not any(MASTER.encode() in one for one in environments)
