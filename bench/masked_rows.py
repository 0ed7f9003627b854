"""What masking costs in one process: rows of a result through the wire of a protocol, in MB/s of processor time."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from bench.masking import SHAPES, Shape

from postern.domain.rules.masking import DEFAULT_TYPES, MaskingRule, Strategy
from postern.domain.targets.target_schema import Relation, TargetSchema
from postern.inspection.masking.masking_interceptor import Masking
from postern.interception.pipeline import Interceptor, Pipeline, SessionView
from postern.protocols.spec import ProtocolSpec
from postern.protocols.wire_base import Side, Wire
from postern.relay.link import Link

BLOCK = 1 << 20  # bytes of a result whose rows are masked
_BLOCKS = 3

Interceptors = Callable[[], list[Interceptor]]
Answer = tuple[bytes, int]
"""A result, and the size of its rows."""


def customers(schema: str, name: str, columns: str, database: str = "") -> TargetSchema:
    """Return a catalogue with one table, whose columns have the same beginning."""
    relation = Relation(schema, name, tuple(f"{columns}{place}" for place in range(10)))
    return TargetSchema({(schema, name): relation}, {}, (schema,), database=database)


@dataclass(frozen=True, slots=True)
class MaskedRows:
    """How a protocol's rows are measured. `request` makes a client's request of a statement."""

    spec: ProtocolSpec
    schema: TargetSchema
    open_wire: Callable[[], Wire]
    request: Callable[[str], bytes]

    def ways(self) -> dict[str, Interceptors]:
        """Return what rows are masked with."""
        rule = MaskingRule(UUID(int=1), UUID(int=2), "own", columns=("customers.c0", "c1"), strategy=Strategy.PARTIAL)
        dialect = self.spec.dialect
        assert dialect is not None
        assert dialect.lineage is not None
        assert dialect.facts is not None
        lineage, facts = dialect.lineage(), dialect.facts()
        return {
            "nothing": list,
            "default types": lambda: [Masking(DEFAULT_TYPES)],
            "two columns": lambda: [Masking(frozenset(), [rule], bytes(32), lineage(lambda: self.schema), facts=facts)],
        }

    def speed(self, interceptors: Interceptors, shape: Shape, answer: Callable[[Shape], Answer]) -> float:
        """Return MB of rows per second of processor time."""
        answers = [answer(shape) for _ in range(_BLOCKS)]
        view = SessionView(UUID(int=0), "ann", frozenset(), "shop", "database", self.spec.name, {})
        link = Link(self.open_wire(), Pipeline(interceptors(), view), lambda: 0)
        columns = ", ".join(f"c{place}" for place in range(len(shape)))
        spent: list[float] = []
        for reply, _ in (answers[0], *answers):  # the first time includes what parsing the statement costs
            link.receive(Side.CLIENT, self.request(f"select {columns} from customers"))
            began = time.process_time()
            link.receive(Side.TARGET, reply)
            spent.append(time.process_time() - began)
        return sum(size for _, size in answers) / 1e6 / sum(spent[1:])

    def print_table(self, rounds: int, kinds: Callable[[str], dict[str, Callable[[Shape], Answer]]]) -> None:
        """Measure all ways by the shapes of rows. `kinds` returns what makes the answers of a row of the table, by its
        title."""
        ways = self.ways()
        print(f"\n{'MB/s of rows, one core':50}" + "".join(f"{way:>15}" for way in ways))
        for name, shape in SHAPES.items():
            if not name.startswith(("clean", "ordinary", "dense")):
                continue
            for title, answer in kinds(name).items():
                medians = [
                    statistics.median(self.speed(way, shape, answer) for _ in range(rounds)) for way in ways.values()
                ]
                print(f"{title:50}" + "".join(f"{median:>15.0f}" for median in medians))
