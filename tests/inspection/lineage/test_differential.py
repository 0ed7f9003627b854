"""Lineage beside the truth: whatever changes in an answer when a column is changed is among its sources, or unknown."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.inspection.lineage.cases import CASES
from tests.inspection.lineage.generated import queries
from tests.inspection.lineage.truth import Case, Told, judged
from tests.inspection.lineage.world import World, world
from tests.support.examples import examples
from tests.support.postgres import PostgresServer

from postern.protocols.postgres.lineage.postgres_lineage import Lineage
from postern.protocols.postgres.lineage.postgres_session_lineage import SessionLineage

pytestmark = pytest.mark.slow


def test_there_is_no_leak_in_what_is_told_of_statements(postgres_server: PostgresServer) -> None:
    with world(postgres_server) as there:
        leaks, told = _judged(there, CASES)
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
            leaks, told = _judged(there, [(text,) for text in texts])
            tolds.append(told)
            assert not leaks, "\n".join(leaks)

        holds()
    total = Told()
    for told in tolds:
        total.add(told)
    print(f"\nlineage of generated queries: {total}")
    assert total.unknown < 0.5 * total.columns


def _judged(there: World, cases: Sequence[Case]) -> tuple[list[str], Told]:
    lineage = Lineage()
    return judged(there, cases, lineage, lambda: SessionLineage(lineage, lambda: there.schema))
