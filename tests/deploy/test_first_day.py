"""The first day of an operator, by the documented commands alone: install, configure, apply, connect, back up, lose the
machine, restore, and prove the record."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.packages import ROOT, build, copy_tree
from tests.support.postgres import PostgresServer, database, free_port

pytestmark = pytest.mark.slow

PASSWORD = "a long enough password"
CONFIGURATION = """\
# What this machine is, and where its data is.
home = "{home}"
host = "127.0.0.1"
api_port = {api}
postgres_port = {postgres}
mysql_port = 0
mssql_port = 0
oracledb_port = 0
mongodb_port = 0
dynamodb_port = 0
cloudwatch_port = 0
httpproxy_port = 0
ssh_port = 0
tunnel_port = 0
control_port = 0
log_format = "json"

[recording]
least_free = 0
"""
RESOURCES = """\
kind: connection
name: shop
spec:
  subtype: postgres
  secret:
    envvar:HOST: 127.0.0.1
    envvar:PORT: "{port}"
    envvar:USER: postgres
    envvar:DB: shop
    envvar:PASS: {{env: SHOP_PASS}}
---
kind: guardrail
name: no-drop
spec:
  connections: [shop]
  input: {{rules: [{{type: deny_words_list, words: [drop]}}]}}
---
kind: masking-rule
name: people
spec:
  connections: [shop]
  columns: [email]
"""


@dataclass
class Machine:
    """An empty machine with the wheel installed by pipx."""

    program: Path
    environment: Mapping[str, str]

    def run(self, *arguments: str, stdin: str = "", code: int = 0) -> str:
        done = subprocess.run(
            [self.program, *arguments],
            env={**self.environment},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    @contextmanager
    def gateway(self) -> Iterator[None]:
        """The command line of the unit, from its start until it is stopped as systemd does."""
        process = subprocess.Popen([self.program, "gateway"], env={**self.environment}, stderr=subprocess.DEVNULL)
        try:
            end = time.monotonic() + 120
            while subprocess.run([self.program, "health"], env={**self.environment}, capture_output=True).returncode:
                assert process.poll() is None
                assert time.monotonic() < end
            yield
        finally:
            process.terminate()
            process.wait(60)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    wheel = build(copy_tree(tmp_path / "source"), tmp_path, "wheel", POSTERN_WEB="0")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("POSTERN_", "PYTHON"))},
        "PIPX_HOME": str(tmp_path / "pipx"),
        "PIPX_BIN_DIR": str(tmp_path / "bin"),
        "PIP_CONSTRAINT": str(ROOT / "constraints.txt"),
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "POSTERN_CONFIG": str(tmp_path / "postern.toml"),
        "SHOP_PASS": "unused",
    }
    environment.setdefault("PIP_CACHE_DIR", str(Path("~/.cache/pip").expanduser()))
    command = [sys.executable, "-m", "pipx", "install", "--python", sys.executable, "--backend", "pip", str(wheel)]
    subprocess.run(command, env=environment, check=True, timeout=500)
    return Machine(tmp_path / "bin" / "postern", environment)


def test_first_day_from_installation_to_the_proof_after_a_restore(
    machine: Machine, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    home, backup, key = tmp_path / "data", tmp_path / "backup.tar", tmp_path / "master.key"
    configuration = CONFIGURATION.format(home=home, api=free_port(), postgres=free_port())
    assert configuration.count("\n") <= 13
    Path(machine.environment["POSTERN_CONFIG"]).write_text(configuration)
    machine.run("config", "check")
    folder = tmp_path / "configuration"
    folder.mkdir()
    (folder / "shop.yaml").write_text(RESOURCES.format(port=postgres_server.port))
    with database(postgres_server, "shop", "create table customers (email text)") as direct:
        direct.execute("insert into customers values ('ann@example.com')")
        with machine.gateway():
            link = json.loads(machine.run("setup-link", "--json"))["url"]
            machine.run("setup", link, "--password-stdin", stdin=PASSWORD)
            machine.run("apply", "-f", str(folder), "--yes")
            machine.run("apply", "-f", str(folder), "--plan", "--exit-code", "--keep-secrets")
            url = machine.run("connect", "shop", "--native", "--format", "uri").strip()
            assert psql(url, "select email from customers").stdout == "****\n"
            assert "no-drop" in psql(url, "drop table customers").stderr
            session = json.loads(machine.run("sessions", "--json"))["data"][0]["id"]
            machine.run("keys", "export", str(key))
            machine.run("backup", str(backup))
            machine.run("backup", "verify", str(backup))
        shutil.rmtree(home)
        machine.run("restore", str(backup), "--home", str(home), "--keys", str(key))
        with machine.gateway():
            assert psql(url, "select email from customers").stdout == "****\n"
            assert session in {row["id"] for row in json.loads(machine.run("sessions", "--json"))["data"]}
            machine.run("recordings", "verify")


def psql(url: str, statement: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["psql", url, "-X", "-A", "-t", "-c", statement], capture_output=True, text=True, timeout=60, check=False
    )
