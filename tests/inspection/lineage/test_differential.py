"""Compare lineage with a server: an answer column that changes with a table column has it as source, or is unknown."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.inspection.lineage.cases import CASES
from tests.inspection.lineage.generated import queries
from tests.inspection.lineage.truth import Case, Precision, compare_cases
from tests.inspection.lineage.world import World, world
from tests.support.examples import examples
from tests.support.postgres import PostgresServer

from postern.protocols.postgres.lineage.postgres_lineage import Lineage
from postern.protocols.postgres.lineage.postgres_session_lineage import SessionLineage

pytestmark = pytest.mark.slow


def test_lineage_of_the_case_statements_misses_no_source(postgres_server: PostgresServer) -> None:
    with world(postgres_server) as there:
        leaks, precision = _compare(there, CASES)
    print(f"\nlineage: {precision}")
    assert not leaks, "\n".join(leaks)
    assert precision.columns >= 350
    assert precision.unknown <= 0.16 * precision.columns
    assert precision.beyond <= 0.25 * precision.named


def test_lineage_of_generated_queries_misses_no_source(postgres_server: PostgresServer) -> None:
    precisions: list[Precision] = []
    with world(postgres_server) as there:

        @settings(max_examples=examples(30), suppress_health_check=list(HealthCheck))
        @given(st.lists(queries(), min_size=5, max_size=5))
        def holds(texts: list[str]) -> None:
            leaks, precision = _compare(there, [(text,) for text in texts])
            precisions.append(precision)
            assert not leaks, "\n".join(leaks)

        holds()
    total = Precision()
    for precision in precisions:
        total.add(precision)
    print(f"\nlineage of generated queries: {total}")
    assert total.unknown < 0.5 * total.columns


def _compare(there: World, cases: Sequence[Case]) -> tuple[list[str], Precision]:
    lineage = Lineage()
    return compare_cases(there, cases, lineage, lambda: SessionLineage(lineage, lambda: there.schema))
