"""A gateway as it is installed, with its supervisor, one relay worker and the API, set up through its API."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.processes import child_with, cpu_seconds
from bench.rules import Rules
from tests.support.postgres import free_port

from postern.client.client import Client
from postern.client.client_http import Http
from postern.domain.rules.masking import Strategy
from postern.domain.secret import Secret
from postern.settings import Settings, load

_START = 60.0
_STEP, _IDLE_STEPS, _LONGEST = 0.25, 4, 60.0  # seconds, steps in a row, seconds
_IDLE = 0.1  # of a processor

_running: list[BenchGateway] = []


def settle() -> None:
    """Wait until the gateways have stored what was recorded: their archivers take a processor for about a second after
    a run, which would be counted against whatever is measured next."""
    for gateway in _running:
        gateway.settle()


class BenchGateway:
    """Serves when made, with these settings besides. All its data is thrown away at `stop`."""

    def __init__(self, **settings: str) -> None:
        # Short, since a Unix socket's path lies in it.
        self.home = Path(tempfile.mkdtemp(prefix="bench-", dir="/tmp"))
        names = ("api", "postgres", "mysql", "mssql", "oracledb", "mongodb", "ssh", "httpproxy", "tunnel", "control")
        ports = {f"{name}_port": free_port() for name in names}
        self.settings: Settings = load(
            {}, home=str(self.home / "home"), demo=False, log_level="warning", **ports, **settings
        )
        self._log = self.home / "log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "postern", "gateway"],
                env={**os.environ, **self.settings.environment(), "XDG_CONFIG_HOME": str(self.home / "config")},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._wait()
        self.worker_pid = child_with(self._process.pid, "worker")
        self.archiver_pid = child_with(self._process.pid, "archiver")
        _running.append(self)
        told = json.loads((self.settings.home / "first-run.json").read_bytes())
        authority = self.settings.home / "tls" / "ca.crt"
        trusted = None if self.settings.is_loopback else authority.read_text()
        with Http(self.settings.api_url, authority=trusted) as http:
            self.token = Client(http).login(told["admin_email"], Secret(told["admin_password"]))
        self._http = Http(self.settings.api_url, self.token, authority=trusted)
        self._client = Client(self._http)

    def connection(self, name: str, environment: Mapping[str, str], **options: Any) -> str:
        """Makes it, and answers its id. `environment` holds HOST, PORT, USER, PASS, DB."""
        secret = {f"envvar:{key}": base64.b64encode(value.encode()).decode() for key, value in environment.items()}
        modes = {f"access_mode_{mode}": "enabled" for mode in ("connect", "exec", "runbooks")}
        body = {"name": name, "type": "database", "subtype": "postgres", "agent_id": self._client.default_agent_id()}
        made = self._client.connections.create(
            {**body, **modes, "access_schema": "enabled", "secret": secret, **options}
        )
        return str(made["id"])

    def settle(self) -> None:
        """Wait until the archiver is idle. Raises RuntimeError when it stays busy."""
        deadline, idle_steps = time.monotonic() + _LONGEST, 0
        used = cpu_seconds(self.archiver_pid)
        while idle_steps < _IDLE_STEPS:
            if time.monotonic() > deadline:
                raise RuntimeError("the archiver is still busy with what was recorded before")
            time.sleep(_STEP)
            before, used = used, cpu_seconds(self.archiver_pid)
            idle_steps = idle_steps + 1 if used - before < _IDLE * _STEP else 0

    def agent(self, name: str) -> tuple[str, str]:
        """Makes one that dials in; its id, and the key to start it with."""
        made = self._http.call("POST", "/agents", body={"name": name})
        return str(self._client.collection("agents").get(name)["id"]), str(made["key"])

    def execute(self, connection: str, script: str) -> None:
        """Raises RuntimeError when it fails."""
        done = self._client.sessions.execute(connection, script)
        if done["output_status"] != "success":
            raise RuntimeError(f"a script on {connection!r} failed: {done['output']}")

    def guardrail(self, name: str, rules: Rules, *connection_ids: str) -> None:
        directions = {direction: {"rules": rules.get(direction, [])} for direction in ("input", "output")}
        self._client.collection("guardrails").create({"name": name, "connection_ids": connection_ids, **directions})

    def masking_rule(self, name: str, columns: Sequence[str], strategy: Strategy, *connection_ids: str) -> None:
        body = {"name": name, "columns": columns, "strategy": strategy, "connection_ids": connection_ids}
        self._client.collection("datamasking-rules").create(body)

    def url(self, connection: str, database: str, *, sslmode: str = "disable", port: int | None = None) -> str:
        """With a new credential; names and passwords of credentials need no quoting in a URL."""
        username, password = self.credential(connection)
        host = f"127.0.0.1:{port or self.settings.postgres_port}"
        return f"postgresql://{username}:{password}@{host}/{database}?sslmode={sslmode}"

    def credential(self, connection: str) -> tuple[str, str]:
        """A new one: user name and password."""
        issued = self._client.credentials.issue(connection)
        return issued["username"], issued["password"]

    def stop(self) -> None:
        _running.remove(self)
        self._http.__exit__(None, None, None)
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.home, ignore_errors=True)

    def _wait(self) -> None:
        deadline = time.monotonic() + _START
        while "Postern is up" not in self._log.read_text(errors="replace"):
            if self._process.poll() is not None or time.monotonic() > deadline:
                text = self._log.read_text(errors="replace")
                self._process.kill()
                raise RuntimeError(f"the gateway did not come up:\n{text}")
            time.sleep(0.05)
