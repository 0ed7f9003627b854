"""TCP connections by the command line: through an external agent, to targets with TLS, and their recordings."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.agents import AgentProcess, enrolled
from tests.support.certificates import issue
from tests.support.postgres import free_port
from tests.support.promises import wait_until
from tests.support.running import Gateway, started
from tests.support.tcp_services import dial, read_all, reset, service

MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with started("--no-demo", again=True) as made:
        yield made


@pytest.fixture(scope="module")
def agent(gateway: Gateway) -> Iterator[AgentProcess]:
    made = AgentProcess(enrolled(gateway, "edge"), gateway.folder)
    made.until_it_serves()
    yield made
    made.stop(signal.SIGKILL)


def create(gateway: Gateway, name: str, port: int, *flags: str) -> None:
    address = ("--env", "HOST=localhost", "--env", f"PORT={port}")
    made = gateway.run("connections", "create", name, "--subtype", "tcp", *address, *flags)
    assert made.returncode == 0, made.stderr


@contextmanager
def connecting(gateway: Gateway, name: str, *options: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """`postern connect NAME` in a process of its own: its local port, and the process. Ctrl-C ends it."""
    command = [sys.executable, "-m", "postern", "connect", name, "--json", *options]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=gateway.environment, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads("".join(iter(process.stdout.readline, "}\n")) + "}")["port"], process
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0


def digest(connection: socket.socket) -> None:
    connection.sendall(hashlib.sha256(read_all(connection)).hexdigest().encode())


@pytest.mark.parametrize("flags", [(), ("--agent", "edge")], ids=["by the gateway", "by an agent"])
def test_each_direction_ends_alone_and_a_reset_stays_a_reset(
    gateway: Gateway, agent: AgentProcess, flags: tuple[str, ...]
) -> None:
    name = "digest-" + ("edge" if flags else "own")
    with service(digest) as port:
        create(gateway, name, port, *flags)
        tested = gateway.run("connections", "test", name)
        assert (tested.returncode, "works" in tested.stdout) == (0, True), tested.stderr
        with connecting(gateway, name) as (local, _):
            for data in (b"a", os.urandom(3 * MEGABYTE)):
                with dial(local) as client:
                    client.sendall(data)
                    client.shutdown(socket.SHUT_WR)
                    assert read_all(client) == hashlib.sha256(data).hexdigest().encode()

    def break_off(connection: socket.socket) -> None:
        connection.sendall(connection.recv(4))
        connection.recv(1)
        reset(connection)

    with service(break_off) as port:
        create(gateway, f"{name}-reset", port, *flags)
        with connecting(gateway, f"{name}-reset") as (local, _), dial(local) as client:
            client.sendall(b"part")
            assert client.recv(4) == b"part"
            client.sendall(b"x")
            with pytest.raises(ConnectionResetError):
                client.recv(1)


@pytest.mark.parametrize("flags", [(), ("--agent", "edge")], ids=["by the gateway", "by an agent"])
def test_target_with_tls_is_verified_and_encrypted_from_the_first_byte(
    gateway: Gateway, agent: AgentProcess, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    issued = issue("localhost")
    for file, content in (("crt", issued.certificate), ("key", issued.key), ("ca", issued.authority.encode())):
        (tmp_path / file).write_bytes(content)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "crt", tmp_path / "key")

    def echo(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as encrypted:
            while data := encrypted.recv(1 << 16):
                encrypted.sendall(data)

    with service(echo) as port:
        verified = ("--env", "SSLMODE=verify-full", "--env", f"SSLROOTCERT=file://{tmp_path / 'ca'}")
        name = "tls-edge" if flags else "tls-own"
        create(gateway, name, port, *verified, *flags)
        with connecting(gateway, name) as (local, _), dial(local) as client:
            client.sendall(b"hello")
            client.shutdown(socket.SHUT_WR)  # which TLS cannot pass on: the answer comes all the same
            assert read_all(client) == b"hello"
        create(gateway, f"{name}-unknown", port, "--env", "SSLMODE=verify-full", *flags)
        failed = gateway.run("connections", "test", f"{name}-unknown")
        assert (failed.returncode, "the TLS handshake failed" in failed.stderr) == (6, True), failed.stderr
        create(gateway, f"{name}-prefer", port, "--env", "SSLMODE=prefer", *flags)
        failed = gateway.run("connections", "test", f"{name}-prefer")
        assert "SSLMODE must be one of disable, require, verify-ca, verify-full" in failed.stderr


def test_command_line_says_how_to_use_the_port_and_why_a_client_was_rejected(gateway: Gateway) -> None:
    create(gateway, "nowhere", free_port())
    port = free_port()
    command = [sys.executable, "-m", "postern", "connect", "nowhere", "--port", str(port)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=gateway.environment, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(2)]
        assert said[0] == f"127.0.0.1:{port} leads to 'nowhere'. Each client that connects there is a session.\n"
        assert said[1] == "Ctrl-C ends it.\n"
        with dial(port) as client, pytest.raises(ConnectionResetError):
            client.recv(1)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0
        assert "cannot be reached" in errors
    refused = gateway.run("connect", "nowhere", "--", "argument")
    assert refused.returncode == 2, refused.stderr
    unlisted = gateway.run("connect", "nowhere", "--native")
    assert (unlisted.returncode, "sets POSTERN_TCP_PORT" in unlisted.stderr) == (1, True), unlisted.stderr
    scripted = gateway.run("exec", "nowhere", "-i", "PING")
    assert (scripted.returncode, "use `postern connect nowhere`" in scripted.stderr) == (1, True), scripted.stderr


def test_recording_is_readable_in_every_view(gateway: Gateway) -> None:
    def greet(connection: socket.socket) -> None:
        connection.sendall(b"220 ready\r\n" + connection.recv(100) + b"\x00\x01\xff")
        read_all(connection)

    with service(greet) as port:
        create(gateway, "views", port)
        with connecting(gateway, "views") as (local, _), dial(local) as client:
            client.sendall("HELO grüße\r\n".encode())
            client.shutdown(socket.SHUT_WR)
            read_all(client)
    session = wait_until(lambda: gateway.sessions("--connection", "views"))[0]
    wait_until(lambda: gateway.sessions("--connection", "views")[0]["status"] == "done")
    number = session["id"]
    shown, hexed = "HELO grüße", "00 01 ff"
    assert shown in gateway.run("sessions", "show", number).stdout
    for view in (("replay", number, "--speed", "100"), ("watch", number)):
        done = gateway.run("sessions", *view)
        assert (done.returncode, shown in done.stdout, hexed in done.stdout) == (0, True, True), (view, done)
    for form in ("text", "json", "csv", "timeline"):
        done = gateway.run("sessions", "export", number, "--format", form)
        assert done.returncode == 0, (form, done.stderr)
        assert form == "json" or hexed in done.stdout, (form, done.stdout)
    refused = gateway.run("sessions", "export", number, "--format", "asciicast")
    assert (refused.returncode, "only sessions at a terminal" in refused.stderr) == (1, True), refused.stderr
    found = wait_until(lambda: gateway.sessions("--search", "HELO"))
    assert [one["id"] for one in found] == [number]
