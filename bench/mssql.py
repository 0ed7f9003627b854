"""Measures SQL Server clients through a gateway, beside a direct connection and a bare forwarder.

    python -m bench.mssql               # about 8 minutes; --quick: one short round, below two minutes

Batches that return one row, and one large result in packets of 4,096 bytes, as drivers ask for. The target
(`bench/mssql_server.py`) and the clients (`bench/mssql_load.py`) use prepared messages, as a driver and a real server
would be slower than the gateway. One row has pymssql itself. All is on one machine; the routes take turns, medians
count. At last, what masking costs in one process: rows of a result, in MB/s of processor time.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from uuid import UUID

import click
import pymssql
from bench.gateway import settle
from bench.masking import SHAPES, Shape
from bench.prepared_load import PreparedLoad, Route, measure, routes_to, start_program, with_options
from bench.ratios import Ratios
from tests.support.protocols import mssql_test_messages as messages

from postern.domain.rules.masking import DEFAULT_TYPES, MaskingRule, Strategy
from postern.domain.targets.target_schema import Relation, TargetSchema
from postern.inspection.masking.masking_interceptor import Masking
from postern.interception.pipeline import Interceptor, Pipeline, SessionView
from postern.protocols.mssql.spec import MSSQL
from postern.protocols.mssql.wire.mssql_wire import MssqlWire
from postern.protocols.wire_base import Side
from postern.relay.link import Link

MEGABYTES = 100  # of the large result
BLOCK = 1 << 20  # bytes of a result whose rows are masked
LOAD = PreparedLoad("bench.mssql_load", "statement")


def by_pymssql(route: Route, table: Ratios, seconds: int) -> None:
    settle()
    with pymssql.connect(
        server="127.0.0.1", port=str(route.port), user=route.user, password=route.password, database="shop",
        autocommit=True,
    ) as client, client.cursor() as cursor:  # fmt: skip
        began, count = time.perf_counter(), 0
        while (took := time.perf_counter() - began) < seconds:
            cursor.execute("select id, name, email, address from customers where id = %d", count)
            cursor.fetchall()
            count += 1
    table.add("pymssql, 1 client: statements/s", route.name, count / took)


def answer(shape: Shape) -> tuple[bytes, int]:
    """A result whose rows have these values, and the size of its rows."""
    described = messages.columns(*[messages.column(f"c{at}", messages.text_type(2000)) for at in range(len(shape))])
    rows: list[bytes] = []
    size = 0
    while size < BLOCK:
        rows.append(messages.row(*[messages.text_cell(make()) for _, make in shape]))
        size += len(rows[-1])
    return messages.reply(described, *rows, messages.done(len(rows))), size


def masked_speed(interceptors: Callable[[], list[Interceptor]], shape: Shape, blocks: int = 3) -> float:
    """MB of rows per second of processor time, through the wire."""
    prepared = [answer(shape) for _ in range(blocks)]
    view = SessionView(UUID(int=0), "ann", frozenset(), "shop", "database", "mssql", {})
    link = Link(MssqlWire(), Pipeline(interceptors(), view), lambda: 0)
    columns = ", ".join(f"c{place}" for place in range(len(shape)))
    spent: list[float] = []
    for reply, _ in (prepared[0], *prepared):  # the first time includes what parsing the statement costs
        link.receive(Side.CLIENT, messages.batch(f"select {columns} from customers"))
        began = time.process_time()
        link.receive(Side.TARGET, reply)
        spent.append(time.process_time() - began)
    return sum(size for _, size in prepared) / 1e6 / sum(spent[1:])


def masking(rounds: int) -> None:
    columns = MaskingRule(UUID(int=1), UUID(int=2), "own", columns=("customers.c0", "c1"), strategy=Strategy.PARTIAL)
    customers = Relation("dbo", "customers", tuple(f"c{place}" for place in range(10)))
    schema = TargetSchema({("dbo", "customers"): customers}, {}, ("dbo",), database="shop")
    assert MSSQL.dialect is not None
    assert MSSQL.dialect.lineage is not None
    assert MSSQL.dialect.facts is not None
    lineage, facts = MSSQL.dialect.lineage(), MSSQL.dialect.facts()
    ways: dict[str, Callable[[], list[Interceptor]]] = {
        "nothing": list,
        "default types": lambda: [Masking(DEFAULT_TYPES)],
        "two columns": lambda: [Masking(frozenset(), [columns], bytes(32), lineage(lambda: schema), facts=facts)],
    }
    print(f"\n{'MB/s of rows, one core':50}" + "".join(f"{way:>15}" for way in ways))
    for name, shape in SHAPES.items():
        if name.startswith(("clean", "ordinary", "dense")):
            medians = [statistics.median(masked_speed(way, shape) for _ in range(rounds)) for way in ways.values()]
            print(f"{name:50}" + "".join(f"{median:>15.0f}" for median in medians))


def _routes(stack: ExitStack) -> list[Route]:
    target_port, _ = start_program(stack, "bench.mssql_server", MEGABYTES)
    return routes_to(stack, "mssql", target_port, {"USER": "app", "PASS": "secret"}, user="app", password="secret")


@click.command(help=__doc__)
@with_options
def main(rounds: int, seconds: int, quick: bool, only: str | None) -> None:
    measures = (LOAD.small, by_pymssql, LOAD.large)
    measure(_routes, measures, masking, rounds=rounds, seconds=seconds, quick=quick, only=only)


if __name__ == "__main__":
    main()
