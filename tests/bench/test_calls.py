"""How system calls are counted."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections import Counter

import pytest
from bench.calls import read_summary, table, trace

SUMMARY = """\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 60.00    0.003086          16       182           write
 40.00    0.002000          20       100         7 read
------ ----------- ----------- --------- --------- ----------------
100.00    0.005086          18       282         7 total
"""

_WAITS = "import time\nprint('up', flush=True)\nwhile True: time.sleep(0.005)"


def test_calls_are_read_from_the_summary() -> None:
    assert read_summary(SUMMARY) == {"write": 182, "read": 100}
    assert read_summary("") == {}


def test_the_table_has_the_sum_and_the_frequent_calls() -> None:
    lines = list(table({"pgbouncer": {1: {"read": 2.0, "write": 1.96, "futex": 0.04}, 8: {"read": 2.0}}}))
    assert lines[0] == "| system calls for each transaction | 1 client | 8 clients |"
    assert lines[2] == "| pgbouncer | 4.0: read 2.0, write 2.0 | 2.0: read 2.0 |"


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is missing")
def test_only_calls_within_the_context_count() -> None:
    counts: Counter[str] = Counter(stale=1)
    with subprocess.Popen([sys.executable, "-c", _WAITS], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        try:
            with trace(process.pid, counts):
                time.sleep(0.5)
        finally:
            process.kill()
    assert set(counts) == {"clock_nanosleep"}
    assert 10 <= counts["clock_nanosleep"] <= 110
