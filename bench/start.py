"""How long `postern up` takes until clients can connect, and what all its processes cost by then; and how long
`postern exec` takes, from the command to its end.

    python -m bench.start              # three rounds, each with a first and a later start
    python -m bench.start --rounds 5 --without-preload

`--without-preload` starts in turn with each process loading the program by itself, to compare.
"""

from __future__ import annotations

import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click
from bench.plan import Plan
from bench.processes import descendants, proportional_bytes, used_seconds
from bench.results import EXEC, PROCESSOR, READY, SHARED_MEMORY, Results
from bench.stage import POSTERN, Stage
from tests.support.postgres import free_port

from postern.demo.runner import place_for

SECTION = "Start of `postern up`"
FIRST, LATER = "first start", "later start"
UNSHARED = "postern: each process loads the program"
_PATIENCE = 120.0
_EXECS = 9
_PORTS = ("api", "postgres", "mysql", "ssh", "tunnel", "control", "demo")


_POSTERN = (sys.executable, "-P", "-m", "postern")


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds until it was ready, processor seconds of all processes, ended ones included, and their bytes of memory,
    with each shared page counted once. All processes are those of `postern up`, with the demo database."""

    ready: float
    processor: float
    memory: int
    execution: float  # seconds that one `postern exec` takes, CLI included: the median of some


def start(stage: Stage, results: Results, plan: Plan) -> None:
    """Nothing of the stage takes part, nor does it work meanwhile."""
    measure(results, POSTERN)


def measure(results: Results, route: str, **environment: str) -> None:
    with _folder() as folder:
        ports = {f"POSTERN_{name.upper()}_PORT": str(free_port()) for name in _PORTS}
        for case in (FIRST, LATER):
            measured = start_once(folder, {**ports, **environment})
            results.add(SECTION, case, route, READY, measured.ready)
            results.add(SECTION, case, route, PROCESSOR, measured.processor)
            results.add(SECTION, case, route, SHARED_MEMORY, measured.memory / 1e6)
            results.add(SECTION, case, route, EXEC, measured.execution)


def start_once(folder: Path, environment: dict[str, str]) -> Start:
    """Start in this folder, measure, and stop. Raises RuntimeError if it does not start."""
    log = folder / "log"
    places = {"POSTERN_HOME": str(folder / "home"), "XDG_CONFIG_HOME": str(folder / "config")}
    environment = {**os.environ, **environment, **places}
    begun = time.monotonic()
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [*_POSTERN, "up", "--gateway-commands"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
        )
    try:
        while b"Postern is up" not in log.read_bytes():
            if process.poll() is not None or time.monotonic() - begun > _PATIENCE:
                raise RuntimeError(f"`postern up` did not start:\n{log.read_text(errors='replace')}")
            time.sleep(0.01)
        ready = time.monotonic() - begun
        pids = [process.pid, *descendants(process.pid)]
        processor, memory = sum(map(used_seconds, pids)), sum(map(proportional_bytes, pids))
        return Start(ready, processor, memory, statistics.median(_exec(environment) for _ in range(_EXECS)))
    finally:
        _stop(process)


def _exec(environment: dict[str, str]) -> float:
    """Run a statement on the demo database as a user does; return the seconds that it takes."""
    begun = time.monotonic()
    subprocess.run([*_POSTERN, "exec", "shop-demo", "-i", "select 1"], env=environment, check=True, capture_output=True)
    return time.monotonic() - begun


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir="/tmp"))  # short, since Unix sockets' paths lie in it
    try:
        yield folder
    finally:
        shutil.rmtree(place_for(folder / "home").own, ignore_errors=True)  # of root, it is elsewhere
        shutil.rmtree(folder, ignore_errors=True)


@click.command(help=__doc__)
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True)
@click.option("--without-preload", is_flag=True, help="Measure also without the shared start, in turn.")
def main(rounds: int, without_preload: bool) -> None:
    results = Results()
    for _ in range(rounds):
        measure(results, POSTERN)
        if without_preload:
            measure(results, UNSHARED, POSTERN_PRELOAD="false")
    for one in results.all():
        values = ", ".join(f"{value:.2f}" for value in one.values)
        print(f"{one.route}, {one.case}: {one.metric.name} {one.median:.2f} {one.metric.unit} ({values})")


if __name__ == "__main__":
    main()
