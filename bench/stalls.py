"""Measures how late one client's small queries are while four others send statements that take long to parse.

    python -m bench.stalls               # about 3 minutes
    python -m bench.stalls --seconds 3   # shorter runs

Cases: many constants in one statement, and 8,000 statements that are prepared in one pipeline, each with text that
nobody sent before. Connections: one with a guardrail about statements, and one with a masking rule about columns,
which reads statements up to 64 KB: 10,000 constants, where guardrails read 70,000 (MySQL: 45,000).

The small query of the fifth client is sent without a pause, on a connection of the same kind; alone first, then beside
the four. The longest is what the event loop stands still for, and the way through it.
"""

from __future__ import annotations

import itertools
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

import click
import psycopg
import pymysql
from bench.gateway import BenchGateway
from psycopg.pq import ExecStatus
from tests.support.mariadb import MariaDbServer
from tests.support.postgres import PostgresServer

from bench import machine
from postern.domain.rules.masking import Strategy

ATTACKERS = 4
PARSES = 8_000
SMALL = "select name from people where id = 1"
_texts = itertools.count(os.getpid() * 1_000_000_000)


def constants(count: int) -> str:
    first = next(_texts)
    return f"select name from people where id in ({first},{','.join(map(str, range(count)))})"


def send_constants(url: str, count: int) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        while True:
            connection.execute(constants(count))


def send_parses(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        wire = connection.pgconn
        while True:
            wire.enter_pipeline_mode()
            for _ in range(PARSES):
                wire.send_prepare(b"", f"select name from people where id + {next(_texts)} = 7".encode())
            wire.pipeline_sync()
            while True:
                result = wire.get_result()
                if result is not None and result.status is ExecStatus.PIPELINE_SYNC:
                    break
            wire.exit_pipeline_mode()


def send_mysql_constants(url: str, count: int) -> None:
    with mysql(url) as connection, connection.cursor() as cursor:
        while True:
            cursor.execute(constants(count))


def mysql(url: str) -> pymysql.Connection:
    user, password, port = url.split(" ")
    return pymysql.connect(host="127.0.0.1", port=int(port), user=user, password=password, ssl_disabled=True)


# By name: what the four do, and on which kinds of connection.
ATTACKS: dict[str, tuple[Callable[[str], None], Sequence[str]]] = {
    "70,000 constants": (partial(send_constants, count=70_000), ("rules",)),
    "10,000 constants": (partial(send_constants, count=10_000), ("masked",)),
    "8,000 Parse": (send_parses, ("rules", "masked")),
    "MySQL: 45,000 constants": (partial(send_mysql_constants, count=45_000), ("rules",)),
    "MySQL: 10,000 constants": (partial(send_mysql_constants, count=10_000), ("masked",)),
}


@contextmanager
def attackers(case: str, url: str) -> Iterator[None]:
    """Each in a process of its own, which would otherwise be in the way of the client that is measured."""
    command = [sys.executable, "-m", "bench.stalls", "--attack", case, "--url", url]
    running = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(ATTACKERS)]
    try:
        time.sleep(3)
        if any(one.poll() is not None for one in running):
            raise RuntimeError(f"a client that sends {case} has ended")
        yield
        if any(one.poll() is not None for one in running):
            raise RuntimeError(f"a client that sends {case} has ended")
    finally:
        for one in running:
            one.kill()
            one.wait()


def small_queries(url: str, seconds: float, *, is_mysql: bool) -> list[float]:
    """How long each took, in milliseconds."""
    with ExitStack() as stack:
        if is_mysql:
            cursor = stack.enter_context(stack.enter_context(mysql(url)).cursor())
            ask: Callable[[], object] = lambda: cursor.execute(SMALL)  # noqa: E731
        else:
            connection = stack.enter_context(psycopg.connect(url, autocommit=True))
            ask = lambda: connection.execute(SMALL).fetchall()  # noqa: E731
        times, end = [], time.monotonic() + seconds
        while time.monotonic() < end:
            began = time.perf_counter()
            ask()
            times.append((time.perf_counter() - began) * 1000)
    return times


def line(what: str, times: list[float]) -> str:
    cuts = statistics.quantiles(times, n=100)
    return f"| {what} | {len(times)} | {cuts[49]:.1f} | {cuts[98]:.1f} | {max(times):.0f} |"


def urls(gateway: BenchGateway, postgres: PostgresServer, mariadb: MariaDbServer) -> dict[str, dict[str, str]]:
    """By case and kind of connection."""
    with psycopg.connect(postgres.dsn(), autocommit=True) as admin:
        admin.execute("create table people (id int primary key, name text, salary int)")
        admin.execute("insert into people select n, 'name ' || n, n from generate_series(1, 100) n")
    with mariadb.connect() as root, root.cursor() as cursor:
        cursor.execute("create database shop")
        cursor.execute("create table shop.people (id int primary key, name text, salary int)")
        cursor.execute("insert into shop.people values (1, 'name', 5)")
    found: dict[str, dict[str, str]] = {case: {} for case in ATTACKS}
    at = {"HOST": "127.0.0.1", "SSLMODE": "disable"}
    places = {
        "postgres": at | {"PORT": str(postgres.port), "USER": "postgres", "DB": "postgres"},
        "mysql": at | {"PORT": str(mariadb.port), "USER": "root", "PASS": "", "DB": "shop"},
    }
    for subtype, place in places.items():
        rules = gateway.connection(f"{subtype}-rules", place, subtype=subtype)
        masked = gateway.connection(f"{subtype}-masked", place, subtype=subtype)
        gateway.guardrail(f"{subtype} rules", {"input": [{"type": "read_only"}]}, rules)
        gateway.masking_rule(f"{subtype} salaries", ["people.salary"], Strategy.REPLACE, masked)
        for case in ATTACKS:
            if (subtype == "mysql") is case.startswith("MySQL"):
                for kind in ATTACKS[case][1]:
                    name = f"{subtype}-{kind}"
                    user, password = gateway.credential(name)
                    port = gateway.settings.mysql_port if subtype == "mysql" else gateway.settings.postgres_port
                    url = f"postgresql://{user}:{password}@127.0.0.1:{port}/postgres?sslmode=disable"
                    found[case][kind] = f"{user} {password} {port}" if subtype == "mysql" else url
    return found


def version(server: PostgresServer) -> str:
    with psycopg.connect(server.dsn()) as connection:
        return str(connection.info.server_version)


@click.command(help=__doc__)
@click.option("--seconds", default=8.0, help="Length of each run.")
@click.option("--attack", type=click.Choice(list(ATTACKS)), hidden=True)
@click.option("--url", hidden=True)
def main(seconds: float, attack: str | None, url: str) -> None:
    if attack is not None:
        ATTACKS[attack][0](url)
    with ExitStack() as stack:
        postgres, mariadb = PostgresServer(), MariaDbServer()
        for server in (postgres, mariadb):
            stack.callback(server.stop)
            server.start()
        gateway = BenchGateway()
        stack.callback(gateway.stop)
        print(", ".join(f"{name}: {value}" for name, value in machine.describe(version(postgres)).items()))
        print(f"\nMilliseconds of a small query beside {ATTACKERS} clients that send what takes long\n")
        print("| | queries | p50 | p99 | longest |\n|---|---:|---:|---:|---:|")
        for case, kinds in urls(gateway, postgres, mariadb).items():
            for kind, place in kinds.items():
                is_mysql = case.startswith("MySQL")
                small_queries(place, 1, is_mysql=is_mysql)  # the catalogue is read
                print(line(f"{case}, {kind}: alone", small_queries(place, seconds, is_mysql=is_mysql)))
                with attackers(case, place):
                    print(line(f"{case}, {kind}: beside", small_queries(place, seconds, is_mysql=is_mysql)), flush=True)


if __name__ == "__main__":
    main()
