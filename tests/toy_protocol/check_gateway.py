"""The toy protocol through a whole gateway, in a copy of the source that has it: see tests/test_add_a_protocol.py."""

from __future__ import annotations

import contextlib
import re
import socket
import socketserver
import threading
from collections.abc import Iterator

import pytest
from tests.support.gateway import Gateway
from tests.support.postgres import free_port
from tests.support.running import started

from postern.domain.rules.masking import Strategy, TypeGroup

PASSWORD = "target's own"


class PantryServer(socketserver.ThreadingTCPServer):
    """A target. `requests` are all that it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), PantryHandler)
        self.requests: list[str] = []
        self.values = {"fruit": "an apple", "card": "4111 1111 1111 1111"}


class PantryHandler(socketserver.StreamRequestHandler):
    server: PantryServer

    def handle(self) -> None:
        if self.line() == "TLS":
            self.say("ERROR no TLS here")
            login = self.line()
        assert login == f"LOGIN keeper {PASSWORD}"
        self.say("OK")
        while (request := self.line()) not in ("", "QUIT"):
            self.server.requests.append(request)
            word, name, *value = request.split(" ", 2)
            if word == "SET":
                self.server.values[name] = value[0]
                self.say("OK")
            else:
                found = self.server.values.get(name)
                self.say("NONE" if found is None else f"VALUE {found}")

    def line(self) -> str:
        return self.rfile.readline().decode().removesuffix("\n")

    def say(self, line: str) -> None:
        self.wfile.write(f"{line}\n".encode())


@pytest.fixture(scope="module")
def target() -> Iterator[PantryServer]:
    with PantryServer() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(scope="module")
def gateway(target: PantryServer) -> Iterator[Gateway]:
    running = Gateway(pantry_port=free_port())
    try:
        running.start()
        secret = {"PORT": str(target.server_address[1]), "USER": "keeper", "PASS": PASSWORD}
        connection = running.connection("target", subtype="pantry", secret=secret, default_database=None)
        running.guardrail("no-locks", connection, deny="(?i)set lock")
        found = (TypeGroup("CARDS", ("CREDIT_CARD",)),)
        rule = {"name": "cards", "groups": found, "strategy": Strategy.PARTIAL}
        running.masking_rule({**rule, "connection_ids": (str(connection.id),)})
        yield running
    finally:
        running.stop()


class PantryClient:
    def __init__(self, connected: socket.socket) -> None:
        self._stream = connected.makefile("rw", encoding="utf-8", newline="\n")

    def ask(self, line: str) -> str:
        self._stream.write(f"{line}\n")
        self._stream.flush()
        return self._stream.readline().removesuffix("\n")


def port_of(gateway: Gateway) -> int:
    return int(gateway.settings.environment()["POSTERN_PANTRY_PORT"])


@contextlib.contextmanager
def connected(port: int) -> Iterator[PantryClient]:
    with socket.create_connection(("127.0.0.1", port), 30) as stream:
        yield PantryClient(stream)


def test_client_is_logged_in_judged_and_recorded(gateway: Gateway, target: PantryServer) -> None:
    issued = gateway.credential("target")
    with connected(port_of(gateway)) as client:
        assert client.ask(f"LOGIN {issued.credential.username} {issued.password.reveal()}") == "OK"
        assert client.ask("GET fruit") == "VALUE an apple"
        assert "denied" in client.ask("SET lock on")
        assert client.ask("SET fruit a pear") == "OK"
        assert client.ask("GET fruit") == "VALUE a pear"
        client.ask("QUIT")
    session = gateway.newest_finished()
    assert target.requests == ["GET fruit", "SET fruit a pear", "GET fruit"]
    assert gateway.operations(session.id) == ["GET fruit", "SET lock on", "SET fruit a pear", "GET fruit"]
    text = gateway.text(session.id)
    assert "an apple" in text
    assert "a pear" in text
    assert PASSWORD not in text


def test_wrong_password_is_turned_away(gateway: Gateway) -> None:
    issued = gateway.credential("target")
    with connected(port_of(gateway)) as client:
        assert client.ask(f"LOGIN {issued.credential.username} wrong").startswith("ERROR the user name or password")


def test_answer_is_masked(gateway: Gateway) -> None:
    issued = gateway.credential("target")
    with connected(port_of(gateway)) as client:
        assert client.ask(f"LOGIN {issued.credential.username} {issued.password.reveal()}") == "OK"
        assert "4111" not in client.ask("GET card")
        client.ask("QUIT")
    assert "4111" not in gateway.text(gateway.newest_finished().id)


@pytest.mark.parametrize(("script", "exit_code", "shown"), [("GET nothing\n", 0, "NONE"), ("SET lock on", 1, "denied")])
def test_script_runs(gateway: Gateway, script: str, exit_code: int, shown: str) -> None:
    submitting = gateway.services.sessions.submit(gateway.admin, "target", script, source="127.0.0.1")
    session = gateway.finished(gateway.call(submitting).id)
    assert session.exit_code == exit_code
    assert shown in gateway.text(session.id)


def test_command_line_serves_it(target: PantryServer) -> None:
    """Without a client of the protocol, `postern connect` says where any client can go."""
    secret = {"HOST": "127.0.0.1", "PORT": str(target.server_address[1]), "USER": "keeper", "PASS": PASSWORD}
    given = [word for name, value in secret.items() for word in ("--env", f"{name}={value}")]
    with started("--no-demo", PANTRY_PORT="0") as gateway:
        created = gateway.run("connections", "create", "larder", "--subtype", "pantry", *given)
        assert created.returncode == 0, created.stderr
        shown = gateway.run("exec", "larder", "-i", "GET fruit")
        assert (shown.returncode, shown.stdout) == (0, f"{target.values['fruit']}\n"), shown.stderr
        assert "is for tables" in gateway.run("exec", "larder", "-i", "GET fruit", "--format", "json").stderr
        line = gateway.run("connect", "larder", "--native").stdout
        found = re.fullmatch(r"localhost:([0-9]+) user=(\S+) password=(\S+)\n", line)
        assert found is not None, line
        with connected(int(found[1])) as client:
            assert client.ask(f"LOGIN {found[2]} {found[3]}") == "OK"
            assert client.ask("GET nothing") == "NONE"
        assert "leave out --format" in gateway.run("connect", "larder", "--native", "--format", "jdbc").stderr
