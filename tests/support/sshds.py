"""A real OpenSSH server, on a free loopback port, with keys and a configuration of its own."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.postgres import free_port
from tests.support.promises import PATIENT, wait_until

PASSPHRASE = "correct horse"


@dataclass
class Sshd:
    """`known_hosts` is its line. `user` may log in by `key`, and by `locked`, whose passphrase is PASSPHRASE."""

    port: int
    user: str
    known_hosts: str
    key: str
    locked: str
    stranger: str
    process: subprocess.Popen[bytes]

    def url(self, path: Path) -> str:
        return f"ssh://localhost:{self.port}{path}"


def program() -> str:
    """Missing: an error under CI=true, a visible skip elsewhere."""
    found = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    if found is None:
        reason = "sshd is not installed: install Debian's openssh-server"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def make_key(path: Path, passphrase: str = "", kind: str = "ed25519") -> str:
    """The private key's text; the public one is beside it."""
    words = ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "test", "-f", str(path)]
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)
    return path.read_text()


def public(path: Path) -> str:
    return path.with_name(path.name + ".pub").read_text().strip()


@contextmanager
def ssh_agent(socket: Path, *keys: Path) -> Iterator[Path]:
    """One that holds these keys, at `socket`."""
    process = subprocess.Popen(["ssh-agent", "-D", "-a", socket], stdout=subprocess.DEVNULL)
    try:
        wait_until(socket.exists)
        environment = {"SSH_AUTH_SOCK": str(socket), "PATH": "/usr/bin:/bin"}
        for key in keys:
            subprocess.run(["ssh-add", "-q", key], env=environment, check=True, stdin=subprocess.DEVNULL)
        yield socket
    finally:
        process.terminate()
        process.wait()


@contextmanager
def sshd(folder: Path, more: Mapping[str, object] | None = None, account: str | None = None) -> Iterator[Sshd]:
    """`more` are settings beside or in the place of the usual ones. It runs as `account`, which may enter `folder`;
    None is our own."""
    server, port = program(), int(str((more or {}).get("Port", 0))) or free_port()
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where it puts its unprivileged part
    make_key(folder / "host")
    keys = {
        name: make_key(folder / name, PASSPHRASE if name == "locked" else "") for name in ("key", "locked", "other")
    }
    authorized = folder / "authorized"
    authorized.write_text(f"{public(folder / 'key')}\n{public(folder / 'locked')}\n")
    settings = {
        "ListenAddress": "127.0.0.1",
        "Port": port,
        "HostKey": folder / "host",
        "AuthorizedKeysFile": authorized,
        "PidFile": "none",
        "UsePAM": "no",
        "StrictModes": "no",
        "PasswordAuthentication": "no",
        "PermitRootLogin": "prohibit-password",
        **(more or {}),
    }
    configuration = folder / "sshd_config"
    configuration.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    if account is not None:
        for file in (folder, *folder.iterdir()):
            shutil.chown(file, account)
    words = [server, "-D", "-q", "-f", str(configuration)]
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, user=account)
    line = f"[localhost]:{port} {public(folder / 'host')}"
    try:
        _wait(port, process)
        yield Sshd(port, account or getpass.getuser(), line, keys["key"], keys["locked"], keys["other"], process)
    finally:
        process.terminate()
        process.wait()


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + PATIENT
    while time.monotonic() < until and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError("sshd does not listen")
