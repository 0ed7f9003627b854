"""Measures SQL Server clients through a gateway, beside a direct connection and a bare forwarder.

    python -m bench.mssql               # about 8 minutes; --quick: one short round, below two minutes

Batches that return one row, and one large result in packets of 4,096 bytes, as drivers ask for. The target
(`bench/mssql_server.py`) and the clients (`bench/mssql_load.py`) use prepared messages, as a driver and a real server
would be slower than the gateway. One row has pymssql itself. All is on one machine; the routes take turns, medians
count. At last, what masking costs in one process: rows of a result, in MB/s of processor time.
"""

from __future__ import annotations

import time
from contextlib import ExitStack

import click
import pymssql
from bench.gateway import settle
from bench.masked_rows import BLOCK, Answer, MaskedRows, customers
from bench.masking import Shape
from bench.prepared_load import PreparedLoad, Route, measure, routes_to, start_program, with_options
from bench.ratios import Ratios
from tests.support.protocols import mssql_test_messages as messages

from postern.protocols.mssql.spec import MSSQL
from postern.protocols.mssql.wire.mssql_wire import MssqlWire

MEGABYTES = 100  # of the large result
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


def answer(shape: Shape) -> Answer:
    """Return a result whose rows have these values."""
    described = messages.columns(*[messages.column(f"c{at}", messages.text_type(2000)) for at in range(len(shape))])
    rows: list[bytes] = []
    size = 0
    while size < BLOCK:
        rows.append(messages.row(*[messages.text_cell(make()) for _, make in shape]))
        size += len(rows[-1])
    return messages.reply(described, *rows, messages.done(len(rows))), size


MASKED = MaskedRows(MSSQL, customers("dbo", "customers", "c", database="shop"), MssqlWire, messages.batch)


def masking(rounds: int) -> None:
    MASKED.print_table(rounds, lambda name: {name: answer})


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
