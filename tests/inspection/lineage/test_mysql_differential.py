"""Compare lineage with a server: an answer column that changes with a table column has it as source, or is unknown."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.inspection.lineage.mysql_world import CASES, World, world
from tests.inspection.lineage.truth import compare_cases
from tests.support.mariadb import MariaDbServer

from postern.protocols.mysql.lineage.mysql_lineage import MySqlLineage
from postern.protocols.mysql.lineage.mysql_session_lineage import MySqlSessionLineage

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


def test_mysql_lineage_of_the_case_statements_misses_no_source(there: World) -> None:
    lineage = MySqlLineage()
    leaks, precision = compare_cases(there, CASES, lineage, lambda: MySqlSessionLineage(lineage, lambda: there.schema))
    print(f"\nlineage: {precision}")
    assert not leaks, "\n".join(leaks)
    assert precision.columns >= 450
    assert precision.unknown <= 0.16 * precision.columns
    assert precision.beyond <= 0.25 * precision.named
