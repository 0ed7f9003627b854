"""Measures the way to a target: direct, by the gateway alone, and by a gateway and an agent of its own process.

    python -m bench.reach                # about 5 minutes
    python -m bench.reach --quick        # about 1 minute, one round

The agent is a real one: `postern agent`, with a key of its own, over its tunnel through TLS. All routes take turns in
one run. Clients speak to the gateway without TLS, so that what differs between the last two routes is the agent alone.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import TracebackType

import click
import psycopg
from bench.gateway import BenchGateway
from bench.stage import Route
from bench.stream import Stream
from tests.support.postgres import PostgresServer, binaries

from bench import machine, pgbench

DIRECT, ONE, TWO = "direct", "gateway", "gateway + agent"
CLIENTS = (1, 8, 32)
USER = DATABASE = PASSWORD = "bench"
_LINES = "select line from lines"


@dataclass
class Figures:
    """By case and route, one value for each round."""

    values: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def add(self, case: str, route: str, value: float) -> None:
        self.values.setdefault(case, {}).setdefault(route, []).append(value)

    def table(self) -> Iterator[str]:
        """Markdown: medians, in brackets the ratio to direct."""
        yield f"| | {DIRECT} | {ONE} | {TWO} | {TWO} to {ONE} |"
        yield "|---|---:|---:|---:|---:|"
        for case, routes in self.values.items():
            medians = {name: statistics.median(values) for name, values in routes.items()}
            cells = [_cell(medians.get(name), medians.get(DIRECT)) for name in (DIRECT, ONE, TWO)]
            yield f"| {case} | {' | '.join(cells)} | {medians[TWO] / medians[ONE]:.2f} |"


def _cell(value: float | None, base: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.1f}" if base is None or base == value else f"{value:,.1f} ({value / base:.2f})"


class Stage:
    """A context manager: target, gateway and agent are up inside, and gone behind."""

    def __init__(self, lines: int, scale: int) -> None:
        self._lines, self._scale = lines, scale
        self._agent: subprocess.Popen[bytes] | None = None
        self._gateway: BenchGateway | None = None
        self.routes: dict[str, Route] = {}
        self.server = PostgresServer(
            settings={"shared_buffers": "512MB", "max_connections": "300", "autovacuum": "off"},
            hba=["host all postgres 127.0.0.1/32 trust", "host all all 127.0.0.1/32 scram-sha-256"],
        )

    def __enter__(self) -> Stage:
        try:
            self._build()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop()

    @property
    def gateway(self) -> BenchGateway:
        assert self._gateway is not None
        return self._gateway

    def _stop(self) -> None:
        if self._agent is not None:
            self._agent.kill()
            self._agent.wait()
        if self._gateway is not None:
            self._gateway.stop()
        self.server.stop()

    def _build(self) -> None:
        self.server.start()
        direct = f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self.server.port}/{DATABASE}?sslmode=disable"
        with psycopg.connect(self.server.dsn(), autocommit=True) as admin:
            admin.execute(f"create role {USER} login superuser password '{PASSWORD}'")
            admin.execute(f"create database {DATABASE} owner {USER}")
        with psycopg.connect(direct, autocommit=True) as database:
            rows = f"select repeat(md5(n::text), 3) as line from generate_series(1, {self._lines}) n"
            database.execute(f"create unlogged table lines as {rows}")
        initialise = [str(shutil.which("pgbench")), "-i", "-q", "-s", str(self._scale), direct]
        subprocess.run(initialise, check=True, capture_output=True)
        gateway = self._gateway = BenchGateway()
        agent_id, key = gateway.agent("edge")
        target = {"HOST": "127.0.0.1", "PORT": str(self.server.port), "USER": USER, "PASS": PASSWORD, "DB": DATABASE}
        target |= {"SSLMODE": "disable"}
        gateway.connection("one", target)
        gateway.connection("two", target, agent_id=agent_id)
        self._start_agent(key)
        self.routes = {
            DIRECT: Route(DIRECT, direct, None),
            ONE: Route(ONE, gateway.url("one", DATABASE), gateway.worker_pid),
            TWO: Route(TWO, gateway.url("two", DATABASE), gateway.worker_pid),
        }

    def _start_agent(self, key: str) -> None:
        log = self.gateway.home / "agent.log"
        known = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        with log.open("wb") as file:
            self._agent = subprocess.Popen(
                [sys.executable, "-m", "postern", "agent"], env={**known, "POSTERN_KEY": key}, stdout=file, stderr=file
            )
        deadline = time.monotonic() + 30
        while "a tunnel to" not in log.read_text():
            if self._agent.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the agent did not come up:\n{log.read_text()}")
            time.sleep(0.05)


def selects(stage: Stage, figures: Figures, seconds: float) -> None:
    for clients in CLIENTS:
        for name, route in stage.routes.items():
            run = pgbench.run(route, clients=clients, mode="prepared", seconds=seconds)
            label = f"pgbench -S, {clients} client{'s' if clients > 1 else ''}"
            figures.add(f"{label}: transactions/s", name, run.tps)
            figures.add(f"{label}: p50, µs", name, run.p50)
            figures.add(f"{label}: p99, µs", name, run.p99)


def opens(stage: Stage, figures: Figures, seconds: float) -> None:
    for name, route in stage.routes.items():
        rate, _ = pgbench.connects(route, clients=4, seconds=max(2.0, seconds))
        figures.add("session opens per second, 4 clients, each with one query", name, rate)


def large(stage: Stage, figures: Figures, _seconds: float) -> None:
    for name, route in stage.routes.items():
        stream = Stream(route.url)
        start = time.perf_counter()
        size = stream.read_all(_LINES)
        figures.add("a large result, MB/s", name, size / (time.perf_counter() - start) / 1e6)
        stream.close()


def executions(stage: Stage, figures: Figures, seconds: float) -> None:
    """From the request to the answer of `POST /sessions`; direct is a login, the statement, and the goodbye."""

    def direct() -> None:
        with psycopg.connect(stage.routes[DIRECT].url) as database:
            database.execute("select 1")

    ways: dict[str, Callable[[], object]] = {
        DIRECT: direct,
        ONE: lambda: stage.gateway.execute("one", "select 1"),
        TWO: lambda: stage.gateway.execute("two", "select 1"),
    }
    for name, run in ways.items():
        run()
        spent = []
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            start = time.perf_counter()
            run()
            spent.append(time.perf_counter() - start)
        figures.add("exec of `select 1`, p50, ms", name, statistics.median(spent) * 1e3)
        figures.add("exec of `select 1`, slowest, ms", name, max(spent) * 1e3)


SECTIONS = (selects, opens, large, executions)


@click.command(help=__doc__)
@click.option("--quick", is_flag=True, help="One round of short runs on smaller tables.")
@click.option("--rounds", type=click.IntRange(1), default=None, help="Interleaved rounds; 3 unless --quick.")
@click.option("--json", "as_json", is_flag=True, help="Print every round's figures as JSON.")
def main(quick: bool, rounds: int | None, as_json: bool) -> None:
    if binaries() is None or shutil.which("pgbench") is None:
        sys.exit("The benchmark needs PostgreSQL and pgbench; on Debian: apt-get install postgresql postgresql-contrib")
    seconds, count = (1.0, 1) if quick else (3.0, 3)
    figures = Figures()
    _say("preparing the target, the gateway and the agent")
    with Stage(lines=500_000 if quick else 3_000_000, scale=2 if quick else 10) as stage:
        for number in range(1, (rounds or count) + 1):
            for section in SECTIONS:
                _say(f"round {number}: {section.__name__}")
                section(stage, figures, seconds)
    if as_json:
        click.echo(json.dumps(figures.values, indent=1, ensure_ascii=False))
        return
    rounds = rounds or count
    how = "compiled by mypyc" if machine.is_compiled() else "plain Python"
    load = os.getloadavg()[0]
    click.echo(f"{os.cpu_count()} cores, hot path {how}, rounds: {rounds} of {seconds:g} s, load {load:.1f}.\n")
    click.echo("Medians of the rounds; in brackets the ratio to direct.\n")
    click.echo("\n".join(figures.table()))


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
