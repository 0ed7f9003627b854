"""Many SSH clients, much data, clients that do not read fast enough, and clients lost without a message."""

from __future__ import annotations

import asyncio
import filecmp
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from tests.e2e.test_waiting_clients import person
from tests.support.echoing import echoing, standing, through_tcp
from tests.support.gateway import Gateway
from tests.support.postgres import free_port
from tests.support.processes import Holding, forget_peak, peak, resident
from tests.support.promises import PATIENT, wait_until, within
from tests.support.ssh_clients import Clients, reaching, shows, types
from tests.support.sshds import Sshd, sshd

from postern.domain.identity.credential import Issued
from postern.domain.targets.connection import Toggle

SSHD = {"MaxStartups": "300", "MaxSessions": "300", "Subsystem": "sftp internal-sftp"}
MIB = 1 << 20


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("sshd"), SSHD) as running:
        yield running


@pytest.fixture(scope="module")
def gateway(target: Sshd) -> Iterator[Gateway]:
    with reaching(target, access_forward_local=Toggle.ENABLED) as running:
        yield running


@pytest.fixture(scope="module")
def issued(gateway: Gateway) -> Issued:
    return gateway.credential("web-1")


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


# Much data


def copy_both_ways(
    gateway: Gateway, clients: Clients, issued: Issued, folder: Path, size: int, timeout: float, *options: str
) -> None:
    """At most twice its size is on the disk at a time. The worker holds no part of it that grows with it."""
    source, there, back = folder / "source", folder / "there", folder / "back"
    block = os.urandom(8 * MIB)
    with source.open("wb") as file:
        for number in range(size // len(block)):
            file.write(number.to_bytes(8, "big") + block[8:])
    pid = gateway.worker.pid
    forget_peak(pid)
    before = resident(pid)
    for come, go in pairwise((source, there, back)):
        words = [f"localhost:{path}" if path == there else str(path) for path in (come, go)]
        done = clients.run(issued, *options, *words, host="", program="scp", timeout=timeout)
        assert (done.returncode, done.stderr) == (0, b"")
        assert filecmp.cmp(come, go, shallow=False)
        come.unlink()
    assert back.stat().st_size == size
    assert peak(pid) - before < 96 * MIB


@pytest.mark.parametrize("way", ["sftp", "scp"])
@pytest.mark.parametrize("megabytes", [64, pytest.param(5120, marks=pytest.mark.huge)])
def test_large_file_is_copied_unchanged(
    gateway: Gateway, clients: Clients, issued: Issued, tmp_path: Path, megabytes: int, way: str
) -> None:
    options = ("-O",) if way == "scp" else ("-s",)
    copy_both_ways(gateway, clients, issued, tmp_path, megabytes * MIB, 120 + megabytes / 2, *options)


# Many


async def connect(stack: AsyncExitStack, gateway: Gateway, issued: Issued) -> asyncssh.SSHClientConnection:
    return await stack.enter_async_context(
        asyncssh.connect(
            "localhost",
            gateway.settings.ssh_port,
            username=issued.credential.username,
            password=issued.password.reveal(),
            known_hosts=None,
            client_keys=None,
            config=None,
            agent_path=None,
            login_timeout=PATIENT,
            connect_timeout=PATIENT,
        )
    )


async def two_hundred(gateway: Gateway, owners: list[Issued]) -> None:
    """Fifty connections of each of two people with two sessions each: all of them begin before the first one ends."""

    async def talk(connection: asyncssh.SSHClientConnection, number: int) -> Any:
        command = f"echo ready {number}; read line; echo got $line; exit {number % 100}"
        return await connection.create_process(command, encoding=None)

    async with asyncio.timeout(10 * PATIENT), AsyncExitStack() as stack:
        connections = await asyncio.gather(*(connect(stack, gateway, owner) for owner in owners for _ in range(50)))
        begun = [talk(one, 2 * number + more) for number, one in enumerate(connections) for more in range(2)]
        programs = await asyncio.gather(*begun)
        ready = await asyncio.gather(*(program.stdout.readline() for program in programs))
        assert ready == [f"ready {number}\n".encode() for number in range(200)]
        for number, program in enumerate(programs):
            program.stdin.write(f"line {number}\n".encode())
        done = await asyncio.gather(*(program.wait() for program in programs))
        assert [one.stdout for one in done] == [f"got line {number}\n".encode() for number in range(200)]
        assert [one.exit_status for one in done] == [number % 100 for number in range(200)]


@pytest.mark.slow
def test_two_hundred_concurrent_sessions_leave_no_open_files(
    gateway: Gateway, clients: Clients, issued: Issued
) -> None:
    second = gateway.credential("web-1", principal=person(gateway, "second@example.com", "admin"))
    before = len(gateway.sessions(connection="web-1"))
    held = Holding.of(gateway.worker.pid)
    plain = [clients.start(issued, f"echo rea''dy; read line; exit {number}") for number in range(5)]
    for client in plain:
        shows(client, b"ready")
    asyncio.run(two_hundred(gateway, [issued, second]))
    for number, client in enumerate(plain):
        types(client, b"line\n")
        assert client.wait(PATIENT) == number
    gateway.all_closed(connection="web-1", timeout=PATIENT)
    assert len(gateway.sessions(connection="web-1")) - before == 205
    wait_until(lambda: Holding.of(gateway.worker.pid).files <= held.files + 5)


# Some stall


@pytest.mark.parametrize("way", ["shows", "reads"])
def test_stalled_sessions_do_not_delay_other_sessions(
    gateway: Gateway, clients: Clients, issued: Issued, way: str, tmp_path: Path
) -> None:
    """A client or a program reads nothing; twenty sessions on the same and on other connections complete."""
    path = clients.folder / f"stalled-{way}"
    (tmp_path / "zeros").write_bytes(bytes(64 * MIB))
    pid = gateway.worker.pid
    forget_peak(pid)
    before = resident(pid)
    master: dict[str, Any] = {"ControlMaster": "yes", "ControlPath": path}
    command = "echo be''gun; cat /dev/zero" if way == "shows" else "echo be''gun; sleep 600"
    stalled = clients.start(issued, command, **master)
    shows(stalled, b"begun")
    feeding = ThreadPoolExecutor(1)
    try:
        if way == "reads":
            feeding.submit(_feed, stalled, tmp_path / "zeros")
        with ThreadPoolExecutor(10) as pool:
            options: list[dict[str, Any]] = [{"ControlPath": path} if number % 2 else {} for number in range(20)]
            work = [
                pool.submit(clients.run, issued, f"echo {number}; cat", stdin=b"in", **more)
                for number, more in enumerate(options)
            ]
            done = [one.result(within(20)) for one in work]
        assert [one.stdout for one in done] == [f"{number}\nin".encode() for number in range(20)]
        assert stalled.poll() is None
        assert peak(pid) - before < 64 * MIB
    finally:
        stalled.kill()
        stalled.wait(PATIENT)
        feeding.shutdown()
    gateway.all_closed(connection="web-1")


def _feed(client: Any, file: Path) -> None:
    try:
        client.stdin.write(file.read_bytes())
    except OSError:
        """It was ended meanwhile."""


@pytest.mark.parametrize("way", ["client", "program"])
def test_slow_reader_uses_little_memory(gateway: Gateway, clients: Clients, issued: Issued, way: str) -> None:
    """It reads more slowly than the other side sends, but never stops."""
    pid = gateway.worker.pid
    command = "cat /dev/zero" if way == "client" else "while head -c 65536 | wc -c; do sleep 0.01; done"
    client = clients.start(issued, f"echo be''gun; {command}")
    feeding = threading.Thread(target=_feed_on, args=(client,))
    try:
        shows(client, b"begun")
        forget_peak(pid)
        before = resident(pid)
        if way == "program":
            feeding.start()
        assert client.stdout is not None
        for _ in range(200):
            os.read(client.stdout.fileno(), 65536)
            time.sleep(0.01)
        assert peak(pid) - before < 48 * MIB
    finally:
        client.kill()
        client.wait(PATIENT)
        if way == "program":
            feeding.join()
    gateway.all_closed(connection="web-1")


def _feed_on(client: Any) -> None:
    with suppress(OSError):  # it was ended meanwhile
        while True:
            client.stdin.write(bytes(MIB))


def test_stalled_forwarded_stream_does_not_delay_other_streams(clients: Clients, issued: Issued) -> None:
    """All of them use the same port of one connection."""
    port = free_port()
    with echoing() as there, ThreadPoolExecutor(4) as pool:
        client = clients.start(issued, "echo rea''dy; cat", LocalForward=f"127.0.0.1:{port} 127.0.0.1:{there}")
        shows(client, b"ready")
        with standing(port):
            data = os.urandom(500_000)
            work = [pool.submit(through_tcp, port, data) for _ in range(4)]
            assert [one.result(within(20)) for one in work] == [data] * 4
            types(client, b"still here\n")
            shows(client, b"still here")
        client.kill()
        client.wait(PATIENT)


# Some are gone


@pytest.mark.parametrize(
    ("program", "options"),
    [
        ("exec sleep 600", ("-tt",)),
        ("exec cat", ()),
        ("while echo on; do sleep 0.1; done", ()),
    ],
    ids=["at-a-terminal", "reads", "writes"],
)
def test_killed_client_ends_its_program(
    gateway: Gateway, clients: Clients, issued: Issued, tmp_path: Path, program: str, options: tuple[str, ...]
) -> None:
    client = clients.start(issued, *options, f"echo $$ > {tmp_path}/pid; echo be''gun; {program}")
    shows(client, b"begun")
    pid = int((tmp_path / "pid").read_text())
    assert alive(pid)
    session = gateway.newest("web-1")
    client.send_signal(signal.SIGKILL)
    client.wait(PATIENT)
    wait_until(lambda: not alive(pid), within(10))
    assert gateway.finished(session.id).metadata["end_reason"] == "client_closed"
