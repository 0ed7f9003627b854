"""The demo's own process: it starts PostgreSQL as a child process, fills it with the shop, and stops it at the end."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import secrets
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import asyncpg

from postern.demo import binaries, demo_target, shop
from postern.demo.binaries import Binaries, ServerAccount
from postern.demo.demo_target import SUPERUSER, DemoTarget
from postern.domain.secret import Secret
from postern.errors import Misconfigured, Unavailable
from postern.process import announce_ready, dying_with_us
from postern.settings import Settings

HOST = "127.0.0.1"
START_TIMEOUT = 30.0
FAST_STOP, IMMEDIATE_STOP = 5.0, 2.0  # seconds that it has after SIGINT, then after SIGQUIT
ROOTS_FOLDER = Path("/var/lib")


@dataclass(frozen=True, slots=True)
class DemoFolder:
    """The folders of the server. `own` contains its files; `account` owns `data`; None if it runs as ourselves."""

    own: Path
    account: ServerAccount | None

    @property
    def data(self) -> Path:
        return self.own / "data"


def place_for(home: Path) -> DemoFolder:
    """Return `$POSTERN_HOME/demo`; for root `/var/lib/postern-demo-…`, since the server's account cannot enter root's
    home."""
    account = binaries.unprivileged_account()
    if account is None:
        return DemoFolder(home / "demo", None)
    mark = hashlib.sha256(str(home).encode()).hexdigest()[:8]
    return DemoFolder(ROOTS_FOLDER / f"postern-demo-{mark}", account)


class DemoServer:
    """A PostgreSQL server. Call `start` from the main thread: the child ends with the thread that started it."""

    def __init__(self, home: Path, port: int) -> None:
        self.home = home
        self.port = port
        self.place = place_for(home)
        self._binaries: Binaries | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log_file(self) -> Path:
        return self.home / "demo" / "server.log"

    def start(self) -> DemoTarget:
        """Create the data folder if it is missing, start, and wait until the server answers. Raises Misconfigured or
        Unavailable, with the end of the server's log."""
        demo_target.path(self.home).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.place.own.mkdir(mode=0o755 if self.place.account else 0o700, parents=True, exist_ok=True)
        found_binaries = binaries.find()
        if self.place.account:
            found_binaries = binaries.within_reach(found_binaries, self.place.account, self.place.own / "server")
        self._binaries = found_binaries
        target = self._known_target()
        if target is None:
            target = self._make_data()
        self._check_version(found_binaries)
        self._end_leftover()
        target = DemoTarget(HOST, self.port, target.password, target.superuser_password)
        self._launch(found_binaries)
        self._wait_ready()
        demo_target.save(self.home, target)
        return target

    def wait(self) -> int:
        """Wait until the server ends; return its exit code."""
        assert self._process is not None, "call start() first"
        return self._process.wait()

    def stop(self) -> None:
        """Stop it cleanly, and by force if it takes too long. Can be called twice or before `start`."""
        process = self._process
        if process is None:
            return
        for by, patience in ((signal.SIGINT, FAST_STOP), (signal.SIGQUIT, IMMEDIATE_STOP), (signal.SIGKILL, None)):
            if process.poll() is not None:
                break
            process.send_signal(by)
            try:
                process.wait(patience)
            except subprocess.TimeoutExpired:
                log.warning("the demo server did not stop by %s in %s s", by.name, patience)
        self._process = None

    def remove(self) -> None:
        """Delete the server's files and its address."""
        self.stop()
        shutil.rmtree(self.place.own, ignore_errors=True)
        demo_target.path(self.home).unlink(missing_ok=True)

    def _known_target(self) -> DemoTarget | None:
        if not (self.place.data / "PG_VERSION").is_file():
            return None
        try:
            return demo_target.load(self.home)
        except Unavailable:
            log.warning("the demo's passwords are lost; creating its data again")
            return None

    def _make_data(self) -> DemoTarget:
        assert self._binaries is not None
        shutil.rmtree(self.place.data, ignore_errors=True)
        self.place.data.mkdir(mode=0o700)
        target = DemoTarget(HOST, self.port, Secret(secrets.token_urlsafe(24)), Secret(secrets.token_urlsafe(24)))
        password_file = self.place.own / ".password"
        with os.fdopen(os.open(password_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(target.superuser_password.reveal())
        if self.place.account:
            for path in (self.place.data, password_file):
                os.chown(path, self.place.account.uid, self.place.account.gid)
        try:
            self._initdb(self._binaries, password_file)
        finally:
            password_file.unlink()
        demo_target.save(self.home, target)
        return target

    def _initdb(self, binaries: Binaries, password_file: Path) -> None:
        arguments = ["--username", SUPERUSER, "--pwfile", str(password_file), "--auth", "scram-sha-256"]
        arguments += ["--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions"]
        done = subprocess.run(
            [binaries.initdb, "--pgdata", self.place.data, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            **self._surroundings(binaries, dies_by=signal.SIGTERM),
        )
        if done.returncode != 0:
            shutil.rmtree(self.place.data, ignore_errors=True)
            raise Unavailable(f"the demo's data folder {self.place.data} could not be created: {done.stdout.decode()}")

    def _check_version(self, binaries: Binaries) -> None:
        made_by = (self.place.data / "PG_VERSION").read_text().strip()
        if made_by != str(binaries.major):
            raise Misconfigured(
                f"the demo's data in {self.place.data} belongs to PostgreSQL {made_by}, and the server is "
                f"version {binaries.major}; delete that folder to create the demo again"
            )

    def _end_leftover(self) -> None:
        """End a postmaster of an earlier run; remove a `postmaster.pid` whose process is a different one.

        PostgreSQL itself refuses to start if that number belongs to any running process by now.
        """
        lock = self.place.data / "postmaster.pid"
        try:
            pid = int(lock.read_text().split("\n", 1)[0])
        except (FileNotFoundError, ValueError):
            lock.unlink(missing_ok=True)
            return
        if _works_in(pid, self.place.data):
            log.warning("a demo server of an earlier run (process %d) still runs; stopping it", pid)
            for by, patience in ((signal.SIGINT, FAST_STOP), (signal.SIGQUIT, IMMEDIATE_STOP), (signal.SIGKILL, 1.0)):
                os.kill(pid, by)
                if _wait_for_exit(pid, self.place.data, patience):
                    break
        lock.unlink(missing_ok=True)

    def _launch(self, binaries: Binaries) -> None:
        options = {
            "port": self.port,
            "listen_addresses": HOST,
            "unix_socket_directories": "",
            "max_connections": 300,
            "shared_buffers": "64MB",
            "password_encryption": "scram-sha-256",
            "log_min_messages": "warning",
            "fsync": "off",  # the rows can be created again at any time
            "full_page_writes": "off",
        }
        arguments = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        with self.log_file.open("wb") as output:
            self._process = subprocess.Popen(
                [binaries.postgres, "-D", self.place.data, *arguments],
                stdout=output,
                stderr=output,
                start_new_session=True,
                **self._surroundings(binaries, dies_by=signal.SIGINT),
            )

    def _surroundings(self, binaries: Binaries, dies_by: signal.Signals) -> dict[str, Any]:
        """Return how every program of the server is started; `dies_by` is the signal it gets when we end."""
        account = self.place.account
        return {
            "stdin": subprocess.DEVNULL,
            "cwd": self.place.data,
            "env": binaries.environment(),
            "preexec_fn": dying_with_us(dies_by),
            "user": account.uid if account else None,
            "group": account.gid if account else None,
            "extra_groups": [] if account else None,
        }

    def _wait_ready(self) -> None:
        """Return whether the last line of `postmaster.pid` is "ready": then connections are accepted."""
        assert self._process is not None
        lock = self.place.data / "postmaster.pid"
        end = time.monotonic() + START_TIMEOUT
        while time.monotonic() < end:
            if self._process.poll() is not None:
                break
            lines = lock.read_text().split("\n") if lock.exists() else []
            if len(lines) > 7 and lines[7].strip() == "ready":
                return
            time.sleep(0.02)
        self.stop()
        tail = self.log_file.read_text(errors="replace")[-2000:].strip()
        raise Unavailable(
            f"the demo server did not start on {HOST}:{self.port} (POSTERN_DEMO_PORT); its output: {tail}"
        )


def _works_in(pid: int, folder: Path) -> bool:
    try:
        return os.path.samefile(f"/proc/{pid}/cwd", folder)
    except OSError:
        return False


def _wait_for_exit(pid: int, folder: Path, patience: float) -> bool:
    end = time.monotonic() + patience
    while _works_in(pid, folder):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


async def populate(target: DemoTarget) -> bool:
    """Create what is missing. Return True if rows were loaded, False if they existed."""
    await _make_database(target)
    connection = await _connect(target, target.user, target.password, target.database)
    try:
        if await connection.fetchval("select to_regclass('customers') is not null"):
            return False
        async with connection.transaction():
            await connection.execute(shop.SCHEMA)
            for table in shop.tables():
                await connection.copy_records_to_table(table.name, records=table.rows, columns=table.columns)
        await connection.execute("analyze")
        return True
    finally:
        await connection.close()


async def _make_database(target: DemoTarget) -> None:
    connection = await _connect(target, SUPERUSER, target.superuser_password, "postgres")
    try:
        if not await connection.fetchval("select true from pg_roles where rolname = $1", target.user):
            # Utility statements take no parameters; both texts are our own and contain no quote.
            await connection.execute(f"create role {target.user} login password '{target.password.reveal()}'")
        if not await connection.fetchval("select true from pg_database where datname = $1", target.database):
            await connection.execute(f"create database {target.database} owner {target.user}")
    finally:
        await connection.close()


async def _connect(target: DemoTarget, user: str, password: Secret, database: str) -> asyncpg.Connection:
    return await asyncpg.connect(
        host=target.host,
        port=target.port,
        user=user,
        password=password.reveal(),
        database=database,
        ssl=False,
        timeout=10,
    )


log = logging.getLogger(__name__)


class _Stop(BaseException):
    """SIGTERM or SIGINT arrived."""


def run(settings: Settings) -> int:
    """Run until SIGTERM or SIGINT (returns 0) or until the server ends by itself (returns 1)."""
    server = DemoServer(settings.home, settings.demo_port)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _raise_stop)
    try:
        target = server.start()
        if asyncio.run(populate(target)):
            log.info("the demo data was loaded")
        log.info("the demo database listens on %s:%d", target.host, target.port)
        announce_ready()
        code = server.wait()
        log.error("the demo server ended unexpectedly with exit code %d; its log is %s", code, server.log_file)
        return 1
    except _Stop:
        return 0
    finally:
        # A second signal must not interrupt the shutdown and leave a server behind.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        server.stop()


def _raise_stop(_number: int, _frame: FrameType | None) -> None:
    raise _Stop
