"""Measures MySQL clients through a gateway, beside a direct connection and haproxy, which passes bytes on.

    python -m bench.mysql                # about 6 minutes; --quick: one short round

Point queries by sysbench (`oltp_point_select`, text and prepared), and one large answer read by the `mariadb` client.
Everything is on one machine, the routes take turns, medians count.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import click
from bench.gateway import BenchGateway, settle
from bench.ratios import Ratios
from bench.rules import TEXT
from tests.support.mariadb import MariaDbServer
from tests.support.postgres import free_port

from bench import machine

CLIENTS = (1, 8, 32)
MODES = {"text": "disable", "prepared": "auto"}
LARGE = "select repeat(md5(seq), 3) from seq_1_to_{rows}"


@dataclass(frozen=True, slots=True)
class Route:
    """How clients come in. `pid` is the process in between, None for the direct way."""

    name: str
    port: int
    user: str
    password: str = ""
    pid: int | None = None


def sysbench(route: Route, threads: int, mode: str, seconds: int, step: str = "run") -> str:
    """What it printed. Raises RuntimeError."""
    words = [
        "sysbench", "oltp_point_select", "--db-driver=mysql", "--mysql-host=127.0.0.1", f"--mysql-port={route.port}",
        f"--mysql-user={route.user}", f"--mysql-password={route.password}", "--mysql-db=bench", "--tables=1",
        "--table-size=10000", f"--threads={threads}", f"--time={seconds}", f"--db-ps-mode={mode}", "--percentile=99",
        step,
    ]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"sysbench failed by {route.name}: {done.stdout[-500:]}{done.stderr[-500:]}")
    return done.stdout


def point_queries(route: Route, table: Ratios, seconds: int) -> None:
    for mode, word in MODES.items():
        for clients in CLIENTS:
            settle()
            began = _processor_time(route.pid)
            said = sysbench(route, clients, word, seconds)
            found = re.search(r"transactions:\s+\d+\s+\(([\d.]+) per sec", said)
            count = re.search(r"transactions:\s+(\d+)", said)
            late = re.search(r"99th percentile:\s+([\d.]+)", said)
            assert found is not None, said
            assert count is not None, said
            assert late is not None, said
            what = f"{mode}, {clients} clients"
            table.add(f"{what}: queries/s", route.name, float(found[1]))
            table.add(f"{what}: p99, µs", route.name, float(late[1]) * 1000)
            if route.pid is not None:
                spent = (_processor_time(route.pid) - began) * 1e6 / int(count[1])
                table.add(f"{what}: processor time of the proxy, µs a query", route.name, spent)


def large(route: Route, table: Ratios, rows: int) -> None:
    words = ["mariadb", "--no-defaults", "-h127.0.0.1", f"-P{route.port}", f"-u{route.user}", "--quick", "-N", "-B",
             "--skip-ssl", "bench", "-e", LARGE.format(rows=rows)]  # fmt: skip
    settle()
    began = time.monotonic()
    reader = subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**os.environ, "MYSQL_PWD": route.password}
    )
    _, said = reader.communicate()
    if reader.returncode:
        raise RuntimeError(f"the client failed by {route.name}: {said[-500:]!r}")
    table.add("large answer: MB/s", route.name, rows * 97 / 1e6 / (time.monotonic() - began))


def _processor_time(pid: int | None) -> float:
    """Seconds, of all its threads."""
    if pid is None:
        return 0.0
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def haproxy(port: int) -> Iterator[tuple[int, int]]:
    """Its port and its process id: one thread that passes bytes on."""
    listening = free_port()
    text = f"""global
  nbthread 1
  maxconn 4000
defaults
  mode tcp
  timeout connect 10s
  timeout client 1h
  timeout server 1h
listen target
  bind 127.0.0.1:{listening}
  server one 127.0.0.1:{port}
"""
    with tempfile.NamedTemporaryFile("w", suffix=".cfg") as file:
        file.write(text)
        file.flush()
        process = subprocess.Popen(["haproxy", "-db", "-q", "-f", file.name])
        try:
            time.sleep(0.5)
            yield listening, process.pid
        finally:
            process.terminate()
            process.wait()


@click.command(help=__doc__)
@click.option("--rounds", type=click.IntRange(1), default=3)
@click.option("--seconds", type=click.IntRange(1), default=4)
@click.option("--quick", is_flag=True)
def main(rounds: int, seconds: int, quick: bool) -> None:
    missing = [name for name in ("sysbench", "mariadb", "haproxy") if shutil.which(name) is None]
    if missing:
        raise click.ClickException(f"install {', '.join(missing)} (Debian packages sysbench, mariadb-client, haproxy)")
    if quick:
        rounds, seconds = 1, 1
    if not machine.is_compiled():
        print("The hot path is not compiled here; `POSTERN_COMPILE=1 pip install .` says why.", file=sys.stderr)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 8192)), hard))
    table = Ratios()
    with ExitStack() as stack:
        routes = _routes(stack)
        steps: list[Callable[[Route], None]] = [
            lambda route: point_queries(route, table, seconds),
            lambda route: large(route, table, 200_000 if quick else 5_000_000),
        ]
        for _ in range(rounds):
            for step in steps:
                for route in routes:
                    step(route)
        print("\n".join(table.lines([route.name for route in routes])))


def _routes(stack: ExitStack) -> list[Route]:
    server = MariaDbServer(("--max-statement-time=0", "--innodb-buffer-pool-size=128M"))
    server.start()
    stack.callback(server.stop)
    with server.connect() as root, root.cursor() as cursor:
        cursor.execute(
            "create database bench; create user 'bench'@'%' identified by 'bench'; grant all on *.* to bench"
        )
    direct = Route("direct", server.port, "bench", "bench")
    sysbench(direct, 1, "disable", 1, "prepare")
    passing, passer = stack.enter_context(haproxy(server.port))
    gateway = BenchGateway()
    stack.callback(gateway.stop)
    target = {"HOST": "127.0.0.1", "PORT": str(server.port), "USER": "bench", "PASS": "bench", "DB": "bench",
              "SSLMODE": "disable"}  # fmt: skip
    gateway.connection("plain", target, subtype="mysql")
    guarded = gateway.connection("guarded", target, subtype="mysql")
    gateway.guardrail("words", TEXT, guarded)
    port = gateway.settings.mysql_port
    return [
        direct,
        Route("haproxy", passing, "bench", "bench", passer),
        Route("Postern", port, *gateway.credential("plain"), gateway.worker_pid),
        Route("Postern, guardrail", port, *gateway.credential("guarded"), gateway.worker_pid),
    ]


if __name__ == "__main__":
    main()
