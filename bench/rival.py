"""A proxy that Postern is compared with, as a process of its own.

To add one: a subclass of `Rival`, and a row in `bench.stage.RIVALS`.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.support.postgres import free_port

_START = 10.0  # seconds


@dataclass(frozen=True, slots=True)
class Target:
    """The server behind the proxies. `verifier` is the SCRAM secret of `user` as the server stores it."""

    port: int
    database: str
    user: str
    verifier: str
    certificate: Path
    key: Path


class RivalUnavailableError(Exception):
    """This machine cannot run the proxy. The message says why."""


class Rival:
    """Starts when created, on a free port of 127.0.0.1. `stop` ends the process and deletes its folder."""

    account: str | None = None
    """The account that runs the process; None for the current one."""

    def __init__(self, target: Target) -> None:
        """Raise RivalUnavailableError if this machine lacks a program, RuntimeError if the proxy does not start."""
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="bench-", dir="/tmp"))
        try:
            command = self.prepare(target)
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        self._log = self.folder / "log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, user=self.account, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self._wait()

    def prepare(self, target: Target) -> list[str]:
        """Write what the process needs into `self.folder`. Return the command that serves `self.port`."""
        raise NotImplementedError

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> None:
        self._process.kill()  # some would wait for their clients otherwise
        self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _wait(self) -> None:
        deadline = time.monotonic() + _START
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    log = self._log.read_text(errors="replace")
                    self.stop()
                    raise RuntimeError(f"{type(self).__name__} did not start:\n{log}") from None
                time.sleep(0.05)


@dataclass(frozen=True, slots=True)
class RivalRow:
    """A row of the tables. With `point_queries`, the section of point queries includes it."""

    name: str
    kind: type[Rival]
    point_queries: bool = True


@dataclass(frozen=True, slots=True)
class StartedRivals:
    """`running` holds the proxies by name, `unavailable` the reason for each one that this machine cannot run."""

    running: dict[str, Rival]
    unavailable: dict[str, str]

    def stop(self) -> None:
        for rival in self.running.values():
            rival.stop()


def start_rivals(rows: Iterable[RivalRow], target: Target) -> StartedRivals:
    """Raise RuntimeError if one of them does not start; the others are stopped then."""
    started = StartedRivals({}, {})
    try:
        for row in rows:
            try:
                started.running[row.name] = row.kind(target)
            except RivalUnavailableError as error:
                started.unavailable[row.name] = str(error)
    except BaseException:
        started.stop()
        raise
    return started
