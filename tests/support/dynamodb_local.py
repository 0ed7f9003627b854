"""DynamoDB Local, Amazon's own implementation for development, in a process on loopback."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.support.postgres import free_port

_MAIN = "com.amazonaws.services.dynamodbv2.local.main.ServerRunner"


def dynamodb_local() -> Path | None:
    """The folder of its libraries, which scripts/install-services fills; None without one, or without Java."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "postern-tools" / "dynamodb-local"
    return folder if shutil.which("java") and folder.exists() else None


MISSING = "DynamoDB Local is not installed: scripts/install-services dynamodb-local does it"


@contextlib.contextmanager
def running_dynamodb_local() -> Iterator[str]:
    """Its address. It takes any credentials. Without it the test is skipped: it needs Java, and comes with
    `make drivers`, which continuous integration does not run."""
    folder = dynamodb_local()
    if folder is None:
        pytest.skip(MISSING)
    port = free_port()
    with (
        tempfile.TemporaryDirectory(prefix="postern-dynamodb-", dir="/tmp") as place,
        Path(place, "log").open("wb") as log,
    ):
        options = ["-inMemory", "-sharedDb", "-disableTelemetry", "-port", str(port)]
        java = ["java", "-Xmx256m", f"-Djava.library.path={folder}", "-cp", f"{folder}/*", _MAIN]
        command = ["setpriv", "--pdeathsig", "KILL", "--", *java, *options]
        process = subprocess.Popen(command, cwd=place, stdout=log, stderr=log, start_new_session=True)
        try:
            _wait(port, process)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait()


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(httpx.TransportError):
            httpx.get(f"http://127.0.0.1:{port}/")
            return
        time.sleep(0.1)
    raise RuntimeError("DynamoDB Local did not start")
