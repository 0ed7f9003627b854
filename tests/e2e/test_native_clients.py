"""`postern connect`: real clients, started at a terminal, and by each form of a credential."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import create_engine, text
from tests.support.mariadb import MariaDbServer
from tests.support.postgres import PostgresServer
from tests.support.running import Gateway, started
from tests.support.sitting import Sitting

pytestmark = pytest.mark.slow

DATABASE = "grüße 'x"  # a name that every form has to escape


@pytest.fixture(scope="module")
def maria() -> Iterator[MariaDbServer]:
    server = MariaDbServer()
    server.start()
    try:
        with server.connect() as connection:
            connection.cursor().execute(f"create database `{DATABASE}`")
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def gateway(target: PostgresServer, maria: MariaDbServer) -> Iterator[Gateway]:
    with started("--no-demo") as made:
        with psycopg.connect(target.dsn(), autocommit=True) as connection:
            connection.execute(f'create database "{DATABASE}"')
        for name, subtype, port, user in (
            ("orders", "postgresql", target.port, "postgres"),
            ("stock", "mariadb", maria.port, "root"),
        ):
            place = ("HOST=127.0.0.1", f"PORT={port}", f"USER={user}", f"DB={DATABASE}")
            ok(made, "connections", "create", name, "--subtype", subtype, *(f"--env={one}" for one in place))
        yield made


@pytest.fixture
def sit(gateway: Gateway) -> Iterator[Callable[..., Sitting]]:
    made: list[Sitting] = []

    def open_one(*arguments: str) -> Sitting:
        made.append(Sitting(gateway, *arguments))
        return made[-1]

    yield open_one
    for one in made:
        one.close()


def ok(gateway: Gateway, *arguments: str) -> str:
    done = gateway.run(*arguments)
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


def form(gateway: Gateway, connection: str, name: str) -> str:
    return ok(gateway, "connect", connection, "--native", "--format", name)


def run(*command: str, **environment: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "MYSQL"))}
    done = subprocess.run(
        command, env=kept | environment, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_connect_starts_psql_at_a_terminal(sit: Callable[..., Sitting], gateway: Gateway) -> None:
    sitting = sit("connect", "orders")
    sitting.shows(f"{DATABASE}=#")
    sitting.type("select 'answer ' || 6 * 7;\n")
    sitting.shows("answer 42")
    sitting.type("select pg_sleep(60);\n")
    sitting.reads(1)
    os.killpg(sitting.process.pid, signal.SIGINT)  # as Ctrl-C: it is psql's, which cancels the statement and goes on
    sitting.shows("canceling statement")
    sitting.type("\\q\n")
    assert sitting.leaves() == 0


def test_connect_passes_on_the_arguments_and_exit_code_of_the_client(
    sit: Callable[..., Sitting], gateway: Gateway
) -> None:
    sitting = sit("connect", "orders", "--", "-v", "ON_ERROR_STOP=1", "-c", "select nonsense")
    sitting.shows('column "nonsense" does not exist')
    assert sitting.leaves() == 1


def test_connect_starts_mysql_at_a_terminal(sit: Callable[..., Sitting], gateway: Gateway) -> None:
    sitting = sit("connect", "stock")
    sitting.shows("]> ")
    sitting.type("select concat('answer ', 6 * 7, ' ', database());\n")
    sitting.shows(f"answer 42 {DATABASE}")
    sitting.type("\\q\n")
    assert sitting.leaves() == 0


def test_connect_without_the_client_says_what_to_install_and_opens_the_port(
    sit: Callable[..., Sitting], gateway: Gateway, tmp_path: Path
) -> None:
    before = gateway.environment["PATH"]
    gateway.environment["PATH"] = str(tmp_path)
    try:
        sitting = sit("connect", "orders")
        sitting.shows("psql is not installed; install it (Debian, Ubuntu: apt install postgresql-client")
        sitting.shows("postgresql://127.0.0.1:")
    finally:
        gateway.environment["PATH"] = before
    sitting.shows("Ctrl-C ends it.")
    sitting.process.terminate()
    assert sitting.process.wait(60) == 0


def test_connect_with_tunnel_starts_no_client(sit: Callable[..., Sitting], gateway: Gateway) -> None:
    sitting = sit("connect", "orders", "--tunnel")
    sitting.shows("Ctrl-C ends it.")
    assert b"=#" not in sitting.shown
    sitting.process.terminate()
    assert sitting.process.wait(60) == 0


@pytest.mark.parametrize(("connection", "words"), [("orders", "needs a review"), ("stock", "needs approval")])
def test_waiting_client_shows_the_required_approvers_and_a_link(
    sit: Callable[..., Sitting], gateway: Gateway, connection: str, words: str
) -> None:
    """psql shows notices of the gateway; clients of MySQL have none, so the command line says it."""
    ok(gateway, "connections", "update", connection, "--set", "reviewers=admin")
    ok(gateway, "admin", "features", "enable", "self-review")
    try:
        sitting = sit("connect", connection, "--reason", "ticket 4711")
        sitting.shows(words)
        sitting.shows("/reviews/")
        (review,) = json.loads(ok(gateway, "reviews", "list", "--status", "PENDING", "--json"))["data"]
        assert review["reason"] == "ticket 4711"
        ok(gateway, "reviews", "approve", review["id"])
        sitting.shows("=#" if connection == "orders" else "]> ")
        sitting.type("\\q\n")
        assert sitting.leaves() == 0
        ok(gateway, "reviews", "revoke", review["id"])
    finally:
        ok(gateway, "connections", "update", connection, "--unset", "reviewers")


def test_client_with_earlier_approved_access_is_admitted_at_once(sit: Callable[..., Sitting], gateway: Gateway) -> None:
    ok(gateway, "connections", "update", "orders", "--set", "reviewers=admin")
    ok(gateway, "admin", "features", "enable", "self-review")
    try:
        asked = gateway.run("reviews", "request", "orders", "--duration", "5m", "--json")
        review = json.loads(asked.stdout)["review"]
        assert asked.returncode == 7
        ok(gateway, "reviews", "approve", review["id"])
        sitting = sit("connect", "orders", "--", "-Atc", "select 6 * 7")
        sitting.shows("42")
        assert sitting.leaves() == 0
        assert b"review" not in sitting.shown
        ok(gateway, "reviews", "revoke", review["id"])
    finally:
        ok(gateway, "connections", "update", "orders", "--unset", "reviewers")


def test_uri_logs_psql_in(gateway: Gateway) -> None:
    uri = form(gateway, "orders", "uri").strip()
    assert run("psql", uri, "-Atc", "select current_database()") == f"{DATABASE}\n"


def test_environment_logs_psql_in(gateway: Gateway) -> None:
    lines = form(gateway, "orders", "env")
    assert run("/bin/sh", "-c", f"{lines}\nexec psql -Atc 'select current_database()'") == f"{DATABASE}\n"


def test_pgpass_logs_psql_in(gateway: Gateway, tmp_path: Path) -> None:
    file = tmp_path / "pgpass"
    line = form(gateway, "orders", "pgpass")
    file.write_text(line)
    file.chmod(0o600)
    host, port, _, user, _ = line.strip().split(":")
    found = run(
        "psql", "-h", host, "-p", port, "-U", user, "-d", "postgres", "-w", "-Atc", "select 1", PGPASSFILE=str(file)
    )
    assert found == "1\n"


@pytest.mark.parametrize(
    ("connection", "query"), [("orders", "select current_database()"), ("stock", "select database()")]
)
def test_sqlalchemy_url_logs_in(gateway: Gateway, connection: str, query: str) -> None:
    engine = create_engine(form(gateway, connection, "sqlalchemy").strip())
    try:
        with engine.connect() as connected:
            assert connected.execute(text(query)).scalar_one() == DATABASE
    finally:
        engine.dispose()


def test_option_file_logs_mysql_in(gateway: Gateway, tmp_path: Path) -> None:
    file = tmp_path / "my.cnf"
    file.write_text(form(gateway, "stock", "my.cnf"))
    file.chmod(0o600)
    program = shutil.which("mysql") or "mariadb"
    assert run(program, f"--defaults-file={file}", "-Ne", "select database()") == f"{DATABASE}\n"


def test_environment_logs_mysql_in(gateway: Gateway) -> None:
    lines = form(gateway, "stock", "env")
    line = 'exec mysql --protocol=tcp --user="$MYSQL_USER" --ssl-ca="$MYSQL_SSL_CA" "$MYSQL_DATABASE" -Ne "select 1"'
    assert run("/bin/sh", "-c", f"{lines}\n{line}") == "1\n"


def test_unsupported_format_is_rejected_before_a_credential_is_issued(gateway: Gateway) -> None:
    before = len(json.loads(ok(gateway, "credentials", "list", "orders", "--json")))
    refused = gateway.run("connect", "orders", "--native", "--format", "my.cnf")
    assert (refused.returncode, "use --format pgpass" in refused.stderr) == (1, True)
    assert gateway.run("connect", "orders", "--format", "uri").returncode == 2
    assert len(json.loads(ok(gateway, "credentials", "list", "orders", "--json"))) == before
