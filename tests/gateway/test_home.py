from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from postern.errors import Conflict, Misconfigured
from postern.gateway.processes.data_folder import lock_data_folder

SOURCE = Path(__file__).resolve().parents[2] / "src"
HOLD = """
import sys, pathlib, postern.gateway.processes.data_folder
with postern.gateway.processes.data_folder.lock_data_folder(pathlib.Path(sys.argv[1])):
    print(1, flush=True)
    sys.stdin.read()
"""


def test_second_gateway_is_rejected_while_the_first_is_alive(tmp_path: Path) -> None:
    home = tmp_path / "home"
    first = subprocess.Popen(
        [sys.executable, "-c", HOLD, home],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert first.stdout
    assert first.stdout.readline() == b"1\n"
    with pytest.raises(Conflict, match=rf"another postern \(process {first.pid}\).*--home"), lock_data_folder(home):
        pass
    first.send_signal(signal.SIGKILL)
    first.wait()
    first.stdout.close()
    with lock_data_folder(home):
        assert (home / "run" / "lock").read_text() == f"{os.getpid()}\n"


def test_data_folder_is_accessible_to_the_owner_only(tmp_path: Path) -> None:
    with lock_data_folder(tmp_path / "new" / "home"):
        assert (tmp_path / "new" / "home").stat().st_mode & 0o777 == 0o700


def test_data_folder_that_cannot_be_created_is_misconfigured(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(Misconfigured, match=r"Not a directory.*POSTERN_HOME"),
        lock_data_folder(tmp_path / "file" / "home"),
    ):
        pass
