"""The MariaDB server of the tests ends with the test run."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys

import pytest
from tests.support.mariadb import program
from tests.support.processes import words

_PROGRAM = """
from tests.support.mariadb import MariaDbServer
server = MariaDbServer()
server.start()
print(server.pid, server.folder, flush=True)
input()
"""


@pytest.mark.slow
def test_mariadb_server_ends_if_the_test_run_is_killed() -> None:
    if program("mariadbd") is None:
        pytest.skip("no MariaDB server: install Debian's mariadb-server-core")
    run = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert run.stdout is not None
    pid, folder = run.stdout.readline().split()
    try:
        server = os.pidfd_open(int(pid))
        assert "mariadbd" in words(int(pid))[0]
        run.send_signal(signal.SIGKILL)
        run.wait()
        assert _ended(server)
    finally:
        run.communicate()
        shutil.rmtree(folder, ignore_errors=True)


def _ended(process: int) -> bool:
    """Wait for the process to end; return whether it did."""
    found, _, _ = select.select([process], [], [], 20)
    return bool(found)
