"""TCP connections through the listener, whose clients log in by certificate."""

from __future__ import annotations

import asyncio
import shlex
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID
from tests.support.clients import need
from tests.support.gateway import Gateway
from tests.support.postgres import PostgresServer, free_port
from tests.support.promises import wait_until
from tests.support.redis import redis, running_redis
from tests.support.tcp_certificates import (
    CertificateFiles,
    Forger,
    authority_file,
    dial_tls,
    redis_tls,
    tls_without_certificate,
    write_files,
)
from tests.support.tcp_gateway import local_port, tcp_connection
from tests.support.tcp_services import TIMEOUT, dial, read_all, service

from postern.domain.identity.credential import Issued
from postern.domain.identity.principal import PrincipalStatus
from postern.domain.lists import Page
from postern.domain.reviews.review import Choice, Review
from postern.domain.reviews.review_status import ReviewStatus
from postern.errors import Invalid
from postern.protocols.clients import NativeCredential
from postern.protocols.tcp.tcp_client import CLIENT as TCP_CLIENT
from postern.store.ports.review_ports import ReviewFilter

MEGABYTE = 1 << 20
GREETING = b"here"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with running_redis(tmp_path_factory.mktemp("redis")) as port:
        yield port


@pytest.fixture(scope="module")
def listening() -> Iterator[Gateway]:
    """A gateway of two workers with a listener for TCP clients."""
    running = Gateway(tcp_port=free_port())
    try:
        running.start(workers=2)
        yield running
    finally:
        running.stop()


@dataclass(frozen=True)
class Certified:
    """A connection, and a credential for it."""

    name: str
    issued: Issued
    files: CertificateFiles


def certified(gateway: Gateway, port: int, folder: Path, **more: Any) -> Certified:
    """A new connection to a port of this machine."""
    name = f"tcp-{uuid4().hex[:8]}"
    tcp_connection(gateway, name, port, **more)
    issued = gateway.credential(name)
    return Certified(name, issued, write_files(gateway, folder, issued))


def stay(connection: socket.socket) -> None:
    connection.sendall(GREETING)
    read_all(connection)


def log_of(gateway: Gateway) -> str:
    return "".join(worker.log() for worker in gateway.workers.values())


def _receive(gateway: Gateway, files: CertificateFiles | None) -> bytes:
    with tls_without_certificate(gateway) if files is None else dial_tls(gateway, files) as client:
        return client.recv(1)


def require_rejected(gateway: Gateway, files: CertificateFiles | None, reason: str) -> None:
    """The client gets no byte, and the log says why."""
    before = log_of(gateway).count(reason)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        _receive(gateway, files)
    wait_until(lambda: log_of(gateway).count(reason) > before, 10)


def test_redis_cli_works_and_each_client_is_a_recorded_session(listening: Gateway, cache: int, tmp_path: Path) -> None:
    here = certified(listening, cache, tmp_path)
    assert redis_tls(listening, here.files, "SET", "greeting", "grüße").stdout == "OK\n"
    assert redis_tls(listening, here.files, "GET", "greeting").stdout == "grüße\n"
    listening.all_closed(connection=here.name)
    read, written = listening.sessions(connection=here.name)
    assert "$8\r\ngreeting\r\n$7\r\ngrüße\r\n" in listening.text(written.id)
    assert (read.metrics["client_bytes"], read.metrics["target_bytes"]) == (27, 13)
    assert here.issued.certificate is not None
    assert read.metadata["client_tls"] == "yes"
    assert read.metadata["client_certificate_serial"] == here.issued.certificate.serial
    assert read.metadata["end_reason"] == "client_closed"
    assert read.user == listening.admin.email


def test_several_clients_work_at_once(listening: Gateway, cache: int, tmp_path: Path) -> None:
    here = certified(listening, cache, tmp_path)
    redis(cache, "DEL", "counter")
    results: list[str] = []

    def count() -> None:
        results.append(redis_tls(listening, here.files, stdin="INCR counter\n" * 50).stdout)

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(int(line) for result in results for line in result.split()) == list(range(1, 401))
    listening.all_closed(connection=here.name)
    assert len(listening.sessions(connection=here.name)) == 8


@pytest.mark.parametrize("program", ["openssl", "redis-cli", "socat"])
def test_printed_commands_work(
    listening: Gateway, cache: int, tmp_path: Path, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    monkeypatch.setattr("postern.protocols.tcp.tcp_client._LOCAL_PORT", port)
    here = certified(listening, cache, tmp_path)
    files = here.files
    credential = NativeCredential(
        here.issued.credential.username,
        None,
        "localhost",
        listening.settings.tcp_port,
        "",
        files.authority,
        files.certificate,
        files.key,
    )
    lines = {line.name: line.text for line in TCP_CLIENT.lines(credential)}
    words = shlex.split(lines[program])
    words[0] = need(words[0], program)
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            if program == "socat":
                assert wait_until(lambda: redis(port, "PING").stdout) == "PONG\n"
            else:
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write("PING\n")
                process.stdin.flush()
                if program == "redis-cli":
                    process.stdin.close()
                assert process.stdout.readline().strip().removeprefix("+") == "PONG"
        finally:
            process.kill()


def test_client_without_certificate_is_rejected(listening: Gateway) -> None:
    require_rejected(listening, None, "the client sent no certificate")


def test_client_without_tls_is_rejected(listening: Gateway) -> None:
    with dial(listening.settings.tcp_port) as client:
        client.sendall(b"PING\r\n")
        assert read_all(client) == b""
    wait_until(lambda: "the TLS handshake failed" in log_of(listening))


def test_attack_certificate_of_a_foreign_authority_is_rejected(listening: Gateway, tmp_path: Path) -> None:
    """It names the same authority, and is otherwise that of the credential."""
    here = certified(listening, 1, tmp_path)
    files = Forger(ec.generate_private_key(ec.SECP256R1())).files(listening, tmp_path, here.issued)
    require_rejected(listening, files, "the client certificate is not valid: ")


def test_attack_self_signed_certificate_with_the_right_name_is_rejected(listening: Gateway, tmp_path: Path) -> None:
    here = certified(listening, 1, tmp_path)
    files = Forger().files(listening, tmp_path, here.issued)
    require_rejected(listening, files, "the client certificate is not valid: self")


def test_attack_certificate_signed_with_a_client_certificate_is_rejected(listening: Gateway, tmp_path: Path) -> None:
    here = certified(listening, 1, tmp_path)
    key = load_pem_private_key(here.files.key.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    forger = Forger(key, here.issued.credential.username)
    files = forger.files(listening, tmp_path, here.issued, serial=7)
    files.certificate.write_text(files.certificate.read_text() + here.files.certificate.read_text())
    require_rejected(listening, files, "the client certificate is not valid: ")


def test_attack_certificate_of_the_servers_own_authority_is_rejected(listening: Gateway) -> None:
    """The authority that signs certificates of servers signs none of clients."""
    folder = authority_file(listening).parent
    files = CertificateFiles(folder / "server.crt", folder / "server.key", authority_file(listening))
    require_rejected(listening, files, "the client certificate is not valid: ")


@dataclass(frozen=True)
class _Case:
    fields: dict[str, Any]
    reason: str


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(_Case({"usage": ExtendedKeyUsageOID.SERVER_AUTH}, "is not valid: "), id="usage"),
        pytest.param(_Case({"life": -timedelta(hours=1)}, "is not valid: certificate has expired"), id="expired"),
        pytest.param(_Case({"serial": 4711}, "1267 is not that of a credential"), id="serial"),
    ],
)
def test_attack_certificate_of_the_authority_for_something_else_is_rejected(
    listening: Gateway, cache: int, tmp_path: Path, case: _Case
) -> None:
    """`serial`: that of an earlier credential of the same user name."""
    here = certified(listening, cache, tmp_path)
    authority = listening.call(listening.services.client_certificates._open())
    forger = Forger(authority.key)
    require_rejected(listening, forger.files(listening, tmp_path, here.issued, **case.fields), case.reason)
    assert redis_tls(listening, forger.files(listening, tmp_path, here.issued), "PING").stdout == "PONG\n"


def test_expired_credential_is_rejected(listening: Gateway, tmp_path: Path) -> None:
    with service(stay) as port:
        name = f"tcp-{uuid4().hex[:8]}"
        tcp_connection(listening, name, port)
        issued = listening.credential(name, 2)
        files = write_files(listening, tmp_path, issued)
        with dial_tls(listening, files) as client:
            assert client.recv(4) == GREETING
            require_cut(client)
        assert listening.newest_finished(name).metadata["end_reason"] == "expired"
        require_rejected(listening, files, "expired")


def require_cut(client: ssl.SSLSocket) -> None:
    """The connection does not end as TLS does: the client does not take what it has for complete."""
    with pytest.raises((ConnectionResetError, ssl.SSLEOFError)):
        client.recv(1)


def test_revocation_ends_the_session_and_rejects_the_next_client(listening: Gateway, tmp_path: Path) -> None:
    with service(stay) as port:
        here = certified(listening, port, tmp_path)
        other = listening.credential(here.name)
        with dial_tls(listening, here.files) as client:
            assert client.recv(4) == GREETING
            revoke = listening.services.credentials.revoke
            listening.call(revoke(listening.admin, here.name, here.issued.credential.id))
            require_cut(client)
        require_rejected(listening, here.files, "this credential was revoked")
        with dial_tls(listening, write_files(listening, tmp_path, other)) as client:
            assert client.recv(4) == GREETING


def test_killed_session_resets_the_client(listening: Gateway, tmp_path: Path) -> None:
    with service(stay) as port:
        here = certified(listening, port, tmp_path)
        with dial_tls(listening, here.files) as client:
            assert client.recv(4) == GREETING
            session = listening.newest(here.name)
            listening.call(listening.services.sessions.kill(listening.admin, session.id))
            require_cut(client)
        assert listening.finished(session.id).metadata["end_reason"] == "killed"


def test_user_who_is_deactivated_loses_access(listening: Gateway, tmp_path: Path) -> None:
    with service(stay) as port:
        name = f"tcp-{uuid4().hex[:8]}"
        tcp_connection(listening, name, port)
        email = f"{name}@example.com"
        fields = {"email": email, "groups": ("dev",), "status": PrincipalStatus.ACTIVE}
        user = listening.call(listening.services.users.create(listening.admin, fields))
        files = write_files(listening, tmp_path, listening.credential(name, principal=user.principal))
        with dial_tls(listening, files) as client:
            assert client.recv(4) == GREETING
            gone = {"status": PrincipalStatus.INACTIVE}
            listening.call(listening.services.users.update(listening.admin, email, gone))
            require_cut(client)
        require_rejected(listening, files, "this user is inactive")


@pytest.mark.parametrize("choice", [Choice.APPROVED, Choice.REJECTED])
def test_client_waits_for_the_review_of_its_access(
    listening: Gateway, cache: int, tmp_path: Path, choice: Choice
) -> None:
    name = f"tcp-{uuid4().hex[:8]}"
    tcp_connection(listening, name, cache, reviewers=("dba",))
    users = [
        listening.call(
            listening.services.users.create(
                listening.admin,
                {"email": f"{kind}-{name}@example.com", "groups": (kind,), "status": PrincipalStatus.ACTIVE},
            )
        ).principal
        for kind in ("dev", "dba")
    ]
    user, reviewer = users
    files = write_files(listening, tmp_path, listening.credential(name, principal=user))

    def pending() -> Review | None:
        wanted = ReviewFilter(owner=user.id, status=ReviewStatus.PENDING)
        found = listening.call(listening.services.reviews.find(listening.admin, wanted, Page(limit=10)))
        return next(iter(found.items), None)

    with dial_tls(listening, files) as client:
        client.sendall(b"PING\r\n")
        review = wait_until(pending)
        client.settimeout(0.5)
        with pytest.raises(TimeoutError):
            client.recv(1)
        client.settimeout(TIMEOUT)
        listening.call(listening.services.reviews.decide(reviewer, str(review.id), choice))
        if choice is Choice.APPROVED:
            assert client.recv(7) == b"+PONG\r\n"
        else:
            require_cut(client)


def test_large_transfers_pass_in_both_directions(listening: Gateway, tmp_path: Path) -> None:
    data = bytes(range(256)) * (16 * MEGABYTE // 256)

    def echo(connection: socket.socket) -> None:
        while received := connection.recv(1 << 16):
            connection.sendall(received)

    with service(echo) as port:
        here = certified(listening, port, tmp_path)
        assert asyncio.run(_echoed(listening, here.files, data)) == data


async def _echoed(gateway: Gateway, files: CertificateFiles, data: bytes) -> bytes:
    """Send and receive at the same time."""
    reader, writer = await asyncio.open_connection("localhost", gateway.settings.tcp_port, ssl=files.context())
    writer.write(data)
    received = await reader.readexactly(len(data))
    writer.close()
    return received


def test_target_that_ends_closes_the_client_regularly(listening: Gateway, tmp_path: Path) -> None:
    def tell_time(connection: socket.socket) -> None:
        connection.sendall(b"the time is now\r\n")

    with service(tell_time) as port:
        here = certified(listening, port, tmp_path)
        for _ in range(2):  # five seconds each: TLS has no end of one direction, so the client could have more to send
            with dial_tls(listening, here.files) as client:
                assert read_all(client) == b"the time is now\r\n"


def test_client_that_sends_and_ends_tls_at_once_is_served(listening: Gateway, tmp_path: Path) -> None:
    """Such as a program that delivers a log: it has left before the gateway has dialled the target."""
    received: list[bytes] = []
    with service(lambda connection: received.append(read_all(connection))) as port:
        here = certified(listening, port, tmp_path)
        for number in range(10):
            client = dial_tls(listening, here.files)
            client.sendall(b"a line of a log\n")
            client.unwrap().close()
            wait_until(lambda: len(received) > number)  # noqa: B023 - called at once
        listening.all_closed(connection=here.name)
    assert received == [b"a line of a log\n"] * 10


def test_client_that_vanishes_without_ending_tls_resets_the_target(listening: Gateway, tmp_path: Path) -> None:
    """What it has sent may be a part of something."""
    ends: list[object] = []

    def wait(connection: socket.socket) -> None:
        connection.sendall(GREETING)
        try:
            ends.append(read_all(connection))
        except ConnectionResetError as error:
            ends.append(type(error))

    with service(wait) as port:
        here = certified(listening, port, tmp_path)
        client = dial_tls(listening, here.files)
        assert client.recv(4) == GREETING
        client.close()
        wait_until(lambda: ends)
    assert ends == [ConnectionResetError]


def test_unreachable_target_resets_the_client(listening: Gateway, tmp_path: Path) -> None:
    here = certified(listening, free_port(), tmp_path)
    require_rejected(listening, here.files, "cannot be reached")


def test_certificates_stay_valid_after_all_workers_were_replaced(cache: int, tmp_path: Path) -> None:
    running = Gateway(tcp_port=free_port())
    try:
        running.start()
        here = certified(running, cache, tmp_path)
        assert redis_tls(running, here.files, "PING").stdout == "PONG\n"
        running.worker.stop()
        running.add_worker("later")
        assert redis_tls(running, here.files, "PING").stdout == "PONG\n"
    finally:
        running.stop()


def test_store_in_postgresql(target: PostgresServer, direct: psycopg.Connection, cache: int, tmp_path: Path) -> None:
    direct.execute("create database tcp_store")
    running = Gateway(store=target.dsn("tcp_store", scheme="postgresql+asyncpg"), tcp_port=free_port())
    try:
        running.start()
        here = certified(running, cache, tmp_path)
        assert redis_tls(running, here.files, "PING").stdout == "PONG\n"
    finally:
        running.stop()


def test_without_its_port_there_is_no_listener_and_no_credential(gateway: Gateway, cache: int) -> None:
    name = f"tcp-{uuid4().hex[:8]}"
    tcp_connection(gateway, name, cache)
    assert gateway.settings.tcp_port == 0
    with pytest.raises(Invalid, match="sets POSTERN_TCP_PORT"):
        gateway.credential(name)
    assert "TCP clients" not in gateway.worker.log()
    with local_port(gateway, name) as local:
        assert redis(local.port, "PING").stdout == "PONG\n"


def test_credential_of_a_database_has_no_certificate(listening: Gateway, target: PostgresServer) -> None:
    name = f"pg-{uuid4().hex[:8]}"
    listening.connection(name, target)
    issued = listening.credential(name)
    assert issued.certificate is None
    assert issued.password
