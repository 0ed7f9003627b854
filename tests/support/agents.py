"""`postern agent` in a process of its own, and the connection that it serves."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import psycopg
from tests.support.processes import code, open_files, resident
from tests.support.promises import wait_until
from tests.support.running import Gateway


def enrolled(gateway: Gateway, name: str, *, mode: str = "standard") -> str:
    """The key of a new agent."""
    made = gateway.run("admin", "agents", "create", name, "--mode", mode)
    assert made.returncode == 0, made.stderr
    found = re.search(r"grpcs://\S+", made.stdout)
    assert found is not None
    return found.group()


def connection(gateway: Gateway, name: str, agent: str, port: int, host: str = "127.0.0.1", *flags: str) -> None:
    secrets = {"HOST": host, "PORT": str(port), "USER": "postgres", "DB": "postgres", "SSLMODE": "disable"}
    given = [part for key, value in secrets.items() for part in ("--env", f"{key}={value}")]
    made = gateway.run("connections", "create", name, "--subtype", "postgres", "--agent", agent, *given, *flags)
    assert made.returncode == 0, made.stderr


def url_of(gateway: Gateway, name: str) -> str:
    """Of a new credential of the administrator's."""
    line = gateway.run("connect", name, "--native")
    assert line.returncode == 0, line.stderr
    return shlex.split(line.stdout)[1]


def connected(gateway: Gateway, name: str) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(url_of(gateway, name), autocommit=True, connect_timeout=60)


class AgentProcess:
    """With that key and policy, and of variables hardly more than `environment`. `before` are words to start it by;
    `grace` is how many seconds its sessions have when it is told to stop; `declares` are the arguments of `postern
    run`, for one that declares its connection."""

    def __init__(
        self,
        key: str,
        folder: Path,
        *before: str,
        policy: str = "",
        grace: int = 10,
        declares: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._log = folder / f"agent-{time.monotonic_ns()}.log"
        given = {"PATH": os.environ["PATH"], "POSTERN_KEY": key, **code()}
        given |= environment or {}
        if policy:
            file = folder / "policy.toml"
            file.write_text(policy)
            given["POSTERN_AGENT_POLICY"] = str(file)
        kind = "run" if declares else "agent"
        command = [*before, sys.executable, "-m", "postern", kind, "--grace", str(grace), *declares]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(command, env=given, stdout=log, stderr=log)

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def files(self) -> int:
        """How many it has open."""
        return open_files(self.process.pid)

    @property
    def resident(self) -> int:
        """Bytes of memory that it holds now."""
        return resident(self.process.pid)

    def until_it_serves(self) -> None:
        wait_until(lambda: "a tunnel to" in self.log or self.process.poll() is not None, 60)
        assert self.process.poll() is None, self.log

    def stop(self, by: signal.Signals = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(by)
        return self.process.wait(60)
