"""What the kernel tells of a process."""

from __future__ import annotations

import subprocess
import sys

import pytest
from bench.processes import cpu_seconds

# Says when its loop is done, and how much it used until then, threads that ended included.
_WORK = """
import threading, time
def work():
    while time.thread_time() < 0.05: pass
one = threading.Thread(target=work)
one.start()
one.join()
print(time.process_time(), flush=True)
input()
"""


def test_processor_time_counts_threads_that_have_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", _WORK], stdin=-1, stdout=-1, text=True) as process:
        assert process.stdout is not None
        own = float(process.stdout.readline())
        counted = cpu_seconds(process.pid)
        process.kill()
    assert own >= 0.05
    assert counted == pytest.approx(own, abs=0.5)
    assert counted >= own
