"""Ordinary result sets, masked and not, read by a client that does nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from bench.plan import Plan
from bench.results import CPU_MEGABYTE, SPEED, Results
from bench.stage import Stage
from bench.stream import read

from bench import stage as s

SECTION = "Ordinary result sets"
ROUTES = (s.DIRECT, s.POSTERN, s.SEARCHED, s.ALL_TYPES, *s.MARKED.values())


@dataclass(frozen=True, slots=True)
class Answer:
    statement: str
    binary: bool = False


ORDINARY = "ten columns"
ANSWERS = {
    ORDINARY: Answer("select * from customers"),
    "ten columns, binary": Answer("select * from customers", binary=True),
    "COPY of ten columns": Answer("copy copied to stdout"),
    "narrow rows": Answer("select * from entries"),
    "wide rows": Answer("select * from wide"),
    "JSON": Answer("select * from documents"),
    "arrays": Answer("select * from lists"),
}


def ordinary_results(stage: Stage, results: Results, plan: Plan) -> None:
    """Counted by the bytes that the target sends, as in the section of large results."""
    for name, answer in ANSWERS.items():
        size = 0
        for route in ROUTES:
            got = read(stage.routes[route], answer.statement, binary=answer.binary)
            size = size or got.size
            results.add(SECTION, name, route, SPEED, size / got.seconds / 1e6)
            if got.cpu:
                results.add(SECTION, name, route, CPU_MEGABYTE, got.cpu * 1e3 / (size / 1e6))
