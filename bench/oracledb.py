"""Measures Oracle Database's clients through a gateway, beside a direct connection and a bare forwarder.

    python -m bench.oracledb            # about 8 minutes; --quick: one short round, below two minutes

Statements that return one row, and one large result in packets of 8,192 bytes, 1,000 rows for each fetch. The target
(`bench/oracledb_server.py`) and the clients (`bench/oracledb_load.py`) use prepared messages, as a driver and a real
server would be slower than the gateway. One row has python-oracledb itself, which runs an open cursor again. All is on
one machine; the routes take turns, medians count. At last, what masking costs in one process: rows of a result, in MB/s
of processor time. Targets are asked for all values of each row; some rows show what it costs if one leaves out those
of the row before.
"""

from __future__ import annotations

import json
import resource
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import click
import oracledb
from bench.gateway import BenchGateway, settle
from bench.masking import SHAPES, Shape
from bench.processes import cpu_seconds
from bench.ratios import Ratios
from bench.rules import STATEMENTS, TEXT
from tests.support.postgres import free_port
from tests.support.protocols import oracledb_test_messages as messages

from bench import machine
from postern.domain.rules.masking import DEFAULT_TYPES, MaskingRule, Strategy
from postern.domain.targets.target_schema import Relation, TargetSchema
from postern.inspection.masking.masking_interceptor import Masking
from postern.interception.pipeline import Interceptor, Pipeline, SessionView
from postern.protocols.oracledb.spec import ORACLEDB
from postern.protocols.oracledb.wire.oracle_wire import OracleWire
from postern.protocols.oracledb.wire.ttc_negotiation import TtcLayout
from postern.protocols.wire_base import Side
from postern.relay.link import Link

CLIENTS = (1, 8, 32)
MEGABYTES = 100  # of the large result
BLOCK = 1 << 20  # bytes of a result whose rows are masked
_FOLDER = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Route:
    """How clients come in. `pid` is the process in between, None for the direct way."""

    name: str
    port: int
    user: str = "app"
    password: str = "secret"
    pid: int | None = None


def load(route: Route, *what: str) -> dict[str, float]:
    """What the clients print. Raises RuntimeError."""
    words = [sys.executable, "-m", "bench.oracledb_load", str(route.port), route.user, route.password, *what]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=_FOLDER.parent)
    if done.returncode:
        raise RuntimeError(f"the clients failed by {route.name}: {done.stderr[-1000:]}")
    printed: dict[str, float] = json.loads(done.stdout)
    return printed


def point_selects(route: Route, table: Ratios, seconds: int) -> None:
    for clients in CLIENTS:
        settle()
        began = cpu_seconds(route.pid) if route.pid else 0.0
        printed = load(route, str(clients), str(seconds))
        what = f"{clients} client{'' if clients == 1 else 's'}"
        table.add(f"{what}: statements/s", route.name, printed["count"] / printed["seconds"])
        table.add(f"{what}: p50, µs", route.name, printed["p50"])
        table.add(f"{what}: p99, µs", route.name, printed["p99"])
        if route.pid:
            spent = (cpu_seconds(route.pid) - began) * 1e6 / printed["count"]
            table.add(f"{what}: processor time of the proxy, µs a statement", route.name, spent)


def by_driver(route: Route, table: Ratios, seconds: int) -> None:
    settle()
    address = f"127.0.0.1:{route.port}/shop"
    with oracledb.connect(user=route.user, password=route.password, dsn=address) as client, client.cursor() as cursor:
        began, count = time.perf_counter(), 0
        while (took := time.perf_counter() - began) < seconds:
            cursor.execute("select id, name, email, address from customers where id = :id", [count])
            cursor.fetchall()
            count += 1
    table.add("python-oracledb, 1 client: statements/s", route.name, count / took)


def large(route: Route, table: Ratios) -> None:
    settle()
    printed = load(route, "large")
    table.add("a large result: MB/s", route.name, printed["bytes"] / 1e6 / printed["seconds"])


def answer(shape: Shape, repeated: int = 0) -> tuple[bytes, int]:
    """A result whose rows have these values, and the size of its rows. The last `repeated` values are those of the row
    before, for all rows but the first."""
    columns = tuple([messages.Described(f"C{place}", size=2000) for place in range(len(shape))])
    sent = len(shape) - repeated
    vector = messages.bit_vector(sent, ((1 << sent) - 1).to_bytes((len(shape) + 7) // 8, "little"))
    rows: list[bytes] = []
    size = 0
    while size < BLOCK:
        values = [messages.clr(make().encode()) for _, make in shape]
        size += len(messages.row(*values))
        rows.append(vector + messages.row(*values[:sent]) if repeated and rows else messages.row(*values))
    return messages.data(messages.result(columns, *rows)), size


def masked_speed(
    interceptors: Callable[[], list[Interceptor]], shape: Shape, repeated: int = 0, blocks: int = 3
) -> float:
    """MB of rows per second of processor time, through the wire."""
    prepared = [answer(shape, repeated) for _ in range(blocks)]
    view = SessionView(UUID(int=0), "ann", frozenset(), "shop", "database", "oracledb", {})
    link = Link(OracleWire(layout=TtcLayout()), Pipeline(interceptors(), view), lambda: 0)
    columns = ", ".join(f"c{place}" for place in range(len(shape)))
    spent = 0.0
    for reply, _ in prepared:
        link.receive(Side.CLIENT, messages.data(messages.execute(f"select {columns} from customers")))
        began = time.process_time()
        link.receive(Side.TARGET, reply)
        spent += time.process_time() - began
    return sum(size for _, size in prepared) / 1e6 / spent


def masking(rounds: int) -> None:
    columns = MaskingRule(UUID(int=1), UUID(int=2), "own", columns=("customers.c0", "c1"), strategy=Strategy.PARTIAL)
    customers = Relation("APP", "CUSTOMERS", tuple(f"C{place}" for place in range(10)))
    schema = TargetSchema({("APP", "CUSTOMERS"): customers}, {}, ("APP",))
    assert ORACLEDB.dialect is not None
    assert ORACLEDB.dialect.lineage is not None
    assert ORACLEDB.dialect.facts is not None
    lineage, facts = ORACLEDB.dialect.lineage(), ORACLEDB.dialect.facts()
    ways: dict[str, Callable[[], list[Interceptor]]] = {
        "nothing": list,
        "default types": lambda: [Masking(DEFAULT_TYPES)],
        "two columns": lambda: [Masking(frozenset(), [columns], bytes(32), lineage(lambda: schema), facts=facts)],
    }
    print(f"\n{'MB/s of rows, one core':50}" + "".join(f"{way:>15}" for way in ways))
    for name, shape in SHAPES.items():
        if not name.startswith(("clean", "ordinary", "dense")):
            continue
        for repeated in (0, 3) if name.startswith("ordinary") else (0,):
            speeds = [[masked_speed(way, shape, repeated) for _ in range(rounds)] for way in ways.values()]
            said = "the same, last 3 as in the row before" if repeated else name
            print(f"{said:50}" + "".join(f"{statistics.median(each):>15.0f}" for each in speeds))


@click.command(help=__doc__)
@click.option("--rounds", type=click.IntRange(1), default=3)
@click.option("--seconds", type=click.IntRange(1), default=4)
@click.option("--quick", is_flag=True)
@click.option("--only", type=click.Choice(["routes", "masking"]))
def main(rounds: int, seconds: int, quick: bool, only: str | None) -> None:
    if quick:
        rounds, seconds = 1, 1
    if not machine.is_compiled():
        print("The hot path is not compiled here; `POSTERN_COMPILE=1 pip install .` says why.", file=sys.stderr)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 8192)), hard))
    if only != "masking":
        with ExitStack() as stack:
            routes, table = _routes(stack), Ratios()
            for _ in range(rounds):
                for route in routes:
                    point_selects(route, table, seconds)
                for route in routes:
                    by_driver(route, table, seconds)
                for route in routes:
                    large(route, table)
            print("\n".join(table.lines([route.name for route in routes])))
    if only != "routes":
        masking(rounds)


def _process(stack: ExitStack, module: str, *arguments: int) -> tuple[int, int]:
    """Start a program that listens on a free port; return the port and the process id."""
    port = free_port()
    words = [sys.executable, "-m", module, str(port), *map(str, arguments)]
    process = subprocess.Popen(words, cwd=_FOLDER.parent)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with closing(socket.socket()) as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return port, process.pid
        time.sleep(0.05)
    raise RuntimeError(f"{module} did not start")


def _routes(stack: ExitStack) -> list[Route]:
    target_port, _ = _process(stack, "bench.oracledb_server", MEGABYTES)
    passing, passer = _process(stack, "bench.forwarder", target_port)
    gateway = BenchGateway()
    stack.callback(gateway.stop)
    target = {"HOST": "127.0.0.1", "PORT": str(target_port), "USER": "app", "PASS": "secret"}
    target |= {"DB": "shop", "SSLMODE": "disable"}
    made = {
        name: gateway.connection(name, target, subtype="oracledb", redact_enabled=name == "masked")
        for name in ("plain", "words", "statements", "masked")
    }
    gateway.guardrail("words", TEXT, made["words"])
    gateway.guardrail("statements", STATEMENTS, made["statements"])

    def postern(title: str, name: str) -> Route:
        return Route(title, gateway.settings.oracledb_port, *gateway.credential(name), gateway.worker_pid)

    return [
        Route("direct", target_port),
        Route("bare forwarder", passing, pid=passer),
        postern("Postern", "plain"),
        postern("Postern, guardrail", "words"),
        postern("Postern, rules about statements", "statements"),
        postern("Postern, masking", "masked"),
    ]


if __name__ == "__main__":
    main()
