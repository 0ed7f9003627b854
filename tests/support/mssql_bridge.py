"""pysqlbridge from PyPI: another server of TDS with T-SQL, as a process. It only reads: it has the tables of its
settings, and temporary ones."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.postgres import free_port

BRIDGE_USER: Final = "reader"
BRIDGE_PASSWORD: Final = "secret-4712"
PEOPLE: Final = [
    {"id": 1, "name": "Ada", "email": "ada@example.test", "score": 99.5},
    {"id": 2, "name": "Grüße", "email": None, "score": 78.25},
]


@dataclass(frozen=True)
class PysqlBridge:
    """A running server with the table `people`."""

    port: int


@contextlib.contextmanager
def running_pysqlbridge() -> Iterator[PysqlBridge]:
    folder = Path(tempfile.mkdtemp(prefix="postern-bridge-", dir="/tmp"))
    (folder / "people.json").write_text(json.dumps(PEOPLE))
    settings = {
        "logins": [{"user": BRIDGE_USER, "password": BRIDGE_PASSWORD}],
        "tables": [{"name": "people", "json": str(folder / "people.json")}],
    }
    (folder / "settings.json").write_text(json.dumps(settings))
    port = free_port()
    command = [
        *("setpriv", "--pdeathsig", "KILL", "--"),
        *(sys.executable, "-m", "pysqlbridge", "--config", str(folder / "settings.json")),
        *("--host", "127.0.0.1", "--port", str(port)),
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, start_new_session=True)
    try:
        _wait(process, port, folder / "log")
        yield PysqlBridge(port)
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise RuntimeError(f"pysqlbridge did not start:\n{log.read_text(errors='replace')}")
