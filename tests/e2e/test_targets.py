"""Real targets: auth methods, TLS modes, and the ways in which targets fail."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
from tests.support import certificates
from tests.support.gateway import Gateway, running
from tests.support.postgres import PostgresServer, free_port, need_server, running_server
from tests.support.promises import wait_until, within

HBA = [
    "local all all trust",
    "hostssl all tls_only 127.0.0.1/32 scram-sha-256",
    "hostnossl all tls_only 127.0.0.1/32 reject",
    "host all by_md5 127.0.0.1/32 md5",
    "host all by_scram 127.0.0.1/32 scram-sha-256",
    "host all by_password 127.0.0.1/32 password",
    "host all postgres 127.0.0.1/32 trust",
]


@pytest.fixture(scope="module")
def authority() -> certificates.Issued:
    return certificates.issue("localhost")


@pytest.fixture(scope="module")
def strict(authority: certificates.Issued) -> Iterator[PostgresServer]:
    """A target with TLS, on a certificate for `localhost` only, and a user for each way to log in."""
    need_server()
    server = PostgresServer(
        settings={"ssl": "on", "ssl_cert_file": "{folder}/server.crt", "ssl_key_file": "{folder}/server.key"},
        files={"server.crt": authority.certificate, "server.key": authority.key},
        hba=HBA,
    )
    server.start()
    try:
        with psycopg.connect(server.dsn(), autocommit=True) as admin:
            for user, method in (("tls_only", "scram-sha-256"), ("by_md5", "md5"), ("by_scram", "scram-sha-256"),
                                 ("by_password", "scram-sha-256")):  # fmt: skip
                admin.execute(f"set password_encryption = '{method}'")
                admin.execute(f"create user {user} password 'pässwörd {user}'")
        yield server
    finally:
        server.stop()


def attempt(gateway: Gateway, name: str, server: PostgresServer, **secret: str) -> str:
    """Who we are on the target, or the error."""
    gateway.connection(name, server, secret=secret)
    try:
        with psycopg.connect(gateway.url(name)) as connection:
            row = connection.execute(
                "select current_user || case when ssl then ' tls' else '' end from pg_stat_ssl"
                " where pid = pg_backend_pid()"
            ).fetchone()
            assert row is not None
            return str(row[0])
    except psycopg.OperationalError as error:
        return str(error)


@pytest.mark.parametrize("user", ["by_md5", "by_scram", "by_password", "tls_only"])
@pytest.mark.parametrize("mode", ["prefer", "require", "disable"])
def test_gateway_logs_in_by_every_auth_method_and_tls_mode(
    gateway: Gateway, strict: PostgresServer, user: str, mode: str
) -> None:
    said = attempt(gateway, f"{user}-{mode}", strict, USER=user, PASS=f"pässwörd {user}", SSLMODE=mode)
    if user == "tls_only" and mode == "disable":
        assert "the target did not accept the gateway's own login" in said
    else:
        assert said == user + ("" if mode == "disable" else " tls")


@pytest.mark.parametrize(
    ("mode", "host", "root", "expected"),
    [
        ("verify-full", "localhost", True, "by_scram tls"),
        ("verify-ca", "127.0.0.1", True, "by_scram tls"),
        ("verify-full", "127.0.0.1", True, "TLS handshake failed"),
        ("verify-ca", "localhost", False, "TLS handshake failed"),
        ("verify-full", "localhost", False, "TLS handshake failed"),
        ("require", "127.0.0.1", False, "by_scram tls"),
        ("sometimes", "localhost", True, "SSLMODE must be one of"),
    ],
)
def test_tls_verification_follows_the_mode_host_and_authority(
    gateway: Gateway, strict: PostgresServer, authority: certificates.Issued, mode: str, host: str, root: bool,
    expected: str,
) -> None:  # fmt: skip
    """`root` False: another authority."""
    other = authority if root else certificates.issue("localhost")
    name = f"v-{mode}-{host}-{root}".replace(".", "_")
    said = attempt(gateway, name, strict, USER="by_scram", PASS="pässwörd by_scram", HOST=host, SSLMODE=mode,
                   SSLROOTCERT=other.authority)  # fmt: skip
    assert expected in said


def test_required_tls_fails_if_the_target_offers_none(gateway: Gateway, target: PostgresServer) -> None:
    assert "offers no TLS" in attempt(gateway, "no-tls", target, SSLMODE="require")
    assert attempt(gateway, "no-tls-preferred", target, SSLMODE="prefer") == "postgres"


def test_wrong_target_password_is_reported_and_never_shown(gateway: Gateway, strict: PostgresServer) -> None:
    said = attempt(gateway, "wrong-password", strict, USER="by_scram", PASS="not-the-password")
    assert "the target did not accept the gateway's own login" in said
    assert "by_scram" not in said
    assert "not-the-password" not in said + gateway.worker.log()


def test_unknown_database_gets_the_targets_own_error(gateway: Gateway) -> None:
    with pytest.raises(psycopg.OperationalError, match='database "nowhere" does not exist'):
        psycopg.connect(gateway.url(database="nowhere"))


def test_unreachable_target_is_reported_to_the_client(gateway: Gateway) -> None:
    gateway.connection("unreachable", secret={"PORT": str(free_port())})
    with pytest.raises(psycopg.OperationalError, match="cannot be reached"):
        psycopg.connect(gateway.url("unreachable"))


@contextmanager
def listener(answer: bytes | None) -> Iterator[int]:
    """A port that accepts, reads, and says `answer`; None says nothing and stays."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        kept = []

        def serve() -> None:
            try:
                while True:
                    stream, _ = server.accept()
                    kept.append(stream)
                    if answer is not None:
                        stream.recv(1000)
                        stream.sendall(answer)
                        stream.close()
            except OSError:
                return

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        for stream in kept:
            stream.close()


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.0 400 Bad Request\r\n\r\n", b"N", b"NR\0\0\0\x7f", b"S\x15\x03"])
def test_target_that_is_not_postgres_is_an_error(gateway: Gateway, answer: bytes) -> None:
    with listener(answer) as port:
        name = f"no-postgres-{port}"
        gateway.connection(name, secret={"PORT": str(port)})
        with pytest.raises(psycopg.OperationalError, match=r"target|TLS"):
            psycopg.connect(gateway.url(name), connect_timeout=60)


def test_silent_target_times_out_and_delays_no_other_client(target: PostgresServer) -> None:
    gateway = Gateway(dial_timeout=8.0)
    try:
        gateway.start()
        gateway.connection("target", target)
        with listener(None) as port, ThreadPoolExecutor(1) as pool:
            gateway.connection("silent", secret={"PORT": str(port)})
            waiting = pool.submit(lambda: psycopg.connect(gateway.url("silent")).close())
            with psycopg.connect(gateway.url()) as connection:
                connection.execute("select 1")
            assert not waiting.done()
            with pytest.raises(psycopg.OperationalError, match="did not answer within 8 seconds"):
                waiting.result(60)
        gateway.all_closed()
    finally:
        gateway.stop()


@pytest.fixture
def fragile() -> Iterator[PostgresServer]:
    """A target of one test, to be hurt."""
    with running_server() as server:
        yield server


def test_killed_target_backend_ends_the_session(gateway: Gateway, fragile: PostgresServer) -> None:
    gateway.connection("fragile-killed", fragile)
    with psycopg.connect(gateway.url("fragile-killed"), autocommit=True) as connection:
        row = connection.execute("select pg_backend_pid()").fetchone()
        assert row is not None
        with ThreadPoolExecutor(1) as pool:
            hurt = pool.submit(connection.execute, "select pg_sleep(120)")
            time.sleep(0.3)
            os.kill(row[0], signal.SIGKILL)
            with pytest.raises(psycopg.OperationalError):
                hurt.result(60)
    session = gateway.newest_finished("fragile-killed")
    assert session.metadata["end_reason"] == "target_closed"


def test_stopped_target_server_fails_the_query_and_later_logins(gateway: Gateway, fragile: PostgresServer) -> None:
    gateway.connection("fragile-gone", fragile)
    with psycopg.connect(gateway.url("fragile-gone"), autocommit=True) as connection, ThreadPoolExecutor(1) as pool:
        hurt = pool.submit(connection.execute, "select pg_sleep(120)")
        time.sleep(0.3)
        fragile.stop()
        with pytest.raises(psycopg.OperationalError):
            hurt.result(60)
    with pytest.raises(psycopg.OperationalError, match="cannot be reached"):
        psycopg.connect(gateway.url("fragile-gone"))


def test_session_on_a_hanging_target_can_be_killed_at_once(gateway: Gateway, fragile: PostgresServer) -> None:
    """Other sessions are not affected."""
    gateway.connection("fragile-stopped", fragile)
    with psycopg.connect(gateway.url("fragile-stopped"), autocommit=True) as connection:
        row = connection.execute("select pg_backend_pid()").fetchone()
        assert row is not None
        os.kill(row[0], signal.SIGSTOP)
        try:
            with ThreadPoolExecutor(1) as pool:
                hangs = pool.submit(connection.execute, "select 1")
                with psycopg.connect(gateway.url()) as other:
                    assert other.execute("select 1").fetchone() == (1,)
                session = gateway.newest("fragile-stopped")
                gateway.call(gateway.services.sessions.kill(gateway.admin, session.id))
                with pytest.raises(psycopg.errors.AdminShutdown, match="killed"):
                    hangs.result(within(2))
            assert gateway.finished(session.id).metadata["end_reason"] == "killed"
        finally:
            os.kill(row[0], signal.SIGCONT)


def test_disconnected_clients_query_stops_on_the_target(gateway: Gateway, direct: psycopg.Connection) -> None:
    connection = psycopg.connect(gateway.url())
    connection.pgconn.send_query(b"select 'abandoned', pg_sleep(120)")
    wait_until(lambda: running(direct, "abandoned"))
    session = gateway.newest()
    connection.pgconn.finish()  # Terminate and close, in the middle
    wait_until(lambda: not running(direct, "abandoned"))
    assert gateway.finished(session.id).metadata["end_reason"] == "client_closed"


def test_query_of_a_client_that_resets_its_connection_stops_on_the_target(
    gateway: Gateway, direct: psycopg.Connection
) -> None:
    connection = psycopg.connect(gateway.url())
    connection.pgconn.send_query(b"select 'reset', pg_sleep(120)")
    wait_until(lambda: running(direct, "reset"))
    with socket.socket(fileno=os.dup(connection.pgconn.socket)) as stream:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        os.close(connection.pgconn.socket)
    wait_until(lambda: not running(direct, "reset"))
    gateway.finished(gateway.newest().id)
