"""What benchmarks of one protocol share: clients that send prepared messages, in a program of their own, and the routes
to a target: direct, through a bare forwarder, and through a gateway with different rules."""

from __future__ import annotations

import json
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import click
from bench.gateway import BenchGateway, settle
from bench.processes import cpu_seconds
from bench.ratios import Ratios
from bench.rules import STATEMENTS, TEXT
from tests.support.postgres import free_port

from bench import machine

CLIENTS = (1, 8, 32)
_ROOT = Path(__file__).resolve().parent.parent
Command = TypeVar("Command", bound=Callable[..., None])


@dataclass(frozen=True, slots=True)
class Route:
    """How clients come in. `pid` is the process in between, None for the direct way."""

    name: str
    port: int
    user: str = ""
    password: str = ""
    pid: int | None = None


@dataclass(frozen=True, slots=True)
class PreparedLoad:
    """The clients. `module` is their program, `unit` one request in the table."""

    module: str
    unit: str

    def run(self, route: Route, *what: str) -> dict[str, float]:
        """Return what the clients print. Raises RuntimeError."""
        words = [sys.executable, "-m", self.module, str(route.port), route.user, route.password, *what]
        done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=_ROOT)
        if done.returncode:
            raise RuntimeError(f"the clients failed by {route.name}: {done.stderr[-1000:]}")
        printed: dict[str, float] = json.loads(done.stdout)
        return printed

    def small(self, route: Route, table: Ratios, seconds: int) -> None:
        """Measure requests with small answers."""
        for clients in CLIENTS:
            settle()
            began = cpu_seconds(route.pid) if route.pid else 0.0
            printed = self.run(route, str(clients), str(seconds))
            what = f"{clients} client{'' if clients == 1 else 's'}"
            table.add(f"{what}: {self.unit}s/s", route.name, printed["count"] / printed["seconds"])
            table.add(f"{what}: p50, µs", route.name, printed["p50"])
            table.add(f"{what}: p99, µs", route.name, printed["p99"])
            if route.pid:
                spent = (cpu_seconds(route.pid) - began) * 1e6 / printed["count"]
                table.add(f"{what}: processor time of the proxy, µs a {self.unit}", route.name, spent)

    def large(self, route: Route, table: Ratios, _: int) -> None:
        """Measure one large result."""
        settle()
        printed = self.run(route, "large")
        table.add("a large result: MB/s", route.name, printed["bytes"] / 1e6 / printed["seconds"])


Measure = Callable[[Route, Ratios, int], None]


def with_options(command: Command) -> Command:
    """Add the options that `measure` takes."""
    for option in (
        click.option("--only", type=click.Choice(["routes", "masking"])),
        click.option("--quick", is_flag=True),
        click.option("--seconds", type=click.IntRange(1), default=4),
        click.option("--rounds", type=click.IntRange(1), default=3),
    ):
        command = option(command)
    return command


def measure(
    open_routes: Callable[[ExitStack], Sequence[Route]],
    measures: Sequence[Measure],
    masking: Callable[[int], None],
    *,
    rounds: int,
    seconds: int,
    quick: bool,
    only: str | None,
) -> None:
    """Measure all routes in turn, and print the medians; then what masking costs in one process."""
    if quick:
        rounds, seconds = 1, 1
    if not machine.is_compiled():
        print("The hot path is not compiled here; `POSTERN_COMPILE=1 pip install .` says why.", file=sys.stderr)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 8192)), hard))
    if only != "masking":
        with ExitStack() as stack:
            routes, table = open_routes(stack), Ratios()
            for _ in range(rounds):
                for each in measures:
                    for route in routes:
                        each(route, table, seconds)
            print("\n".join(table.lines([route.name for route in routes])))
    if only != "routes":
        masking(rounds)


def start_program(stack: ExitStack, module: str, *arguments: int) -> tuple[int, int]:
    """Start a program that listens on a free port; return the port and the process id."""
    port = free_port()
    words = [sys.executable, "-m", module, str(port), *map(str, arguments)]
    process = subprocess.Popen(words, cwd=_ROOT)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with closing(socket.socket()) as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return port, process.pid
        time.sleep(0.05)
    raise RuntimeError(f"{module} did not start")


def routes_to(
    stack: ExitStack, subtype: str, target_port: int, secret: Mapping[str, str], *, user: str = "", password: str = ""
) -> list[Route]:
    """Return the routes to a target. `user` and `password` are those of direct clients."""
    passing, passer = start_program(stack, "bench.forwarder", target_port)
    gateway = BenchGateway()
    stack.callback(gateway.stop)
    target = {"HOST": "127.0.0.1", "PORT": str(target_port), "DB": "shop", "SSLMODE": "disable", **secret}
    connections = {
        name: gateway.connection(name, target, subtype=subtype, redact_enabled=name == "masked")
        for name in ("plain", "words", "statements", "masked")
    }
    gateway.guardrail("words", TEXT, connections["words"])
    gateway.guardrail("statements", STATEMENTS, connections["statements"])
    port: int = getattr(gateway.settings, f"{subtype}_port")

    def through_gateway(title: str, name: str) -> Route:
        return Route(title, port, *gateway.credential(name), gateway.worker_pid)

    return [
        Route("direct", target_port, user, password),
        Route("bare forwarder", passing, user, password, passer),
        through_gateway("Postern", "plain"),
        through_gateway("Postern, guardrail", "words"),
        through_gateway("Postern, rules about statements", "statements"),
        through_gateway("Postern, masking", "masked"),
    ]
