"""What each access mode lets OpenSSH's clients do, as a table: modes by uses."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.gateway import Gateway
from tests.support.ssh_clients import Clients, reaching, server, shows
from tests.support.sshds import Sshd, sshd

from postern.domain.identity.credential import Issued
from postern.domain.targets.connection import Toggle
from postern.errors import Denied

SSHD = {"Subsystem": "sftp internal-sftp", "MaxSessions": "100"}
MODES = {"both": ("connect", "exec"), "connect": ("connect",), "exec": ("exec",), "neither": ()}
WAYS: dict[str, Any] = {"access_forward_local": Toggle.ENABLED, "access_forward_remote": Toggle.ENABLED}
Done = subprocess.CompletedProcess[bytes]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("sshd"), SSHD) as running:
        yield running


@pytest.fixture(scope="module")
def gateway(target: Sshd) -> Iterator[Gateway]:
    with reaching(target, **WAYS) as running:
        for name, enabled in MODES.items():
            server(running, name, target, **WAYS, **_switches(enabled))
        yield running


@pytest.fixture(scope="module")
def key(gateway: Gateway, clients: Clients) -> Path:
    return clients.key(gateway.admin)


def _switches(enabled: tuple[str, ...]) -> dict[str, Toggle]:
    return {
        f"access_mode_{mode}": Toggle.ENABLED if mode in enabled else Toggle.DISABLED for mode in ("connect", "exec")
    }


Use = Callable[[Clients, Path, str, Sshd, Path], Done]


def _command(clients: Clients, key: Path, user: str, target: Sshd, folder: Path) -> Done:
    return clients.run(key, "echo reached", user=user)


def _command_at_terminal(clients: Clients, key: Path, user: str, target: Sshd, folder: Path) -> Done:
    return clients.run(key, "-tt", "localhost", "echo reached", user=user, host="")


def _shell(clients: Clients, key: Path, user: str, target: Sshd, folder: Path) -> Done:
    return clients.run(key, user=user, stdin=b"echo reached\n")


def _shell_at_terminal(clients: Clients, key: Path, user: str, target: Sshd, folder: Path) -> Done:
    return clients.run(key, "-tt", "localhost", user=user, host="", stdin=b"echo rea''ched; exit\n")


def _copy(clients: Clients, key: Path, user: str, folder: Path, *options: str) -> Done:
    (folder / "file").write_bytes(b"reached\n")
    done = clients.run(
        key, *options, str(folder / "file"), f"localhost:{folder}/copy", user=user, host="", program="scp"
    )
    done.stdout += (folder / "copy").read_bytes() if (folder / "copy").exists() else b""
    return done


def _sftp(clients: Clients, key: Path, user: str, target: Sshd, folder: Path) -> Done:
    return _copy(clients, key, user, folder, "-s")


def _scp(clients: Clients, key: Path, user: str, target: Sshd, folder: Path) -> Done:
    return _copy(clients, key, user, folder, "-O")


def _forward(clients: Clients, key: Path, user: str, target: Sshd, folder: Path) -> Done:
    done = clients.run(key, "-W", f"127.0.0.1:{target.port}", user=user, LogLevel="INFO")
    done.stdout += b"reached" if done.stdout.startswith(b"SSH-2.0-") else b""
    return done


# What each use needs. A command at a terminal is interactive, so it needs both.
USES: dict[str, tuple[tuple[str, ...], Use]] = {
    "command": (("exec",), _command),
    "command at a terminal": (("exec", "connect"), _command_at_terminal),
    "scp -O": (("exec",), _scp),
    "shell": (("connect",), _shell),
    "shell at a terminal": (("connect",), _shell_at_terminal),
    "sftp": (("connect",), _sftp),
    "ssh -W": (("connect",), _forward),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("modes", MODES)
def test_each_use_needs_its_own_mode(
    gateway: Gateway, clients: Clients, key: Path, target: Sshd, tmp_path: Path, modes: str, use: str
) -> None:
    needed, run = USES[use]
    done = run(clients, key, f"{gateway.admin.email}#{modes}", target, tmp_path)
    missing = [mode for mode in needed if mode not in MODES[modes]]
    if not missing:
        assert b"reached" in done.stdout, done.stderr
        session = gateway.newest_finished(modes)
        assert session.verb == "connect"
    else:
        assert b"reached" not in done.stdout
        assert done.returncode != 0
        said = done.stdout + done.stderr  # a client with a terminal has one stream
        assert f"access mode {missing[0]} is disabled on connection '{modes}'".encode() in said
        assert f"access mode {missing[0]} is disabled on connection '{modes}'" in gateway.worker.log()


def test_remote_forwarding_needs_connect(gateway: Gateway, clients: Clients, key: Path) -> None:
    for modes, granted in (("connect", True), ("exec", False)):
        words = ("-N", "-R", "0:localhost:1")
        client = clients.start(
            key, *words, user=f"{gateway.admin.email}#{modes}", ExitOnForwardFailure="yes", LogLevel="INFO"
        )
        try:
            shows(client, b"llocated port" if granted else b"remote port forwarding failed")
        finally:
            client.kill()
            client.wait(60)


def test_each_channel_of_a_connection_needs_its_own_mode(
    gateway: Gateway, clients: Clients, key: Path, tmp_path: Path
) -> None:
    user, path = f"{gateway.admin.email}#exec", clients.folder / "shared"
    master = clients.start(key, "echo be''gun; sleep 600", user=user, ControlMaster="yes", ControlPath=path)
    try:
        shows(master, b"begun")
        assert clients.run(key, "echo again", user=user, ControlPath=path).stdout == b"again\n"
        shell = clients.run(key, user=user, ControlPath=path, stdin=b"echo reached\n")
        assert (b"access mode connect" in shell.stderr, shell.stdout) == (True, b"")
        assert clients.run(key, "echo still", user=user, ControlPath=path).stdout == b"still\n"
    finally:
        master.terminate()
        master.wait(60)


def test_running_command_ends_when_its_mode_is_disabled(
    gateway: Gateway, clients: Clients, target: Sshd, key: Path
) -> None:
    server(gateway, "changing", target)
    user, path = f"{gateway.admin.email}#changing", clients.folder / "changing"
    shell = clients.start(key, user=user, ControlMaster="yes", ControlPath=path)
    assert shell.stdin is not None
    shell.stdin.write(b"echo be''gun\n")
    shell.stdin.flush()
    shows(shell, b"begun")
    command = clients.start(key, "echo be''gun; sleep 600", user=user, ControlPath=path)
    try:
        shows(command, b"begun")
        change = {"access_mode_exec": Toggle.DISABLED}
        gateway.call(gateway.services.connections.update(gateway.admin, "changing", change))
        shows(command, b"access mode exec is disabled")
        assert command.wait(60) != 0
        shell.stdin.write(b"echo still $((40+2))\n")
        shell.stdin.flush()
        shows(shell, b"still 42")
        assert b"access mode exec" in clients.run(key, "true", user=user, ControlPath=path).stderr
    finally:
        for client in (command, shell):
            client.kill()
            client.wait(60)


def test_credential_of_an_exec_only_connection_runs_commands_and_opens_no_shell(
    gateway: Gateway, clients: Clients
) -> None:
    issued: Issued = gateway.credential("exec")
    assert clients.run(issued, "echo reached").stdout == b"reached\n"
    assert b"access mode connect is disabled" in clients.run(issued, stdin=b"echo reached\n").stderr


def test_credential_is_denied_if_no_mode_is_enabled(gateway: Gateway) -> None:
    with pytest.raises(Denied, match="access mode connect is disabled"):
        gateway.credential("neither")
