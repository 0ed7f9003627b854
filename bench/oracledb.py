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

import time
from contextlib import ExitStack

import click
import oracledb
from bench.gateway import settle
from bench.masked_rows import BLOCK, Answer, MaskedRows, customers
from bench.masking import Shape
from bench.prepared_load import PreparedLoad, Route, measure, routes_to, start_program, with_options
from bench.ratios import Ratios
from tests.support.protocols import oracledb_test_messages as messages

from postern.protocols.oracledb.spec import ORACLEDB
from postern.protocols.oracledb.wire.oracle_wire import OracleWire
from postern.protocols.oracledb.wire.ttc_negotiation import TtcLayout

MEGABYTES = 100  # of the large result
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


def answer(shape: Shape, repeated: int = 0) -> Answer:
    """Return a result whose rows have these values. The last `repeated` values are those of the row
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


MASKED = MaskedRows(
    ORACLEDB,
    customers("APP", "CUSTOMERS", "C"),
    lambda: OracleWire(layout=TtcLayout()),
    lambda text: messages.data(messages.execute(text)),
)


def masking(rounds: int) -> None:
    repeating = {"the same, last 3 as in the row before": lambda shape: answer(shape, 3)}
    MASKED.print_table(rounds, lambda name: {name: answer, **(repeating if name.startswith("ordinary") else {})})


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
