"""The gateway under a service manager: what it reports, and that it runs within the limits of its unit."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from tests.support.promises import PATIENT
from tests.support.running import Gateway

pytestmark = pytest.mark.ci

# prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN): what systemd's MemoryDenyWriteExecute means, for all descendants, too.
_DENY = """
import ctypes, os, sys
if ctypes.CDLL(None, use_errno=True).prctl(65, 1, 0, 0, 0):
    sys.exit(77)
os.execv(sys.argv[1], sys.argv[1:])
"""
_NOT_HERE = 77


def test_gateway_without_writable_executable_memory_reports_that_it_is_ready_alive_and_stopping(tmp_path: Path) -> None:
    program = (sys.executable, "-c", _DENY, sys.executable)
    if subprocess.run([*program, "-c", ""], check=False).returncode == _NOT_HERE:
        pytest.skip("this kernel cannot deny writable executable memory: Linux 6.3 can")
    gateway = Gateway(tmp_path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENT)
        environment = {**gateway.environment, "NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
        process = subprocess.Popen([*program, "-m", "postern", "up"], env=environment, stdout=subprocess.DEVNULL)
        gateway.process = process  # type: ignore[assignment]
        try:
            states = [manager.recv(100)]
            with psycopg.connect(gateway.told["psql"].split('"')[1]) as connection:
                assert connection.execute("select count(*) from customers").fetchone() == (500,)
            assert gateway.run("health").stdout == "The gateway is ready.\n"
            states += [manager.recv(100)]
            process.send_signal(signal.SIGTERM)
            while states[-1] != b"STOPPING=1":
                states.append(manager.recv(100))
            assert process.wait(PATIENT) == 0
        finally:
            gateway.remove()
    assert states[0] == b"READY=1"
    assert set(states[1:-1]) == {b"WATCHDOG=1"}
