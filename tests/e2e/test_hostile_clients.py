"""Hostile and broken clients at an open port: no bytes, slow bytes, too few bytes, or another protocol."""

from __future__ import annotations

import os
import socket
import struct
import time

import psycopg
import pytest
from tests.support import wire
from tests.support.gateway import Gateway
from tests.support.postgres import free_port
from tests.support.promises import wait_until, within

SSL_REQUEST = struct.pack("!II", 8, 80877103)

GARBAGE = {
    "http": b"GET / HTTP/1.1\r\nHost: example\r\n\r\n",
    "tls without asking": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
    "zeros": bytes(64),
    "ones": b"\xff" * 64,
    "length of four": struct.pack("!I", 4),
    "too long a startup": struct.pack("!II", 10_001, 3 << 16),
    "negative length": struct.pack("!iI", -8, 3 << 16),
    "protocol two": struct.pack("!II", 8, 2 << 16),
    "protocol nine": struct.pack("!II", 9, 9 << 16) + b"\0",
    "parameters without end": struct.pack("!II", 16, 3 << 16) + b"user\0abc",
    "no user": wire.startup(database="postgres"),
    "cancel of the wrong length": struct.pack("!III", 12, 80877102, 1),
    "two requests for tls": SSL_REQUEST + SSL_REQUEST,
    "bytes stuffed before tls": SSL_REQUEST + b"\x16\x03\x01" + wire.startup(user="x"),
    "two requests for gss": struct.pack("!II", 8, 80877104) * 2,
}  # fmt: skip


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE.keys())
def test_malformed_login_is_closed_with_one_log_line(gateway: Gateway, data: bytes) -> None:
    before = gateway.worker.log()
    with wire.connect(gateway.settings.postgres_port) as stream:
        stream.sendall(data)
        wire.closed_by_peer(stream)

    def said() -> list[str]:
        return gateway.worker.log()[len(before) :].splitlines()

    wait_until(said)
    assert len(said()) == 1
    assert "was rejected" in said()[0]


def test_user_name_that_is_not_utf_8_is_rejected_with_one_log_line(gateway: Gateway) -> None:
    before = gateway.worker.log()
    with wire.connect(gateway.settings.postgres_port) as stream:
        stream.sendall(struct.pack("!II", 17, 3 << 16) + b"user\0\xff\xfe\0\0")
        assert b"not valid UTF-8" in wire.closed_by_peer(stream)
    wait_until(lambda: "\n" in gateway.worker.log()[len(before) :])
    assert gateway.worker.log()[len(before) :].count("\n") == 1


def test_application_name_that_is_not_utf_8_reaches_the_target(gateway: Gateway) -> None:
    """The client chooses its encoding; the session's metadata replaces unreadable characters."""
    issued = gateway.credential("target")
    with wire.connect(gateway.settings.postgres_port) as stream:
        user, password = issued.credential.username, issued.password.reveal()
        wire.log_in(stream, user, password, client_encoding=b"LATIN1", application_name=b"gr\xfc\xdfe")
        stream.sendall(wire.message(b"Q", b"show application_name\0"))
        assert b"gr" in wire.until_ready(stream)
    assert gateway.newest_finished().metadata["application_name"] == "gr??e"


@pytest.mark.parametrize("size", [1, 3, 4, 7, 8, 15, 40])
def test_startup_message_that_ends_early_is_closed_without_a_log_line(gateway: Gateway, size: int) -> None:
    before = gateway.worker.log()
    with wire.connect(gateway.settings.postgres_port) as stream:
        stream.sendall(wire.startup(user="somebody", database="somewhere")[:size])
        stream.shutdown(socket.SHUT_WR)
        assert wire.closed_by_peer(stream) == b""
    assert gateway.worker.log() == before


TERMINATE = b"X\0\0\0\x04"
PROBES = {
    "postgres: connect and close": ("postgres_port", b"", b""),
    "postgres: terminate": ("postgres_port", TERMINATE, b""),
    "postgres: no TLS, then terminate": ("postgres_port", struct.pack("!II", 8, 80877104) + TERMINATE, b"N"),
    "postgres: terminate in place of the password": (
        "postgres_port", wire.startup(user="somebody") + TERMINATE, wire.message(b"R", b"\0\0\0\nSCRAM-SHA-256\0\0")),
    "mysql: connect and close": ("mysql_port", b"", None),
    "ssh: connect and close": ("ssh_port", b"", None),
}  # fmt: skip


@pytest.mark.parametrize("ends", ["closes", "half-closes", "waits"])
@pytest.mark.parametrize("name", PROBES)
def test_port_probe_is_answered_like_by_a_server_and_not_logged(gateway: Gateway, name: str, ends: str) -> None:
    """Probes are health checks of load balancers, and clients that only test the port."""
    setting, data, answer = PROBES[name]
    before = gateway.worker.log()
    with wire.connect(getattr(gateway.settings, setting)) as stream:
        if data:
            stream.sendall(data)
        if ends == "half-closes" or (ends == "waits" and not data):
            stream.shutdown(socket.SHUT_WR)
        if ends != "closes":
            said = wire.closed_by_peer(stream)
            # A client whose end comes first is not waited for with an answer.
            assert answer is None or said == answer or (ends == "half-closes" and said == b"")
    time.sleep(0.3)
    said_in_log = gateway.worker.log()[len(before) :]
    assert said_in_log == ""


def test_pq_ping_reports_that_the_server_accepts_connections(gateway: Gateway) -> None:
    before = gateway.worker.log()
    state = psycopg.pq.PGconn.ping(f"host=127.0.0.1 port={gateway.settings.postgres_port} dbname=x user=y".encode())
    assert state == psycopg.pq.Ping.OK
    time.sleep(0.3)
    assert gateway.worker.log() == before


def test_random_bytes_cause_no_traceback_and_block_no_client(gateway: Gateway) -> None:
    before = gateway.worker.log()
    for _ in range(50):
        with wire.connect(gateway.settings.postgres_port) as stream:
            stream.sendall(os.urandom(200))
            stream.shutdown(socket.SHUT_WR)
            wire.closed_by_peer(stream)
    assert "Traceback" not in gateway.worker.log()[len(before) :]
    with psycopg.connect(gateway.url()) as connection:
        assert connection.execute("select 1").fetchone() == (1,)


def test_idle_connections_at_login_do_not_delay_another_login(gateway: Gateway) -> None:
    idle = [wire.connect(gateway.settings.postgres_port) for _ in range(100)]
    began = time.monotonic()
    with psycopg.connect(gateway.url()) as connection:
        connection.execute("select 1")
    assert time.monotonic() - began < within(1)
    for stream in idle:
        stream.close()


def test_slow_login_ends_at_the_login_deadline(gateway: Gateway) -> None:
    """Sending one byte at a time does not extend it: the deadline covers the whole login."""
    worker = gateway.add_worker("slow", postgres_port=free_port(), tunnel_port=free_port(), handshake_timeout=1.0)
    data = wire.startup(user="somebody", database="somewhere")
    with wire.connect(worker.port) as stream:
        ended = False
        for byte in data * 10:
            try:
                stream.sendall(bytes((byte,)))
            except (BrokenPipeError, ConnectionResetError):
                ended = True
                break
            time.sleep(0.1)
        assert ended
    wait_until(lambda: "did not finish its login within 1 seconds" in worker.log())
    worker.stop()
    del gateway.workers["slow"]


def test_number_of_clients_at_login_is_limited_by_address(gateway: Gateway) -> None:
    worker = gateway.add_worker("few", postgres_port=free_port(), tunnel_port=free_port(), max_handshakes_per_address=3)
    idle = [wire.connect(worker.port) for _ in range(3)]
    with wire.connect(worker.port) as stream:
        stream.sendall(wire.startup(user="anybody"))
        assert b"C53300" in wire.closed_by_peer(stream)
    wait_until(lambda: "too many clients log in at once" in worker.log())
    idle.pop().close()

    def let_in() -> bool:
        try:
            with psycopg.connect(gateway.url(port=worker.port)) as connection:
                return connection.execute("select 1").fetchone() == (1,)
        except psycopg.OperationalError:  # it does not know yet that one has left
            return False

    wait_until(let_in)
    for stream in idle:
        stream.close()
    worker.stop()
    del gateway.workers["few"]


def test_unknown_message_after_login_ends_the_link_cleanly(gateway: Gateway) -> None:
    with psycopg.connect(gateway.url()) as connection:
        fd = os.dup(connection.pgconn.socket)
        with socket.socket(fileno=fd) as stream:
            stream.sendall(b"\x7f\0\0\0\x04")
            with pytest.raises(psycopg.OperationalError, match="broke the protocol"):
                connection.execute("select 1")
    session = gateway.newest_finished()
    assert session.metadata["end_reason"] == "protocol_violation"
    [line] = [line for line in gateway.worker.log().splitlines() if str(session.id) in line]
    assert "its client broke the protocol" in line
    assert "message type '\\x7f' at byte" in line
