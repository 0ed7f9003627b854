"""Counts the system calls of each proxy for each point query: pgbench -S, traced by strace.

    python -m bench.calls                # about a minute
    python -m bench.calls --mode simple --clients 1

strace makes each call slower. With several clients a slower process finds more work at each turn of its event loop, so
that it waits less often than in ordinary operation; with one client that changes nothing.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
from bench.plan import CLIENTS, MODES
from bench.stage import Route, Stage

from bench import data, machine, pgbench

_PATIENCE = 10.0  # seconds for strace to attach


@contextmanager
def trace(pid: int, counts: Counter[str]) -> Iterator[None]:
    """Replace the content of `counts` with the calls of all threads of the process, by name, within the context.

    Raises RuntimeError if strace is not allowed to attach.
    """
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        summary, log = Path(name) / "summary", Path(name) / "log"
        command = ["strace", "-c", "-f", "-p", str(pid), "-o", str(summary)]
        with log.open("wb") as stream:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream)
        try:
            _wait_until_attached(process, log)
            yield
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()
        counts.clear()
        counts.update(read_summary(summary.read_text()))


def _wait_until_attached(process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    while b" attached" not in log.read_bytes():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"strace could not attach; run this as root:\n{log.read_text(errors='replace')}")
        time.sleep(0.01)


def read_summary(text: str) -> dict[str, int]:
    """Return the calls by name from what `strace -c` prints: percent, seconds, µs per call, calls, errors if any, and
    the name in each line."""
    rows = (line.split() for line in text.splitlines())
    return {row[-1]: int(row[3]) for row in rows if len(row) >= 5 and row[3].isdigit() and row[-1] != "total"}


def count(route: Route, *, clients: int, mode: str, seconds: float) -> dict[str, float]:
    """Return the system calls of the route's process for each transaction, by name, the most frequent first."""
    assert route.pid is not None
    pid = route.pid
    counts: Counter[str] = Counter()
    run = pgbench.run(route, clients=clients, mode=mode, seconds=seconds, watch=lambda: trace(pid, counts))
    return {name: calls / (run.tps * seconds) for name, calls in counts.most_common()}


def table(figures: dict[str, dict[int, dict[str, float]]]) -> Iterator[str]:
    """`figures` by route and by clients. Calls below 0.05 for each transaction are only in the sum."""
    clients = list(next(iter(figures.values())))
    headings = (f"{one} client{'s' if one > 1 else ''}" for one in clients)
    yield "| system calls for each transaction | " + " | ".join(headings) + " |"
    yield "|---|" + "---|" * len(clients)
    for route, by_clients in figures.items():
        yield f"| {route} | " + " | ".join(_cell(by_clients[one]) for one in clients) + " |"


def _cell(calls: dict[str, float]) -> str:
    details = ", ".join(f"{name} {value:.1f}" for name, value in calls.items() if value >= 0.05)
    return f"{sum(calls.values()):.1f}: {details}"


@click.command(help=__doc__)
@click.option("--mode", type=click.Choice(MODES), default="prepared", show_default=True)
@click.option("--clients", type=click.IntRange(1), multiple=True, default=CLIENTS, show_default=True)
@click.option("--seconds", type=click.FloatRange(0.5), default=2.0, show_default=True)
def main(mode: str, clients: Sequence[int], seconds: float) -> None:
    if shutil.which("strace") is None:
        sys.exit("strace is missing, which counts the calls; on Debian: apt-get install strace")
    figures: dict[str, dict[int, dict[str, float]]] = {}
    with Stage(data.QUICK) as stage:
        for name, reason in stage.rivals.unavailable.items():
            click.echo(f"left out: {name}: {reason}", err=True)
        for route in stage.point_query_routes():
            if route.pid is not None:
                figures[route.name] = {
                    one: count(route, clients=one, mode=mode, seconds=seconds) for one in dict.fromkeys(clients)
                }
    how = "compiled by mypyc" if machine.is_compiled() else "plain Python"
    click.echo(f"{os.cpu_count()} cores, hot path {how}, load {os.getloadavg()[0]:.1f}; pgbench -S, {mode}\n")
    click.echo("\n".join(table(figures)))


if __name__ == "__main__":
    main()
