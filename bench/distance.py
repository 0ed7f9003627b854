"""Measures a large result through a gateway and an agent that is far away. Needs root, for its network.

    python -m bench.distance             # about a minute

The agent lives in a network namespace. The link to its gateway is real TCP over a pair of TUN devices, and takes as
long as asked for; its target is next to it. Client, gateway and target share the machine.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack

import click
import psycopg
from bench.gateway import BenchGateway
from tests.support.networks import INSIDE, Network
from tests.support.postgres import PostgresServer

from bench import machine

_REPEATS = 60
_LINE = 32 * _REPEATS + 1  # bytes of a row of COPY; short enough to lie in the table as it is


def measure(trip: float, size: int, rounds: int, buffer: int | None) -> list[float]:
    """MB/s of each round, over a link whose round trip takes `trip` seconds. `buffer`: bytes that a socket of the
    agent may keep until they are acknowledged, where the kernel's own limit is not to count."""
    with ExitStack() as stack:
        network = Network(1, trip / 2)
        stack.callback(network.remove)
        network.make()
        if buffer:
            sysctl = ["sysctl", "-q", f"net.ipv4.tcp_wmem=4096 16384 {buffer}"]
            subprocess.run([*network.entering, *sysctl], check=True)
        server = _target(network, size)
        stack.callback(server.stop)
        gateway = BenchGateway(host="0.0.0.0", public_host=network.here)
        stack.callback(gateway.stop)
        agent_id, key = gateway.agent("far")
        target = {"HOST": INSIDE, "PORT": str(server.port), "USER": "postgres", "DB": "postgres", "SSLMODE": "disable"}
        gateway.connection("far", target, agent_id=agent_id)
        agent = _agent(network, gateway, key)
        stack.callback(agent.wait)
        stack.callback(agent.kill)
        url = gateway.url("far", "postgres", sslmode="require")
        return [_read(url, size) for _ in range(rounds)]


def _target(network: Network, size: int) -> PostgresServer:
    """Inside, with a table of that many bytes."""
    server = PostgresServer(
        settings={"listen_addresses": "*", "autovacuum": "off"},
        hba=["host all all samehost trust"],
        before=network.entering,
    )
    server.start()
    client = [*network.entering, str(shutil.which("psql")), "-qX", "-h", INSIDE, "-p", str(server.port), "-U"]
    rows = f"select repeat(md5(n::text), {_REPEATS}) as line from generate_series(1, {size // _LINE}) n"
    subprocess.run([*client, "postgres", "-c", f"create unlogged table lines as {rows}", "postgres"], check=True)
    return server


def _agent(network: Network, gateway: BenchGateway, key: str) -> subprocess.Popen[bytes]:
    log = gateway.home / "agent.log"
    known = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    command = [*network.entering, sys.executable, "-m", "postern", "agent"]
    with log.open("wb") as file:
        process = subprocess.Popen(command, env={**known, "POSTERN_KEY": key}, stdout=file, stderr=file)
    deadline = time.monotonic() + 30
    while "a tunnel to" not in log.read_text():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the agent did not come up:\n{log.read_text()}")
        time.sleep(0.05)
    time.sleep(1)  # it has measured its round trips
    return process


def _read(url: str, size: int) -> float:
    """A session of its own, which reads so many bytes."""
    with psycopg.connect(url, autocommit=True) as client:
        start = time.perf_counter()
        with client.cursor().copy(f"copy (select line from lines limit {size // _LINE}) to stdout") as copy:
            got = sum(map(len, copy))
        return got / (time.perf_counter() - start) / 1e6


@click.command(help=__doc__)
@click.option("--trips", default="0,20,100", help="Round trips in ms, with commas.")
@click.option("--megabytes", default=200, help="How large the result is.")
@click.option("--rounds", default=3)
@click.option("--send-buffer", default=None, type=int, help="Largest net.ipv4.tcp_wmem at the agent, in MiB.")
def main(trips: str, megabytes: int, rounds: int, send_buffer: int | None) -> None:
    how = "compiled by mypyc" if machine.is_compiled() else "plain Python"
    click.echo(f"{os.cpu_count()} cores, hot path {how}, load {os.getloadavg()[0]:.1f}; {megabytes} MB, MB/s\n")
    click.echo("| round trip, ms | median | all |\n|---:|---:|---|")
    for trip in trips.split(","):
        buffer = send_buffer << 20 if send_buffer else None
        rates = measure(float(trip) / 1e3, megabytes * 1_000_000, rounds, buffer)
        click.echo(f"| {trip} | {statistics.median(rates):.1f} | {', '.join(f'{one:.1f}' for one in rates)} |")


if __name__ == "__main__":
    main()
