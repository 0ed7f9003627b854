"""A Redis server for one test, and its client."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.clients import need
from tests.support.postgres import free_port
from tests.support.promises import wait_until

PACKAGES = "redis-server and redis-tools"


@contextmanager
def running_redis(folder: Path) -> Iterator[int]:
    """Its port."""
    port = free_port()
    command = [
        need("redis-server", PACKAGES),
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--dir",
        str(folder),
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: redis(port, "PING").stdout == "PONG\n")
        yield port
    finally:
        process.terminate()
        process.wait()


def redis(port: int, *words: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [need("redis-cli", PACKAGES), "-p", str(port), *words]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, check=False)
