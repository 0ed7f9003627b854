"""MySQL sessions under load, with a target that requires TLS, on PostgreSQL's store, and through a remote agent."""

from __future__ import annotations

import json
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncmy
import psycopg
import pymysql
import pytest
from asyncmy.constants.CLIENT import COMPRESS
from tests.support.agents import AgentProcess, enrolled
from tests.support.certificates import Issued as Certificate
from tests.support.certificates import issue
from tests.support.clients import clean_environment, need
from tests.support.gateway import Gateway
from tests.support.mariadb import MariaDbServer
from tests.support.mysql import running_mariadb
from tests.support.mysql_gateway import ACCOUNT, DATABASE, PASSWORD, ask, connect, login, mysql_connection, run, set_up
from tests.support.postgres import PostgresServer
from tests.support.running import started

from postern.domain.identity.credential import Issued
from postern.domain.rules.guardrail import Rule, RuleType
from postern.interception.events import ClientOutput

MAIL = "ada.lovelace@example.org"
EVENTS = 150

# Under load


def sysbench(kind: str, port: int, user: str, password: str, *more: str) -> str:
    given = ["--db-driver=mysql", "--mysql-host=127.0.0.1", f"--mysql-port={port}", f"--mysql-user={user}",
             f"--mysql-password={password}", "--mysql-db=load_test", "--tables=2", "--table-size=500"]  # fmt: skip
    done = subprocess.run(
        [need("sysbench"), kind, *given, *more],
        capture_output=True,
        text=True,
        timeout=300,
        env=clean_environment(),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def loaded(gateway: Gateway, maria: MariaDbServer) -> Issued:
    """A connection with a rule about statements and with masking, to a database that sysbench has filled."""
    run(maria, "create or replace database load_test")
    run(maria, "create or replace user load_test identified by 'x'")
    run(maria, "grant all on load_test.* to load_test")
    sysbench("oltp_read_write", maria.port, "load_test", "x", "prepare")
    connection = mysql_connection(gateway, "my-loaded", maria, secret={"DB": "load_test"}, redact_enabled=True)
    fields = {
        "name": "under load",
        "input": (Rule(RuleType.REQUIRE_WHERE, name="where"), Rule(RuleType.PATTERN_MATCH, (), "(?i)drop", "no drops")),
        "connection_ids": (str(connection.id),),
    }
    gateway.call(gateway.services.guardrails.create(gateway.admin, fields))
    return gateway.credential("my-loaded")


@pytest.mark.parametrize("prepared", ["disable", "auto"], ids=["text", "prepared"])
@pytest.mark.parametrize("kind", ["oltp_point_select", "oltp_read_write"])
def test_sysbench_runs_through_the_gateway_and_is_recorded(
    gateway: Gateway, maria: MariaDbServer, loaded: Issued, kind: str, prepared: str
) -> None:
    given = login(gateway, loaded)
    said = sysbench(
        kind, given["port"], given["user"], given["password"], "--threads=4", f"--events={EVENTS}", "--time=0",
        f"--db-ps-mode={prepared}", "run",
    )  # fmt: skip
    assert f"total number of events:              {EVENTS}" in said
    assert "reconnects:                          0 " in said
    gateway.all_closed(connection="my-loaded")
    kept = [text for session in gateway.sessions(connection="my-loaded") for text in gateway.operations(session.id)]
    assert len([text for text in kept if text.lower().startswith("select c from sbtest")]) >= EVENTS
    assert run(maria, "select count(*) from load_test.sbtest1") == [(500,)]
    with connect(gateway, loaded) as client, pytest.raises(pymysql.err.MySQLError, match="where"):
        ask(client, "delete from sbtest1")


# Compression is not offered


LONG = "select repeat('a', 100000)"


def test_command_line_that_requests_compression_works_without_it(gateway: Gateway, shop: Issued) -> None:
    given = login(gateway, shop)
    words = [f"--{name}={given[name]}" for name in ("host", "port", "user", "password")]
    asked = [need("mysql"), "--no-defaults", *words, "--protocol=tcp", "--compress", "-N", "-B", "-e", LONG]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=60, env=clean_environment(), check=False)
    assert (done.returncode, done.stdout) == (0, "a" * 100_000 + "\n")


async def test_driver_that_requests_compression_works_without_it(gateway: Gateway, shop: Issued) -> None:
    connection = await asyncmy.connect(**login(gateway, shop, client_flag=COMPRESS))
    async with connection.cursor() as cursor:
        await cursor.execute(LONG)
        assert await cursor.fetchone() == ("a" * 100_000,)
    await connection.ensure_closed()


# A target that wants TLS


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    return issue("localhost")


@pytest.fixture(scope="module")
def encrypted(certificate: Certificate) -> Iterator[MariaDbServer]:
    folder = Path(tempfile.mkdtemp(prefix="postern-tls-", dir="/tmp"))  # where its account may read
    folder.chmod(0o755)
    for name, text in (("cert.pem", certificate.certificate), ("key.pem", certificate.key)):
        (folder / name).write_bytes(text)
        (folder / name).chmod(0o644)
    with running_mariadb(f"--ssl-cert={folder}/cert.pem", f"--ssl-key={folder}/key.pem") as server:
        set_up(server)
        run(server, f"alter user {ACCOUNT} require ssl")
        yield server
    shutil.rmtree(folder)


def test_tls_certificate_of_the_target_is_verified(
    gateway: Gateway, encrypted: MariaDbServer, certificate: Certificate
) -> None:
    full = {"HOST": "localhost", "SSLMODE": "verify-full", "SSLROOTCERT": certificate.authority}
    mysql_connection(gateway, "my-verified", encrypted, secret=full)
    with connect(gateway, gateway.credential("my-verified")) as client:
        [(_, cipher)] = ask(client, "show session status like 'Ssl_cipher'")
        assert cipher
    for name, secret, said in (
        ("my-other-ca", {**full, "SSLROOTCERT": issue("localhost").authority}, "CERTIFICATE_VERIFY_FAILED"),
        ("my-other-name", {**full, "HOST": "127.0.0.1"}, "CERTIFICATE_VERIFY_FAILED"),
        ("my-plain", {"SSLMODE": "disable"}, "did not accept the gateway's own login"),
    ):
        mysql_connection(gateway, name, encrypted, secret=secret)
        with pytest.raises(pymysql.err.OperationalError, match=said):
            connect(gateway, gateway.credential(name))


# On PostgreSQL's store


def test_session_and_script_work_with_a_postgres_store(
    target: PostgresServer, direct: psycopg.Connection, maria: MariaDbServer
) -> None:
    direct.execute("drop database if exists mysql_store with (force)")
    direct.execute("create database mysql_store")
    gateway = Gateway(store=target.dsn("mysql_store", scheme="postgresql+asyncpg"))
    try:
        gateway.start()
        connection = mysql_connection(gateway, "shop", maria, redact_enabled=True)
        gateway.guardrail("no-drop", connection, deny=r"(?i)drop\s+table")
        # No text of PostgreSQL's holds a NUL, and what a client says of itself may.
        with connect(gateway, gateway.credential("shop"), program_name="a\0b") as client:
            assert MAIL not in str(ask(client, f"select '{MAIL}' as who, %s", "grüße"))
            with pytest.raises(pymysql.err.MySQLError, match="blocked by guardrail"):
                ask(client, "drop table a\0b")
        session = gateway.newest_finished("shop")
        assert session.metadata["application_name"] == "a\ufffdb"
        assert session.metrics["refused"] == 1
        assert "grüße" in gateway.text(session.id)
        shown = b"".join(event.data for event in gateway.records(session.id) if isinstance(event, ClientOutput))
        assert MAIL.encode() not in shown
        submitted = gateway.call(
            gateway.services.sessions.submit(gateway.admin, "shop", "select 1; select 2", source="127.0.0.1")
        )
        assert gateway.finished(submitted.id).exit_code == 0
    finally:
        gateway.stop()


# Through an agent elsewhere, and watched


def native(line: str) -> dict[str, Any]:
    """Arguments of PyMySQL's `connect`, of the line that `postern connect --native` prints."""
    given = dict(word[2:].split("=", 1) for word in shlex.split(line)[1:] if "=" in word)
    return {
        "host": given["host"],
        "port": int(given["port"]),
        "user": given["user"],
        "password": given["password"],
        "database": given.get("database"),
        "ssl": {"ca": given["ssl-ca"]},
        "autocommit": True,
        "read_timeout": 60,
    }


@pytest.mark.slow
def test_session_through_a_remote_agent_is_watched_and_ends_with_the_agent(maria: MariaDbServer, shop: Issued) -> None:
    with started("--no-demo", again=True) as gateway:
        agent = AgentProcess(enrolled(gateway, "edge"), gateway.folder)
        agent.until_it_serves()
        secrets = {"HOST": "127.0.0.1", "PORT": str(maria.port), "USER": ACCOUNT, "PASS": PASSWORD, "DB": DATABASE}
        given = [part for key, value in secrets.items() for part in ("--env", f"{key}={value}")]
        made = gateway.run("connections", "create", "far", "--subtype", "mysql", "--agent", "edge", *given,
                           "--redact", "EMAIL_ADDRESS")  # fmt: skip
        assert made.returncode == 0, made.stderr
        line = gateway.run("connect", "far", "--native")
        assert line.returncode == 0, line.stderr
        with pymysql.connect(**native(line.stdout)) as client:
            assert MAIL not in str(ask(client, f"select '{MAIL}' as who"))
            [(count,)] = ask(client, "select count(*) from seq_1_to_100000")
            assert count == 100_000
            [session] = gateway.sessions("--connection", "far", "--status", "open")
            watching = subprocess.Popen(
                [sys.executable, "-m", "postern", "sessions", "watch", session["id"]],
                env=gateway.environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            ask(client, "select 'seen by who watches'")
        seen, _ = watching.communicate(timeout=60)
        assert seen.count(b"seen by who watches") >= 2  # the statement and its row
        assert MAIL.encode() not in seen.replace(f"select '{MAIL}' as who".encode(), b"")
        assert json.loads(gateway.run("connections", "test", "far", "--json").stdout) == {"success": True}
        done = gateway.run("exec", "far", "-i", f"select '{MAIL}' as who", "--format", "csv")
        assert done.returncode == 0
        assert MAIL not in done.stdout
        again = native(gateway.run("connect", "far", "--native").stdout)
        with pymysql.connect(**again) as client:
            agent.stop(signal.SIGKILL)
            with pytest.raises(pymysql.err.OperationalError):
                ask(client, "select sleep(5)")


def test_mariadb_command_line_receives_extended_column_metadata(maria: MariaDbServer, documents: None) -> None:
    """MariaDB's library expects extended metadata if the greeting names MariaDB."""
    gateway = Gateway(mysql_version="5.5.5-10.11.6-MariaDB")
    try:
        gateway.start()
        mysql_connection(gateway, "shop", maria)
        given = login(gateway, gateway.credential("shop"))
        options = [f"--{option}={given[option]}" for option in ("host", "port", "user", "password")]
        command = [
            need("mariadb"),
            "--no-defaults",
            *options,
            "--protocol=tcp",
            "--table",
            "--column-type-info",
            "shop",
        ]
        done = subprocess.run(
            [*command, "--execute", "select * from documents"], capture_output=True, text=True, timeout=120, check=True
        )
        for shown in ("(format=json)", "(type=uuid)", "(type=inet6)", '{"a": 1}'):
            assert shown in done.stdout
    finally:
        gateway.stop()


@pytest.fixture
def documents(maria: MariaDbServer) -> None:
    run(maria, "create or replace table shop.documents (doc json, id uuid, address inet6)")
    run(maria, """insert into shop.documents values ('{"a": 1}', uuid(), '::1')""")
