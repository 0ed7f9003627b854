"""Measures MongoDB clients through a gateway, beside a direct connection and a bare forwarder.

    python -m bench.mongodb               # about 8 minutes; --quick: one short round, below two minutes

Point reads by primary key, and one large result in batches of 16 MB, as servers send them. The target
(`bench/mongodb_server.py`) and the clients (`bench/mongodb_load.py`) use prepared messages, as a driver and a real
server would be slower than the gateway. One row has PyMongo itself. All is on one machine; the routes take turns,
medians count. At last, what masking costs in one process: documents of a reply, in MB/s of processor time.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from uuid import UUID

import bson
import click
import pymongo
from bench.gateway import settle
from bench.masking import SHAPES, Shape
from bench.prepared_load import PreparedLoad, Route, measure, routes_to, start_program, with_options
from bench.ratios import Ratios
from tests.support.protocols import mongodb_test_messages as messages

from postern.domain.rules.masking import DEFAULT_TYPES, MaskingRule, Strategy
from postern.inspection.masking.masking_interceptor import Masking
from postern.interception.pipeline import Interceptor, Pipeline, SessionView
from postern.protocols.mongodb.spec import MONGODB
from postern.protocols.mongodb.wire.mongodb_wire import MongodbWire
from postern.protocols.wire_base import Side
from postern.relay.link import Link

BATCHES = 12
BLOCK = 1 << 20  # bytes of a reply whose documents are masked
LOAD = PreparedLoad("bench.mongodb_load", "read")


def by_pymongo(route: Route, table: Ratios, seconds: int) -> None:
    settle()
    who: dict[str, Any] = {"directConnection": True}
    if route.user:
        who = {"username": route.user, "password": route.password, "authMechanism": "SCRAM-SHA-256"}
    with pymongo.MongoClient[dict[str, Any]]("127.0.0.1", route.port, loadBalanced=bool(route.user), **who) as client:
        customers = client.shop.customers
        customers.find_one({"_id": 1})
        began, count = time.perf_counter(), 0
        while (took := time.perf_counter() - began) < seconds:
            customers.find_one({"_id": count})
            count += 1
    table.add("PyMongo, 1 client: reads/s", route.name, count / took)


def replies(shape: Shape) -> tuple[bytes, int]:
    """A reply whose documents have these values, and the size of its documents."""
    documents: list[dict[str, Any]] = []
    size = 0
    while size < BLOCK:
        documents.append({f"c{place}": _value(make()) for place, (_, make) in enumerate(shape)})
        size += len(bson.encode(documents[-1]))
    return messages.batch(*documents), size


def _value(text: str) -> str | int:
    return int(text) if text.isdigit() and len(text) < 10 else text


def masked_speed(interceptors: Callable[[], list[Interceptor]], shape: Shape, blocks: int = 3) -> float:
    """MB of documents per second of processor time, through the wire."""
    prepared = [replies(shape) for _ in range(blocks)]
    view = SessionView(UUID(int=0), "ann", frozenset(), "shop", "database", "mongodb", {})
    link = Link(MongodbWire(), Pipeline(interceptors(), view), lambda: 0)
    spent = 0.0
    for reply, _ in prepared:
        link.receive(Side.CLIENT, messages.command("find", "customers", filter={}))
        began = time.process_time()
        link.receive(Side.TARGET, reply)
        spent += time.process_time() - began
    return sum(size for _, size in prepared) / 1e6 / spent


def masking(rounds: int) -> None:
    columns = MaskingRule(UUID(int=1), UUID(int=2), "own", columns=("customers.c0", "c1"), strategy=Strategy.PARTIAL)
    assert MONGODB.dialect is not None
    assert MONGODB.dialect.lineage is not None
    lineage = MONGODB.dialect.lineage()
    ways: dict[str, Callable[[], list[Interceptor]]] = {
        "nothing": list,
        "default types": lambda: [Masking(DEFAULT_TYPES)],
        "two fields": lambda: [Masking(frozenset(), [columns], bytes(32), lineage(lambda: None))],
    }
    print(f"\n{'MB/s of documents, one core':50}" + "".join(f"{way:>15}" for way in ways))
    for name, shape in SHAPES.items():
        if name.startswith(("clean", "ordinary", "dense")):
            medians = [statistics.median(masked_speed(way, shape) for _ in range(rounds)) for way in ways.values()]
            print(f"{name:50}" + "".join(f"{median:>15.0f}" for median in medians))


def _routes(stack: ExitStack) -> list[Route]:
    target_port, _ = start_program(stack, "bench.mongodb_server", BATCHES)
    return routes_to(stack, "mongodb", target_port, {})


@click.command(help=__doc__)
@with_options
def main(rounds: int, seconds: int, quick: bool, only: str | None) -> None:
    measures = (LOAD.small, by_pymongo, LOAD.large)
    measure(_routes, measures, masking, rounds=rounds, seconds=seconds, quick=quick, only=only)


if __name__ == "__main__":
    main()
