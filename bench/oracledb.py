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

import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from uuid import UUID

import click
import oracledb
from bench.gateway import settle
from bench.masking import SHAPES, Shape
from bench.prepared_load import PreparedLoad, Route, measure, routes_to, start_program, with_options
from bench.ratios import Ratios
from tests.support.protocols import oracledb_test_messages as messages

from postern.domain.rules.masking import DEFAULT_TYPES, MaskingRule, Strategy
from postern.domain.targets.target_schema import Relation, TargetSchema
from postern.inspection.masking.masking_interceptor import Masking
from postern.interception.pipeline import Interceptor, Pipeline, SessionView
from postern.protocols.oracledb.spec import ORACLEDB
from postern.protocols.oracledb.wire.oracle_wire import OracleWire
from postern.protocols.oracledb.wire.ttc_negotiation import TtcLayout
from postern.protocols.wire_base import Side
from postern.relay.link import Link

MEGABYTES = 100  # of the large result
BLOCK = 1 << 20  # bytes of a result whose rows are masked
LOAD = PreparedLoad("bench.oracledb_load", "statement")


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
    spent: list[float] = []
    for reply, _ in (prepared[0], *prepared):  # the first time includes what parsing the statement costs
        link.receive(Side.CLIENT, messages.data(messages.execute(f"select {columns} from customers")))
        began = time.process_time()
        link.receive(Side.TARGET, reply)
        spent.append(time.process_time() - began)
    return sum(size for _, size in prepared) / 1e6 / sum(spent[1:])


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


def _routes(stack: ExitStack) -> list[Route]:
    target_port, _ = start_program(stack, "bench.oracledb_server", MEGABYTES)
    return routes_to(stack, "oracledb", target_port, {"USER": "app", "PASS": "secret"}, user="app", password="secret")


@click.command(help=__doc__)
@with_options
def main(rounds: int, seconds: int, quick: bool, only: str | None) -> None:
    measures = (LOAD.small, by_driver, LOAD.large)
    measure(_routes, measures, masking, rounds=rounds, seconds=seconds, quick=quick, only=only)


if __name__ == "__main__":
    main()
