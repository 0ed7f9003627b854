"""Rekeying and remote port forwarding of OpenSSH's client, through a whole worker to OpenSSH's own server."""

from __future__ import annotations

import hashlib
import os
import re
import socket
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from uuid import uuid4

import pytest
from tests.support.gateway import Gateway
from tests.support.postgres import free_port
from tests.support.promises import wait_until
from tests.support.ssh_clients import Clients, reaching, server, shows
from tests.support.sshds import Sshd, sshd

from postern.domain.identity.credential import Issued
from postern.domain.targets.connection import Toggle

SSHD = {"MaxStartups": "300", "MaxSessions": "2", "RekeyLimit": "2M"}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("sshd"), SSHD) as running:
        yield running


@pytest.fixture(scope="module")
def gateway(target: Sshd) -> Iterator[Gateway]:
    with reaching(target, gateway_commands=True) as running:
        yield running


@pytest.fixture(scope="module")
def issued(gateway: Gateway) -> Issued:
    return gateway.credential("web-1")


def test_rekeying_during_a_transfer_leaves_the_data_unchanged(clients: Clients, issued: Issued) -> None:
    data = os.urandom(20_000_000)
    done = clients.run(issued, "cat", stdin=data, RekeyLimit="1M")
    assert (done.returncode, done.stderr) == (0, b"")
    assert hashlib.sha256(done.stdout).digest() == hashlib.sha256(data).digest()


@contextmanager
def greeter() -> Iterator[int]:
    """Beside the client: answers each line that comes with itself, in capitals, until the other side ends."""

    class Greets(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            for line in self.rfile:
                self.wfile.write(line.upper())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Greets) as listening:
        listening.daemon_threads = True
        thread = threading.Thread(target=listening.serve_forever, daemon=True)
        thread.start()
        try:
            yield listening.server_address[1]
        finally:
            listening.shutdown()


def asked(port: int, line: bytes = b"hello\n") -> bytes:
    """What somebody at the target hears at its port; nothing when they are refused or hung up on."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as there:
            there.sendall(line)
            there.shutdown(socket.SHUT_WR)
            heard = b""
            while data := there.recv(65536):
                heard += data
            return heard
    except TimeoutError:
        raise
    except OSError:  # ENOTCONN, of what was hung up on before its end was said, is no ConnectionError
        return b""


def closed(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=60).close()
    except ConnectionRefusedError:
        return True
    return False


@contextmanager
def forwarding(clients: Clients, issued: Issued, to: int) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A client that forwards a port of the target, which the target chose, to `to` beside it."""
    client = clients.start(issued, "-N", "-R", f"127.0.0.1:0:127.0.0.1:{to}", LogLevel="INFO")
    try:
        assert client.stdout is not None
        told = re.search(rb"Allocated port (\d+)", client.stdout.readline())
        assert told is not None
        yield client, int(told.group(1))
    finally:
        client.terminate()
        client.wait(60)


@pytest.fixture
def wide(gateway: Gateway, target: Sshd) -> Iterator[tuple[str, Issued]]:
    """A connection that lets ports of the target be listened at."""
    name = f"wide-{uuid4().hex[:8]}"
    server(gateway, name, target, access_forward_remote=Toggle.ENABLED)
    yield name, gateway.credential(name)
    gateway.all_closed(connection=name)


def test_forwarded_port_of_the_target_reaches_the_client(
    gateway: Gateway, clients: Clients, wide: tuple[str, Issued]
) -> None:
    name, issued = wide
    data = b"".join(os.urandom(60).hex().encode() + b"\n" for _ in range(10_000))
    with greeter() as to, forwarding(clients, issued, to) as (_, port):
        assert asked(port) == b"HELLO\n"
        assert asked(port, data) == data.upper()
        with ThreadPoolExecutor(10) as pool:
            assert list(pool.map(lambda number: asked(port, b"%d\n" % number), range(10))) == [
                b"%d\n" % number for number in range(10)
            ]
        (listener,) = [one for one in gateway.sessions(connection=name) if one.metadata["channel"] == "listen"]
        assert gateway.operations(listener.id) == ["listen at 127.0.0.1:0"]
    wait_until(lambda: closed(port))
    gateway.all_closed(connection=name)
    taken = [one for one in gateway.sessions(connection=name) if one.metadata["channel"] == "accept"]
    assert len(taken) == 12
    for one in taken:
        (judged,) = gateway.operations(one.id)
        assert re.fullmatch(rf"forward from 127\.0\.0\.1:\d+, which came to 127\.0\.0\.1:{port}", judged)


def test_remote_forwarding_without_permission_opens_no_port_at_the_target(clients: Clients, issued: Issued) -> None:
    port = free_port()
    done = clients.run(issued, "-R", f"{port}:127.0.0.1:1", "echo on", ExitOnForwardFailure="yes", LogLevel="INFO")
    assert done.returncode == 255
    assert b"remote port forwarding failed" in done.stderr
    assert closed(port)
    assert clients.run(issued, "-R", f"{port}:127.0.0.1:1", "echo on").stdout == b"on\n"


def test_remote_forwarding_of_a_port_in_use_fails(clients: Clients, wide: tuple[str, Issued]) -> None:
    with greeter() as taken:
        words = f"127.0.0.1:{taken}:127.0.0.1:1"
        done = clients.run(wide[1], "-R", words, "true", ExitOnForwardFailure="yes", LogLevel="INFO")
    assert done.returncode == 255
    assert b"remote port forwarding failed" in done.stderr


def test_connection_that_the_client_does_not_accept_is_closed(clients: Clients, wide: tuple[str, Issued]) -> None:
    nobody = free_port()
    with forwarding(clients, wide[1], nobody) as (_, port):
        assert asked(port) == b""
        assert asked(port) == b""


def test_cancelled_forwarding_keeps_accepted_connections(clients: Clients, wide: tuple[str, Issued]) -> None:
    path, port = clients.folder / f"master-{uuid4().hex[:8]}", free_port()
    with greeter() as to:
        words = f"127.0.0.1:{port}:127.0.0.1:{to}"
        master = clients.start(wide[1], "-N", ControlMaster="yes", ControlPath=path)
        wait_until(path.exists)
        try:
            assert clients.run(wide[1], "-O", "forward", "-R", words, ControlPath=path).returncode == 0
            with socket.create_connection(("127.0.0.1", port), timeout=60) as there:
                there.sendall(b"one\n")
                assert there.recv(100) == b"ONE\n"
                assert clients.run(wide[1], "-O", "cancel", "-R", words, ControlPath=path).returncode == 0
                wait_until(lambda: closed(port))
                there.sendall(b"two\n")
                assert there.recv(100) == b"TWO\n"
            assert clients.run(wide[1], "-O", "forward", "-R", words, ControlPath=path).returncode == 0
            assert asked(port) == b"HELLO\n"
        finally:
            master.terminate()
            master.wait(60)


@pytest.mark.parametrize("how", ["killed", "switched off", "revoked", "client killed"])
def test_listener_ends_with_its_session_switch_credential_or_client(
    gateway: Gateway, clients: Clients, wide: tuple[str, Issued], how: str
) -> None:
    name, issued = wide
    with greeter() as to, forwarding(clients, issued, to) as (client, port):
        assert asked(port) == b"HELLO\n"
        (listener,) = [one for one in gateway.sessions(connection=name) if one.metadata["channel"] == "listen"]
        if how == "killed":
            gateway.call(gateway.services.sessions.kill(gateway.admin, listener.id))
        elif how == "switched off":
            changed = {"access_forward_remote": Toggle.DISABLED}
            gateway.call(gateway.services.connections.update(gateway.admin, name, changed))
        elif how == "revoked":
            gateway.call(gateway.services.credentials.revoke(gateway.admin, name, str(issued.credential.id)))
        else:
            client.kill()
        wait_until(lambda: closed(port))
        gateway.finished(listener.id)


def test_further_connections_are_opened_if_a_server_accepts_few_sessions_each(clients: Clients, issued: Issued) -> None:
    """`MaxSessions` is 2, and eight run at the same time over one connection of the client."""
    path = clients.folder / f"many-{uuid4().hex[:8]}"
    master = clients.start(issued, "-N", ControlMaster="yes", ControlPath=path)
    wait_until(path.exists)
    try:
        several = [clients.start(issued, "echo begun; read line; echo $line", ControlPath=path) for _ in range(8)]
        for client in several:
            shows(client, b"begun\n")  # behind what the profile of this machine has to say
        for number, client in enumerate(several):
            assert client.communicate(b"%d\n" % number, timeout=60)[0] == b"%d\n" % number
    finally:
        master.terminate()
        master.wait(60)


def test_guardrail_denies_listening_at_a_port_of_the_target(gateway: Gateway, clients: Clients, target: Sshd) -> None:
    guarded = server(gateway, "guarded", target, access_forward_remote=Toggle.ENABLED)
    gateway.guardrail("no-web", guarded, deny=r"^listen at .*:8080$")
    server(
        gateway,
        "masked",
        target,
        access_forward_remote=Toggle.ENABLED,
        redact_enabled=True,
        redact_types=("EMAIL_ADDRESS",),
    )
    for name, at in (("guarded", "127.0.0.1:8080"), ("masked", "127.0.0.1:0")):
        done = clients.run(
            gateway.credential(name), "-R", f"{at}:127.0.0.1:1", "true", ExitOnForwardFailure="yes", LogLevel="INFO"
        )
        assert done.returncode == 255, name
        assert b"remote port forwarding failed" in done.stderr
        gateway.newest_finished(name)


def test_guardrail_denies_forwarding_to_a_port(gateway: Gateway, clients: Clients, target: Sshd) -> None:
    guarded = server(gateway, "no-port", target, access_forward_local=Toggle.ENABLED)
    gateway.guardrail("no-port", guarded, deny=rf"^forward to 127\.0\.0\.1:{target.port}$")
    issued = gateway.credential("no-port")
    assert clients.run(issued, "-W", f"127.0.0.1:{target.port}").stdout == b""
    assert gateway.newest_finished("no-port").metrics["refused"] == 1
    assert clients.run(issued, "-W", f"127.0.0.2:{target.port}").stdout == b""  # where nobody listens
    assert gateway.newest_finished("no-port").metrics["refused"] == 0


def test_forwarded_port_of_the_target_works_with_proxy_jump(
    gateway: Gateway, clients: Clients, wide: tuple[str, Issued]
) -> None:
    name, _ = wide
    key = clients.key(gateway.admin)
    jump = " ".join([*clients.words(key, gateway.admin.email), "-W", "%h:%p", "localhost"])
    port = free_port()
    with greeter() as to:
        words = clients.words(key, "anybody", ProxyCommand=jump, HostKeyAlias=f"{name}.postern")
        forward = f"127.0.0.1:{port}:127.0.0.1:{to}"
        client = subprocess.Popen([*words, "-N", "-R", forward, name], env=clients.secrets(key))
        try:
            wait_until(lambda: asked(port) == b"HELLO\n")
        finally:
            client.terminate()
            client.wait(60)
    wait_until(lambda: closed(port))
