"""One run of pgbench, judged by its log of transactions.

Only transactions that end within a window count, and processor time is taken at the window's ends:
logins at the start and goodbyes at the end are in neither.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from bench.gateway import settle
from bench.processes import cpu_seconds
from bench.stage import Route

_LOGIN = 30.0
_SPARES = (0.5, 2.0, 8.0)  # seconds that a run may go on around the window; the next where it ended too early

SELECT_ONLY, TPCB_LIKE = "select-only", "tpcb-like"  # of pgbench's own scripts


@dataclass(frozen=True, slots=True)
class Run:
    """`cpu` is the proxy's, in µs per transaction; None for the direct route. Latencies in µs."""

    tps: float
    p50: float
    p99: float
    cpu: float | None


def run(
    route: Route,
    *,
    clients: int,
    mode: str,
    seconds: float,
    script: str = SELECT_ONLY,
    watch: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Run:
    """Raises RuntimeError when it fails or finishes nothing. The window lies inside the context that `watch` returns;
    the clients are logged in by then. A run that is repeated calls `watch` again."""
    for spare in _SPARES:
        measured = _run(route, clients, mode, seconds, script, math.ceil(seconds + spare), watch)
        if measured is not None:
            return measured
    raise RuntimeError(f"pgbench did too little in {seconds + _SPARES[-1]} s through {route.name}")


def _run(
    route: Route,
    clients: int,
    mode: str,
    seconds: float,
    script: str,
    duration: int,
    watch: Callable[[], AbstractContextManager[object]],
) -> Run | None:
    """None where it ended before the window did: its log is told in blocks, and the first came late."""
    settle()
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        process = _start(route.url, folder, "-b", script, "-M", mode, "-c", str(clients), "-T", str(duration), "-l")
        try:
            _wait_for_first(process, folder)
            with watch():
                begin, cpu_before = time.time(), _cpu(route)
                time.sleep(seconds)
                end, cpu_after = time.time(), _cpu(route)
                is_covered = process.poll() is None
        finally:
            _, errors = process.communicate(timeout=60)
        _check(process, errors)
        latencies = sorted(latency for at, latency in _log(folder) if begin <= at < end)
    if not is_covered or not latencies:
        return None
    count = len(latencies)
    cpu = None if route.pid is None else (cpu_after - cpu_before) / count * 1e6
    return Run(count / (end - begin), latencies[count // 2], latencies[count * 99 // 100], cpu)


def connects(route: Route, *, clients: int, seconds: float) -> tuple[float, float | None]:
    """Connects per second, each with one SELECT, and the proxy's processor time in µs per connect.

    The time includes what is done after the client has gone: a short wait takes that in.
    """
    settle()
    before = _cpu(route)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        process = _start(route.url, Path(folder), "-S", "-C", "-c", str(clients), "-T", str(round(seconds)))
        output, errors = process.communicate(timeout=seconds + 60)
    _check(process, errors)
    time.sleep(0.5)
    spent = _cpu(route) - before
    rate = re.search(r"tps = ([\d.]+) ", output)
    count = re.search(r"actually processed: (\d+)", output)
    if rate is None or count is None or int(count[1]) == 0:
        raise RuntimeError(f"pgbench made no connection through {route.name}: {output}")
    return float(rate[1]), None if route.pid is None else spent / int(count[1]) * 1e6


def _start(url: str, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    program = shutil.which("pgbench")
    assert program is not None, "the caller has looked for it"
    return subprocess.Popen(
        [program, "-n", "-j", "1", *arguments, url],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={name: value for name, value in os.environ.items() if not name.startswith("PG")},
    )


def _wait_for_first(process: subprocess.Popen[str], folder: Path) -> None:
    """Until transactions end, which they do once all clients are logged in."""
    deadline = time.monotonic() + _LOGIN
    while not any(path.stat().st_size for path in folder.glob("pgbench_log.*")):
        if process.poll() is not None:
            _check(process, process.stderr.read() if process.stderr else "")
            return
        if time.monotonic() > deadline:
            process.kill()
            raise RuntimeError(f"pgbench's clients did not log in within {_LOGIN:g} s")
        time.sleep(0.01)


def _check(process: subprocess.Popen[str], errors: str) -> None:
    if process.returncode:
        raise RuntimeError(f"pgbench failed:\n{errors}")


def _log(folder: Path) -> Iterator[tuple[float, int]]:
    """(when it ended, latency in µs) of each transaction."""
    for path in folder.glob("pgbench_log.*"):
        with path.open() as lines:
            for line in lines:
                fields = line.split()
                yield int(fields[4]) + int(fields[5]) / 1e6, int(fields[2])


def _cpu(route: Route) -> float:
    return 0.0 if route.pid is None else cpu_seconds(route.pid)
