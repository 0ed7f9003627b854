"""Lineage beside the truth: whatever changes in an answer when a column is changed is among its sources, or unknown."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.inspection.lineage.cases import CASES
from tests.inspection.lineage.generated import queries
from tests.inspection.lineage.world import World, world
from tests.support.examples import examples
from tests.support.postgres import PostgresServer

from postern.inspection.lineage.lineage import Lineage
from postern.inspection.lineage.session import SessionLineage

pytestmark = pytest.mark.slow


def test_there_is_no_leak_in_what_is_told_of_statements(postgres_server: PostgresServer) -> None:
    with world(postgres_server) as there:
        leaks, told = judged(there, CASES)
    print(f"\nlineage: {told}")
    assert not leaks, "\n".join(leaks)
    assert told.columns >= 350
    assert told.unknown <= 0.16 * told.columns
    assert told.beyond <= 0.25 * told.named


def test_there_is_no_leak_in_what_is_told_of_queries_that_nobody_thought_of(postgres_server: PostgresServer) -> None:
    tolds: list[Told] = []
    with world(postgres_server) as there:

        @settings(max_examples=examples(30), suppress_health_check=list(HealthCheck))
        @given(st.lists(queries(), min_size=5, max_size=5))
        def holds(texts: list[str]) -> None:
            leaks, told = judged(there, [(text,) for text in texts])
            tolds.append(told)
            assert not leaks, "\n".join(leaks)

        holds()
    total = Told()
    for told in tolds:
        total.add(told)
    print(f"\nlineage of generated queries: {total}")
    assert total.unknown < 0.5 * total.columns


class Told:
    """How precise what is told is. `beyond` counts the sources that do not show, of `named` in all."""

    def __init__(self) -> None:
        self.statements = self.columns = self.unknown = self.named = self.beyond = 0

    def add(self, other: Told) -> None:
        for name, count in vars(other).items():
            setattr(self, name, getattr(self, name) + count)

    def __str__(self) -> str:
        return (
            f"{self.statements} statements, {self.columns} columns; unknown {self.unknown / self.columns:.1%}; "
            f"sources that do not show {self.beyond / max(1, self.named):.1%} of {self.named}"
        )


def judged(there: World, cases: list[tuple[str, ...]] | tuple[tuple[str, ...], ...]) -> tuple[list[str], Told]:
    """What leaks, and how precise the rest is. A case that the server refuses is a mistake of the test."""
    told, leaks = Told(), []
    tables = {key for key, relation in there.schema.relations.items() if not relation.definition}
    lineage = Lineage()
    truths = there.truths(cases)
    refused = [truth for truth in truths if isinstance(truth, str)]
    assert not refused, "\n".join(refused)
    for case, truth in zip(cases, truths, strict=True):
        assert not isinstance(truth, str)
        session = SessionLineage(lineage, lambda: there.schema)
        for statement in case:
            session.asked(statement)
        columns = truth.answer.columns
        is_copy = case[-1].startswith("copy")
        found = session.of(case[-1], () if is_copy else columns) or (None,) * len(columns)
        assert len(found) == len(columns), case
        alone = lineage.sources(case[-1], there.schema) if len(case) == 1 else None
        assert alone is None or len(alone) == len(columns), case
        told.statements += 1
        for place, groups in enumerate(truth.influences):
            for sources in [found[place]] if alone is None else [found[place], alone[place]]:
                if sources is not None and any(group.isdisjoint(sources) for group in groups):
                    leaks.append(f"{case}, column {place + 1}: {sorted(map(str, groups))} shows, told {sources}")
            told.columns += 1
            sources = found[place]
            if sources is None:
                told.unknown += 1
                continue
            base = {source for source in sources if (source.schema, source.table) in tables}
            told.named += len(base)
            told.beyond += len(base - {source for group in groups for source in group})
    return leaks, told
