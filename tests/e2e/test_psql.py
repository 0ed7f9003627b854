"""An unmodified psql through the gateway."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
from pathlib import Path

import psycopg
import pytest
from tests.support import wire
from tests.support.clients import clean_environment, need, psql
from tests.support.gateway import Gateway, running
from tests.support.promises import wait_until, within


def test_select_returns_the_targets_answer(gateway: Gateway) -> None:
    done = psql(gateway.url(), "-c", "select 1 as one, 'grüße' as two, null as three")
    assert (done.stdout, done.stderr, done.returncode) == ("1|grüße|\n", "", 0)


def test_session_has_the_requested_database_and_the_connections_user(gateway: Gateway) -> None:
    """The client's user name is the credential's; the target's user is the connection's."""
    done = psql(gateway.url(database="template1"), "-c", "select current_user, current_database()")
    assert done.stdout == "postgres|template1\n"


def test_database_named_like_the_user_selects_the_default_database(gateway: Gateway) -> None:
    issued = gateway.credential("target")
    url = gateway.url(issued=issued, database="")
    assert psql(url, "-c", "select current_database()").stdout == "postgres\n"


def test_tls_with_full_verification_and_channel_binding_works(gateway: Gateway) -> None:
    authority = str(gateway.home / "tls" / "ca.crt")
    url = gateway.url(sslmode="verify-full", sslrootcert=authority, channel_binding="require")
    done = psql(url, "-c", "\\conninfo")
    assert "SSL connection (protocol: TLSv1.3" in done.stdout
    assert psql(url, "-c", "select 'over tls'").stdout == "over tls\n"
    assert gateway.newest_finished().metadata["client_tls"] == "yes"


def test_channel_binding_without_tls_is_not_offered(gateway: Gateway) -> None:
    done = psql(gateway.url(channel_binding="require"), "-c", "select 1")
    assert done.returncode == 2
    assert "channel binding" in done.stderr


def test_wrong_password_looks_like_an_unknown_user(gateway: Gateway) -> None:
    """Both are 28P01 with the same text, so that answers never reveal which user names exist."""
    issued = gateway.credential("target")
    said = []
    for user in (issued.credential.username, "nobody-here-abc123"):
        port = gateway.settings.postgres_port
        done = psql(f"postgresql://{user}:wrong@localhost:{port}/postgres?sslmode=disable", "-c", "select 1")
        assert done.returncode == 2
        assert "password is wrong" in done.stderr
        said.append(done.stderr.partition("FATAL")[2])
    assert said[0] == said[1]


def test_wrong_password_has_sqlstate_28p01(gateway: Gateway) -> None:
    issued = gateway.credential("target")
    with wire.connect(gateway.settings.postgres_port) as stream:
        with pytest.raises(AssertionError, match="C28P01"):
            wire.log_in(stream, issued.credential.username, "wrong")
        assert wire.closed_by_peer(stream) == b""


def test_copy_in_and_out_is_unchanged_and_recorded(
    gateway: Gateway, direct: psycopg.Connection, tmp_path: Path
) -> None:
    given = tmp_path / "in.csv"
    given.write_text("".join(f"{n},name {n},\n" for n in range(50_000)))
    direct.execute("drop table if exists copied; create table copied (id int, name text, note text)")
    taken = tmp_path / "out.csv"
    script = f"\\copy copied from '{given}' csv\n\\copy (select * from copied order by id) to '{taken}' csv\n"
    done = psql(gateway.url(), stdin=script)
    assert (done.stdout, done.stderr) == ("COPY 50000\nCOPY 50000\n", "")
    assert taken.read_bytes() == given.read_bytes()
    session = gateway.newest_finished()
    assert any("copy" in text.lower() for text in gateway.operations(session.id))
    assert "COPY 50000" in gateway.text(session.id)


def test_copy_of_invalid_data_fails_and_the_session_continues(gateway: Gateway) -> None:
    script = "create temp table n (id int);\n\\copy n from stdin\n1\nnot a number\n\\.\nselect 'still here';\n"
    done = psql(gateway.url(), stdin=script)
    assert "invalid input syntax for type integer" in done.stderr
    assert done.stdout.endswith("still here\n")


def test_psql_continues_after_an_error_unless_on_error_stop_is_set(gateway: Gateway) -> None:
    script = "select 1;\nselect * from nowhere;\nselect 2;\n"
    done = psql(gateway.url(), stdin=script)
    assert (done.stdout, done.returncode) == ("1\n2\n", 0)
    assert 'relation "nowhere" does not exist' in done.stderr
    done = psql(gateway.url(), "-v", "ON_ERROR_STOP=1", stdin=script)
    assert (done.stdout, done.returncode) == ("1\n", 3)


def test_error_position_and_verbose_fields_reach_the_client(gateway: Gateway) -> None:
    script = "\\set VERBOSITY verbose\nselect nothing from pg_class;\n"
    done = psql(gateway.url(), stdin=script)
    assert "ERROR:  42703" in done.stderr
    assert "LINE 1: select nothing from pg_class;" in done.stderr
    assert "LOCATION:" in done.stderr


def test_output_to_a_file_with_errors_continues(gateway: Gateway, tmp_path: Path) -> None:
    taken = tmp_path / "g"
    done = psql(gateway.url(), stdin=f"select generate_series(1, 3) \\g {taken}\nselect 1/0 \\g {taken}2\nselect 5;\n")
    assert taken.read_text() == "1\n2\n3\n"
    assert "division by zero" in done.stderr
    assert done.stdout == "5\n"


def test_watch_repeats_the_statement_until_it_is_terminated(gateway: Gateway) -> None:
    process = subprocess.Popen(
        [need("psql"), "-X", "-A", "-t", gateway.url()],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=clean_environment(),
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("select 'tick' \\watch 0.2\n")
    process.stdin.flush()
    ticks = 0
    while ticks < 3:
        ticks += process.stdout.readline() == "tick\n"
    process.terminate()
    process.wait(timeout=60)
    session = gateway.newest_finished()
    assert gateway.operations(session.id).count("select 'tick' ") >= 3


def test_ctrl_c_cancels_the_statement_and_keeps_the_session(gateway: Gateway, direct: psycopg.Connection) -> None:
    """psql runs in a terminal, because it leaves an interrupted script."""
    terminal, inside = pty.openpty()
    process = subprocess.Popen(
        [need("psql"), "-X", "-A", "-t", gateway.url()],
        stdin=inside, stdout=inside, stderr=inside, env=clean_environment(PAGER="", TERM="dumb"),
    )  # fmt: skip
    os.close(inside)
    os.write(terminal, b"select 'ctrl-c', pg_sleep(60);\n")
    wait_until(lambda: running(direct, "ctrl-c"))
    process.send_signal(signal.SIGINT)
    wait_until(lambda: not running(direct, "ctrl-c"), min(within(2), 50))
    os.write(terminal, b"select 'af' || 'ter';\n\\q\n")
    seen = b""
    with contextlib.suppress(OSError):  # how a terminal ends
        while data := os.read(terminal, 4096):
            seen += data
    os.close(terminal)
    assert process.wait(timeout=60) == 0
    assert b"canceling statement due to user request" in seen
    assert b"\nafter" in seen.replace(b"\r", b"")


def test_several_statements_in_one_message_stop_at_the_first_error(gateway: Gateway) -> None:
    done = psql(gateway.url(), "-c", "select 1; select 2; select 1/0; select 3")
    assert done.stdout == "1\n2\n"
    assert "division by zero" in done.stderr


def test_describe_commands_list_tables_and_columns(gateway: Gateway) -> None:
    assert "pg_class" in psql(gateway.url(), "-c", "\\dt pg_catalog.*").stdout
    assert "relname" in psql(gateway.url(), "-c", "\\d pg_class").stdout
    assert psql(gateway.url(), "-c", "select 1 as a, 2 as b \\gdesc", stdin=None).returncode in (0, 1)
    assert psql(gateway.url(), stdin="select 1 as a, 'x'::text as b \\gdesc\n").stdout == "a|integer\nb|text\n"
