"""The bare forwarders of the benchmark, on real sockets."""

from __future__ import annotations

import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from bench.forwarders import CForwarder, PythonForwarder
from bench.processes import cpu_seconds, resident_bytes
from bench.rival import Rival, RivalRow, RivalUnavailableError, Target, start_rivals

MEBIBYTE = 1 << 20
_PATIENCE = 10.0
_MOST = 256 * MEBIBYTE  # more than the kernel buffers for the four sockets


def target_at(port: int) -> Target:
    return Target(port, "db", "ann", "", Path("unused"), Path("unused"))


@dataclass
class Forwarder:
    rival: Rival
    target: socket.socket
    """Listens."""

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.rival.port), timeout=_PATIENCE)

    def accept(self) -> socket.socket:
        accepted = self.target.accept()[0]
        accepted.settimeout(_PATIENCE)
        return accepted


@dataclass
class Pair:
    """Two sockets with a forwarder between them."""

    client: socket.socket
    target: socket.socket
    pid: int


def skip_without_compiler(kind: type[Rival]) -> None:
    if kind is CForwarder and shutil.which(os.environ.get("CC", "cc")) is None:
        pytest.skip("there is no C compiler")


def has_ended(source: socket.socket) -> bool:
    """A reset is an end, too."""
    try:
        return source.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.fixture(scope="module", params=[CForwarder, PythonForwarder])
def forwarder(request: pytest.FixtureRequest) -> Iterator[Forwarder]:
    skip_without_compiler(request.param)
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        listener.settimeout(_PATIENCE)
        rival: Rival = request.param(target_at(listener.getsockname()[1]))
        stack.callback(rival.stop)
        probe = listener.accept()[0]  # from the wait for its port
        assert probe.recv(1) == b""
        probe.close()
        yield Forwarder(rival, listener)


@pytest.fixture
def pair(forwarder: Forwarder) -> Iterator[Pair]:
    with forwarder.connect() as client, forwarder.accept() as target:
        for one in (client, target):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield Pair(client, target, forwarder.rival.pid)


def read_all(source: socket.socket) -> bytes:
    return b"".join(iter(lambda: source.recv(MEBIBYTE), b""))


def send_and_end(sink: socket.socket, content: bytes) -> threading.Thread:
    def send() -> None:
        sink.sendall(content)
        sink.shutdown(socket.SHUT_WR)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


def test_bytes_pass_both_ways_at_once(pair: Pair) -> None:
    question, answer = os.urandom(5 * MEBIBYTE), os.urandom(5 * MEBIBYTE)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(read_all(pair.target)))
    threads = [send_and_end(pair.client, question), send_and_end(pair.target, answer), reader]
    reader.start()
    assert read_all(pair.client) == answer
    for thread in threads:
        thread.join(_PATIENCE)
    assert received == [question]


@pytest.mark.parametrize("ends_at_once", [True, False])
def test_what_a_client_sends_at_once_arrives(forwarder: Forwarder, ends_at_once: bool) -> None:
    """It may come before the connection to the target is open."""
    for _ in range(30):
        with forwarder.connect() as client:
            client.sendall(b"question")
            if ends_at_once:
                client.shutdown(socket.SHUT_WR)
            with forwarder.accept() as target:
                assert target.recv(100) == b"question"
                target.sendall(b"answer")
            assert client.recv(100) == b"answer"


@pytest.mark.parametrize("client_ends_first", [True, False])
def test_the_end_of_one_direction_leaves_the_other_open(pair: Pair, client_ends_first: bool) -> None:
    first, second = (pair.client, pair.target) if client_ends_first else (pair.target, pair.client)
    first.sendall(b"question")
    first.shutdown(socket.SHUT_WR)
    assert read_all(second) == b"question"
    for _ in range(3):
        second.sendall(b"answer")
        assert first.recv(100) == b"answer"
    second.shutdown(socket.SHUT_WR)
    assert first.recv(100) == b""


@pytest.mark.parametrize("client_is_killed", [True, False])
def test_the_other_side_hears_of_a_reset(pair: Pair, client_is_killed: bool) -> None:
    first, second = (pair.client, pair.target) if client_is_killed else (pair.target, pair.client)
    first.sendall(b"x")
    assert second.recv(1) == b"x"
    first.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    first.close()
    assert has_ended(second)


def becomes_idle(pid: int) -> bool:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        before = cpu_seconds(pid)
        time.sleep(0.3)
        if cpu_seconds(pid) - before < 0.01:
            return True
    return False


def send_until_held_back(sink: socket.socket, block: bytes) -> int:
    """Send the block again and again. Return the number of bytes sent."""
    sink.settimeout(0.5)
    sent = 0
    try:
        while sent < _MOST:
            sent += sink.send(block[sent % MEBIBYTE :])
    except TimeoutError:
        pass
    return sent


@pytest.mark.parametrize("client_reads", [True, False])
def test_a_side_that_does_not_read_stops_the_other(pair: Pair, client_reads: bool) -> None:
    """The sender is held back, and the forwarder meanwhile needs neither memory nor processor time."""
    reader, sender = (pair.client, pair.target) if client_reads else (pair.target, pair.client)
    before = resident_bytes(pair.pid)
    block = os.urandom(MEBIBYTE)
    sent = send_until_held_back(sender, block)
    assert sent < _MOST
    assert becomes_idle(pair.pid)
    assert resident_bytes(pair.pid) - before < 4 * MEBIBYTE
    sender.settimeout(_PATIENCE)
    sender.shutdown(socket.SHUT_WR)
    content = read_all(reader)
    assert len(content) == sent
    assert content == (block * (sent // MEBIBYTE + 1))[:sent]


def pass_on(source: socket.socket, sink: socket.socket) -> None:
    source.sendall(b"x")
    assert sink.recv(1) == b"x"


def pass_twenty_times(source: socket.socket, sink: socket.socket) -> float:
    """Return the seconds."""
    start = time.monotonic()
    for _ in range(20):
        pass_on(source, sink)
        pass_on(source, sink)
        pass_on(sink, source)
    return time.monotonic() - start


def test_small_messages_are_not_held_back(pair: Pair) -> None:
    """With Nagle's algorithm, the second of two small writes waits until the first one is acknowledged, which takes
    40 ms on a connection that is answered as a rule."""
    for source, sink in ((pair.client, pair.target), (pair.target, pair.client)):
        assert min(pass_twenty_times(source, sink) for _ in range(4)) < 0.4


@pytest.mark.parametrize("kind", [CForwarder, PythonForwarder])
def test_a_target_that_is_away_ends_the_connection(kind: type[Rival]) -> None:
    skip_without_compiler(kind)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    rival = kind(target_at(port))
    try:
        with socket.create_connection(("127.0.0.1", rival.port), timeout=_PATIENCE) as client:
            assert has_ended(client)
    finally:
        rival.stop()


def test_without_a_compiler_the_row_is_left_out_and_the_reason_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        rows = [RivalRow("in C", CForwarder), RivalRow("in Python", PythonForwarder)]
        rivals = start_rivals(rows, target_at(listener.getsockname()[1]))
        rivals.stop()
    assert list(rivals.running) == ["in Python"]
    assert "no C compiler" in rivals.unavailable["in C"]


def test_a_rival_that_fails_stops_the_others() -> None:
    class Broken(Rival):
        def prepare(self, target: Target) -> list[str]:
            return ["false"]

    started: list[Rival] = []

    class Remembered(PythonForwarder):
        def prepare(self, target: Target) -> list[str]:
            started.append(self)
            return super().prepare(target)

    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        pytest.raises(RuntimeError, match="Broken did not start"),
    ):
        start_rivals([RivalRow("good", Remembered), RivalRow("broken", Broken)], target_at(listener.getsockname()[1]))
    assert not started[0].folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(started[0].pid, 0)


def test_an_unavailable_rival_leaves_no_folder() -> None:
    folders: list[Path] = []

    class Missing(Rival):
        def prepare(self, target: Target) -> list[str]:
            folders.append(self.folder)
            raise RivalUnavailableError("not here")

    with pytest.raises(RivalUnavailableError):
        Missing(target_at(1))
    assert not folders[0].exists()
