"""Lineage beside the truth: whatever changes in an answer when a column is changed is among its sources, or unknown."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.inspection.lineage.mysql_world import CASES, World, world
from tests.inspection.lineage.truth import judged
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


def test_there_is_no_leak_in_what_is_told_of_statements(there: World) -> None:
    lineage = MySqlLineage()
    leaks, told = judged(there, CASES, lineage, lambda: MySqlSessionLineage(lineage, lambda: there.schema))
    print(f"\nlineage: {told}")
    assert not leaks, "\n".join(leaks)
    assert told.columns >= 450
    assert told.unknown <= 0.16 * told.columns
    assert told.beyond <= 0.25 * told.named
