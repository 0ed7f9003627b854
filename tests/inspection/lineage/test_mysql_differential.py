"""Lineage beside the truth: whatever changes in an answer when a column is changed is among its sources, or unknown."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.inspection.lineage.mysql_world import CASES, World, world
from tests.inspection.lineage.test_differential import Told
from tests.support.mariadb import MariaDbServer

from postern.inspection.lineage.mysql.lineage import MySqlLineage
from postern.inspection.lineage.mysql.session import MySqlSessionLineage

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def there() -> Iterator[World]:
    server = MariaDbServer()
    server.start()
    try:
        with world(server) as found:
            yield found
    finally:
        server.stop()


def test_there_is_no_leak_in_what_is_told_of_statements(there: World) -> None:
    leaks, told = judged(there, CASES)
    print(f"\nlineage: {told}")
    assert not leaks, "\n".join(leaks)
    assert told.columns >= 450
    assert told.unknown <= 0.16 * told.columns
    assert told.beyond <= 0.25 * told.named


def judged(there: World, cases: tuple[tuple[str, ...], ...]) -> tuple[list[str], Told]:
    """What leaks, and how precise the rest is. A case that the server refuses is a mistake of the test."""
    told, leaks = Told(), []
    tables = {key for key, relation in there.schema.relations.items() if not relation.definition}
    lineage = MySqlLineage()
    truths = there.truths(cases)
    refused = [truth for truth in truths if isinstance(truth, str)]
    assert not refused, "\n".join(refused)
    for case, truth in zip(cases, truths, strict=True):
        assert not isinstance(truth, str)
        session = MySqlSessionLineage(lineage, lambda: there.schema)
        for statement in case:
            session.asked(statement)
        columns = truth.answer.columns
        found = session.of(case[-1], columns) or (None,) * len(columns)
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
